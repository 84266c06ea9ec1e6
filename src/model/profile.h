/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of demand: what rows have in common when they can share machines. No amounts.
 *
 * A profile is canonical from birth: values sorted bytewise, requirements by (key, operator,
 * values), spread by (key, skew, when). Its fingerprint is a text, not a hash, and is kept byte for
 * byte as the original writes it, because machines carry it as their stamp:
 *
 *   p=<priority>|ipb=<bucket>|rpb=<bucket>|reqs=<key>:<op>:<v1,v2>;...|spr=<key>:<skew>:<when>;...
 *
 * Nothing is escaped. What would make two profiles share a text (',' ';' '|' and ':' in the wrong
 * place) is refused when a profile is built, so equal fingerprints mean equal profiles. The
 * original leaves two requirements of one key and operator in the order they came; here their
 * values decide, so that order never shows. */
#ifndef MODEL_PROFILE_H
#define MODEL_PROFILE_H
#include "base/arena.h"
#include "model/requirement.h"

/* the wire's numbers */
enum spread_when {
    SPREAD_UNSPECIFIED = 0,
    SPREAD_DO_NOT_SCHEDULE = 1,
    SPREAD_SCHEDULE_ANYWAY = 2,
    SPREAD_WHEN_COUNT = 3,
};
enum {
    SPREADS_MAX = 16,          /* of one profile */
    FINGERPRINT_MAX = 1 << 16, /* bytes; a longer one is refused */
};

struct spread {
    struct str key;
    int32_t max_skew; /* below 1 counts as 1 */
    enum spread_when when;
};

struct profile {
    const struct requirement *requirements;
    size_t requirement_count;
    const struct spread *spreads;
    size_t spread_count;
    int32_t priority;
    uint8_t interruption_bucket, reclamation_bucket;
    struct str fingerprint; /* ignored in the input of profile_build */
};

/* Checks `given`, copies all of it into the arena in canonical order and writes the fingerprint.
 * ERR_INVALID and ERR_TOO_LARGE name the field ("requirements[2]: key: empty"); ERR_NOMEM when the
 * arena is full. Contradictions are not looked for: need_build() does. */
enum err profile_build(struct arena *arena, const struct profile *given,
                       struct profile *ret_profile, struct note *note);
/* The same without its Same requirements, with a fingerprint of its own; values and keys are
 * shared with `p`. ERR_NOMEM. */
enum err profile_without_same(struct arena *arena, const struct profile *p,
                              struct profile *ret_profile);

const struct requirement *profile_same(const struct profile *p);     /* the first Same, or NULL */
const struct spread *profile_strict_spread(const struct profile *p); /* first DoNotSchedule; NULL */
/* The values of the first requirement on the instance type, if that is In; NULL: any type. */
const struct str *profile_pinned_types(const struct profile *p, size_t *ret_count);
bool profile_matches(const struct profile *p, const struct attributes *attributes);
#endif
