/* SPDX-License-Identifier: Apache-2.0 */
/* Which machines a Need accepts: constraints on a machine's attributes, all of which must hold.
 *
 * The attributes are the machine's labels, with its instance type and zone under their well-known
 * names. For Same, this module only tests that the machine has the key. The decision engine ensures
 * that all machines of a gang have the same value. */
#ifndef MODEL_REQUIREMENT_H
#define MODEL_REQUIREMENT_H
#include "model/ids.h"

/* The wire format's numbers. */
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
    REQUIREMENTS_MAX = 64,         /* of one profile */
    REQUIREMENT_VALUES_MAX = 1024, /* of one requirement; enough for all types of a cloud */
};
#define LABEL_INSTANCE_TYPE STR("node.kubernetes.io/instance-type")
#define LABEL_ZONE          STR("topology.kubernetes.io/zone")

struct requirement {
    struct str key;
    enum requirement_operator op;
    const struct str *values; /* sorted bytewise in a canonical requirement */
    size_t value_count;
};

/* For matching. `labels` are sorted by key. */
struct attributes {
    struct str instance_type, zone; /* if empty, the well-known label counts instead */
    const struct label *labels;
    size_t label_count;
};
/* NULL if the machine has no such attribute. */
const struct str *attributes_find(const struct attributes *a, struct str key);

const char *operator_name(enum requirement_operator op); /* "In"; only for valid operators */
/* `value` is NULL if the machine lacks the attribute. The requirement's values must be sorted. */
bool requirement_holds(const struct requirement *r, const struct str *value);
bool requirements_match(const struct requirement *requirements, size_t count,
                        const struct attributes *attributes);

/* ERR_INVALID, ERR_TOO_LARGE, with "values[3]: why". ',' ';' '|' in keys and values, and ':' in
 * keys, are rejected: two profiles could then have the same fingerprint. */
enum err requirement_check(const struct requirement *r, struct note *note);
enum err requirement_key_check(const char *field, struct str key, struct note *note);
/* ERR_UNSUPPORTED if no machine can satisfy all requirements together, with the key and both
 * operators in the note. Requirements must be canonical (profile.h). A reader of a roll-up should
 * drop the row, not the roll-up, because a single pod can cause this. */
enum err requirements_contradict(const struct requirement *requirements, size_t count,
                                 struct note *note);
#endif
