/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/life.h: the worker's side of workers.md 24.5, by its numbers. */
#include "lib/test.h"
#include "worker/core/life.h"

#define AT(n) ((boot_time){START + (n)})
static const struct life_terms NO_TERMS;
enum { START = 1000000, INTERVAL = 500, FENCE = 4000, LEASE = 2 * INTERVAL };

static struct worker_life born(uint64_t seed)
{
    struct life_options options = {.interval_ms = INTERVAL, .fence_ms = FENCE, .seed = seed};
    struct worker_life life;

    life_init(&life, &options, AT(0));
    return life;
}

/* One beat there and back. */
static enum life_answer beat(struct worker_life *life, uint64_t sent, uint64_t epoch,
                             uint64_t answered)
{
    CHECK("no fence yet", !life_fence_falls(life, AT(sent)));
    life_beat_sent(life, AT(sent));
    (void)life_fence_falls(life, AT(answered));
    return life_answered(life, AT(sent), LEASE, epoch, AT(answered));
}

static struct worker_life working(void)
{
    struct worker_life life = born(1);

    CHECK("it is time to register", beat(&life, 0, 1, 10) == LIFE_REGISTER);
    life_registered(&life, INTERVAL, &NO_TERMS);
    return life;
}

TEST(the_first_beat_is_at_once_and_ready_comes_after_registering)
{
    struct worker_life life = born(1);

    CHECK_U64("at once", life.next_beat.ms, AT(0).ms);
    CHECK_U64("init", life_phase(&life), LIFE_INIT);
    CHECK("nothing may be done yet", !life_may_act(&life, AT(0)));
    CHECK("register", beat(&life, 0, 1, 10) == LIFE_REGISTER);
    CHECK_U64("still init", life_phase(&life), LIFE_INIT);
    CHECK("acknowledged alone is not enough", !life_may_act(&life, AT(10)));
    life_registered(&life, INTERVAL, &NO_TERMS);
    CHECK_U64("ready", life_phase(&life), LIFE_READY);
    CHECK_U64("sent without waiting", life.next_beat.ms, AT(10).ms);
    CHECK("now", life_may_act(&life, AT(10)));
    life_set_holding(&life, true);
    CHECK_U64("running", life_phase(&life), LIFE_RUNNING);
    life_drain(&life);
    CHECK_U64("draining", life_phase(&life), LIFE_DRAINING);
}

TEST(beats_come_at_nine_to_ten_tenths_of_the_interval_and_never_in_bursts)
{
    struct worker_life life = born(7);

    for (uint64_t now = 0, i = 0; i < 1000; i++) {
        uint64_t next;
        life_beat_sent(&life, AT(now));
        next = life.next_beat.ms - START;
        CHECK("not early", next - now >= INTERVAL * 9 / 10);
        CHECK("not late", next - now <= INTERVAL);
        now = next + (i % 10 == 0 ? 7 * INTERVAL : 0); /* a stall */
    }
}

TEST(an_unanswered_worker_is_fenced_after_the_timeout) /* 89 */
{
    struct worker_life life = working();

    CHECK("at 4.0 s it may", !life_fence_falls(&life, AT(FENCE)) && life_may_act(&life, AT(FENCE)));
    CHECK("a moment later the clock alone refuses", !life_may_act(&life, AT(FENCE + 1)));
    CHECK("and the fence falls", life_fence_falls(&life, AT(FENCE + 1)));
    CHECK("once", !life_fence_falls(&life, AT(FENCE + 2)));
    CHECK_U64("it goes on beating as init", life_phase(&life), LIFE_INIT);
    CHECK_U64("and has no time left", life_good_until(&life).ms, 0);
}

TEST(an_answer_counts_from_when_its_beat_was_sent) /* 90 */
{
    struct worker_life life = working();

    CHECK("kept", beat(&life, 100, 1, 3900) == LIFE_KEPT);
    CHECK_U64("to 4.1 s", life_good_until(&life).ms, AT(100 + FENCE).ms);
    CHECK("an older one moves nothing back", beat(&life, 3950, 1, 3960) == LIFE_KEPT);
    CHECK("kept", life_answered(&life, AT(50), LEASE, 1, AT(3960)) == LIFE_KEPT);
    CHECK_U64("to 7.95 s", life_good_until(&life).ms, AT(3950 + FENCE).ms);
}

TEST(a_paused_worker_is_fenced_before_its_wake_up_event_is_handled) /* 91, 92 */
{
    struct worker_life life = working();

    CHECK("kept", beat(&life, 3000, 1, 3001) == LIFE_KEPT);
    life_beat_sent(&life,
                   AT(3400)); /* then it is stopped until 10 s; the answer waits in the socket */
    CHECK("fenced first", life_fence_falls(&life, AT(10000)));
    CHECK("the old answer revives nothing",
          life_answered(&life, AT(3400), LEASE, 1, AT(10000)) == LIFE_STALE);
    CHECK("no commit", !life_may_act(&life, AT(10000)));
    CHECK("a fresh one does not either", beat(&life, 10001, 1, 10002) == LIFE_REGISTER);
    CHECK("not before it registered", !life_may_act(&life, AT(10002)));
    life_registered(&life, INTERVAL, &NO_TERMS);
    CHECK("then it may", life_may_act(&life, AT(10002)));
}

