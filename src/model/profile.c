/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a profile, puts it into canonical order and writes its fingerprint. Pure; all memory
 * comes from the caller's arena. */
#include "model/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/penalty.h"

/* --- canonical order --- */

static int requirement_compare(const void *a, const void *b)
{
    const struct requirement *x = a, *y = b;
    int order = str_compare(x->key, y->key);

    if (order == 0) order = (x->op > y->op) - (x->op < y->op);
    for (size_t i = 0; order == 0 && i < x->value_count && i < y->value_count; i++)
        order = str_compare(x->values[i], y->values[i]);
    if (order == 0) order = (x->value_count > y->value_count) - (x->value_count < y->value_count);
    return order;
}

static int spread_compare(const void *a, const void *b)
{
    const struct spread *x = a, *y = b;
    int order = str_compare(x->key, y->key);

    if (order == 0) order = (x->max_skew > y->max_skew) - (x->max_skew < y->max_skew);
    if (order == 0) order = (x->when > y->when) - (x->when < y->when);
    return order;
}

/* --- the fingerprint --- */

struct writer { /* counts while `at` is NULL, writes then */
    char *at;
    size_t len;
};

static void write_text(struct writer *w, struct str text)
{
    if (w->at && text.len > 0) memcpy(w->at + w->len, text.at, text.len);
    w->len += text.len;
}

/* "<before><number>" */
static void write_number(struct writer *w, const char *before, int64_t number)
{
    char text[32];

    write_text(w, str_from(before));
    write_text(w, str_of(text, (size_t)snprintf(text, sizeof text, "%lld", (long long)number)));
}

static void write_requirement(struct writer *w, const struct requirement *r)
{
    write_text(w, r->key);
    write_number(w, ":", r->op);
    for (size_t i = 0; i < r->value_count; i++) {
        write_text(w, i == 0 ? STR(":") : STR(","));
        write_text(w, r->values[i]);
    }
    write_text(w, r->value_count == 0 ? STR(":;") : STR(";"));
}

static void write_spread(struct writer *w, const struct spread *s)
{
    write_text(w, s->key);
    write_number(w, ":", s->max_skew);
    write_number(w, ":", s->when);
    write_text(w, STR(";"));
}

static void write_profile(struct writer *w, const struct profile *p)
{
    write_number(w, "p=", p->priority);
    write_number(w, "|ipb=", p->interruption_bucket);
    write_number(w, "|rpb=", p->reclamation_bucket);
    write_text(w, STR("|reqs="));
    for (size_t i = 0; i < p->requirement_count; i++) write_requirement(w, &p->requirements[i]);
    write_text(w, STR("|spr="));
    for (size_t i = 0; i < p->spread_count; i++) write_spread(w, &p->spreads[i]);
}

static enum err write_fingerprint(struct arena *arena, struct profile *p)
{
    struct writer count = {0}, w = {0};

    write_profile(&count, p);
    w.at = arena_alloc(arena, count.len);
    if (!w.at) return ERR_NOMEM;
    write_profile(&w, p);
    assert(w.len == count.len);
    p->fingerprint = str_of(w.at, w.len);
    return ERR_OK;
}

/* --- building --- */

static enum err requirements_check(const struct profile *p, struct note *note)
{
    if (p->requirement_count > REQUIREMENTS_MAX)
        return note_fail(note, ERR_TOO_LARGE, "requirements: %zu entries, at most %d are allowed",
                         p->requirement_count, REQUIREMENTS_MAX);
    for (size_t i = 0; i < p->requirement_count; i++) {
        enum err err = requirement_check(&p->requirements[i], note);
        if (!err) continue;
        note_prefix(note, "requirements[%zu]", i);
        return err;
    }
    return ERR_OK;
}

static enum err spreads_check(const struct profile *p, struct note *note)
{
    if (p->spread_count > SPREADS_MAX)
        return note_fail(note, ERR_TOO_LARGE, "spread: %zu entries, at most %d are allowed",
                         p->spread_count, SPREADS_MAX);
    for (size_t i = 0; i < p->spread_count; i++) {
        enum err err = requirement_key_check("topology_key", p->spreads[i].key, note);
        if (!err && p->spreads[i].when >= SPREAD_WHEN_COUNT) {
            note_set(note, "when_unsatisfiable: unknown number %u", (unsigned)p->spreads[i].when);
            err = ERR_INVALID;
        }
        if (!err) continue;
        note_prefix(note, "spread[%zu]", i);
        return err;
    }
    return ERR_OK;
}

