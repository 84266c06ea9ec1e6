/* SPDX-License-Identifier: Apache-2.0 */
/* The answers to recent commands by request id. A repeated command gets the stored answer and is
 * not applied again.
 *
 * Answers are replicated state in the snapshot, so every replica recognises a repeated command. The
 * state hash does not cover them, because a restored archive has no answers but must have the same
 * hash.
 *
 * The last FLEET_ANSWERS_MAX answers are kept: a minute at a thousand writes per second, and
 * repeats arrive within seconds. A repeat must have the same kind; fleet/machine.c also adds a
 * fingerprint of the arguments to the id.
 *
 * Encoding, oldest answer first:
 *     u8 kind, u8 length of the id, u16 length of the reply (little-endian), id, reply */
#ifndef FLEET_ANSWERS_H
#define FLEET_ANSWERS_H
#include "base/buf.h"
#include "base/note.h"

enum {
    FLEET_ANSWERS_MAX = 65536,
    FLEET_ANSWER_ID_MAX = 72, /* bytes of a request id and a fingerprint of the arguments */
    FLEET_ANSWER_REPLY_MAX = 1024,
};
struct fleet_answers;
enum err fleet_answers_open(size_t max, struct fleet_answers **ret_answers); /* ERR_NOMEM */
void fleet_answers_close(struct fleet_answers *answers); /* NULL is allowed; no view may be open */
void fleet_answers_clear(struct fleet_answers *answers);
size_t fleet_answers_count(const struct fleet_answers *answers);
/* The reply is valid until the answers change. */
bool fleet_answers_find(const struct fleet_answers *answers, uint8_t kind, struct str id,
                        struct str *ret_reply);
/* Stores an answer, unless the request has one. May drop the oldest answer. ERR_NOMEM. */
enum err fleet_answers_put(struct fleet_answers *answers, uint8_t kind, struct str id,
                           struct str reply);

/* -- views: the answers of one moment, for snapshots -- */
struct fleet_answers_view;
enum err fleet_answers_view_open(struct fleet_answers *answers,
                                 struct fleet_answers_view **ret_view); /* ERR_NOMEM */
/* Appends about `budget` bytes of answers, at least one unless done. ERR_FULL, ERR_NOMEM. */
enum err fleet_answers_view_next(void *view, size_t budget, struct buf *into, bool *ret_done);
void fleet_answers_view_close(void *view); /* NULL is allowed */

/* -- restore -- */
/* Restores the complete answers in `bytes` and returns their size. ERR_CORRUPT, ERR_NOMEM. */
enum err fleet_answers_take(void *answers, struct str bytes, size_t *ret_taken, struct note *note);
#endif
