/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's ordinal and its requests to join: tables, then random sequences. */
#include "fleet/join.h"

#include <stdio.h>

#include "base/prng.h"
#include "lib/test.h"

TEST(the_ordinal_is_the_number_after_the_last_dash)
{
    static const struct {
        const char *id;
        enum err want;
        uint64_t ordinal;
    } cases[] = {
        {"node-0", ERR_OK, 0},
        {"bigfleet-coordinator-12", ERR_OK, 12},
        {"node", ERR_INVALID, 0},
        {"node-", ERR_INVALID, 0},
        {"node-x", ERR_INVALID, 0},
        {"7", ERR_INVALID, 0},
        {"node-1x", ERR_INVALID, 0},
        {"", ERR_INVALID, 0},
        {"node--1", ERR_OK, 1},
        {"node-007", ERR_OK, 7},
        {"node-99999999999999999999", ERR_INVALID, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t ordinal = 0;
        struct note note = {""};
        CHECK_ERR(cases[i].id, join_ordinal(str_from(cases[i].id), &ordinal, &note), cases[i].want);
        if (cases[i].want == ERR_OK)
            CHECK_U64(cases[i].id, ordinal, cases[i].ordinal);
        else
            CHECK_HAS(cases[i].id, note.text, "ordinal");
    }
}

static const struct join_view stranger = {0};
static const struct join_view led_voter = {
    .leader_known = true, .member = true, .voter = true, .in_place = true};

TEST(it_asks_at_once_then_after_1_2_4_8_15_and_15_seconds)
{
    static const uint64_t waits[] = {1000, 2000, 4000, 8000, 15000, 15000, 15000};
    struct join join = {0};
    mono_time now = {5000};
    struct join_effects effects = join_step(&join, JOIN_LOOK, &stranger, now);

    CHECK("at once", effects.ask && !effects.fix);
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        now = mono_after(now, 300); /* however long the answer took */
        effects = join_step(&join, JOIN_ANSWERED, &stranger, now);
        CHECK("not at once again", !effects.ask);
        CHECK_U64("the wait", effects.wake_at.ms - now.ms, waits[i]);
        now.ms = effects.wake_at.ms - 1;
        CHECK("not before", !join_step(&join, JOIN_LOOK, &stranger, now).ask);
        now.ms++;
        CHECK("then", join_step(&join, JOIN_LOOK, &stranger, now).ask);
        CHECK("one at a time", !join_step(&join, JOIN_LOOK, &stranger, now).ask);
    }
}

