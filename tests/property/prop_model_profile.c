/* SPDX-License-Identifier: Apache-2.0 */
/* Random profiles. Order never shows in the fingerprint; a reader written here from the format
 * finds exactly the profile in it, so no two profiles share a fingerprint. Matching is compared
 * with plain loops, contradictions with trying every value. */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"
#include "model/profile.h"

enum { ROUNDS = 20000, KEYS = 4, VALUES = 4 };

static const struct str keys[KEYS] = {{"a", 1}, {"a/b", 3}, {"zone", 4}, {"\xC3\xA4", 2}};
static const struct str values[VALUES] = {{"", 0}, {"1", 1}, {"10", 2}, {"x:y", 3}};

struct random_profile {
    struct requirement requirements[6];
    struct str values[6][3];
    struct spread spreads[3];
    struct profile profile;
};

static void draw(struct prng *p, struct random_profile *r)
{
    r->profile = (struct profile){.requirements = r->requirements,
                                  .requirement_count = prng_below(p, 6),
                                  .spreads = r->spreads,
                                  .spread_count = prng_below(p, 4),
                                  .priority = (int32_t)prng_below(p, 3) - 1,
                                  .interruption_bucket = (uint8_t)prng_below(p, 28),
                                  .reclamation_bucket = (uint8_t)prng_below(p, 28)};
    for (size_t i = 0; i < r->profile.requirement_count; i++) {
        struct requirement *q = &r->requirements[i];
        bool lists;
        q->key = keys[prng_below(p, KEYS)];
        q->op = (enum requirement_operator)prng_between(p, OPERATOR_IN, OPERATOR_SAME);
        lists = q->op == OPERATOR_IN || q->op == OPERATOR_NOT_IN;
        q->value_count = lists                    ? prng_between(p, 1, 3)
                         : q->op == OPERATOR_SAME ? prng_below(p, 3)
                                                  : 0;
        q->values = r->values[i];
        for (size_t v = 0; v < q->value_count; v++)
            r->values[i][v] =
                values[lists ? prng_below(p, VALUES) : prng_between(p, 1, VALUES - 1)];
    }
    for (size_t i = 0; i < r->profile.spread_count; i++)
        r->spreads[i] = (struct spread){keys[prng_below(p, KEYS)], (int32_t)prng_below(p, 4) - 1,
                                        (enum spread_when)prng_below(p, SPREAD_WHEN_COUNT)};
}

static void shuffle(struct prng *p, void *items, size_t count, size_t size)
{
    char *at = items, spare[64];

    assert(size <= sizeof spare);
    for (; count > 1; count--) {
        size_t other = prng_below(p, count);
        memcpy(spare, at + other * size, size);
        memcpy(at + other * size, at + (count - 1) * size, size);
        memcpy(at + (count - 1) * size, spare, size);
    }
}

static void expect(struct str *rest, struct str text)
{
    CHECK("the format", str_starts(*rest, text));
    *rest = str_tail(*rest, text.len);
}

static int64_t take_number(struct str *rest, char end)
{
    size_t len = str_find(*rest, end);
    int64_t number = 0;

    CHECK_OK("a number", str_to_i64(str_of(rest->at, len), &number));
    *rest = str_tail(*rest, len);
    return number;
}

static struct str take_until(struct str *rest, char end)
{
    struct str part = str_of(rest->at, str_find(*rest, end));

    *rest = str_tail(*rest, part.len + 1);
    return part;
}

/* Reads the fingerprint back and compares the result with its profile. */
static void check_reads_back(const struct profile *p)
{
    struct str rest = p->fingerprint;

    expect(&rest, STR("p="));
    CHECK_I64("priority", take_number(&rest, '|'), p->priority);
    expect(&rest, STR("|ipb="));
    CHECK_I64("interruption", take_number(&rest, '|'), p->interruption_bucket);
    expect(&rest, STR("|rpb="));
    CHECK_I64("reclamation", take_number(&rest, '|'), p->reclamation_bucket);
    expect(&rest, STR("|reqs="));
    for (size_t i = 0; i < p->requirement_count; i++) {
        const struct requirement *r = &p->requirements[i];
        struct str listed, value;
        size_t count = 0;
        CHECK_STR("key", take_until(&rest, ':'), r->key);
        CHECK_I64("operator", take_number(&rest, ':'), r->op);
        expect(&rest, STR(":"));
        listed = take_until(&rest, ';');
        if (r->op == OPERATOR_IN || r->op == OPERATOR_NOT_IN || listed.len > 0) {
            while (str_split(&listed, ',', &value)) {
                CHECK("as many values", count < r->value_count);
                CHECK_STR("value", value, r->values[count++]);
            }
        }
        CHECK_SIZE("as many values", count, r->value_count);
    }
    expect(&rest, STR("|spr="));
    for (size_t i = 0; i < p->spread_count; i++) {
        CHECK_STR("key", take_until(&rest, ':'), p->spreads[i].key);
        CHECK_I64("skew", take_number(&rest, ':'), p->spreads[i].max_skew);
        expect(&rest, STR(":"));
        CHECK_I64("when", take_number(&rest, ';'), p->spreads[i].when);
        expect(&rest, STR(";"));
    }
    CHECK_SIZE("nothing else", rest.len, 0);
}

