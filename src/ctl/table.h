/* SPDX-License-Identifier: Apache-2.0 */
/* A table for people: columns as wide as their widest cell, two spaces between them, no space after
 * the last. Control characters in cells are escaped. */
#ifndef CTL_TABLE_H
#define CTL_TABLE_H
#include "base/arena.h"
#include "base/buf.h"

enum { TABLE_COLUMNS_MAX = 32 };
#define TABLE_DASH "\xe2\x80\x94" /* shown for a value that is unknown or never existed */
enum table_flags {
    TABLE_NO_HEADERS = BIT(0),
    TABLE_NAMES = BIT(1), /* only the first column, without its title */
    TABLE_BOLD = BIT(2),
};
struct table_cell;
struct text_table {
    struct arena *memory;
    const char *const *columns;
    size_t column_count, width[TABLE_COLUMNS_MAX];
    struct table_cell *first, *last;
    size_t cells;
    enum err err; /* the first failure, which table_print returns */
};

/* `columns` ends with NULL and outlives the table. */
#define TABLE_COLUMNS(...) ((const char *const[]){__VA_ARGS__, NULL})
void table_init(struct text_table *table, const char *const *columns, struct arena *memory);
/* Adds a cell; rows fill from left to right. Printable text is borrowed until table_print. */
void table_text(struct text_table *table, const char *text);
/* Adds a cell of at most 1,023 bytes; longer text is cut. */
void table_format(struct text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void table_number(struct text_table *table, int64_t number);
void table_hex(struct text_table *table, uint64_t number); /* 16 digits */
/* Adds a time as RFC 3339 seconds in UTC. 0 and times before 1970 are a dash (U+2014). */
void table_time(struct text_table *table, int64_t unix_ns);
/* ERR_NOMEM, ERR_FULL. */
enum err table_print(const struct text_table *table, uint32_t flags, struct buf *into);
#endif
