/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "lib/test.h"
#include "operator/core/reclaims.h"
#include "operator/reclaims_file.h"

static struct reclaims *reclaims;
static struct note note;
static char heard[512]; /* "begin a m1|" ... */
static const wall_time start = {1000 * 1000};

static wall_time at(uint64_t ms)
{
    return (wall_time){start.ms + ms};
}

static void on_due(void *context, enum reclaim_due due, const struct reclaim *r)
{
    static const char *const words[] = {"begin", "ack", "expired", "replaced", "report"};
    size_t len = strlen(heard);

    (void)context;
    snprintf(heard + len, sizeof heard - len, "%s %.*s %.*s%s|", words[due], STR_ARG(r->id),
             STR_ARG(r->machine), r->resumed ? " resumed" : "");
}

static const char *step(uint64_t ms, bool connected)
{
    heard[0] = '\0';
    reclaims_step(reclaims, at(ms), connected, on_due, NULL);
    return heard;
}

static enum err order(const char *id, const char *machine, int64_t seconds)
{
    return reclaims_order(reclaims, str_from(id), str_from(machine), seconds, 7, start, &note);
}

static size_t count_reclaims(const struct reclaims *all)
{
    size_t cursor = 0, count = 0;

    while (reclaims_next(all, &cursor)) count++;
    return count;
}

static void save(void)
{
    reclaims_saved(reclaims, reclaims_change(reclaims));
}

TEST(an_order_is_saved_begun_started_acknowledged_and_ended)
{
    CHECK_OK("open", reclaims_open(1, &reclaims));
    CHECK_OK("order", order("a", "m", 60));
    CHECK_TEXT("not before it is saved", step(0, true), "");
    CHECK("nothing can be started", !reclaims_started(reclaims, STR("a")));
    CHECK("nor end", !reclaims_ended(reclaims, STR("a"), true));
    save();
    CHECK_TEXT("begun", step(1, true), "begin a m|");
    CHECK_TEXT("once", step(2, true), "");
    CHECK("started", reclaims_started(reclaims, STR("a")));
    CHECK_TEXT("acknowledged", step(3, true), "ack a m|");
    CHECK_TEXT("once", step(4, true), "");
    CHECK("ended", reclaims_ended(reclaims, STR("a"), true));
    CHECK("no more", !reclaims_ended(reclaims, STR("a"), true) && count_reclaims(reclaims) == 0);
    CHECK_TEXT("nothing is due", step(100000, true), "");
    reclaims_close(reclaims);
}

TEST(an_acknowledgement_waits_for_a_stream_and_comes_again_in_the_next)
{
    CHECK_OK("open", reclaims_open(1, &reclaims));
    CHECK_OK("order", order("a", "m", 60));
    save();
    step(0, false);
    reclaims_started(reclaims, STR("a"));
    CHECK_TEXT("nobody hears", step(1, false), "");
    CHECK_TEXT("now", step(2, true), "ack a m|");
    reclaims_session(reclaims);
    CHECK_TEXT("again", step(3, true), "ack a m|");
    CHECK_ERR("ordered again", order("a", "m", 60), ERR_EXISTS);
    CHECK_TEXT("acknowledged again", step(4, true), "ack a m|");
    reclaims_close(reclaims);
}

TEST(a_grace_ends)
{
    const struct {
        const char *why;
        int64_t seconds;
        uint64_t ms;
    } cases[] = {{"as ordered", 2, 2000},
                 {"none is thirty seconds", 0, RECLAIM_GRACE_DEFAULT_MS},
                 {"less than none, too", -5, RECLAIM_GRACE_DEFAULT_MS},
                 {"no longer than a week", INT64_MAX, RECLAIM_GRACE_MAX_MS}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_OK("open", reclaims_open(1, &reclaims));
        CHECK_OK("order", order("a", "m", cases[i].seconds));
        CHECK_TEXT(cases[i].why, step(cases[i].ms - 1, true), "");
        CHECK_TEXT(cases[i].why, step(cases[i].ms, true), "expired a m|");
        CHECK_SIZE("and is forgotten", count_reclaims(reclaims), 0);
        CHECK("an answer is late", !reclaims_ended(reclaims, STR("a"), true));
        reclaims_close(reclaims);
    }
}

TEST(a_newer_order_of_a_machine_replaces_the_older)
{
    CHECK_OK("open", reclaims_open(1, &reclaims));
    CHECK_OK("order", order("a", "m", 60));
    save();
    step(0, true);
    CHECK_OK("newer", order("b", "m", 5));
    CHECK("the older is over", !reclaims_started(reclaims, STR("a")));
    save();
    CHECK_TEXT("in order", step(1, true), "replaced a m|begin b m|");
    CHECK_OK("another machine", order("c", "other", 5));
    CHECK_SIZE("both", count_reclaims(reclaims), 2);
    reclaims_close(reclaims);
}