TEST(a_lower_coordinator_epoch_is_no_answer) /* 93, 236 */
{
    struct worker_life life = working();
    static const struct {
        uint64_t epoch;
        enum life_answer want;
    } answers[] = {{3, LIFE_KEPT}, {1, LIFE_STALE}, {2, LIFE_STALE}, {5, LIFE_KEPT}};

    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        uint64_t sent = 100 + i * 100;
        uint64_t before = life_good_until(&life).ms;
        CHECK("verdict", beat(&life, sent, answers[i].epoch, sent + 1) == answers[i].want);
        CHECK("a stale one moves nothing",
              answers[i].want == LIFE_KEPT || life_good_until(&life).ms == before);
    }
    CHECK_U64("the highest stays", life.coord_epoch, 5);
}

TEST(a_registration_that_comes_after_the_fence_gives_nothing) /* 94 */
{
    struct worker_life life = born(1);

    CHECK("register", beat(&life, 0, 1, 10) == LIFE_REGISTER);
    CHECK("fenced while it was under way", life_fence_falls(&life, AT(FENCE + 1)));
    life_registered(&life, INTERVAL, &NO_TERMS);
    CHECK("nothing", !life_may_act(&life, AT(FENCE + 1)));
    CHECK("asked again", beat(&life, FENCE + 2, 1, FENCE + 3) == LIFE_REGISTER);
}

TEST(reset_takes_the_registration)
{
    struct worker_life life = working();

    life_reset(&life);
    CHECK("nothing may be done", !life_may_act(&life, AT(20)));
    CHECK("register", beat(&life, 100, 1, 101) == LIFE_REGISTER);
}

TEST(a_draining_worker_does_not_register)
{
    struct worker_life life = born(1);

    life_drain(&life);
    CHECK("kept", beat(&life, 0, 1, 1) == LIFE_KEPT);
}

TEST(a_fence_time_that_the_coordinators_shorten_holds_at_once)
{
    struct worker_life life = working();

    life_registered(&life, INTERVAL, &(struct life_terms){.fence_ms = 3000, .failure_ms = 5000});
    CHECK("kept", life_answered(&life, AT(10), LEASE, 1, AT(10)) == LIFE_KEPT);
    CHECK_U64("as registered", life_good_until(&life).ms, AT(10 + 3000).ms);
    CHECK("the same time again", !life_fence_changed(&life, 3000));
    CHECK("a shorter one asks for a registration", life_fence_changed(&life, 2000));
    CHECK_U64("and holds before it", life_good_until(&life).ms, AT(10 + 2000).ms);
    CHECK("asked once", !life_fence_changed(&life, 2000));
    CHECK("a longer one asks, too", life_fence_changed(&life, 3500));
    CHECK_U64("and holds only from then on", life_good_until(&life).ms, AT(10 + 2000).ms);
}

TEST(a_longer_interval_is_in_force_once_it_was_registered)
{
    struct worker_life life = working();

    CHECK("it asks for a registration", life_advised(&life, 5000));
    CHECK_U64("and promises no longer before it", life_lease_ms(&life), LEASE);
    life_registered(&life, 5000, &NO_TERMS);
    CHECK_U64("then it does", life_lease_ms(&life), 10000);
    CHECK("kept", life_answered(&life, AT(10), 10000, 1, AT(10)) == LIFE_KEPT);
    CHECK_U64("the margin to 15 s stays", life_good_until(&life).ms, AT(10 + 13000).ms);
    CHECK("shorter needs nobody", !life_advised(&life, 100));
    CHECK_U64("but not below the configured", life_lease_ms(&life), LEASE);
}

TEST(for_all_valid_configurations_the_fence_is_before_the_grant) /* 96 */
{
    struct prng prng;

    prng_seed(&prng, 96);
    for (int i = 0; i < 20000; i++) {
        uint64_t interval = prng_between(&prng, 1, 10000);
        uint64_t failure = prng_between(&prng, interval + 2, interval + 60000);
        uint64_t fence = prng_between(&prng, interval + 1, failure - 1);
        uint64_t skew = prng_between(&prng, 0, 2 * interval - 1);
        uint64_t advised = prng_between(&prng, 1, 4) * interval;
        uint64_t received = prng_between(&prng, 0, 300); /* after it was sent */
        struct life_options options = {.interval_ms = interval, .fence_ms = fence, .seed = 1};
        uint64_t lease, good_ms, grant_ms;
        struct worker_life life;

        life_init(&life, &options, AT(0));
        life_beat_sent(&life, AT(0));
        (void)life_answered(&life, AT(0), 2 * interval, 1, AT(0));
        life_registered(&life, advised, &NO_TERMS);
        lease = life_lease_ms(&life);
        (void)life_answered(&life, AT(0), lease, 1, AT(0));
        good_ms = life_good_until(&life).ms - START;
        grant_ms = received + lease + max_u64(skew, failure); /* strictly later than this */
        CHECK("with clocks that differ by 200 ppm", good_ms * 1000200 < grant_ms * 1000000);
    }
}

