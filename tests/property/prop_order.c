/* Random inserts, removals and replacements of the ordered set against a sorted array: what is in,
 * in which order, from where, and how many rows are before a key. */
#include "base/order.h"

#include <stdio.h>

#include "base/prng.h"
#include "lib/test.h"

enum { NAMES = 600, WORLDS = 60, STEPS = 3000 };

struct row {
    char text[8];
    size_t place; /* among the names, sorted */
};
static uint64_t bytes;

static struct order_key key_of(const void *row)
{
    return (struct order_key){str_from(((const struct row *)row)->text), STR_EMPTY};
}
static const struct order_kind kind = {key_of, &bytes};

static void compare(const struct order *order, struct row *const *in, struct prng *p)
{
    struct row probe = {.place = (size_t)prng_below(p, NAMES)};
    struct order_place place = order_begin(order);
    uint32_t before = 0, count = 0;

    (void)snprintf(probe.text, sizeof probe.text, "%05u", (unsigned)probe.place % 100000);
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
    for (size_t i = 0; i < NAMES; i++) {
        rows[0][i].place = i;
        (void)snprintf(rows[0][i].text, sizeof rows[0][i].text, "%05u", (unsigned)i % 100000);
        rows[1][i] = rows[0][i];
    }
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
    CHECK("every byte is given back", bytes == 0 && order.count == 0);
}

TEST(an_ordered_set_is_what_a_sorted_array_is)
{
    struct prng worlds;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) run(prng_u64(&worlds));
}
