/* SPDX-License-Identifier: Apache-2.0 */
/* member/core/detect.h: the cases of workers.md 24.2 and 24.3 about a detector, by number. */
#include <stdlib.h>

#include "base/prng.h"
#include "lib/test.h"
#include "member/core/detect.h"

#define MS(n) ((uint64_t)(n)*DETECT_MS)
enum { WALL = 1000 * 1000 * 1000, ROOM = 4096 };
static struct failure_verdict verdicts[ROOM];

static struct detect *opened(const struct detect_options *options)
{
    struct detect *d = NULL;

    CHECK_OK("opened", detect_open(options, 0, &d));
    return d;
}

static struct detect_options usual(void)
{
    struct detect_options options;

    detect_defaults(&options);
    return options;
}

static size_t scan(struct detect *d, uint64_t now_ns)
{
    bool more;
    size_t count = detect_scan(d, now_ns, verdicts, ROOM, &more);

    CHECK("room", !more);
    return count;
}

/* Scans at every cadence until a time; returns the time of the first verdict of a kind, or 0. */
static uint64_t seen_at(struct detect *d, uint64_t from_ns, uint64_t to_ns, enum verdict_kind kind)
{
    for (uint64_t now = from_ns; now <= to_ns; now += detect_cadence_ns(d)) {
        size_t count = scan(d, now);
        for (size_t i = 0; i < count; i++)
            if (verdicts[i].kind == kind) return now;
    }
    return 0;
}

static void beat_at(struct detect *d, struct watched *w, uint64_t now_ns, int64_t lead_ms,
                    struct beat_heard *ret_heard)
{
    int64_t wall_ms = WALL + (int64_t)(now_ns / DETECT_MS);
    struct beat beat = {.has_due = true, .due_wall_ms = wall_ms + lead_ms};
    struct beat_heard heard = detect_beat(d, w, &beat, now_ns, wall_ms);

    if (ret_heard) *ret_heard = heard;
}