/* -- the coordinator's answer to Register -- */

TEST(the_shorter_fence_is_in_force_and_shortens_what_was_given)
{
    struct worker_life life = born(1);
    struct life_terms terms = {.fence_ms = 1500, .failure_ms = 2000, .interval_ms = INTERVAL};

    CHECK("register", beat(&life, 0, 1, 10) == LIFE_REGISTER);
    life_registered(&life, INTERVAL, &terms);
    CHECK_U64("counted from the beat that was answered", life_good_until(&life).ms, AT(1500).ms);
    CHECK("kept", beat(&life, 400, 1, 410) == LIFE_KEPT);
    CHECK_U64("later answers too", life_good_until(&life).ms, AT(1900).ms);
    CHECK("it falls by the coordinator's time", life_fence_falls(&life, AT(1901)));
    terms.fence_ms = 60000;
    terms.failure_ms = 61000;
    CHECK("register", beat(&life, 2000, 1, 2010) == LIFE_REGISTER);
    life_registered(&life, INTERVAL, &terms);
    CHECK("kept", beat(&life, 2400, 1, 2410) == LIFE_KEPT);
    CHECK_U64("its own, when that is shorter", life_good_until(&life).ms, AT(2400 + FENCE).ms);
}

TEST(terms_that_cannot_be_kept_do_not_fit)
{
    static const struct {
        struct life_terms terms;
        bool fits;
    } rows[] = {
        {{0, 0, 0}, true},
        {{4000, 5000, 500}, true},
        {{501, 5000, 500}, true},
        {{500, 5000, 500}, false} /* it would be fenced between two beats */,
        {{0, 4000, 500}, false} /* its own fence does not end before the verdict */,
        {{3000, 3000, 500}, false},
        {{60000, 61000, 500}, true},
    };
    struct worker_life life = born(1);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_U64("row", life_terms_fit(&life, &rows[i].terms), rows[i].fits);
}

/* For all pairs of valid files that agree at Register: the worker stops before the coordinator
 * grants, after a death or an eviction (member/core/local.c: fence_left). */
TEST(for_all_pairs_of_files_the_fence_is_before_the_grant)
{
    struct prng prng;
    unsigned fitted = 0;

    prng_seed(&prng, 223);
    for (int i = 0; i < 50000; i++) {
        uint64_t own_interval = prng_between(&prng, 1, 5000);
        uint64_t own_fence = prng_between(&prng, own_interval + 1, own_interval + 60000);
        uint64_t interval = prng_between(&prng, 1, 5000);
        uint64_t failure = prng_between(&prng, interval + 2, interval + 60000);
        uint64_t fence = prng_between(&prng, interval + 1, failure - 1);
        uint64_t advised = prng_between(&prng, 1, 4) * interval;
        uint64_t received = prng_between(&prng, 0, 300);
        struct life_options options = {
            .interval_ms = own_interval, .fence_ms = own_fence, .seed = 1};
        struct life_terms terms = {fence, failure, interval};
        uint64_t lease, good_ms, dead_ms, evicted_ms;
        struct worker_life life;

        life_init(&life, &options, AT(0));
        if (!life_terms_fit(&life, &terms)) continue;
        fitted++;
        life_beat_sent(&life, AT(0));
        (void)life_answered(&life, AT(0), life_lease_ms(&life), 1, AT(0));
        life_registered(&life, own_interval, &terms);
        if (life_advised(&life, advised)) life_registered(&life, advised, &terms);
        lease = life_lease_ms(&life);
        (void)life_answered(&life, AT(0), lease, 1, AT(0));
        good_ms = life_good_until(&life).ms - START;
        dead_ms = received + max_u64(lease, 2 * interval) + failure;
        evicted_ms = received + fence + 2 * (max_u64(advised, interval) - interval);
        CHECK("before the verdict", good_ms <= dead_ms);
        /* A worker with a longer beat interval in its own file is not advised, so it extends
         * nothing. */
        CHECK("before an eviction", good_ms <= evicted_ms + 1);
    }
    CHECK("many fit", fitted > 10000);
}

TEST(a_worker_whose_id_is_in_use_asks_more_and_more_rarely)
{
    struct worker_life life = born(1);
    uint64_t now = 0;
    static const uint64_t pauses[] = {500, 1000, 2000, 4000, 8000, 10000, 10000};

    for (size_t i = 0; i < ARRAY_LEN(pauses); i++) {
        CHECK("no fence", !life_fence_falls(&life, AT(now)));
        life_beat_sent(&life, AT(now));
        CHECK_U64("pause", life_refused(&life), pauses[i]);
        CHECK_U64("the next beat", life.next_beat.ms, AT(now + pauses[i]).ms);
        now += pauses[i];
    }
    CHECK("taken", beat(&life, now, 1, now) == LIFE_REGISTER);
    CHECK_U64("from the start again", life_refused(&life), 500);
}
