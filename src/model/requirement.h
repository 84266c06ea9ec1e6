/* SPDX-License-Identifier: Apache-2.0 */
/* Which machines a Need accepts: constraints on the attributes of a machine, all of which must
 * hold. Resources are no part of it.
 *
 * The attributes of a machine are its instance type and its zone under their well-known label
 * names, and its labels. There is no Gt and no Lt; Same means here only "has the key (and one of
 * the values, if any are listed)": that all machines of a gang agree is the engine's business. */
#ifndef MODEL_REQUIREMENT_H
#define MODEL_REQUIREMENT_H
#include "model/ids.h"

/* the wire's numbers */
enum requirement_operator {
    OPERATOR_UNSPECIFIED = 0, /* accepted, and never holds */
    OPERATOR_IN = 1,
    OPERATOR_NOT_IN = 2,
    OPERATOR_EXISTS = 3,
    OPERATOR_DOES_NOT_EXIST = 4,
    OPERATOR_SAME = 5,
    OPERATOR_COUNT = 6,
};
enum {
    REQUIREMENTS_MAX = 64,         /* of one profile */
    REQUIREMENT_VALUES_MAX = 1024, /* of one requirement: every instance type of a cloud */
};
#define LABEL_INSTANCE_TYPE STR("node.kubernetes.io/instance-type")
#define LABEL_ZONE          STR("topology.kubernetes.io/zone")

struct requirement {
    struct str key;
    enum requirement_operator op;
    const struct str *values; /* sorted bytewise once canonical */
    size_t value_count;
};

/* What is matched against. `labels` are sorted by key. */
struct attributes {
    struct str instance_type, zone; /* empty: the label of that name counts, if there is one */
    const struct label *labels;
    size_t label_count;
};
/* The value under `key`, or NULL when the machine has none. */
const struct str *attributes_find(const struct attributes *a, struct str key);

const char *operator_name(enum requirement_operator op); /* "In"; "Operator(9)" is not made */
/* `value` is the machine's attribute under the requirement's key, NULL when absent. The values of
 * the requirement must be sorted. */
bool requirement_holds(const struct requirement *r, const struct str *value);
bool requirements_match(const struct requirement *requirements, size_t count,
                        const struct attributes *attributes);

/* Is one requirement well formed? Refused: an empty or oversized key, an unknown operator, In or
 * NotIn without values, Exists or DoesNotExist with values, an empty value under Same, too many or
 * oversized values, control characters, and ',' ';' '|' in keys or values and ':' in keys, which
 * no Kubernetes label can hold and which would let two profiles share one fingerprint.
 * ERR_INVALID, ERR_TOO_LARGE, with "values[3]: why". */
enum err requirement_check(const struct requirement *r, struct note *note);
/* A label key that a fingerprint can hold. */
enum err requirement_key_check(const char *field, struct str key, struct note *note);
/* Can any machine satisfy these together? ERR_UNSUPPORTED names the key and both operators when
 * not: In of disjoint lists, In of nothing that NotIn leaves, a key that must and must not exist.
 * A list like that is well formed; one pod can cause it, so a reader of a roll-up should drop
 * that row, not the roll-up. Requirements must be canonical (profile.h). */
enum err requirements_contradict(const struct requirement *requirements, size_t count,
                                 struct note *note);
#endif
