/* SPDX-License-Identifier: Apache-2.0 */
/* Which machines a Need accepts: constraints on the attributes of a machine, all of which must
 * hold. Resources are separate (resource.h).
 *
 * The attributes of a machine are its labels, and its instance type and zone under their well-known
 * label names. There are no operators Gt and Lt. Same only tests here that the machine has the key
 * (and one of the values, if any are listed). The decision engine ensures that all machines of a
 * gang have the same value. */
#ifndef MODEL_REQUIREMENT_H
#define MODEL_REQUIREMENT_H
#include "model/ids.h"

/* The numbers are those of the wire format. */
enum requirement_operator {
    OPERATOR_UNSPECIFIED = 0, /* accepted, but never holds */
    OPERATOR_IN = 1,
    OPERATOR_NOT_IN = 2,
    OPERATOR_EXISTS = 3,
    OPERATOR_DOES_NOT_EXIST = 4,
    OPERATOR_SAME = 5,
    OPERATOR_COUNT = 6,
};
enum {
    REQUIREMENTS_MAX = 64,         /* requirements of one profile */
    REQUIREMENT_VALUES_MAX = 1024, /* values of one requirement; enough for all types of a cloud */
};
#define LABEL_INSTANCE_TYPE STR("node.kubernetes.io/instance-type")
#define LABEL_ZONE          STR("topology.kubernetes.io/zone")

struct requirement {
    struct str key;
    enum requirement_operator op;
    const struct str *values; /* sorted bytewise in a canonical requirement */
    size_t value_count;
};

/* The attributes of a machine, for matching. `labels` are sorted by key. */
struct attributes {
    struct str instance_type, zone; /* if empty, the well-known label counts instead */
    const struct label *labels;
    size_t label_count;
};
/* Returns the value under `key`, or NULL if the machine has no such attribute. */
const struct str *attributes_find(const struct attributes *a, struct str key);

const char *operator_name(enum requirement_operator op); /* "In"; only for valid operators */
/* Returns whether the requirement holds for `value`, the machine's attribute under its key (NULL if
 * absent). The values of the requirement must be sorted. */
bool requirement_holds(const struct requirement *r, const struct str *value);
bool requirements_match(const struct requirement *requirements, size_t count,
                        const struct attributes *attributes);

/* Checks one requirement. Rejects an empty or too long key, an unknown operator, In or NotIn
 * without values, Exists or DoesNotExist with values, an empty value under Same, too many or too
 * long values, control characters, ',' ';' '|' in keys or values, and ':' in keys. No Kubernetes
 * label can contain these characters, and they could give two profiles the same fingerprint.
 * ERR_INVALID, ERR_TOO_LARGE, with "values[3]: why". */
enum err requirement_check(const struct requirement *r, struct note *note);
/* Checks that a fingerprint can contain the label key. */
enum err requirement_key_check(const char *field, struct str key, struct note *note);
/* Checks whether a machine can satisfy all requirements together. ERR_UNSUPPORTED if not, with the
 * key and both operators: In with disjoint lists, In whose values are all excluded by NotIn, or a
 * key that must exist and must not exist. Such a list is well formed, and a single pod can cause
 * such a list, so a reader of a roll-up should drop the row and not the roll-up. Requirements must
 * be canonical (profile.h). */
enum err requirements_contradict(const struct requirement *requirements, size_t count,
                                 struct note *note);
#endif
