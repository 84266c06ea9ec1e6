/* SPDX-License-Identifier: Apache-2.0 */
/* Reads fingerprints. Malformed texts are found in this way: the profile that was read is built,
 * and must give the same fingerprint. */
#include "model/fingerprint.h"

static bool read_part(struct str *rest, const char *name, struct str *ret_value)
{
    struct str part, prefix = str_from(name);

    if (!str_split(rest, '|', &part) || !str_starts(part, prefix)) return false;
    *ret_value = str_tail(part, prefix.len);
    return true;
}

static bool read_number(struct str text, int64_t least, int64_t most, int64_t *ret_number)
{
    return !str_to_i64(text, ret_number) && *ret_number >= least && *ret_number <= most;
}

static size_t count_of(struct str text, char c)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++) count += text.at[i] == c;
    return count;
}

/* An empty text is one empty value under In and NotIn, and no value under other operators. */
static enum err read_values(struct arena *arena, struct str text, struct requirement *r)
{
    bool lists = r->op == OPERATOR_IN || r->op == OPERATOR_NOT_IN;
    size_t count = text.len || lists ? count_of(text, ',') + 1 : 0;
    struct str *values = arena_calloc(arena, count, sizeof *values);

    if (!values) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        values[i] = STR_EMPTY;
        (void)str_split(&text, ',', &values[i]);
    }
    r->values = values;
    r->value_count = count;
    return ERR_OK;
}

static enum err read_requirements(struct arena *arena, struct str text, struct profile *p)
{
    size_t count = count_of(text, ';');
    struct requirement *all = arena_calloc(arena, count, sizeof *all);
    enum err err = all ? ERR_OK : ERR_NOMEM;

    if (count > REQUIREMENTS_MAX) return ERR_PARSE;
    for (size_t i = 0; i < count && !err; i++) {
        struct str one = STR_EMPTY, op = STR_EMPTY;
        int64_t number;
        (void)str_split(&text, ';', &one);
        if (!str_split(&one, ':', &all[i].key) || !str_split(&one, ':', &op) ||
            !read_number(op, 0, UINT8_MAX, &number))
            return ERR_PARSE;
        all[i].op = (enum requirement_operator)number;
        err = read_values(arena, one, &all[i]);
    }
    p->requirements = all;
    p->requirement_count = count;
    return err;
}

static enum err read_spreads(struct arena *arena, struct str text, struct profile *p)
{
    size_t count = count_of(text, ';');
    struct spread *all = arena_calloc(arena, count, sizeof *all);

    if (!all) return ERR_NOMEM;
    if (count > SPREADS_MAX) return ERR_PARSE;
    for (size_t i = 0; i < count; i++) {
        struct str one = STR_EMPTY, skew = STR_EMPTY;
        int64_t number, when;
        (void)str_split(&text, ';', &one);
        if (!str_split(&one, ':', &all[i].key) || !str_split(&one, ':', &skew) ||
            !read_number(skew, INT32_MIN, INT32_MAX, &number) ||
            !read_number(one, 0, UINT8_MAX, &when))
            return ERR_PARSE;
        all[i].max_skew = (int32_t)number;
        all[i].when = (enum spread_when)when;
    }
    p->spreads = all;
    p->spread_count = count;
    return ERR_OK;
}

enum err fingerprint_read(struct arena *arena, struct str text, struct profile *ret_profile)
{
    struct str rest = text, priority, interruption, reclamation, requirements, spreads;
    struct profile given = {0}, built;
    int64_t number, ipb, rpb;
    enum err err;

    if (text.len > FINGERPRINT_MAX || !read_part(&rest, "p=", &priority) ||
        !read_part(&rest, "ipb=", &interruption) || !read_part(&rest, "rpb=", &reclamation) ||
        !read_part(&rest, "reqs=", &requirements) || !read_part(&rest, "spr=", &spreads) ||
        !read_number(priority, INT32_MIN, INT32_MAX, &number) ||
        !read_number(interruption, 0, UINT8_MAX, &ipb) ||
        !read_number(reclamation, 0, UINT8_MAX, &rpb))
        return ERR_PARSE;
    given.priority = (int32_t)number;
    given.interruption_bucket = (uint8_t)ipb;
    given.reclamation_bucket = (uint8_t)rpb;
    err = read_requirements(arena, requirements, &given);
    if (!err) err = read_spreads(arena, spreads, &given);
    if (!err) err = profile_build(arena, &given, &built, NULL);
    if (err) return err == ERR_NOMEM ? err : ERR_PARSE;
    if (!str_equal(built.fingerprint, text)) return ERR_PARSE;
    *ret_profile = built;
    return ERR_OK;
}
