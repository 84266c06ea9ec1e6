/* SPDX-License-Identifier: Apache-2.0 */
/* Matches requirements with attributes, checks requirements, and finds contradictions. Pure. */
#include "model/requirement.h"

#include <stdio.h>
#include <stdlib.h>

const struct str *attributes_find(const struct attributes *a, struct str key)
{
    if (str_equal(key, LABEL_INSTANCE_TYPE) && a->instance_type.len > 0) return &a->instance_type;
    if (str_equal(key, LABEL_ZONE) && a->zone.len > 0) return &a->zone;
    return labels_find(a->labels, a->label_count, key);
}

const char *operator_name(enum requirement_operator op)
{
    static const char *const names[OPERATOR_COUNT] = {"Unspecified", "In",           "NotIn",
                                                      "Exists",      "DoesNotExist", "Same"};

    assert(op < OPERATOR_COUNT);
    return names[op];
}

static bool has_value(const struct requirement *r, struct str value)
{
    return r->value_count &&
           bsearch(&value, r->values, r->value_count, sizeof value, str_order) != NULL;
}

bool requirement_holds(const struct requirement *r, const struct str *value)
{
    switch (r->op) {
    case OPERATOR_IN: return value && has_value(r, *value);
    case OPERATOR_NOT_IN: return !value || !has_value(r, *value);
    case OPERATOR_EXISTS: return value != NULL;
    case OPERATOR_DOES_NOT_EXIST: return value == NULL;
    case OPERATOR_SAME: return value && (r->value_count == 0 || has_value(r, *value));
    case OPERATOR_UNSPECIFIED:
    case OPERATOR_COUNT: break;
    }
    return false;
}

bool requirements_match(const struct requirement *requirements, size_t count,
                        const struct attributes *attributes)
{
    for (size_t i = 0; i < count; i++)
        if (!requirement_holds(&requirements[i], attributes_find(attributes, requirements[i].key)))
            return false;
    return true;
}

static enum err separators_check(const char *field, struct str text, const char *separators,
                                 struct note *note)
{
    for (const char *c = separators; *c; c++) {
        if (!str_has(text, *c)) continue;
        return note_fail(note, ERR_INVALID, "%s: '%c' would blur the fingerprint", field, *c);
    }
    return ERR_OK;
}

enum err requirement_key_check(const char *field, struct str key, struct note *note)
{
    enum err err = id_check(field, key, LABEL_KEY_MAX, note);

    return err ? err : separators_check(field, key, ":,;|", note);
}

/* Whether an operator allows no values, and whether it allows some. */
static const struct {
    bool none, some;
} values_allowed[OPERATOR_COUNT] = {
    [OPERATOR_UNSPECIFIED] = {true, true},     [OPERATOR_IN] = {false, true},
    [OPERATOR_NOT_IN] = {false, true},         [OPERATOR_EXISTS] = {true, false},
    [OPERATOR_DOES_NOT_EXIST] = {true, false}, [OPERATOR_SAME] = {true, true},
};

static enum err values_check(const struct requirement *r, struct note *note)
{
    if (r->value_count > REQUIREMENT_VALUES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "values: %zu entries, at most %d are allowed",
                         r->value_count, REQUIREMENT_VALUES_MAX);
    if (r->value_count ? !values_allowed[r->op].some : !values_allowed[r->op].none)
        return note_fail(note, ERR_INVALID, "values: %s takes %s", operator_name(r->op),
                         r->value_count ? "none" : "at least one");
    for (size_t i = 0; i < r->value_count; i++) {
        enum err err = text_check("value", r->values[i], LABEL_VALUE_MAX, note);
        if (!err) err = separators_check("value", r->values[i], ",;|", note);
        if (!err && r->op != OPERATOR_IN && r->op != OPERATOR_NOT_IN)
            err = id_check("value", r->values[i], LABEL_VALUE_MAX, note);
        if (!err) continue;
        note_prefix(note, "values[%zu]", i);
        return err;
    }
    return ERR_OK;
}

enum err requirement_check(const struct requirement *r, struct note *note)
{
    enum err err = requirement_key_check("key", r->key, note);

    if (!err && r->op >= OPERATOR_COUNT) {
        note_set(note, "operator: unknown number %u", (unsigned)r->op);
        err = ERR_INVALID;
    }
    return err ? err : values_check(r, note);
}

static bool needs_key(const struct requirement *r)
{
    return r->op == OPERATOR_IN || r->op == OPERATOR_EXISTS || r->op == OPERATOR_SAME;
}

/* True if some value, or the absence of the key, satisfies all requirements of one key. Only the
 * values of an In or Same list are tried. Without a list, an unlisted value and the absence of the
 * key are tried. */
static bool group_can_hold(const struct requirement *group, size_t count)
{
    static const struct str unlisted = {"\0", 1}; /* values cannot contain a NUL */
    const struct requirement *from = NULL;
    bool absent = true, present = true;

    for (size_t i = 0; i < count; i++) {
        if (needs_key(&group[i]) && group[i].value_count > 0) from = &group[i];
        absent = absent && requirement_holds(&group[i], NULL);
        present = present && requirement_holds(&group[i], &unlisted);
    }
    if (!from) return absent || present;
    for (size_t v = 0; v < from->value_count; v++) {
        size_t i = 0;
        while (i < count && requirement_holds(&group[i], &from->values[v])) i++;
        if (i == count) return true;
    }
    return false;
}

enum err requirements_contradict(const struct requirement *requirements, size_t count,
                                 struct note *note)
{
    for (size_t start = 0, end; start < count; start = end) {
        const struct requirement *first = &requirements[start];
        for (end = start + 1; end < count && str_equal(requirements[end].key, first->key);) end++;
        if (group_can_hold(first, end - start)) continue;
        note_set(note, "requirements on %.*s: no machine can satisfy %s", STR_ARG(first->key),
                 operator_name(first->op));
        for (size_t i = start + 1; i < end && note; i++) {
            size_t len = strlen(note->text);
            snprintf(note->text + len, sizeof note->text - len, " and %s",
                     operator_name(requirements[i].op));
        }
        return ERR_UNSUPPORTED;
    }
    return ERR_OK;
}
