/* SPDX-License-Identifier: Apache-2.0 */
/* Parks gangs that no domain can hold. Without parking, a gang that is larger than any rack would
 * acquire machines, fail, lose them as excess, and start again for ever.
 *
 * The age of a gang grows by one in each cycle without any progress. From age PARK_AFTER on the
 * gang is parked: it keeps its machines, but does not acquire or preempt. Every PARK_PROBE_EVERY
 * cycles it may try once. Pure. */
#ifndef SHARD_DECIDE_PARKING_H
#define SHARD_DECIDE_PARKING_H
#include "shard/decide/decide.h"

enum { PARK_AFTER = 8, PARK_PROBE_EVERY = 32 };

struct parking;                                      /* opaque; one owner */
enum err parking_open(struct parking **ret_parking); /* ERR_NOMEM */
void parking_close(struct parking *parking);         /* NULL is allowed */

/* ERR_NOMEM: nothing changed. */
enum err parking_note(struct parking *parking, const struct decision *decision);
/* Returns the gangs to park in the next decision. Valid until the next parking_note(). */
const struct need_key *parking_parked(const struct parking *parking, size_t *ret_count);
uint32_t parking_age(const struct parking *parking, const struct need_key *key);
#endif