/* -- to a shard that takes drain reports -- */

static void open_reporting(void)
{
    CHECK_OK("open", reclaims_open(1, &reclaims));
    reclaims_reporting(reclaims, true);
    CHECK_OK("order", order("a", "m", 60));
    save();
    step(0, true);
    reclaims_started(reclaims, STR("a"));
    reclaims_reported(reclaims, STR("m"), MACHINE_DRAINING);
    CHECK_TEXT("while it runs, nothing is reported", step(1, true), "ack a m|");
}

TEST(an_end_is_reported_until_the_machine_has_left)
{
    uint64_t before;

    open_reporting();
    before = reclaims_change(reclaims);
    CHECK("drained", reclaims_ended(reclaims, STR("a"), true));
    CHECK("to be saved", reclaims_change(reclaims) != before);
    CHECK("once", !reclaims_ended(reclaims, STR("a"), true));
    CHECK_SIZE("none runs", reclaims_running(reclaims), 0);
    CHECK_TEXT("nobody hears", step(2, false), "");
    CHECK_TEXT("reported", step(3, true), "report a m|");
    CHECK_TEXT("not at once again", step(4, true), "");
    CHECK_TEXT("but later", step(3 + RECLAIM_REPORT_MS, true), "report a m|");
    reclaims_unsent(reclaims, STR("a"), at(3 + RECLAIM_REPORT_MS));
    CHECK_TEXT("sooner when it found no room", step(1003 + RECLAIM_REPORT_MS, true), "report a m|");
    reclaims_session(reclaims);
    CHECK_TEXT("and in the next session", step(1004 + RECLAIM_REPORT_MS, true), "report a m|");
    CHECK_TEXT("also beyond its grace", step(61000 + RECLAIM_REPORT_MS, true), "report a m|");
    reclaims_reported(reclaims, STR("m"), MACHINE_IDLE);
    CHECK_SIZE("until it left", count_reclaims(reclaims), 0);
    reclaims_close(reclaims);
}

TEST(what_ends_a_report)
{
    const struct {
        const char *why;
        enum machine_state first, then;
        bool ends;
    } cases[] = {
        {"left", MACHINE_DRAINING, MACHINE_IDLE, true},
        {"serves anew", MACHINE_DRAINING, MACHINE_CONFIGURED, true},
        {"is prepared anew", MACHINE_DRAINING, MACHINE_CONFIGURING, true},
        {"failed", MACHINE_DRAINING, MACHINE_FAILED, true},
        {"a shard that does not know", MACHINE_CONFIGURED, MACHINE_CONFIGURED, false},
        {"a shard that takes it up", MACHINE_CONFIGURED, MACHINE_DRAINING, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        open_reporting();
        reclaims_session(reclaims);
        reclaims_ended(reclaims, STR("a"), true);
        reclaims_reported(reclaims, STR("m"), cases[i].first);
        reclaims_reported(reclaims, STR("m"), cases[i].then);
        CHECK_SIZE(cases[i].why, count_reclaims(reclaims), !cases[i].ends);
        reclaims_close(reclaims);

        open_reporting(); /* the same before it ends */
        reclaims_session(reclaims);
        reclaims_reported(reclaims, STR("m"), cases[i].first);
        reclaims_reported(reclaims, STR("m"), cases[i].then);
        reclaims_ended(reclaims, STR("a"), true);
        CHECK_SIZE(cases[i].why, count_reclaims(reclaims), !cases[i].ends);
        reclaims_close(reclaims);
    }
    open_reporting();
    reclaims_ended(reclaims, STR("a"), true);
    reclaims_sweep(reclaims);
    CHECK_SIZE("named", count_reclaims(reclaims), 1);
    reclaims_session(reclaims);
    reclaims_sweep(reclaims);
    CHECK_SIZE("not named", count_reclaims(reclaims), 0);
    reclaims_close(reclaims);
    open_reporting();
    reclaims_ended(reclaims, STR("a"), true);
    step(60000 + RECLAIM_KEPT_MS, true);
    CHECK_SIZE("nor kept for ever", count_reclaims(reclaims), 0);
    reclaims_close(reclaims);
    open_reporting();
    reclaims_ended(reclaims, STR("a"), true);
    reclaims_reporting(reclaims, false);
    CHECK_SIZE("a shard that takes none", count_reclaims(reclaims), 0);
    reclaims_close(reclaims);
}

TEST(a_shard_that_does_not_know_of_an_order_gets_a_report)
{
    open_reporting();
    reclaims_session(reclaims);
    CHECK_TEXT("not before the machine is named", step(2, true), "ack a m|");
    reclaims_reported(reclaims, STR("m"), MACHINE_CONFIGURED);
    CHECK_TEXT("then", step(3, true), "report a m|");
    CHECK_ERR("ordered again", order("a", "m", 60), ERR_EXISTS);
    CHECK_TEXT("now it knows", step(4 + RECLAIM_REPORT_MS, true), "ack a m|");
    CHECK_TEXT("a grace that ends is reported as given up", step(60000, true),
               "expired a m|report a m|");
    CHECK("gave up", reclaims_find(reclaims, STR("a"))->phase == RECLAIM_GAVE_UP);
    reclaims_close(reclaims);
}

TEST(an_order_that_ended_survives_in_the_file)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    open_reporting();
    CHECK_OK("order", order("b", "m2", 60));
    save();
    step(2, true);
    reclaims_ended(reclaims, STR("a"), true);
    reclaims_ended(reclaims, STR("b"), false);
    CHECK_OK("write", reclaims_write(reclaims, &text));
    reclaims_close(reclaims);
    CHECK_OK("open", reclaims_open(2, &reclaims));
    reclaims_reporting(reclaims, true);
    CHECK_OK("read", reclaims_read(reclaims, buf_peek(&text), &note));
    CHECK_TEXT("reported, not begun", step(3, true), "report a m resumed|report b m2 resumed|");
    CHECK("drained", reclaims_find(reclaims, STR("a"))->phase == RECLAIM_DRAINED);
    CHECK("gave up", reclaims_find(reclaims, STR("b"))->phase == RECLAIM_GAVE_UP);
    reclaims_close(reclaims);
    buf_deinit(&text);
}

