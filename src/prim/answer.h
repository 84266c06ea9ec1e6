/* SPDX-License-Identifier: Apache-2.0 */
/* Constructors for the results that calls return. */
#ifndef PRIM_ANSWER_H
#define PRIM_ANSWER_H
#include <muster/coord.h>

#include "base/str.h"

/* Makes a result with a text (truncated to fit). hint_ms is -1 and all other fields are 0. */
coord_result prim_answer(int code, int reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
coord_result prim_ok(int reason);
coord_result prim_no_memory(void);
/* Makes UNAVAILABLE with MAYBE_APPLIED. */
coord_result prim_unclear(int reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void prim_answer_owner(coord_result *result, struct str owner); /* truncated to fit */
/* Copies foreign text that people will read: cut to fit, with '?' for each unprintable byte. */
void prim_copy_printable(char *to, size_t cap, struct str text);

/* Makes an entry in one allocation; `like` has its other fields. Returns NULL if memory ran out. */
coord_entry *prim_entry_make(const coord_entry *like, struct str key, struct str value,
                             struct str owner);
/* Makes a list for up to rows_max rows in any order; prim_holders_done sorts them by slot. */
coord_holders *prim_holders_make(size_t rows_max);
/* Adds a row. Returns false if memory ran out or the list already has rows_max rows. */
bool prim_holders_add(coord_holders *holders, const coord_holder *like, struct str owner,
                      struct str value);
void prim_holders_done(coord_holders *holders);

bool prim_id_equal(const coord_id *a, const coord_id *b);
bool prim_id_is_zero(const coord_id *id);
#define PRIM_ID_TEXT_CAP 33
void prim_id_text(const coord_id *id, char text[PRIM_ID_TEXT_CAP]);
/* Return a random id. The ids of prim_id_request are ordered by time (requirement I1). */
coord_id prim_id_random(void);
coord_id prim_id_request(void);
uint64_t prim_random(void); /* for seeds of hash maps with untrusted keys, and for random pauses */
#endif
