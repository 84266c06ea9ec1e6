/* SPDX-License-Identifier: Apache-2.0 */
/* Which replica may bootstrap a cluster: tables of every case, then random founders and promising
 * replicas that crash, lose disks and are started twice. */
#include "fleet/bootstrap_rules.h"

#include <stdio.h>

#include "base/prng.h"
#include "lib/test.h"

TEST(only_ordinal_0_or_a_replica_without_peers_bootstraps_and_only_over_an_empty_directory)
{
    static const struct {
        const char *why;
        struct bootstrap_facts facts;
        enum bootstrap_start want;
    } cases[] = {
        {"alone", {false, true, false, 0}, BOOTSTRAP_ALONE},
        {"alone, any ordinal", {false, true, false, 5}, BOOTSTRAP_ALONE},
        {"alone, forbidden", {false, false, false, 0}, BOOTSTRAP_NOT},
        {"alone with a directory", {true, true, false, 0}, BOOTSTRAP_NOT},
        {"ordinal 0 asks first", {false, true, true, 0}, BOOTSTRAP_ASK},
        {"ordinal 0, forbidden", {false, false, true, 0}, BOOTSTRAP_NOT},
        {"ordinal 0 with a directory", {true, true, true, 0}, BOOTSTRAP_NOT},
        {"ordinal 1 never", {false, true, true, 1}, BOOTSTRAP_NOT},
        {"ordinal 2 never", {false, true, true, 2}, BOOTSTRAP_NOT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_I64(cases[i].why, bootstrap_start(&cases[i].facts), cases[i].want);
}

#define SILENT                                                                                     \
    {                                                                                              \
        BOOTSTRAP_SILENT, 0, ""                                                                    \
    }
#define SELF                                                                                       \
    {                                                                                              \
        BOOTSTRAP_SELF, 0, ""                                                                      \
    }
#define UNCLEAR                                                                                    \
    {                                                                                              \
        BOOTSTRAP_UNCLEAR, 0, ""                                                                   \
    }
#define REFUSED(n)                                                                                 \
    {                                                                                              \
        BOOTSTRAP_REFUSED, (n), "node-" #n                                                         \
    }
#define PROMISED(n)                                                                                \
    {                                                                                              \
        BOOTSTRAP_PROMISED, (n), "node-" #n                                                        \
    }
#define HAS_LOG                                                                                    \
    {                                                                                              \
        BOOTSTRAP_HAS_LOG, 0, ""                                                                   \
    }
static const uint64_t LONG_MS = 1000ull * 3600 * 24 * 365;

TEST(with_more_than_one_replica_neither_silence_nor_dns_bootstraps)
{
    static const struct {
        const char *why;
        uint32_t expect;
        size_t count;
        struct bootstrap_peer peers[4];
        enum bootstrap_verdict want;
    } cases[] = {
        {"all others promised", 3, 2, {PROMISED(1), PROMISED(2)}, BOOTSTRAP_NOW},
        {"one is silent", 3, 2, {PROMISED(1), SILENT}, BOOTSTRAP_WAIT},
        {"all are silent", 3, 2, {SILENT, SILENT}, BOOTSTRAP_WAIT},
        {"one has a log", 3, 2, {PROMISED(1), HAS_LOG}, BOOTSTRAP_JOIN},
        {"one has a log, one is silent", 3, 2, {SILENT, HAS_LOG}, BOOTSTRAP_JOIN},
        {"one has a log, one is unclear", 3, 2, {UNCLEAR, HAS_LOG}, BOOTSTRAP_JOIN},
        {"one is unclear", 3, 2, {PROMISED(1), UNCLEAR}, BOOTSTRAP_WAIT},
        {"one promised to another", 3, 2, {PROMISED(1), REFUSED(2)}, BOOTSTRAP_WAIT},
        {"the name has no address", 3, 0, {SILENT}, BOOTSTRAP_WAIT},
        {"the name is our own", 3, 1, {SELF}, BOOTSTRAP_WAIT},
        {"for ourselves, silent", 3, 1, {SILENT}, BOOTSTRAP_WAIT},
        {"for too few", 3, 2, {SELF, PROMISED(1)}, BOOTSTRAP_WAIT},
        {"for all", 3, 3, {PROMISED(1), SELF, PROMISED(2)}, BOOTSTRAP_NOW},
        {"for all; we do not reach ourselves",
         3,
         3,
         {SILENT, PROMISED(1), PROMISED(2)},
         BOOTSTRAP_NOW},
        {"for all and one more that is silent",
         3,
         4,
         {SELF, PROMISED(1), PROMISED(2), SILENT},
         BOOTSTRAP_WAIT},
        {"one replica at two addresses", 3, 2, {PROMISED(1), PROMISED(1)}, BOOTSTRAP_WAIT},
        {"two processes with one name",
         3,
         2,
         {PROMISED(1), {BOOTSTRAP_PROMISED, 9, "node-1"}},
         BOOTSTRAP_WAIT},
        {"one with our name",
         3,
         2,
         {PROMISED(1), {BOOTSTRAP_PROMISED, 9, "node-0"}},
         BOOTSTRAP_WAIT},
        {"more than expected", 2, 2, {PROMISED(1), PROMISED(2)}, BOOTSTRAP_NOW},
        {"replicas that are new, not the first ones",
         3,
         2,
         {PROMISED(3), PROMISED(4)},
         BOOTSTRAP_WAIT},
        {"two, the other promised", 2, 1, {PROMISED(1)}, BOOTSTRAP_NOW},
        {"two, the other is silent", 2, 1, {SILENT}, BOOTSTRAP_WAIT},
        {"five, one is missing",
         5,
         4,
         {PROMISED(1), PROMISED(2), PROMISED(3), SILENT},
         BOOTSTRAP_WAIT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct bootstrap_round round = {.peers = cases[i].peers,
                                        .count = cases[i].count,
                                        .name = "node-0",
                                        .expect = cases[i].expect};
        CHECK_I64(cases[i].why, bootstrap_decide(&round), cases[i].want);
        round.asking_ms = LONG_MS; /* time changes nothing */
        CHECK_I64(cases[i].why, bootstrap_decide(&round), cases[i].want);
    }
}

TEST(expect_1_accepts_silence_but_no_answer)
{
    static const struct {
        const char *why;
        size_t count;
        struct bootstrap_peer peers[2];
        uint64_t asking_ms;
        enum bootstrap_verdict want;
    } cases[] = {
        {"silent yet", 2, {SILENT, SILENT}, BOOTSTRAP_SILENCE_MS - 1, BOOTSTRAP_WAIT},
        {"silent for long", 2, {SILENT, SILENT}, BOOTSTRAP_SILENCE_MS, BOOTSTRAP_NOW},
        {"all promised", 2, {PROMISED(1), PROMISED(2)}, 0, BOOTSTRAP_NOW},
        {"one has a log", 2, {SILENT, HAS_LOG}, LONG_MS, BOOTSTRAP_JOIN},
        {"one is unclear", 2, {SILENT, UNCLEAR}, LONG_MS, BOOTSTRAP_WAIT},
        {"one promised to another", 2, {SILENT, REFUSED(1)}, LONG_MS, BOOTSTRAP_WAIT},
        {"ourselves", 1, {SELF}, 0, BOOTSTRAP_NOW},
        {"no address yet", 0, {SILENT}, 0, BOOTSTRAP_WAIT},
        {"no address", 0, {SILENT}, BOOTSTRAP_SILENCE_MS, BOOTSTRAP_NOW},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct bootstrap_round round = {.peers = cases[i].peers,
                                        .count = cases[i].count,
                                        .name = "node-0",
                                        .expect = 1,
                                        .asking_ms = cases[i].asking_ms};
        CHECK_I64(cases[i].why, bootstrap_decide(&round), cases[i].want);
    }
}

TEST(by_hand_silence_is_no_obstacle_and_a_log_is)
{
    static const struct {
        const char *why;
        struct bootstrap_peer peers[2];
        enum bootstrap_verdict want;
    } cases[] = {
        {"all silent", {SILENT, SILENT}, BOOTSTRAP_NOW},
        {"one promised", {PROMISED(1), SILENT}, BOOTSTRAP_NOW},
        {"one has a log", {SILENT, HAS_LOG}, BOOTSTRAP_JOIN},
        {"one may have a log", {SILENT, UNCLEAR}, BOOTSTRAP_WAIT},
        {"another one waits, too", {SILENT, REFUSED(1)}, BOOTSTRAP_WAIT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct bootstrap_round round = {
            .peers = cases[i].peers, .count = 2, .name = "node-0", .expect = 3, .by_hand = true};
        CHECK_I64(cases[i].why, bootstrap_decide(&round), cases[i].want);
    }
}

TEST(a_promise_is_given_once_renewed_to_the_same_and_replaced_by_order_only)
{
    static const struct bootstrap_identity none = {0}, a = {10, 1}, b = {20, 2}, c = {10, 2};
    struct {
        const char *why;
        struct promise_facts facts;
        enum promise_verdict want;
    } cases[] = {
        {"the first", {7, false, false, none, a, false}, PROMISE_STORE},
        {"the same again", {7, false, false, a, a, false}, PROMISE_KEEP},
        {"the same, by order", {7, false, false, a, a, true}, PROMISE_KEEP},
        {"another", {7, false, false, a, b, false}, PROMISE_TAKEN},
        {"the same cluster by another replica", {7, false, false, a, c, false}, PROMISE_TAKEN},
        {"another by order", {7, false, false, a, b, true}, PROMISE_STORE},
        {"we have a log", {7, true, false, none, a, false}, PROMISE_HAS_LOG},
        {"we have a log and promised", {7, true, false, a, a, false}, PROMISE_HAS_LOG},
        {"we have a log, by order", {7, true, false, a, b, true}, PROMISE_HAS_LOG},
        {"we wait, too", {7, false, true, none, a, false}, PROMISE_RIVAL},
        {"we wait, by order", {7, false, true, none, a, true}, PROMISE_RIVAL},
        {"ourselves", {1, false, true, none, a, false}, PROMISE_SELF},
        {"no cluster", {7, false, false, none, {0, 1}, false}, PROMISE_INVALID},
        {"no replica", {7, false, false, none, {10, 0}, false}, PROMISE_INVALID},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_I64(cases[i].why, promise_decide(&cases[i].facts), cases[i].want);
}

/* -- random lives -- */

enum { OTHERS = 2, FOUNDERS = 2, STEPS = 400 };
struct other {
    uint64_t id;
    struct bootstrap_identity stored;
    uint64_t cluster; /* it joined; 0: none */
};
struct founder { /* two processes with the name node-0; each may lose its directory */
    struct bootstrap_identity identity;
    struct bootstrap_peer peers[OTHERS];
    size_t asked;
    bool founded, joined;
};

static enum bootstrap_answer ask(struct other *other, const struct founder *founder)
{
    struct promise_facts facts = {.replica_id = other->id,
                                  .has_log = other->cluster != 0,
                                  .stored = other->stored,
                                  .asked = founder->identity};
    switch (promise_decide(&facts)) {
    case PROMISE_HAS_LOG: return BOOTSTRAP_HAS_LOG;
    case PROMISE_STORE: other->stored = founder->identity; return BOOTSTRAP_PROMISED;
    case PROMISE_KEEP: return BOOTSTRAP_PROMISED;
    default: return BOOTSTRAP_REFUSED;
    }
}

/* Asks one replica, or decides after all were asked. True: it bootstraps a cluster now. */
static bool founder_step(struct founder *founder, struct other *others, struct prng *prng)
{
    size_t at = founder->asked++;

    if (at < OTHERS) {
        struct bootstrap_peer *peer = &founder->peers[at];
        *peer = (struct bootstrap_peer){.replica_id = others[at].id};
        snprintf(peer->name, sizeof peer->name, "node-%zu", at + 1);
        /* When the request or its answer is lost, the promise still holds. */
        peer->answer = prng_below(prng, 4) ? ask(&others[at], founder) : BOOTSTRAP_SILENT;
        if (prng_below(prng, 8) == 0) peer->answer = BOOTSTRAP_SILENT;
        return false;
    }
    struct bootstrap_round round = {
        .peers = founder->peers, .count = OTHERS, .name = "node-0", .expect = OTHERS + 1};
    enum bootstrap_verdict verdict = bootstrap_decide(&round);
    founder->asked = 0;
    founder->joined = verdict == BOOTSTRAP_JOIN;
    return verdict == BOOTSTRAP_NOW;
}

TEST(random_founders_never_bootstrap_two_clusters)
{
    uint32_t lives_with_a_cluster = 0;
    struct prng prng;

    prng_seed(&prng, test_seed());
    for (int life = 0; life < 3000; life++) {
        struct other others[OTHERS] = {{.id = 101}, {.id = 102}};
        struct founder founders[FOUNDERS] = {{.identity = {1, 1}}, {.identity = {2, 2}}};
        uint64_t next = 3, cluster = 0;

        for (int step = 0; step < STEPS; step++) {
            struct founder *founder = &founders[prng_below(&prng, FOUNDERS)];
            struct other *other = &others[prng_below(&prng, OTHERS)];
            uint64_t action = prng_below(&prng, 100);

            if (action < 3) { /* the process dies: the round is lost, DIR/BOOTSTRAP remains */
                founder->asked = 0;
            } else if (action < 4 && !founder->founded) { /* its disk is lost */
                founder->identity = (struct bootstrap_identity){next, next};
                founder->asked = 0;
                founder->joined = false;
                next++;
            } else if (action < 10 && cluster) { /* one of the others joins */
                other->cluster = cluster;
            } else if (!founder->founded && !founder->joined &&
                       founder_step(founder, others, &prng)) {
                CHECK_U64("clusters before", cluster, 0);
                cluster = founder->identity.cluster_id;
                founder->founded = true;
                lives_with_a_cluster++;
            }
        }
    }
    CHECK("most lives come to a cluster", lives_with_a_cluster > 1000);
}
