/* SPDX-License-Identifier: Apache-2.0 */
/* When a lease is renewed and when it is lost; time is an argument. */
#include "base/prng.h"
#include "lib/test.h"
#include "prim/keeper_core.h"
#include "prim/lease.h"

#define MS INT64_C(1000000)

static struct keeper_core start(int64_t ttl_ms, int64_t sent_ns)
{
    struct keeper_core core;
    keeper_core_init(&core, ttl_ms * MS, sent_ns, prim_safe_until(sent_ns, ttl_ms), 1);
    return core;
}

static struct keeper_effects tick(struct keeper_core *core, int64_t now_ns)
{
    return keeper_core_step(core, (struct keeper_event){.kind = KEEPER_TICK}, now_ns);
}

static struct keeper_effects failed(struct keeper_core *core, int64_t now_ns)
{
    return keeper_core_step(core, (struct keeper_event){.kind = KEEPER_FAILED, .ours = true},
                            now_ns);
}

static struct keeper_effects renewed(struct keeper_core *core, int64_t sent_ns, int64_t now_ns)
{
    return keeper_core_step(
        core, (struct keeper_event){.kind = KEEPER_RENEWED, .ours = true, .sent_ns = sent_ns},
        now_ns);
}

TEST(the_first_renewal_comes_a_third_after_the_send)
{
    struct keeper_core core = start(3000, 7000 * MS);
    struct keeper_effects effects = tick(&core, 7500 * MS);
    CHECK("not yet", !effects.renew && !effects.lost);
    CHECK_I64("wakes for it", effects.wake_ns, 8000 * MS);
    effects = tick(&core, 8000 * MS);
    CHECK("now", effects.renew && !effects.lost);
    CHECK_I64("it may take a quarter of the ttl", effects.attempt_until_ns, 8750 * MS);
    CHECK_I64("and the deadline is watched meanwhile", effects.wake_ns, 9700 * MS);
    CHECK("one at a time", !tick(&core, 8100 * MS).renew);
}

TEST(an_answer_counts_from_its_send)
{
    struct keeper_core core = start(1000, 0);
    CHECK("renews", tick(&core, 334 * MS).renew);
    struct keeper_effects effects = renewed(&core, 334 * MS, 880 * MS);
    CHECK("in time", !effects.lost);
    CHECK_I64("the next a third after the send, not after the answer: at once", effects.renew, 1);
    CHECK_I64("safe until a tenth before the end", effects.wake_ns, (334 + 900) * MS);
}

TEST(an_answer_after_safe_until_revives_nothing)
{
    struct keeper_core core = start(1000, 0);
    CHECK("renews", tick(&core, 334 * MS).renew);
    struct keeper_effects effects = renewed(&core, 334 * MS, 900 * MS);
    CHECK("lost, though the store has renewed it", effects.lost && effects.late);
    CHECK("reported once", !tick(&core, 1000 * MS).lost);
    CHECK("and it stays over", !renewed(&core, 999 * MS, 1001 * MS).renew && core.over);
}

TEST(after_a_failure_it_tries_again_every_twentieth_but_not_faster_than_50_ms)
{
    static const struct {
        const char *why;
        int64_t ttl_ms, pause_ms;
    } cases[] = {
        {"a twentieth", 10000, 500},
        {"never below 50 ms", 500, 50},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t least = INT64_MAX, most = 0;
        for (uint64_t seed = 0; seed < 500; seed++) {
            struct keeper_core core = start(cases[i].ttl_ms, 0);
            prng_seed(&core.jitter, seed);
            int64_t now = cases[i].ttl_ms / 3 * MS + MS;
            CHECK("renews", tick(&core, now).renew);
            int64_t pause = failed(&core, now).wake_ns - now;
            if (pause < least) { least = pause; }
            if (pause > most) { most = pause; }
        }
        CHECK(cases[i].why, least >= cases[i].pause_ms * MS * 8 / 10);
        CHECK(cases[i].why, most <= cases[i].pause_ms * MS * 12 / 10);
        CHECK("spread", most - least > cases[i].pause_ms * MS * 3 / 10);
    }
}

TEST(an_attempt_never_exceeds_safe_until_or_ten_seconds)
{
    struct keeper_core core = start(1000, 0);
    CHECK("renews", tick(&core, 334 * MS).renew);
    (void)failed(&core, 820 * MS);
    struct keeper_effects effects = tick(&core, 880 * MS);
    CHECK("renews", effects.renew);
    CHECK_I64("time that is left", effects.attempt_until_ns, 900 * MS);
    core = start(86400000, 0);
    effects = tick(&core, 28800001 * MS);
    CHECK_I64("closing a store waits for it", effects.attempt_until_ns - 28800001 * MS, 10000 * MS);
}