TEST(it_is_settled_when_led_a_voter_and_in_place)
{
    static const struct {
        const char *why;
        struct join_view view;
        bool settled;
    } cases[] = {
        {"all of it",
         {.leader_known = true, .member = true, .voter = true, .in_place = true},
         true},
        {"no leader", {.member = true, .voter = true, .in_place = true}, false},
        {"a learner", {.leader_known = true, .member = true, .in_place = true}, false},
        {"elsewhere", {.leader_known = true, .member = true, .voter = true}, false},
        {"a stranger", {.leader_known = true}, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct join join = {0};
        struct join_effects effects = join_step(&join, JOIN_LOOK, &cases[i].view, (mono_time){1});
        CHECK(cases[i].why, effects.settled == cases[i].settled);
        CHECK(cases[i].why, effects.ask == !cases[i].settled);
    }
}

TEST(a_leader_fixes_its_own_entry_at_once_whatever_the_wait)
{
    struct join_view leads = led_voter;
    struct join join = {0};
    mono_time now = {1};

    leads.leads = true;
    leads.in_place = false;
    CHECK("a stranger asks", join_step(&join, JOIN_LOOK, &stranger, now).ask);
    (void)join_step(&join, JOIN_ANSWERED, &stranger, now);
    struct join_effects effects = join_step(&join, JOIN_LOOK, &leads, now);
    CHECK("not before it may write", !effects.fix && !effects.ask);
    CHECK("and looks again", effects.wake_at.ms != MONO_NEVER.ms);
    leads.ready = true;
    effects = join_step(&join, JOIN_LOOK, &leads, now);
    CHECK("now", effects.fix && !effects.ask);
    effects = join_step(&join, JOIN_ANSWERED, &leads, now);
    CHECK("then it waits like any replica", !effects.fix && effects.wake_at.ms > now.ms);
    leads.in_place = true;
    CHECK("in place", join_step(&join, JOIN_LOOK, &leads, now).settled);
}

TEST(one_that_was_removed_stays_out_and_one_that_was_moved_does_not)
{
    struct join_view moved = led_voter, alone = led_voter;
    struct join join = {0};
    mono_time now = {1};

    moved.in_place = false;
    alone.leader_known = false;
    CHECK("settled", join_step(&join, JOIN_LOOK, &led_voter, now).settled);
    CHECK("without a leader it does nothing", !join_step(&join, JOIN_LOOK, &alone, now).ask);
    CHECK("a change of its entry is put right", join_step(&join, JOIN_LOOK, &moved, now).ask);
    (void)join_step(&join, JOIN_ANSWERED, &led_voter, now);
    now = mono_after(now, 60000);
    struct join_effects effects = join_step(&join, JOIN_LOOK, &stranger, now);
    CHECK("removed, reported once", effects.removed && !effects.ask);
    now = mono_after(now, 60000);
    effects = join_step(&join, JOIN_LOOK, &stranger, now);
    CHECK("and it stays out",
          !effects.removed && !effects.ask && effects.wake_at.ms == MONO_NEVER.ms);
    CHECK("until the leader makes it a member", join_step(&join, JOIN_LOOK, &moved, now).ask);
}

/* Random sequences. A replica never has two requests at once, never asks before the wait is over,
 * while settled, or after a removal. A replica outside its place asks again within 15 s of silence.
 * */
TEST(random_lives_keep_the_rules)
{
    struct prng prng;
    prng_seed(&prng, test_seed());
    for (int life = 0; life < 3000; life++) {
        struct join join = {0};
        struct join_view view = {0};
        struct join_effects effects = {.wake_at = {0}};
        mono_time now = {1 + prng_below(&prng, 1000)}, answered = {0};
        bool asking = false, had_place = false, ever_answered = false;

        for (int i = 0; i < 200; i++) {
            enum join_event event = JOIN_LOOK;
            bool led_before = view.leads && view.ready;
            now = mono_after(now, prng_below(&prng, 4) == 0 ? prng_below(&prng, 20000) : 1);
            if (prng_below(&prng, 3) == 0) {
                uint64_t bits = prng_u64(&prng);
                view = (struct join_view){
                    .member = bits & 1, .leader_known = bits & 2, .in_place = bits & 4};
                view.voter = view.member && bits & 8;
                view.leads = view.voter && view.leader_known && bits & 16;
                view.ready = view.leads && bits & 32;
            }
            if (asking && prng_below(&prng, 2) == 0) {
                event = JOIN_ANSWERED;
                asking = false;
                answered = now;
                ever_answered = true;
            }
            effects = join_step(&join, event, &view, now);
            CHECK("one of the two", !(effects.ask && effects.fix));
            if (effects.ask || effects.fix) {
                CHECK("one at a time", !asking);
                CHECK("not when in its place", !(view.leader_known && view.voter && view.in_place));
                CHECK("only leaders fix", effects.fix == view.leads);
                CHECK("removed ones stay out", !had_place || view.member);
                if (ever_answered && !(view.leads && view.ready && !led_before) && !had_place)
                    CHECK("not sooner than a second",
                          mono_elapsed_ms(answered, now) >= JOIN_WAIT_FIRST_MS);
                asking = true;
            } else if (!asking && !had_place && !effects.settled) {
                CHECK("it will look again, soon enough",
                      effects.wake_at.ms > now.ms &&
                          effects.wake_at.ms - now.ms <= JOIN_WAIT_MAX_MS);
            }
            if (effects.settled) had_place = true;
        }
    }
}
