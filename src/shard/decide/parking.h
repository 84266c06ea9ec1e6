/* SPDX-License-Identifier: Apache-2.0 */
/* Parks gangs that no domain can hold, and lets them try again periodically.
 *
 * A gang that is larger than any rack would acquire machines, fail, lose the machines as excess and
 * start again, for ever. So the age of a gang grows by one in each cycle in which it lacks
 * something, got nothing and has no domain that could hold it. From age PARK_AFTER on the gang is
 * parked: it keeps what it has, but does not acquire or preempt. Every PARK_PROBE_EVERY cycles a
 * parked gang may try once. Any progress resets the age.
 *
 * Pure: this object contains only the ages. Bounded by the number of gangs in one decision. */
#ifndef SHARD_DECIDE_PARKING_H
#define SHARD_DECIDE_PARKING_H
#include "shard/decide/decide.h"

enum { PARK_AFTER = 8, PARK_PROBE_EVERY = 32 };

struct parking;                                      /* opaque; one owner */
enum err parking_open(struct parking **ret_parking); /* ERR_NOMEM */
void parking_close(struct parking *parking);         /* NULL is allowed */

/* Updates the ages from a decision's gangs. ERR_NOMEM leaves the ages unchanged. */
enum err parking_note(struct parking *parking, const struct decision *decision);
/* Returns the gangs to park in the next decision; valid until the next parking_note(). */
const struct need_key *parking_parked(const struct parking *parking, size_t *ret_count);
/* Returns the gang's age, or 0 if the gang has none. */
uint32_t parking_age(const struct parking *parking, const struct need_key *key);
#endif