TEST(a_deadline_is_passed_strictly) /* 39, 53, 54, 55, 57, 58 */
{
    static const struct {
        const char *why;
        uint64_t skew_ms, failure_ms, late_ms;
        bool suspected, failed;
    } rows[] = {
        {"not due", 250, 5000, 0, false, false},
        {"late by the budget", 250, 5000, 250, false, false},
        {"and by a little more", 250, 5000, 251, true, false},
        {"past the budget alone", 250, 5000, 1000, true, false},
        {"the timeout, exactly", 250, 5000, 5000, true, false},
        {"and past it", 250, 5000, 5001, true, true},
        {"long past it", 250, 5000, 20000, true, true},
        {"a budget over the timeout", 900, 500, 600, false, false},
        {"both are passed", 900, 500, 901, true, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct detect_options options = usual();
        struct watched w = {.owner = NULL};
        struct detect *d;
        bool suspected = false, failed = false;
        uint64_t now;
        options.source = DETECT_WORKER;
        options.clock_skew_budget_ns = MS(rows[i].skew_ms);
        options.failure_timeout_ns = MS(rows[i].failure_ms);
        d = opened(&options);
        detect_watch(d, &w, 0, 0);
        now = MS(1000 + rows[i].late_ms); /* due one lease after the beat */
        for (uint64_t t = 0; t < now;
             t += detect_cadence_ns(d)) /* beats at every scan until then */
            if (t + detect_cadence_ns(d) < now) beat_at(d, &w, t, 1000, NULL), (void)scan(d, t);
        beat_at(d, &w, 0, 1000, NULL);
        size_t count = scan(d, now);
        for (size_t k = 0; k < count; k++) {
            suspected |= verdicts[k].kind == VERDICT_SUSPECTED;
            failed |= verdicts[k].kind == VERDICT_FAILED;
        }
        CHECK(rows[i].why, suspected == rows[i].suspected);
        CHECK(rows[i].why, failed == rows[i].failed);
        CHECK(rows[i].why, w.watching == !failed);
        detect_close(d);
    }
}

TEST(the_usual_timeline) /* 66, 67 */
{
    struct detect_options options = usual();
    struct detect *d = opened(&options);
    struct watched w = {.owner = NULL};
    uint64_t at;

    CHECK_U64("every half interval", detect_cadence_ns(d), MS(250));
    detect_watch(d, &w, 0, 0);
    at = seen_at(d, 0, MS(20000), VERDICT_SUSPECTED);
    CHECK("suspected", at > MS(1250) && at <= MS(1500));
    at = seen_at(d, at + MS(250), MS(20000), VERDICT_FAILED);
    CHECK("failed", at > MS(6000) && at <= MS(6250));
    CHECK_U64("once", seen_at(d, at, MS(60000), VERDICT_FAILED), 0); /* 59 */
    detect_close(d);
}

TEST(a_worker_that_beats_again_is_healthy) /* 40, 77 */
{
    struct detect_options options = usual();
    struct detect *d = opened(&options);
    struct watched w = {.owner = NULL};
    struct beat_heard heard;
    uint64_t at;

    detect_watch(d, &w, 0, 0);
    at = seen_at(d, 0, MS(20000), VERDICT_SUSPECTED);
    for (int i = 0; i < 20; i++) {
        beat_at(d, &w, at, 1000, &heard);
        CHECK("recovered once", heard.recovered == (i == 0));
    }
    CHECK("suspected again, from that beat on",
          seen_at(d, at + MS(250), MS(20000), VERDICT_SUSPECTED) == at + MS(1500));
    detect_close(d);
}

TEST(silence_is_passed_strictly) /* 62, 63, 64, 65 */
{
    struct detect_options options = usual();
    struct watched w = {.owner = NULL};
    struct detect *d;

    options.kind = DETECT_SILENCE;
    options.suspect_ratio = 1.0;
    options.failure_timeout_ns = MS(1000000); /* a late scan grants nothing */
    d = opened(&options);
    detect_watch(d, &w, 0, 0);
    CHECK_SIZE("exactly", scan(d, MS(30000)), 0);
    CHECK_SIZE("both at once", scan(d, MS(30250)), 2);
    CHECK("in order", verdicts[0].kind == VERDICT_SUSPECTED && verdicts[1].kind == VERDICT_FAILED);
    CHECK_U64("silent for", verdicts[1].late_ns, MS(30250));
    CHECK_SIZE("once", scan(d, MS(90000)), 0);
    detect_close(d);

    d = opened(&options);
    detect_watch(d, &w, 0, 0);
    CHECK_SIZE("a nanosecond past it", scan(d, MS(30000) + 1), 2);
    detect_close(d);

    options.suspect_ratio = 0.5;
    options.confirm_scans = 2;
    d = opened(&options);
    detect_watch(d, &w, 0, 0);
    beat_at(d, &w, MS(29000), 1000, NULL);
    CHECK_SIZE("it beat", scan(d, MS(44000)), 0);
    CHECK_SIZE("suspected", scan(d, MS(44250)), 1);
    CHECK_SIZE("to be confirmed", scan(d, MS(59250)), 0);
    CHECK_SIZE("again", scan(d, MS(59500)), 0);
    CHECK_SIZE("failed", scan(d, MS(59750)), 1);
    detect_close(d);
}

TEST(a_wrong_clock_fails_no_worker_and_hides_none) /* 13, 68, 69, 70 */
{
    static const struct {
        const char *why;
        enum detect_source source;
        int64_t lead_ms;
        bool skewed;
        uint64_t failed_ms; /* 0: not within a minute */
    } rows[] = {
        {"an hour ahead", DETECT_AUTO, 3601000, true, 6250},
        {"an hour ahead, believed", DETECT_WORKER, 3601000, false, 0},
        {"ten seconds behind", DETECT_AUTO, -9000, true, 6250},
        {"ten seconds behind, believed", DETECT_WORKER, -9000, false, 250},
        {"within the budget", DETECT_AUTO, 1200, false, 6250},
        {"not asked", DETECT_ARRIVAL, -3600000, false, 6250},
        {"long before our time", DETECT_WORKER, -1000000000, false, 250},
        {"where nanoseconds wrap", DETECT_AUTO, (1ll << 58) + 1000, true, 6250},
        {"where they wrap, believed", DETECT_WORKER, (1ll << 58) + 1, false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct detect_options options = usual();
        struct watched w = {.owner = NULL};
        struct beat_heard heard;
        struct detect *d = NULL;
        uint64_t began = MS(1000000000), at;
        options.source = rows[i].source;
        CHECK_OK("opened", detect_open(&options, began, &d));
        (void)scan(d, began);
        detect_watch(d, &w, 0, began);
        beat_at(d, &w, began, rows[i].lead_ms, &heard);
        CHECK(rows[i].why, heard.skewed == rows[i].skewed);
        beat_at(d, &w, began, rows[i].lead_ms, &heard);
        CHECK("reported once", !heard.skewed);
        at = seen_at(d, began + MS(250), began + MS(60000), VERDICT_FAILED);
        CHECK_U64(rows[i].why, at ? (at - began) / DETECT_MS : 0, rows[i].failed_ms);
        detect_close(d);
    }
}

TEST(a_detector_that_slept_fails_no_worker) /* 72 */
{
    struct detect_options options = usual();
    struct detect *d = opened(&options);
    struct watched w = {.owner = NULL};

    detect_watch(d, &w, 0, 0);
    (void)scan(d, MS(250));
    CHECK_SIZE("after ten seconds", scan(d, MS(10250)), 0);
    CHECK_U64("then as always", seen_at(d, MS(10500), MS(60000), VERDICT_FAILED), MS(16000));
    detect_close(d);
}

/* 73, 74 */
TEST(many_at_once_are_held)
{
    static struct watched many[100], few[8];
    struct detect_options options = usual();
    struct detect *d = opened(&options);
    size_t failed = 0, holds = 0;
    uint64_t now = 0;

    for (size_t i = 0; i < 100; i++) detect_watch(d, &many[i], 0, 0);
    for (; now <= MS(16000); now += MS(250)) { /* 50 fall silent at once */
        for (size_t i = 50; i < 100; i++) beat_at(d, &many[i], now, 1000, NULL);
        size_t count = scan(d, now);
        for (size_t i = 0; i < count; i++) {
            failed += verdicts[i].kind == VERDICT_FAILED;
            holds += verdicts[i].kind == VERDICT_MASS_HOLD;
        }
    }
    CHECK_SIZE("at most a third", failed, 34);
    CHECK_SIZE("reported once", holds, 1);
    for (size_t i = 0, back = 0; i < 50 && back < 10; i++)
        if (many[i].watching) beat_at(d, &many[i], now, 1000, NULL), back++;
    for (size_t i = 0; i < 50; i++)
        CHECK("a worker that beat is healthy",
              !many[i].watching || many[i].suspected || !many[i].held);
    for (failed = 0; now <= MS(45000); now += MS(250)) {
        for (size_t i = 0; i < 100; i++)
            if (many[i].watching && !many[i].suspected) beat_at(d, &many[i], now, 1000, NULL);
        size_t count = scan(d, now);
        for (size_t i = 0; i < count; i++) failed += verdicts[i].kind == VERDICT_FAILED;
    }
    CHECK_SIZE("the silent ones, when the hold is over", failed, 6);
    detect_close(d);

    d = opened(&options);
    for (size_t i = 0; i < 8; i++) detect_watch(d, &few[i], 0, 0);
    for (now = 0, failed = 0; now <= MS(7000); now += MS(250)) {
        size_t count = scan(d, now);
        for (size_t i = 0; i < count; i++) failed += verdicts[i].kind == VERDICT_FAILED;
    }
    CHECK_SIZE("of a few all may fail", failed, 8);
    detect_close(d);
}

TEST(an_operator_lets_the_held_ones_go)
{
    static struct watched many[20];
    struct detect_options options = usual();
    struct detect *d = opened(&options);
    uint64_t now = 0;
    size_t failed = 0, held = 0;

    for (size_t i = 0; i < 20; i++) detect_watch(d, &many[i], 0, 0);
    for (; now <= MS(7000); now += MS(250)) (void)scan(d, now);
    for (size_t i = 0; i < 20; i++) held += many[i].watching;
    CHECK_SIZE("held", held, 14);
    detect_release(d);
    size_t count = scan(d, now);
    for (size_t i = 0; i < count; i++) failed += verdicts[i].kind == VERDICT_FAILED;
    CHECK_SIZE("declared", failed, 14);
    detect_close(d);
}

/* For random beats the verdicts are those of a judge that examines every worker each time. */
TEST(a_scan_equals_a_check_of_every_worker)
{
    enum { WORKERS = 40, STEPS = 3000 };
    struct prng prng;

    prng_seed(&prng, 66);
    for (int round = 0; round < 20; round++) {
        static struct watched rows[WORKERS];
        uint64_t due[WORKERS];
        bool alive[WORKERS], suspected[WORKERS];
        struct detect_options options = usual();
        struct detect *d;
        uint64_t now = 0;
        options.max_fail_fraction = 1;
        options.source = DETECT_WORKER;
        options.heartbeat_interval_ns = MS(2 + prng_below(&prng, 500));
        d = opened(&options);
        for (size_t i = 0; i < WORKERS; i++) {
            rows[i].owner = &rows[i];
            detect_watch(d, &rows[i], 0, now);
            due[i] = now + 2 * options.heartbeat_interval_ns;
            alive[i] = true;
            suspected[i] = false;
        }
        for (int step = 0; step < STEPS; step++) {
            bool want[WORKERS][2] = {{false}};
            size_t count, wanted = 0;
            now += detect_cadence_ns(d);
            for (size_t k = prng_below(&prng, 4); k > 0; k--) {
                size_t i = (size_t)prng_below(&prng, WORKERS);
                int64_t lead_ms = (int64_t)prng_below(&prng, 400000) - 3000;
                if (!alive[i]) {
                    detect_watch(d, &rows[i], 0, now);
                    due[i] = now + 2 * options.heartbeat_interval_ns;
                    alive[i] = true;
                } else {
                    beat_at(d, &rows[i], now, lead_ms, NULL);
                    due[i] = lead_ms >= 0         ? now + MS(lead_ms)
                             : now > MS(-lead_ms) ? now - MS(-lead_ms)
                                                  : 0;
                }
                suspected[i] = false;
            }
            for (size_t i = 0; i < WORKERS; i++) {
                if (!alive[i]) continue;
                want[i][0] = !suspected[i] && now > due[i] + MS(250);
                suspected[i] |= want[i][0];
                want[i][1] = now > due[i] + MS(5000);
                alive[i] = !want[i][1];
                wanted += want[i][0] + want[i][1];
            }
            count = scan(d, now);
            CHECK_SIZE("as many", count, wanted);
            for (size_t k = 0; k < count; k++) {
                size_t i = (size_t)(verdicts[k].worker - rows);
                CHECK("the same", want[i][verdicts[k].kind == VERDICT_FAILED]);
            }
        }
        detect_close(d);
    }
}

TEST(little_room_loses_no_verdict)
{
    static struct watched many[50];
    struct detect_options options = usual();
    struct detect *d;
    bool more = true;
    size_t calls = 0, total = 0;

    options.failure_timeout_ns = MS(1000000);
    d = opened(&options);
    for (size_t i = 0; i < 50; i++) detect_watch(d, &many[i], 0, 0);
    while (more) {
        total += detect_scan(d, MS(2000), verdicts, 3, &more);
        calls++;
    }
    CHECK_SIZE("all", total, 50);
    CHECK("in parts", calls > 10);
    detect_close(d);
}

TEST(options_that_cannot_be)
{
    struct detect_options bad = usual();
    struct detect *d = NULL;

    bad.max_fail_fraction = 0;
    CHECK_ERR("fraction", detect_open(&bad, 0, &d), ERR_INVALID);
    bad = usual();
    bad.suspect_ratio = 1.5;
    CHECK_ERR("ratio", detect_open(&bad, 0, &d), ERR_INVALID);
    bad = usual();
    bad.heartbeat_interval_ns = 0;
    CHECK_ERR("interval", detect_open(&bad, 0, &d), ERR_INVALID);
}

TEST(case_75_suspicion_by_the_history_of_arrivals)
{
    uint64_t failed[2], suspected[2];

    for (int irregular = 0; irregular < 2; irregular++) {
        struct detect_options options = usual();
        struct watched w = {0};
        uint64_t now = 0;
        struct detect *d;

        options.phi = true;
        d = opened(&options);
        detect_watch(d, &w, 0, 0);
        for (int i = 0; i < 300; i++) {
            now += irregular ? MS(i % 2 ? 100 : 900) : MS(500);
            beat_at(d, &w, now, 1000, NULL);
            (void)scan(d, now);
        }
        suspected[irregular] = failed[irregular] = 0;
        for (uint64_t at = now; at <= now + MS(7000) && !failed[irregular]; at += MS(10)) {
            size_t count = scan(d, at);
            for (size_t i = 0; i < count; i++)
                *(verdicts[i].kind == VERDICT_SUSPECTED ? &suspected[irregular]
                                                        : &failed[irregular]) = at - now;
        }
        detect_close(d);
    }
    CHECK("regular: 1.0 to 1.2 s, and the cadence",
          suspected[0] >= MS(1000) && suspected[0] <= MS(1200) + MS(250));
    CHECK("irregular: later", suspected[1] > suspected[0] + MS(500));
    CHECK("dead as ever", failed[0] > MS(6000) && failed[0] <= MS(6250));
    CHECK("in both", failed[1] > MS(6000) && failed[1] <= MS(6250));
}
