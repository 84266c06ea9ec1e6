/* SPDX-License-Identifier: Apache-2.0 */
/* Catalogues: valid ones, refused ones with the place, and consistent counts. */
#include <stdio.h>

#include "lib/test.h"
#include "provider/host/catalogue.h"

#define POOL "[[pool]]\nname = \"p\"\ntype = \"t\"\ncapacity = \"spot\"\n"

TEST(the_usual_catalogue_is_lively)
{
    struct catalogue *c = NULL;
    struct note note = {.text = ""};
    uint32_t types = 0;
    bool racks = false, stays = false, quota = false, fails = false;

    check_err(note.text, catalogue_open(catalogue_usual(), &c, &note), ERR_OK, "usual", __FILE__,
              __LINE__);
    for (size_t i = 0; i < c->pool_count; i++) {
        types |= BIT(c->pools[i].offer.capacity_type);
        racks |= c->pools[i].rack_size > 0;
        stays |= !c->pools[i].deletes;
        quota |= c->pools[i].quota < 1000000;
        fails |= c->pools[i].behaviour.fails[OPERATION_CREATE] > 0;
    }
    CHECK_U32("every kind of capacity", types,
              BIT(CAPACITY_BARE_METAL) | BIT(CAPACITY_RESERVED) | BIT(CAPACITY_ON_DEMAND) |
                  BIT(CAPACITY_SPOT));
    CHECK("racks, metal that stays, a quota, failures", racks && stays && quota && fails);
    CHECK_U64("behaviour is inherited", c->pools[0].behaviour.latency[OPERATION_CREATE].most_ms,
              20000);
    catalogue_close(c);
}

TEST(counts_add_up)
{
    static const uint64_t totals[] = {0, 1, 7, 100, 999, 500000};

    for (size_t t = 0; t < ARRAY_LEN(totals); t++) {
        struct catalogue *c = NULL;
        struct note note;
        uint64_t sum = 0;

        CHECK_OK("usual", catalogue_open(catalogue_usual(), &c, &note));
        for (size_t p = 0; p < c->pool_count; p++)
            for (size_t z = 0; z < c->pools[p].zone_count; z++)
                sum += catalogue_count(c, totals[t], p, z);
        CHECK_U64("all of them", sum, totals[t]);
        catalogue_close(c);
    }
}

TEST(a_count_is_exact_and_beside_the_shares)
{
    struct catalogue *c = NULL;
    struct note note = {.text = ""};

    CHECK_OK("open", catalogue_open(STR("zones = [\"a\", \"b\"]\n" POOL
                                        "count = 5\n[[pool]]\nname = \"q\"\ntype = \"t\"\n"
                                        "capacity = \"reserved\"\n"),
                                    &c, &note));
    CHECK_U64("of 5", catalogue_count(c, 100, 0, 0) + catalogue_count(c, 100, 0, 1), 5);
    CHECK_U64("of 100", catalogue_count(c, 100, 1, 0), 50);
    catalogue_close(c);
}

TEST(what_is_wrong_is_refused_with_its_place)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "[[pool]]"},
        {"x = 1", "unknown key 'x'"},
        {POOL, "is in no zone"},
        {"zones = []\n" POOL, "zones: 0 entries, 1 to 64 are allowed"},
        {"zones = [\"a\", \"a\"]\n" POOL, "named twice"},
        {"zones = [\"a\"]\n" POOL "prize = 1\n", "line 2: pool: unknown key 'prize'"},
        {"zones = [\"a\"]\n" POOL "price = -1\n", "price_per_hour"},
        {"zones = [\"a\"]\n" POOL "price = nan\n", "line 6: not a finite number"},
        {"zones = [\"a\"]\n" POOL "interruption = 1.5\n", "interruption_probability"},
        {"zones = [\"a\"]\n" POOL "resources = { cpu = \"lots\" }\n", "resources"},
        {"zones = [\"a\"]\n" POOL "resources = { cpu = 2 }\n", "resources: cpu: must be a text"},
        {"zones = [\"a\"]\n" POOL "quota = 2.0\n", "quota: must be a number from 0 to 1"},
        {"zones = [\"a\"]\n" POOL "share = 1\ncount = 1\n", "exclude each other"},
        {"zones = [\"a\"]\n" POOL "count = -1\n", "count: -1, between 0 and"},
        {"zones = [\"a\"]\n" POOL "latency = { create = \"20\" }\n", "latency: create: is no time"},
        {"zones = [\"a\"]\n" POOL "latency = { create = \"9s..2s\" }\n", "ends before it begins"},
        {"zones = [\"a\"]\n" POOL "latency = { make = \"9s\" }\n", "latency: unknown key 'make'"},
        {"zones = [\"a\"]\n" POOL POOL, "has the name of another"},
        {"zones = [\"a\"]\n[[pool]]\nname = \"p\"\ntype = \"t\"\ncapacity = \"cheap\"\n",
         "capacity: must be bare-metal, reserved, on-demand or spot"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct catalogue *c = NULL;
        struct note note = {.text = ""};

        CHECK("refused", catalogue_open(str_from(cases[i].text), &c, &note) != ERR_OK);
        CHECK_HAS(cases[i].text, note.text, cases[i].why);
    }
}
