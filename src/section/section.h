/* SPDX-License-Identifier: Apache-2.0 */
/* A state machine's section in a snapshot. The section is written from a view of one moment
 * while commands continue.
 *
 *     store, member   head record, ..., records of rows, record of the hash
 *     fleet           a line of JSON, the answers to recent requests
 *     roster          one run of bytes
 *
 * A record is: kind (1 byte), length of the content (4 bytes, little-endian), content.
 *
 * A row that is changed or removed before the view has written the row is copied first. Rows
 * that the view has not written are at the head of their kind's list, so opening a view is O(1).
 * Rows of one kind are written in any order. */
#ifndef SECTION_SECTION_H
#define SECTION_SECTION_H
#include "base/list.h"
#include "base/note.h"
#include "section/codec.h"

enum {
    SECTION_KINDS_MAX = 4,
    SECTION_RECORD_MAX = 4 << 20,
    SECTION_RECORD_HEAD = 5,
};

/* -- rows -- */
struct section_view;
struct section_row {
    struct list link;
    /* number of the view that wrote the row, or of the newest view before the row */
    uint32_t stamp;
    uint8_t kind;
};
typedef void section_write_fn(const struct section_row *row, struct encoder *into);
struct section {
    const char *kinds; /* record kinds, indexed by kind of row; static */
    section_write_fn *write;
    struct list rows[SECTION_KINDS_MAX];
    struct section_view *view; /* NULL: no view is open */
    uint32_t stamp;            /* number of views opened so far */
};
void section_init(struct section *section, const char *kinds, section_write_fn *write);
/* Call before the rows are freed. An open view's reader gets ERR_CLOSED. */
void section_close(struct section *section);
void section_row_born(struct section *section, struct section_row *row, unsigned kind);
/* Call before a row is changed or removed. Without memory the view fails, not the command. */
void section_row_keep(struct section *section, struct section_row *row);
static inline void section_row_gone(struct section_row *row)
{
    list_remove(&row->link);
}

/* -- a view: add parts, then call section_view_ready -- */
struct section_part {
    /* Appends about `budget` bytes: at least one byte unless the part is done. */
    enum err (*next)(void *opaque, size_t budget, struct buf *into, bool *ret_done);
    void (*end)(void *opaque); /* frees the part; may be NULL */
    void *opaque;
};
/* NULL section: a view without rows. Returns ERR_NOMEM, or ERR_FULL if another view is open. */
enum err section_view_open(struct section *section, struct section_view **ret_view);
/* Returns an encoder for bytes that the view stores. Valid until a part is added. */
struct encoder *section_view_encoder(struct section_view *view);
void section_view_add(struct section_view *view, struct section_part own_part);
void section_view_rows(struct section_view *view); /* adds a part for each kind of row */
void section_view_hash(struct section_view *view, char kind, uint64_t hash);
/* Returns `err`, or the first error of the parts. An error closes the view. */
enum err section_view_ready(struct section_view *own_view, enum err err, void **ret_view);
/* Implement the log's snapshot_next and snapshot_end. Errors are final. */
enum err section_view_next(void *view, size_t budget, struct buf *into, bool *ret_done);
void section_view_close(void *view); /* NULL is fine */

/* -- records -- */
size_t section_record_begin(struct encoder *out, char kind);
void section_record_end(struct encoder *out, size_t start);

/* -- reading -- */
/* Consumes whole records from the front of `bytes`. *ret_taken: bytes consumed. */
typedef enum err section_take_fn(void *owner, struct str bytes, size_t *ret_taken,
                                 struct note *note);
/* Accepts bytes in portions of any size. `rest` holds an incomplete record; its limit must be
 * above the largest record. Returns the errors of `take`, ERR_NOMEM, ERR_FULL. */
enum err section_feed(struct buf *rest, struct str bytes, section_take_fn *take, void *owner,
                      struct note *note);

/* Called for each record except the last (the hash), in order. */
typedef enum err section_record_fn(void *owner, char kind, struct decoder *content);
struct section_reader {
    const char *name,
        /* for error texts; the record kinds in order */
        *order;
    section_record_fn *record;
    void *owner;
    struct buf rest; /* bytes of an incomplete record */
    uint64_t at;
    uint64_t hash;
    char kind;
    bool ended;
};
void section_read_begin(struct section_reader *reader, const char *name, const char *order,
                        section_record_fn *record, void *owner);
void section_read_close(struct section_reader *reader);
/* ERR_CORRUPT, ERR_NOMEM or an error of `record`. The note names the offset. */
enum err section_read(struct section_reader *reader, struct str bytes, struct note *note);
bool section_read_any(const struct section_reader *reader);
/* Call after the last byte. ERR_CORRUPT: the hash record is missing or incomplete. */
enum err section_read_end(const struct section_reader *reader);
/* Adds the position in the section to the note, and returns `err`. */
enum err section_read_failed(const struct section_reader *reader, enum err err, struct note *note);
#endif
