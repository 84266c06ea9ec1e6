/* SPDX-License-Identifier: Apache-2.0 */
/* Making the values that calls return. */
#ifndef PRIM_ANSWER_H
#define PRIM_ANSWER_H
#include <muster/coord.h>

#include "base/str.h"

/* With a text for people (cut to what fits); hint_ms is -1, everything else 0. */
coord_result prim_answer(int code, int reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
coord_result prim_ok(int reason);
coord_result prim_no_memory(void);
/* UNAVAILABLE with MAYBE_APPLIED. */
coord_result prim_unclear(int reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void prim_answer_owner(coord_result *result, struct str owner); /* cut to what fits */
/* A text from outside, for people: cut, and a '?' for what cannot be printed. */
void prim_copy_printable(char *to, size_t cap, struct str text);

/* One allocation; NULL when out of memory. `like` gives everything but the strings. */
coord_entry *prim_entry_make(const coord_entry *like, struct str key, struct str value,
                             struct str owner);
/* Rows are added by slot in any order; coord_list_holders sorts them by prim_holders_done. */
coord_holders *prim_holders_make(size_t rows_max);
/* False: no memory, or rows_max reached. */
bool prim_holders_add(coord_holders *holders, const coord_holder *like, struct str owner,
                      struct str value);
void prim_holders_done(coord_holders *holders);

bool prim_id_equal(const coord_id *a, const coord_id *b);
bool prim_id_is_zero(const coord_id *id);
#define PRIM_ID_TEXT_CAP 33
void prim_id_text(const coord_id *id, char text[PRIM_ID_TEXT_CAP]);
/* Random; time-ordered for request ids (I1). */
coord_id prim_id_random(void);
coord_id prim_id_request(void);
uint64_t prim_random(void); /* of maps whose keys come from outside, of pauses */
#endif