static enum err profile_check(const struct profile *p, struct note *note)
{
    enum err err = penalty_check("interruption_penalty_bucket", p->interruption_bucket, note);
    struct writer count = {0};

    if (!err) err = penalty_check("reclamation_penalty_bucket", p->reclamation_bucket, note);
    if (!err) err = requirements_check(p, note);
    if (!err) err = spreads_check(p, note);
    if (err) return err;
    write_profile(&count, p); /* its length does not depend on the order */
    if (count.len > FINGERPRINT_MAX)
        return note_fail(note, ERR_TOO_LARGE,
                         "requirements: a fingerprint of %zu bytes, at most %d are allowed",
                         count.len, FINGERPRINT_MAX);
    return ERR_OK;
}

static bool copy_text(struct arena *arena, struct str *text)
{
    char *copy = arena_dup(arena, *text);

    if (copy) text->at = copy;
    return copy != NULL;
}

static bool copy_requirement(struct arena *arena, struct requirement *r)
{
    struct str *values = arena_calloc(arena, r->value_count, sizeof *values);

    if (!values || !copy_text(arena, &r->key)) return false;
    for (size_t i = 0; i < r->value_count; i++) {
        values[i] = r->values[i];
        if (!copy_text(arena, &values[i])) return false;
    }
    if (r->value_count > 1) qsort(values, r->value_count, sizeof *values, str_order);
    r->values = values;
    return true;
}

enum err profile_build(struct arena *arena, const struct profile *given,
                       struct profile *ret_profile, struct note *note)
{
    struct profile p = *given;
    struct requirement *requirements;
    struct spread *spreads;
    enum err err = profile_check(given, note);

    if (err) return err;
    requirements = arena_calloc(arena, p.requirement_count, sizeof *requirements);
    spreads = arena_calloc(arena, p.spread_count, sizeof *spreads);
    if (!requirements || !spreads) return ERR_NOMEM;
    for (size_t i = 0; i < p.requirement_count; i++) {
        requirements[i] = given->requirements[i];
        if (!copy_requirement(arena, &requirements[i])) return ERR_NOMEM;
    }
    for (size_t i = 0; i < p.spread_count; i++) {
        spreads[i] = given->spreads[i];
        if (!copy_text(arena, &spreads[i].key)) return ERR_NOMEM;
    }
    if (p.requirement_count > 1)
        qsort(requirements, p.requirement_count, sizeof *requirements, requirement_compare);
    if (p.spread_count > 1) qsort(spreads, p.spread_count, sizeof *spreads, spread_compare);
    p.requirements = requirements;
    p.spreads = spreads;
    err = write_fingerprint(arena, &p);
    if (!err) *ret_profile = p;
    return err;
}

enum err profile_without_same(struct arena *arena, const struct profile *p,
                              struct profile *ret_profile)
{
    struct profile plain = *p;
    struct requirement *kept = arena_calloc(arena, p->requirement_count, sizeof *kept);
    enum err err;

    if (!kept) return ERR_NOMEM;
    plain.requirements = kept;
    plain.requirement_count = 0;
    for (size_t i = 0; i < p->requirement_count; i++)
        if (p->requirements[i].op != OPERATOR_SAME)
            kept[plain.requirement_count++] = p->requirements[i];
    err = write_fingerprint(arena, &plain);
    if (!err) *ret_profile = plain;
    return err;
}

/* --- reading --- */

const struct requirement *profile_same(const struct profile *p)
{
    for (size_t i = 0; i < p->requirement_count; i++)
        if (p->requirements[i].op == OPERATOR_SAME) return &p->requirements[i];
    return NULL;
}

const struct spread *profile_strict_spread(const struct profile *p)
{
    for (size_t i = 0; i < p->spread_count; i++)
        if (p->spreads[i].when == SPREAD_DO_NOT_SCHEDULE) return &p->spreads[i];
    return NULL;
}

const struct str *profile_pinned_types(const struct profile *p, size_t *ret_count)
{
    for (size_t i = 0; i < p->requirement_count; i++) {
        const struct requirement *r = &p->requirements[i];
        if (!str_equal(r->key, LABEL_INSTANCE_TYPE)) continue;
        if (r->op != OPERATOR_IN || r->value_count == 0) return NULL;
        *ret_count = r->value_count;
        return r->values;
    }
    return NULL;
}

bool profile_matches(const struct profile *p, const struct attributes *attributes)
{
    return requirements_match(p->requirements, p->requirement_count, attributes);
}
