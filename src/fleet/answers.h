/* SPDX-License-Identifier: Apache-2.0 */
/* The answers to recent commands, by request id: a command that comes again under the same id is
 * answered, not applied.
 *
 * Part of the replicated state: a function of the commands applied so far, the same on every
 * replica, and carried by snapshots, for a repeat must find its answer wherever it is applied. It
 * is no part of the state's hash, so that a restored archive, which has none, compares equal.
 *
 * Bounded: the last FLEET_ANSWERS_MAX stay, older ones are forgotten. A repeat is due within
 * seconds; a thousand writes a second are remembered for a minute. Only the same kind of command is
 * a repeat: an id used for something else does not silently do nothing (fleet/machine.c adds to the
 * id what is asked for, too).
 *
 * As bytes, oldest first, one after the other:
 *     u8 kind, u8 length of the id, u16 length of the reply (little-endian), id, reply */
#ifndef FLEET_ANSWERS_H
#define FLEET_ANSWERS_H
#include "base/buf.h"
#include "base/note.h"

enum {
    FLEET_ANSWERS_MAX = 65536,
    FLEET_ANSWER_ID_MAX = 72, /* as the log's envelope, and a fingerprint */
    FLEET_ANSWER_REPLY_MAX = 1024,
};
struct fleet_answers;
enum err fleet_answers_open(size_t max, struct fleet_answers **ret_answers); /* ERR_NOMEM */
void fleet_answers_close(struct fleet_answers *answers); /* no view may be open; NULL is fine */
void fleet_answers_clear(struct fleet_answers *answers);
size_t fleet_answers_count(const struct fleet_answers *answers);
/* Borrowed until the next change. */
bool fleet_answers_find(const struct fleet_answers *answers, uint8_t kind, struct str id,
                        struct str *ret_reply);
/* One that is there stays. The oldest goes when there is no room. ERR_NOMEM. */
enum err fleet_answers_put(struct fleet_answers *answers, uint8_t kind, struct str id,
                           struct str reply);

/* -- as they are at one moment, while they go on changing -- */
struct fleet_answers_view;
enum err fleet_answers_view_open(struct fleet_answers *answers,
                                 struct fleet_answers_view **ret_view); /* ERR_NOMEM */
/* Appends about `budget` bytes, at least one answer unless done. ERR_FULL, ERR_NOMEM. */
enum err fleet_answers_view_next(void *view, size_t budget, struct buf *into, bool *ret_done);
void fleet_answers_view_close(void *view); /* NULL is fine */

/* -- back from bytes -- */
/* Takes the whole answers from the front of `bytes` and says how much that was; what is left is
 * less than one. ERR_CORRUPT with a note, ERR_NOMEM. */
enum err fleet_answers_take(void *answers, struct str bytes, size_t *ret_taken, struct note *note);
#endif
