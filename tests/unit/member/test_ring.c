/* SPDX-License-Identifier: Apache-2.0 */
/* member/core/ring.h: the vectors of the specification, and properties of every ring. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/prng.h"
#include "lib/test.h"
#include "member/core/ring.h"

static struct ring *ring_of(const char *workers, uint32_t virtual_nodes, double epsilon)
{
    struct ring_options options = {.virtual_nodes = virtual_nodes,
                                   .bounded = epsilon >= 0,
                                   .epsilon = epsilon >= 0 ? epsilon : 0};
    struct str rest = str_from(workers), one;
    struct ring *ring = NULL;

    CHECK_OK("opened", ring_open(&options, &ring));
    while (rest.len && str_split(&rest, ' ', &one)) CHECK_OK("added", ring_add(ring, one));
    return ring;
}

TEST(hashes_are_those_of_the_specification)
{
    static const struct {
        const char *key;
        uint64_t hash;
    } rows[] = {
        {"", 0xefd01f60ba992926},
        {"a", 0x82a2a958a9bece5b},
        {"w0-vnode-0", 0x7a2f70dc64421fc5},
        {"w0-vnode-1", 0x6be1314f3c024de7},
        {"w0-vnode-127", 0x79c6cf54aa737e53},
        {"w1-vnode-0", 0x27fe885334067230},
        {"w2-vnode-0", 0x1a86ae7856b95147},
        {"partition-0", 0x1dff2b43573fced6},
        {"partition-1", 0xae9aab7f2ba7a7ed},
        {"partition-11", 0xed449f847c19c130},
        {"partition-127", 0xa33c2eb741f5561e},
        {"partition-304", 0xffdf50f14b7a3fbe},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_U64(rows[i].key, ring_hash(str_from(rows[i].key)), rows[i].hash);
}

static void check_digest(const char *why, const struct buf *text, const char *want)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";

    CHECK(why, EVP_Digest(text->data, text->len, digest, &len, EVP_sha256(), NULL) == 1);
    for (unsigned i = 0; i < len; i++) (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    CHECK_TEXT(why, hex, want);
}

struct point {
    uint64_t hash;
    char worker[4];
    unsigned number;
};
static int by_hash(const void *left, const void *right)
{
    const struct point *a = left, *b = right;

    return (a->hash > b->hash) - (a->hash < b->hash);
}

TEST(points_are_those_of_the_specification)
{
    struct ring *ring = ring_of("w2 w0 w1", 128, -1);
    struct point points[384];
    uint32_t owners[305];
    char key[32];
    struct buf text;

    for (unsigned i = 0; i < ARRAY_LEN(points); i++) {
        points[i].number = i % 128;
        (void)snprintf(points[i].worker, sizeof points[i].worker, "w%u", i / 128);
        (void)snprintf(key, sizeof key, "%s-vnode-%u", points[i].worker, i % 128);
        points[i].hash = ring_hash(str_from(key));
    }
    qsort(points, ARRAY_LEN(points), sizeof points[0], by_hash);
    CHECK_U64("first", points[0].hash, 0x003eef20cff5c0b2);
    CHECK_U64("last", points[383].hash, 0xffbbf8604fbebf3a);
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(points); i++)
        CHECK_OK("line", buf_appendf(&text, "%016" PRIx64 " %s %u\n", points[i].hash,
                                     points[i].worker, points[i].number));
    check_digest("all of them", &text,
                 "369d7e44d0887fa1ae83eb1c6769832840a7eab1a6e158ed7c0311ab2a777381");
    CHECK_OK("placed", ring_place(ring, 305, owners));
    CHECK_STR("past the last point comes the first", ring_worker(ring, owners[304]), STR("w1"));
    buf_clear(&text);
    for (size_t i = 0; i < 128; i++)
        CHECK_OK("owner",
                 buf_appendf(&text, "%s%.*s", i ? "," : "", STR_ARG(ring_worker(ring, owners[i]))));
    check_digest("owners of 128", &text,
                 "5199d8b834710d5ec71015373ce5842c1e449470a848cc01a855e190404c2dba");
    buf_deinit(&text);
    ring_close(ring);
}

/* "w0: 5 6 7 10, w1: ...", the format of the specification. */
static void check_placed(const char *workers, uint32_t virtual_nodes, double epsilon,
                         const char *want)
{
    struct ring *ring = ring_of(workers, virtual_nodes, epsilon);
    uint32_t owners[12];
    struct buf text;

    buf_init(&text, 4096);
    CHECK_OK("placed", ring_place(ring, 12, owners));
    for (uint32_t w = 0; w < ring_workers(ring); w++) {
        CHECK_OK("name",
                 buf_appendf(&text, "%s%.*s:", w ? "; " : "", STR_ARG(ring_worker(ring, w))));
        for (uint32_t p = 0; p < 12; p++)
            if (owners[p] == w) CHECK_OK("number", buf_appendf(&text, " %u", p));
    }
    CHECK_STR(workers, buf_peek(&text), str_from(want));
    buf_deinit(&text);
    ring_close(ring);
}

