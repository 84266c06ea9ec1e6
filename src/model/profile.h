/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of demand: what rows must have in common to share machines. Contains no amounts.
 *
 * A profile is always canonical: values sorted bytewise, requirements by (key, operator, values),
 * spreads by (key, skew, when). Its fingerprint is a text, not a hash, and equals the original
 * system's byte for byte, because machines carry it in their stamp:
 *
 *   p=<priority>|ipb=<bucket>|rpb=<bucket>|reqs=<key>:<op>:<v1,v2>;...|spr=<key>:<skew>:<when>;...
 *
 * Nothing is escaped. Texts that would give two profiles the same fingerprint (',' ';' '|' and ':'
 * in the wrong place) are rejected when a profile is built, so equal fingerprints mean equal
 * profiles. The original keeps the input order of two requirements with the same key and operator;
 * here they are sorted by their values, so the input order has no effect. */
#ifndef MODEL_PROFILE_H
#define MODEL_PROFILE_H
#include "base/arena.h"
#include "model/requirement.h"

/* The numbers are those of the wire format. */
enum spread_when {
    SPREAD_UNSPECIFIED = 0,
    SPREAD_DO_NOT_SCHEDULE = 1,
    SPREAD_SCHEDULE_ANYWAY = 2,
    SPREAD_WHEN_COUNT = 3,
};
enum {
    SPREADS_MAX = 16,          /* spreads of one profile */
    FINGERPRINT_MAX = 1 << 16, /* bytes; a longer fingerprint is rejected */
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
 * Contradictions are found by need_build() only. ERR_INVALID and ERR_TOO_LARGE name the field
 * ("requirements[2]: key: empty"). ERR_NOMEM if the arena is full. */
enum err profile_build(struct arena *arena, const struct profile *given,
                       struct profile *ret_profile, struct note *note);
/* Copies the profile without its Same requirements and with a new fingerprint. Values and keys are
 * shared with `p`. ERR_NOMEM. */
enum err profile_without_same(struct arena *arena, const struct profile *p,
                              struct profile *ret_profile);

const struct requirement *profile_same(const struct profile *p); /* first Same, or NULL */
/* first DoNotSchedule, or NULL */
const struct spread *profile_strict_spread(const struct profile *p);
/* Returns the values of the first instance type requirement if it is In, else NULL (any type). */
const struct str *profile_pinned_types(const struct profile *p, size_t *ret_count);
bool profile_matches(const struct profile *p, const struct attributes *attributes);
#endif