TEST(ids_are_checked_and_their_number_is_bounded)
{
    char id[32];

    CHECK_OK("open", reclaims_open(1, &reclaims));
    CHECK_ERR("no id", order("", "m", 1), ERR_INVALID);
    CHECK_ERR("no machine", order("a", "", 1), ERR_INVALID);
    CHECK_ERR("not text", order("a", "\x01", 1), ERR_INVALID);
    for (int i = 0; i < RECLAIMS_MAX; i++) {
        snprintf(id, sizeof id, "i%d", i);
        if (order(id, id, 1)) CHECK("taken", false);
    }
    CHECK_ERR("full", order("more", "more", 1), ERR_FULL);
    CHECK_HAS("says so", note.text, "65536");
    reclaims_close(reclaims);
}

/* What was written, read by the next process. */
TEST(orders_survive_in_the_file)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    CHECK_OK("open", reclaims_open(1, &reclaims));
    CHECK_OK("order", order("a", "m \"1\"", 60));
    CHECK_OK("order", order("b", "m2", 1));
    CHECK_OK("write", reclaims_write(reclaims, &text));
    reclaims_close(reclaims);
    CHECK_OK("open", reclaims_open(2, &reclaims));
    CHECK_OK("read", reclaims_read(reclaims, buf_peek(&text), &note));
    CHECK_TEXT("what is left of the grace", step(2000, true),
               "begin a m \"1\" resumed|expired b m2 resumed|");
    CHECK_I64("priority", reclaims_find(reclaims, STR("a"))->preemptor_priority, 7);
    CHECK_U64("deadline", reclaims_find(reclaims, STR("a"))->deadline.ms, start.ms + 60000);
    reclaims_close(reclaims);
    buf_deinit(&text);
}

TEST(a_file_that_is_not_ours_is_refused_with_its_line)
{
#define FIRST "{\"format\":\"muster operator reclaims 1\"}\n"
#define ROW(more)                                                                                  \
    "{\"instruction\":\"a\",\"machine\":\"m\",\"deadline_unix_ms\":1,\"preemptor_priority\":" more \
    "}\n"
    static const struct {
        const char *why, *text, *says;
    } cases[] = {
        {"empty", "", "cut short"},
        {"cut", FIRST "{\"instr", "cut short"},
        {"another version", "{\"format\":\"muster operator reclaims 2\"}\n", "line 1"},
        {"no JSON", FIRST "hello\n", "line 2"},
        {"a key is missing", FIRST "{\"instruction\":\"a\"}\n", "line 2: field 'machine'"},
        {"too large", FIRST ROW("4294967296"), "line 2: preemptor_priority"},
        {"twice", FIRST ROW("1") ROW("1"), "line 3: instruction given twice"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_OK("open", reclaims_open(1, &reclaims));
        CHECK_ERR(cases[i].why, reclaims_read(reclaims, str_from(cases[i].text), &note), ERR_PARSE);
        CHECK_HAS(cases[i].why, note.text, cases[i].says);
        reclaims_close(reclaims);
    }
}