TEST(twelve_partitions_fall_as_the_specification_says)
{
    check_placed("w0 w1 w2", 128, -1, "w0: 5 6 7 10; w1: 0 2 11; w2: 1 3 4 8 9");
    check_placed("w0 w1", 128, -1, "w0: 1 4 5 6 7 8 9 10; w1: 0 2 3 11");
    check_placed("w0 w2", 128, -1, "w0: 0 2 5 6 7 10 11; w2: 1 3 4 8 9");
    check_placed("w1 w2", 128, -1, "w1: 0 2 5 6 10 11; w2: 1 3 4 7 8 9");
    check_placed("w0 w1 w2 w3", 128, -1, "w0: 5 6; w1: 0 11; w2: 1 8; w3: 2 3 4 7 9 10");
    check_placed("w0", 128, -1, "w0: 0 1 2 3 4 5 6 7 8 9 10 11");
    check_placed("w0 w1 w2", 8, -1, "w0: 1 2 4 6 8 10; w1: 3; w2: 0 5 7 9 11");
    check_placed("01JFEAVS7C5DE5XEAEAB91EBT5 01JFEAVS7C5DE5XEAEAB91EBT6 01JFEAVS7C5DE5XEAEAB91EBT7",
                 128, -1,
                 "01JFEAVS7C5DE5XEAEAB91EBT5: 0 2 5 6 8; 01JFEAVS7C5DE5XEAEAB91EBT6: 7 9; "
                 "01JFEAVS7C5DE5XEAEAB91EBT7: 1 3 4 10 11");
    check_placed("w0 w1 w2", 128, 0.25, "w0: 5 6 7 10; w1: 0 2 11; w2: 1 3 4 8 9");
    check_placed("w0 w1 w2", 128, 0, "w0: 5 6 7 9; w1: 0 2 10 11; w2: 1 3 4 8");
    check_placed("w0 w1 w2 w3", 128, 0.25, "w0: 5 6 10; w1: 0 11; w2: 1 8 9; w3: 2 3 4 7");
}

static size_t moved(const uint32_t *before, const struct ring *old, const uint32_t *after,
                    const struct ring *now, size_t count)
{
    size_t moves = 0;

    for (size_t p = 0; p < count; p++)
        if (!str_equal(ring_worker(old, before[p]), ring_worker(now, after[p]))) moves++;
    return moves;
}

TEST(a_fourth_worker_takes_38_of_128)
{
    struct ring *three = ring_of("w0 w1 w2", 128, -1), *four = ring_of("w0 w1 w2 w3", 128, -1);
    uint32_t before[128], after[128];

    CHECK_OK("three", ring_place(three, 128, before));
    CHECK_OK("four", ring_place(four, 128, after));
    CHECK_SIZE("moved", moved(before, three, after, four, 128), 38);
    ring_close(three);
    ring_close(four);
}