/* Applies the table of rules directly, without sorted values. */
static bool holds(const struct requirement *r, bool present, struct str value)
{
    bool listed = false;

    for (size_t i = 0; i < r->value_count; i++) listed |= str_equal(r->values[i], value);
    switch (r->op) {
    case OPERATOR_IN: return present && listed;
    case OPERATOR_NOT_IN: return !present || !listed;
    case OPERATOR_EXISTS: return present;
    case OPERATOR_DOES_NOT_EXIST: return !present;
    case OPERATOR_SAME: return present && (r->value_count == 0 || listed);
    default: return false;
    }
}

/* Tries each key as absent, as one of the known values and as an unknown value: can any machine
 * match? */
static bool satisfiable(const struct profile *p)
{
    for (size_t k = 0; k < KEYS; k++) {
        bool any = false;
        for (size_t v = 0; v < VALUES + 2 && !any; v++) {
            struct str value = v < VALUES ? values[v] : STR("none of them");
            bool all = true;
            for (size_t i = 0; i < p->requirement_count && all; i++)
                if (str_equal(p->requirements[i].key, keys[k]))
                    all = holds(&p->requirements[i], v <= VALUES, value);
            any = all;
        }
        if (!any) return false;
    }
    return true;
}

static void check_matching(struct prng *p, const struct profile *given, const struct profile *built)
{
    struct label labels[KEYS];
    size_t count = 0;
    bool want = true;
    struct attributes attributes = {STR_EMPTY, STR_EMPTY, labels, 0};

    for (size_t k = 0; k < KEYS; k++)
        if (prng_chance(p, 700000))
            labels[count++] = (struct label){keys[k], values[prng_below(p, VALUES)]};
    attributes.label_count = count;
    for (size_t i = 0; i < given->requirement_count; i++) {
        const struct requirement *r = &given->requirements[i];
        size_t at = 0;
        while (at < count && !str_equal(labels[at].key, r->key)) at++;
        want &= holds(r, at < count, at < count ? labels[at].value : STR_EMPTY);
    }
    CHECK("match", profile_matches(built, &attributes) == want);
}

TEST(fingerprints_hide_order_and_nothing_else)
{
    struct prng p;
    struct arena arena;

    prng_seed(&p, test_seed());
    arena_init(&arena, 1 << 20);
    for (int round = 0; round < ROUNDS; round++) {
        struct random_profile r;
        struct profile first, second, plain;
        draw(&p, &r);
        arena_reset(&arena);
        CHECK_OK("built", profile_build(&arena, &r.profile, &first, NULL));
        check_matching(&p, &r.profile, &first);
        for (size_t i = 0; i < r.profile.requirement_count; i++)
            shuffle(&p, r.values[i], r.requirements[i].value_count, sizeof(struct str));
        shuffle(&p, r.requirements, r.profile.requirement_count, sizeof(struct requirement));
        shuffle(&p, r.spreads, r.profile.spread_count, sizeof(struct spread));
        CHECK_OK("built again", profile_build(&arena, &r.profile, &second, NULL));
        CHECK_STR("order does not show", second.fingerprint, first.fingerprint);
        check_reads_back(&first);
        CHECK_OK("without Same", profile_without_same(&arena, &first, &plain));
        check_reads_back(&plain);
        CHECK("the rest", profile_same(&plain) == NULL &&
                              (profile_same(&first) != NULL) ==
                                  (plain.requirement_count < first.requirement_count));
        CHECK("contradictions",
              (requirements_contradict(first.requirements, first.requirement_count, NULL) ==
               ERR_OK) == satisfiable(&first));
    }
    arena_deinit(&arena);
}