TEST(a_refusal_is_final_and_reported_once)
{
    struct keeper_core core = start(1000, 0);
    struct keeper_event refused = {.kind = KEEPER_REFUSED};
    struct keeper_effects effects = keeper_core_step(&core, refused, MS);
    CHECK("lost, and not by time", effects.lost && !effects.late);
    CHECK_I64("nothing more to do", effects.wake_ns, INT64_MAX);
    CHECK("once", !keeper_core_step(&core, refused, 2 * MS).lost);
    CHECK("not again by time", !tick(&core, 2000 * MS).lost);
}

TEST(asked_to_look_it_renews_at_once_unless_it_is_doing_so)
{
    struct keeper_core core = start(1000, 0);
    struct keeper_event ask = {.kind = KEEPER_ASK};
    CHECK("at once", keeper_core_step(&core, ask, MS).renew);
    CHECK("one at a time", !keeper_core_step(&core, ask, 2 * MS).renew);
    CHECK("again after it: it may have been sent before", renewed(&core, MS, 3 * MS).renew);
    CHECK("and then no more", !renewed(&core, 3 * MS, 4 * MS).renew);
}

TEST(an_answer_that_is_no_newer_starts_no_loop)
{
    struct keeper_core core = start(1000, 5 * MS);
    struct keeper_event ask = {.kind = KEEPER_ASK};
    CHECK("at once", keeper_core_step(&core, ask, 5 * MS).renew);
    CHECK("once", !renewed(&core, 5 * MS, 5 * MS).renew);
}

/* Invariants for any order of events and pauses. */
TEST(after_any_events_a_lease_is_lost_once_and_nothing_is_sent_afterwards)
{
    uint64_t seed = test_seed();
    struct prng prng;
    prng_seed(&prng, seed);
    for (int world = 0; world < 3000; world++) {
        int64_t ttl_ms = (int64_t)prng_between(&prng, 10, 60000), now = 0, sent = 0, last = -1;
        struct keeper_core core = start(ttl_ms, 0);
        prng_seed(&core.jitter, prng_u64(&prng));
        int lost = 0;
        for (int i = 0; i < 200; i++) {
            struct keeper_event event = {.kind = (enum keeper_kind)prng_below(&prng, 5)};
            if (event.kind == KEEPER_REFUSED && !prng_chance(&prng, 20000)) {
                event.kind = KEEPER_TICK;
            }
            event.ours = core.busy && (event.kind == KEEPER_RENEWED ||
                                       event.kind == KEEPER_FAILED || event.kind == KEEPER_REFUSED);
            if (event.kind == KEEPER_FAILED && !event.ours) { event.kind = KEEPER_TICK; }
            event.sent_ns = event.ours ? sent : (int64_t)prng_between(&prng, 0, (uint64_t)now);
            int64_t safe_before = core.safe_until_ns;
            bool over_before = core.over, asked = core.asked;
            struct keeper_effects effects = keeper_core_step(&core, event, now);
            if (effects.lost) { lost++; }
            CHECK("over is for ever", !over_before || core.over);
            CHECK("nothing is renewed when over", !(core.over && effects.renew));
            CHECK("at safe_until it is lost", core.over || now < core.safe_until_ns);
            CHECK("no event moves safe_until back", core.safe_until_ns >= safe_before);
            if (effects.renew) {
                CHECK("sent before safe_until", now < core.safe_until_ns);
                CHECK("with an end", effects.attempt_until_ns <= core.safe_until_ns);
                CHECK("no tight loop", event.kind == KEEPER_ASK || asked || now > last);
                CHECK("a third after an answer", event.kind != KEEPER_RENEWED || asked ||
                                                     now >= core.sent_ns + ttl_ms * MS / 3);
                sent = last = now;
            }
            /* Usually on time, sometimes early (an event), sometimes after a long pause. */
            int64_t wake = effects.wake_ns == INT64_MAX ? now + ttl_ms * MS : effects.wake_ns;
            now = prng_chance(&prng, 100000)
                      ? now + (int64_t)prng_below(&prng, 2u * (uint64_t)ttl_ms) * MS
                  : prng_chance(&prng, 500000)
                      ? wake
                      : now + (int64_t)prng_below(&prng, (uint64_t)(wake - now) + 1);
        }
        CHECK("once or never", lost == (core.over ? 1 : 0));
    }
}