/* Any order of joins and leaves with the same final set has the same owners; a new worker only
 * gains partitions, and a leaving worker's partitions alone move. */
TEST(only_necessary_partitions_move_and_order_has_no_effect)
{
    enum { WORKERS = 12, PARTITIONS = 200 };
    struct prng prng;

    prng_seed(&prng, 12);
    for (int round = 0; round < 60; round++) {
        struct ring *ring = ring_of("", 32, -1);
        bool there[WORKERS] = {false};
        uint32_t before[PARTITIONS], after[PARTITIONS];
        struct str was[PARTITIONS];
        char names[WORKERS][8];
        struct ring *sorted = ring_of("", 32, -1);
        for (int i = 0; i < WORKERS; i++) (void)snprintf(names[i], sizeof names[i], "n%d", i);
        for (int step = 0; step < 30; step++) {
            size_t w = (size_t)prng_below(&prng, WORKERS);
            struct str name = str_from(names[w]);
            CHECK_OK("before", ring_place(ring, PARTITIONS, before));
            for (size_t p = 0; p < PARTITIONS; p++) { /* a worker's id is freed with the worker */
                struct str id = ring_worker(ring, before[p]);
                was[p] = STR_EMPTY;
                for (int i = 0; i < WORKERS; i++)
                    if (str_equal(id, str_from(names[i]))) was[p] = str_from(names[i]);
            }
            if (there[w])
                CHECK("leaves", ring_remove(ring, name));
            else
                CHECK_OK("comes", ring_add(ring, name));
            there[w] = !there[w];
            CHECK_OK("after", ring_place(ring, PARTITIONS, after));
            for (size_t p = 0; p < PARTITIONS; p++) {
                struct str now = ring_worker(ring, after[p]);
                if (str_equal(was[p], now)) continue;
                CHECK("moved to or from it", str_equal(there[w] ? now : was[p], name));
            }
        }
        for (int i = 0; i < WORKERS; i++)
            if (there[i]) CHECK_OK("again", ring_add(sorted, str_from(names[i])));
        CHECK_OK("sorted", ring_place(sorted, PARTITIONS, before));
        CHECK_SIZE("the same", moved(before, sorted, after, ring, PARTITIONS), 0);
        ring_close(ring);
        ring_close(sorted);
    }
}

TEST(nobody_is_overfull_when_bounded)
{
    struct ring *ring = ring_of("a b c d e f g h i j", 128, 0.05);
    uint32_t owners[1024], loads[10] = {0};

    CHECK_OK("placed", ring_place(ring, 1024, owners));
    for (size_t p = 0; p < 1024; p++) loads[owners[p]]++;
    for (size_t w = 0; w < 10; w++) CHECK("at most its share", loads[w] <= 108);
    ring_close(ring);
}

TEST(what_cannot_be_is_refused)
{
    struct ring_options bad[] = {{.virtual_nodes = 0},
                                 {.virtual_nodes = 4097},
                                 {.virtual_nodes = 1, .epsilon = -0.1},
                                 {.virtual_nodes = 1, .epsilon = (double)__builtin_inff()},
                                 {.virtual_nodes = 1, .epsilon = (double)__builtin_nanf("")}};
    struct ring *ring = NULL;
    uint32_t owner;
    char text[130];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_ERR("options", ring_open(&bad[i], &ring), ERR_INVALID);
    ring = ring_of("w0", 1, -1);
    memset(text, 'x', sizeof text);
    CHECK_ERR("empty", ring_add(ring, STR_EMPTY), ERR_INVALID);
    CHECK_ERR("long", ring_add(ring, str_of(text, 129)), ERR_INVALID);
    CHECK_OK("just not", ring_add(ring, str_of(text, 128)));
    CHECK_ERR("blank", ring_add(ring, STR("a b")), ERR_INVALID);
    CHECK_ERR("not ASCII", ring_add(ring, STR("\xc3\xa4")), ERR_INVALID);
    CHECK_ERR("twice", ring_add(ring, STR("w0")), ERR_EXISTS);
    CHECK("not there", !ring_remove(ring, STR("w1")));
    CHECK_ERR("no partition", ring_place(ring, 0, &owner), ERR_INVALID);
    CHECK("leaves", ring_remove(ring, STR("w0")) && ring_remove(ring, str_of(text, 128)));
    CHECK_OK("empty ring", ring_place(ring, 1, &owner));
    CHECK_U32("nobody's", owner, RING_NOBODY);
    ring_close(ring);
}

