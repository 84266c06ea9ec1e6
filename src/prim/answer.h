/* SPDX-License-Identifier: Apache-2.0 */
/* Constructors for the results that calls return. */
#ifndef PRIM_ANSWER_H
#define PRIM_ANSWER_H
#include <muster/coord.h>

#include "base/str.h"

/* The text is truncated to fit. hint_ms is -1 and all other fields are 0. */
coord_result prim_answer(int code, int reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
coord_result prim_ok(int reason);
coord_result prim_no_memory(void);
/* Makes UNAVAILABLE with MAYBE_APPLIED. */
coord_result prim_unclear(int reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void prim_answer_owner(coord_result *result, struct str owner); /* truncated to fit */
/* Copies foreign text for people: cut to fit, '?' for each unprintable byte. */
void prim_copy_printable(char *to, size_t cap, struct str text);

/* Copies key, value and owner into one allocation with `like`. NULL: out of memory. */
coord_entry *prim_entry_make(const coord_entry *like, struct str key, struct str value,
                             struct str owner);
/* A list for up to rows_max rows in any order; prim_holders_done sorts by slot. */
coord_holders *prim_holders_make(size_t rows_max);
/* False: out of memory, or the list is full. */
bool prim_holders_add(coord_holders *holders, const coord_holder *like, struct str owner,
                      struct str value);
void prim_holders_done(coord_holders *holders);

bool prim_id_equal(const coord_id *a, const coord_id *b);
bool prim_id_is_zero(const coord_id *id);
#define PRIM_ID_TEXT_CAP 33
void prim_id_text(const coord_id *id, char text[PRIM_ID_TEXT_CAP]);
/* Random ids. Ids of prim_id_request are ordered by time (requirement I1). */
coord_id prim_id_random(void);
coord_id prim_id_request(void);
uint64_t prim_random(void); /* for hash seeds of untrusted keys, and for random pauses */
#endif
