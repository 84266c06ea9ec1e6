/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of demand: what rows must have in common to share machines, without amounts.
 *
 * A profile is always canonical: values sorted bytewise, requirements by (key, operator, values),
 * spreads by (key, skew, when). Its fingerprint is a text:
 *
 *   p=<priority>|ipb=<bucket>|rpb=<bucket>|reqs=<key>:<op>:<v1,v2>;...|spr=<key>:<skew>:<when>;...
 *
 * Equal fingerprints mean equal profiles: nothing is escaped, but misplaced ',' ';' '|' and ':' are
 * rejected. The text equals the original system's, except that the original does not sort
 * requirements with the same key and operator. */
#ifndef MODEL_PROFILE_H
#define MODEL_PROFILE_H
#include "base/arena.h"
#include "model/requirement.h"

/* The wire format's numbers. */
enum spread_when {
    SPREAD_UNSPECIFIED = 0,
    SPREAD_DO_NOT_SCHEDULE = 1,
    SPREAD_SCHEDULE_ANYWAY = 2,
    SPREAD_WHEN_COUNT = 3,
};
enum {
    SPREADS_MAX = 16,          /* spreads of one profile */
    FINGERPRINT_MAX = 1 << 16, /* bytes; longer ones are rejected */
};

struct spread {
    struct str key;
    int32_t max_skew; /* values below 1 count as 1 */
    enum spread_when when;
};

struct profile {
    const struct requirement *requirements;
    size_t requirement_count;
    const struct spread *spreads;
    size_t spread_count;
    int32_t priority;
    uint8_t interruption_bucket, reclamation_bucket;
    struct str fingerprint; /* ignored in the input of profile_build() */
};

/* Checks `given`, copies all of it into the arena in canonical order and writes the fingerprint.
 * Does not look for contradictions: see need_build(). ERR_INVALID and ERR_TOO_LARGE name the field
 * ("requirements[2]: key: empty"). ERR_NOMEM. */
enum err profile_build(struct arena *arena, const struct profile *given,
                       struct profile *ret_profile, struct note *note);
/* Copies the profile without its Same requirements. Texts are shared with `p`. ERR_NOMEM. */
enum err profile_without_same(struct arena *arena, const struct profile *p,
                              struct profile *ret_profile);

const struct requirement *profile_same(const struct profile *p); /* first Same, or NULL */
/* first DoNotSchedule, or NULL */
const struct spread *profile_strict_spread(const struct profile *p);
/* NULL (any type) unless the first requirement on the instance type has the operator In. */
const struct str *profile_pinned_types(const struct profile *p, size_t *ret_count);
bool profile_matches(const struct profile *p, const struct attributes *attributes);
#endif
