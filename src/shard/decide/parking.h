/* SPDX-License-Identifier: Apache-2.0 */
/* Gangs that no domain can hold stop asking, and ask again now and then.
 *
 * A gang that is larger than any rack would collect machines, fail, lose them as excess and begin
 * again, for ever. So a gang that lacks something, got nothing and has no domain that could hold it
 * ages by a cycle; from PARK_AFTER on it is parked: it keeps what it has and acquires and preempts
 * nothing. Every PARK_PROBE_EVERY cycles it is let try once. Any progress forgets its age.
 *
 * Pure: the ages, and nothing else, live here. Bounded by the gangs of one decision. */
#ifndef SHARD_DECIDE_PARKING_H
#define SHARD_DECIDE_PARKING_H
#include "shard/decide/decide.h"

enum { PARK_AFTER = 8, PARK_PROBE_EVERY = 32 };

struct parking;                                      /* opaque, one owner */
enum err parking_open(struct parking **ret_parking); /* ERR_NOMEM */
void parking_close(struct parking *parking);         /* NULL is fine */

/* Counts the ages of a decision's gangs. ERR_NOMEM: the ages are what they were. */
enum err parking_note(struct parking *parking, const struct decision *decision);
/* The gangs that are parked in the next decision; valid until the next parking_note(). */
const struct need_key *parking_parked(const struct parking *parking, size_t *ret_count);
/* 0: not aged. */
uint32_t parking_age(const struct parking *parking, const struct need_key *key);
#endif
