/* SPDX-License-Identifier: Apache-2.0 */
/* Random inserts, removals and replacements of the ordered set against a sorted array: membership,
 * order, the start of a walk, and the number of rows before a key. */
#include "base/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"

enum { NAMES = 600, WORLDS = 300, STEPS = 3000 };

struct row {
    char first[40], second[40];
    size_t first_len, second_len;
    size_t place; /* among the names, sorted */
};
static uint64_t bytes;

static struct order_key key_of(const void *row)
{
    const struct row *r = row;

    return (struct order_key){str_of(r->first, r->first_len), str_of(r->second, r->second_len)};
}
static const struct order_kind kind = {key_of, &bytes};

/* -- names: their common prefixes are long, short or empty, in either half -- */

static struct row names[NAMES];

static size_t write_number(char text[40], const char *front, size_t i, const char *behind)
{
    return (size_t)snprintf(text, 40, "%s%05u%s", front, (unsigned)(i % 100000), behind);
}

/* Texts of few letters, including NUL, so that many are prefixes of others and end where others
 * have NUL. */
static size_t write_short(char text[40], struct prng *p)
{
    size_t len = (size_t)prng_below(p, 8);

    for (size_t i = 0; i < len; i++) text[i] = "\0\0\1a\377"[prng_below(p, 5)];
    return len;
}

static void make_name(struct row *row, size_t i, uint64_t kind_of_names, struct prng *p)
{
    static const char *const fronts[] = {"", "a", "muster/create-64/", "muster/create-64/k-0"};
    const char *front = fronts[prng_below(p, ARRAY_LEN(fronts))];

    *row = (struct row){.place = i};
    switch (kind_of_names) {
    case 0: row->first_len = write_number(row->first, "", i, ""); break;
    case 1: row->first_len = write_number(row->first, fronts[2], i, "/x"); break;
    case 2: row->first_len = write_number(row->first, front, i, ""); break;
    case 3:
        row->first_len = write_number(row->first, "rack", i % 3, "");
        row->second_len = write_number(row->second, fronts[i % 2], i, "");
        break;
    case 4: /* a few names with shorter common prefixes than the rest */
        row->first_len = write_number(row->first, fronts[3], i, "");
        if (prng_below(p, 400) > 0) break;
        row->first_len = (size_t)prng_below(p, 21);
        memset(row->first + row->first_len, 0, sizeof row->first - row->first_len);
        break;
    case 5:
        row->first_len = write_short(row->first, p);
        row->second_len = write_short(row->second, p);
        break;
    }
}

static int by_name(const void *a, const void *b)
{
    struct order_key left = key_of(a), right = key_of(b);
    int sign = str_compare(left.first, right.first);

    return sign ? sign : str_compare(left.second, right.second);
}

/* In order, each once. */
static void make_names(struct prng *p)
{
    uint64_t kind_of_names = prng_below(p, 6);
    size_t made = 0;

    while (made < NAMES) {
        size_t kept = 0;

        for (size_t i = made; i < NAMES; i++) make_name(&names[i], i, kind_of_names, p);
        qsort(names, NAMES, sizeof names[0], by_name);
        for (size_t i = 0; i < NAMES; i++)
            if (i == 0 || by_name(&names[kept - 1], &names[i]) != 0) names[kept++] = names[i];
        made = kept;
    }
    for (size_t i = 0; i < NAMES; i++) names[i].place = i;
}

static void compare(const struct order *order, struct row *const *in, struct prng *p)
{
    struct row probe = names[prng_below(p, NAMES)];
    struct order_place place = order_begin(order);
    uint32_t before = 0, count = 0;

    for (size_t i = 0; i < NAMES; i++) {
        if (!in[i]) continue;
        CHECK("in order", order_next(&place) == in[i]);
        before += i < probe.place;
        count++;
    }
    CHECK("no more", order_next(&place) == NULL && order->count == count);
    CHECK("rank", order_rank(order, key_of(&probe)) == before);
    CHECK("find", order_find(order, key_of(&probe)) == in[probe.place]);
    place = order_behind(order, key_of(&probe));
    for (size_t i = probe.place + 1; i < NAMES; i++) {
        if (!in[i]) continue;
        CHECK("behind", order_next(&place) == in[i]);
        break;
    }
}

static void run(uint64_t seed)
{
    static struct row rows[2][NAMES];
    struct row *in[NAMES] = {NULL};
    struct order order = {.kind = &kind};
    struct prng p;

    prng_seed(&p, seed);
    bytes = 0;
    make_names(&p);
    for (size_t i = 0; i < NAMES; i++) rows[0][i] = rows[1][i] = names[i];
    /* Phases that mostly grow and mostly shrink, so that nodes split and merge. */
    for (int s = 0; s < STEPS; s++) {
        bool grow = s / 500 % 2 == 0 ? !prng_chance(&p, 200000) : prng_chance(&p, 200000);
        size_t i = s % 1000 < 200 ? (size_t)s % NAMES : (size_t)prng_below(&p, NAMES);
        if (in[i] && prng_chance(&p, 100000)) {
            struct row *other = in[i] == &rows[0][i] ? &rows[1][i] : &rows[0][i];
            order_replace(&order, in[i], other);
            in[i] = other;
        } else if (!in[i] && grow) {
            CHECK_OK("insert", order_insert(&order, &rows[0][i]));
            in[i] = &rows[0][i];
        } else if (in[i] && !grow) {
            order_remove(&order, in[i]);
            in[i] = NULL;
        }
        if (s % 37 == 0) compare(&order, in, &p);
    }
    compare(&order, in, &p);
    order_clear(&order);
    CHECK("every byte is freed", bytes == 0 && order.count == 0);
}

TEST(an_ordered_set_equals_a_sorted_array)
{
    struct prng worlds;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) run(prng_u64(&worlds));
}