TEST(case_133_shares_in_proportion_to_weights)
{
    struct ring *ring = ring_of("w0 w1 w2", 128, 0);
    uint32_t owners[12], of[3] = {0};

    CHECK("there", ring_weigh(ring, STR("w0"), 2));
    CHECK("not there", !ring_weigh(ring, STR("w3"), 2));
    CHECK_OK("placed", ring_place(ring, 12, owners));
    for (size_t i = 0; i < 12; i++) of[owners[i]]++;
    CHECK("6, 3, 3", of[0] == 6 && of[1] == 3 && of[2] == 3);
    ring_close(ring);
}

/* A ring that workers joined and left equals a ring that never had them. */
TEST(changes_in_place_equal_a_new_ring)
{
    struct prng prng;
    uint64_t seed = test_seed();
    struct ring *ring = ring_of("", 16, -1);
    bool there[40] = {false};

    prng_seed(&prng, seed);
    for (int step = 0; step < 400; step++) {
        struct ring_options options = {.virtual_nodes = 16};
        static uint32_t owners[4096], fresh[4096];
        struct ring *other;

        for (uint64_t i = prng_below(&prng, 4); i > 0; i--) {
            size_t which = (size_t)prng_below(&prng, ARRAY_LEN(there));
            char id[8];
            (void)snprintf(id, sizeof id, "w%zu", which);
            there[which] = !there[which];
            if (there[which])
                CHECK_OK("comes", ring_add(ring, str_from(id)));
            else
                CHECK("goes", ring_remove(ring, str_from(id)));
        }
        CHECK_OK("another", ring_open(&options, &other));
        for (size_t i = 0; i < ARRAY_LEN(there); i++) {
            char id[8];
            (void)snprintf(id, sizeof id, "w%zu", i);
            if (there[i]) CHECK_OK("added", ring_add(other, str_from(id)));
        }
        CHECK_OK("placed", ring_place(ring, ARRAY_LEN(owners), owners));
        CHECK_OK("placed in a new ring", ring_place(other, ARRAY_LEN(fresh), fresh));
        for (size_t i = 0; i < ARRAY_LEN(owners); i++) CHECK_U32("each", owners[i], fresh[i]);
        ring_close(other);
    }
    ring_close(ring);
}

TEST(rendezvous_moves_only_what_must_and_balances)
{
    struct ring_options options = {.virtual_nodes = 1, .rendezvous = true};
    uint32_t before[4096], after[4096], of[20] = {0};
    struct ring *ring;
    char id[8];

    CHECK_OK("opened", ring_open(&options, &ring));
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof id, "w%02d", i);
        CHECK_OK("added", ring_add(ring, str_from(id)));
    }
    CHECK_OK("placed", ring_place(ring, 4096, before));
    for (size_t i = 0; i < 4096; i++) of[before[i]]++;
    for (size_t i = 0; i < 20; i++) CHECK("near 205", of[i] > 140 && of[i] < 270);
    CHECK("goes", ring_remove(ring, STR("w07")));
    CHECK_OK("placed", ring_place(ring, 4096, after));
    for (size_t i = 0; i < 4096; i++)
        if (before[i] != 7) CHECK_U32("stays", after[i], before[i] - (before[i] > 7 ? 1 : 0));
    ring_close(ring);
}
