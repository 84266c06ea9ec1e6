/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's soft state: which report is newer, what goes out in which order, who is silent. */
#include <stdio.h>

#include "fleet/desk.h"
#include "lib/test.h"

static struct desk *desk;

static void open_desk(struct desk_options options)
{
    CHECK_OK("opened", desk_open(&options, &desk));
    desk_begin(desk, 7);
}

static void close_desk(void)
{
    desk_check(desk);
    desk_close(desk);
    desk = NULL;
}

static mono_time at(uint64_t ms)
{
    return (mono_time){ms};
}

static void add(const char *shard, uint64_t ms)
{
    CHECK_OK("added", desk_add(desk, str_from(shard), at(ms)));
}

static struct desk_taken take(const char *shard, int64_t epoch, int64_t cycle, const char *summary,
                              const char *shortfalls, uint64_t ms)
{
    struct desk_report report = {
        .shard = str_from(shard),
        .epoch = epoch,
        .cycle = cycle,
        .received_at_ns = (int64_t)ms,
        .has_summary = summary != NULL,
        .summary = str_from(summary),
        .shortfalls = str_from(shortfalls),
        .shortfall_count = strlen(shortfalls),
    };
    struct desk_taken taken;

    CHECK_OK("taken", desk_take(desk, &report, at(ms), &taken));
    desk_check(desk);
    return taken;
}

static enum err queue(const char *shard, const char *id, const char *topic, uint64_t term,
                      uint64_t sequence)
{
    struct desk_instruction it = {.id = str_from(id),
                                  .topic = str_from(topic),
                                  .term = term,
                                  .sequence = sequence,
                                  .bytes = str_from(id)};
    enum err err = desk_queue(desk, str_from(shard), &it);

    desk_check(desk);
    return err;
}

static const char *queue_of(const char *shard)
{
    static char text[512];
    struct desk_instruction it;
    const void *cursor = NULL;
    size_t len = 0;

    text[0] = '\0';
    while (desk_next_instruction(desk, str_from(shard), false, &cursor, &it))
        len += (size_t)snprintf(text + len, sizeof text - len, "%.*s ", STR_ARG(it.id));
    return text;
}

static struct desk_shard find(const char *shard)
{
    struct desk_shard got = {.cycle = -1};

    CHECK("it is known", desk_find(desk, str_from(shard), &got));
    return got;
}

/* Each row: what is kept is (1, 10, "old", shortfalls "xy"); then comes this; then this is kept. */
static const struct {
    const char *why;
    int64_t epoch, cycle;
    const char *summary, *shortfalls;
    bool late;
    const char *kept_summary, *kept_shortfalls;
    int64_t kept_cycle;
} orders[] = {
    {"the next cycle replaces", 1, 11, "new", "z", false, "new", "z", 11},
    {"the same pair again replaces", 1, 10, "new", "z", false, "new", "z", 10},
    {"an older cycle of the same epoch is late", 1, 9, "new", "z", true, "old", "xy", 10},
    {"a restarted shard counts from 1 in a higher epoch", 2, 1, "new", "z", false, "new", "z", 1},
    {"an older epoch is late, whatever its cycle", 0, 99, "new", "z", true, "old", "xy", 10},
    {"a summary without shortfalls says there are none", 1, 11, "new", "", false, "new", "", 11},
    {"no summary keeps the old one", 1, 11, NULL, "z", false, "old", "z", 10},
    {"neither keeps both", 1, 11, NULL, "", false, "old", "xy", 10},
    {"an empty summary is a summary", 1, 11, "", "", false, "", "", 11},
};
TEST(reports_are_ordered_by_epoch_then_cycle)
{
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        struct desk_shard got;
        struct desk_taken taken;

        open_desk((struct desk_options){0});
        add("shard-a", 5);
        take("shard-a", 1, 10, "old", "xy", 6);
        taken = take("shard-a", orders[i].epoch, orders[i].cycle, orders[i].summary,
                     orders[i].shortfalls, 7);
        got = find("shard-a");
        CHECK(orders[i].why, taken.late == orders[i].late);
        CHECK_STR(orders[i].why, got.summary, str_from(orders[i].kept_summary));
        CHECK_STR(orders[i].why, got.shortfalls, str_from(orders[i].kept_shortfalls));
        CHECK(orders[i].why, got.has_summary);
        CHECK(orders[i].why, got.has_shortfalls == (orders[i].kept_shortfalls[0] != '\0'));
        CHECK_I64(orders[i].why, got.cycle, orders[i].kept_cycle);
        CHECK_U64("heard of, late or not", got.heard_at.ms, 7);
        close_desk();
    }
}

TEST(a_report_without_data_still_makes_older_ones_late)
{
    open_desk((struct desk_options){0});
    add("shard-a", 0);
    take("shard-a", 1, 10, "old", "", 1);
    take("shard-a", 2, 1, NULL, "", 2);
    CHECK("of the epoch before", take("shard-a", 1, 11, "late", "", 3).late);
    CHECK_STR("and kept out", find("shard-a").summary, STR("old"));
    close_desk();
}

/* Its epoch is back at 1, its cycle too; it would be late for as long as it had run before. */
TEST(a_shard_that_lost_its_disk_is_late_only_until_nobody_is_ahead)
{
    open_desk((struct desk_options){.silent_after_ms = 100});
    add("shard-a", 0);
    take("shard-a", 7, 5000, "old", "", 10);
    for (uint64_t ms = 20; ms < 110; ms += 10)
        CHECK("one may be ahead", take("shard-a", 1, (int64_t)ms, "new", "", ms).late);
    CHECK("nobody is", !take("shard-a", 1, 200, "new", "", 110).late);
    CHECK_STR("kept", find("shard-a").summary, STR("new"));
    CHECK("the order goes on from there", take("shard-a", 1, 199, "older", "", 111).late);
    CHECK("and the other is ahead again", !take("shard-a", 7, 5001, "old", "", 112).late);
    close_desk();
}

TEST(shortfalls_alone_leave_cycle_and_time_unset)
{
    struct desk_shard got;

    open_desk((struct desk_options){0});
    add("shard-a", 0);
    take("shard-a", 3, 4, NULL, "x", 5);
    got = find("shard-a");
    CHECK("no summary", !got.has_summary && got.has_shortfalls);
    CHECK_I64("no cycle", got.cycle, 0);
    CHECK_I64("no time", got.received_at_ns, 0);
    close_desk();
}

TEST(a_hundred_shortfalls_are_kept)
{
    struct desk_report report = {.shard = STR("shard-a"),
                                 .has_summary = true,
                                 .shortfalls = STR("opaque"),
                                 .shortfall_count = 250};
    struct desk_taken taken;

    open_desk((struct desk_options){0});
    add("shard-a", 0);
    CHECK_OK("taken", desk_take(desk, &report, at(1), &taken));
    CHECK_SIZE("counted", find("shard-a").shortfall_count, DESK_SHORTFALLS_MAX);
    close_desk();
}

TEST(the_first_report_of_a_term_is_told_apart)
{
    open_desk((struct desk_options){0});
    add("shard-a", 0);
    CHECK("registered is not reported", !find("shard-a").reported);
    CHECK("first", take("shard-a", 1, 1, "s", "", 1).first);
    CHECK("not again", !take("shard-a", 1, 2, "s", "", 2).first);
    desk_begin(desk, 8);
    add("shard-a", 3);
    CHECK("a new term", take("shard-a", 1, 1, "s", "", 4).first);
    CHECK("an older cycle is not late in a new term", find("shard-a").has_summary);
    close_desk();
}

TEST(a_report_of_an_unknown_shard_is_refused)
{
    struct desk_report report = {.shard = STR("nobody")};
    struct desk_taken taken;

    open_desk((struct desk_options){0});
    CHECK_ERR("not known", desk_take(desk, &report, at(1), &taken), ERR_NOT_FOUND);
    close_desk();
}

TEST(what_is_too_much_is_refused_and_changes_nothing)
{
    static char large[DESK_REPORT_MAX + 1];
    struct desk_report report = {
        .shard = STR("shard-a"), .has_summary = true, .epoch = 9, .cycle = 9};
    struct desk_taken taken;
    struct desk_instruction it = {.id = STR("i"), .term = 7, .sequence = 1};

    open_desk((struct desk_options){.bytes_max = 100, .pending_max = 2, .shards_max = 2});
    add("shard-a", 0);
    take("shard-a", 1, 1, "s", "x", 1);
    report.summary = str_of(large, sizeof large);
    CHECK_ERR("summary", desk_take(desk, &report, at(2), &taken), ERR_TOO_LARGE);
    report.summary = str_of(large, 101);
    CHECK_ERR("of all", desk_take(desk, &report, at(2), &taken), ERR_FULL);
    CHECK_STR("the old one stands", find("shard-a").summary, STR("s"));
    CHECK_U64("and was not heard of", find("shard-a").heard_at.ms, 1);
    add("shard-b", 2);
    CHECK_ERR("shards", desk_add(desk, STR("shard-c"), at(2)), ERR_FULL);
    CHECK_OK("one", queue("shard-a", "one", "", 7, 1));
    CHECK_OK("two", queue("shard-a", "two", "", 7, 2));
    CHECK_ERR("the queue is full", queue("shard-a", "three", "", 7, 3), ERR_FULL);
    CHECK_OK("but one may be replaced", queue("shard-a", "two", "", 7, 3));
    CHECK_OK("and another shard has its own", queue("shard-b", "three", "", 7, 4));
    it.bytes = str_of(large, 90);
    CHECK_ERR("bytes of all", desk_queue(desk, STR("shard-b"), &it), ERR_FULL);
    it.bytes = str_of(large, DESK_INSTRUCTION_MAX + 1);
    CHECK_ERR("bytes of one", desk_queue(desk, STR("shard-b"), &it), ERR_TOO_LARGE);
    it.bytes = STR("");
    it.id = str_of(large, DESK_ID_MAX + 1);
    CHECK_ERR("id", desk_queue(desk, STR("shard-b"), &it), ERR_TOO_LARGE);
    CHECK_ERR("no id", queue("shard-b", "", "", 7, 5), ERR_INVALID);
    CHECK_ERR("no shard", queue("shard-z", "i", "", 7, 5), ERR_NOT_FOUND);
    CHECK_TEXT("all as it was", queue_of("shard-b"), "three ");
    close_desk();
}

TEST(instructions_go_out_by_term_then_sequence)
{
    open_desk((struct desk_options){0});
    add("shard-a", 0);
    CHECK_OK("third", queue("shard-a", "third", "", 7, 9));
    CHECK_OK("first", queue("shard-a", "first", "", 6, 20));
    CHECK_OK("fourth", queue("shard-a", "fourth", "", 8, 1));
    CHECK_OK("second", queue("shard-a", "second", "", 7, 2));
    CHECK_TEXT("a late term outranks a high sequence", queue_of("shard-a"),
               "first second third fourth ");
    close_desk();
}

TEST(the_same_id_replaces)
{
    open_desk((struct desk_options){0});
    add("shard-a", 0);
    CHECK_OK("one", queue("shard-a", "i-1", "", 7, 1));
    CHECK_OK("two", queue("shard-a", "i-2", "", 7, 2));
    CHECK_OK("one again", queue("shard-a", "i-1", "", 7, 3));
    CHECK_TEXT("at its new place", queue_of("shard-a"), "i-2 i-1 ");
    close_desk();
}

TEST(the_newest_word_about_a_topic_is_the_only_one)
{
    open_desk((struct desk_options){0});
    add("shard-a", 0);
    CHECK_OK("assign", queue("shard-a", "assign", "rack=1", 7, 1));
    CHECK_OK("other", queue("shard-a", "other", "rack=2", 7, 2));
    CHECK_OK("unassign", queue("shard-a", "unassign", "rack=1", 7, 3));
    CHECK_TEXT("in place of the older", queue_of("shard-a"), "other unassign ");
    CHECK_OK("id of one, topic of the other", queue("shard-a", "other", "rack=1", 7, 4));
    CHECK_TEXT("replaces both", queue_of("shard-a"), "other ");
    CHECK("an ack of what was replaced is of nothing",
          !desk_ack(desk, STR("shard-a"), STR("assign")));
    close_desk();
}

TEST(an_ack_takes_off_its_own_instruction_once)
{
    open_desk((struct desk_options){0});
    add("shard-a", 0);
    add("shard-b", 0);
    CHECK_OK("a", queue("shard-a", "i-1", "t", 7, 1));
    CHECK_OK("b", queue("shard-b", "i-1", "t", 7, 1));
    CHECK("taken off", desk_ack(desk, STR("shard-a"), STR("i-1")));
    CHECK("once", !desk_ack(desk, STR("shard-a"), STR("i-1")));
    CHECK_SIZE("not the other shard's", desk_pending(desk, STR("shard-b")), 1);
    CHECK("unknown shard", !desk_ack(desk, STR("nobody"), STR("i-1")));
    close_desk();
}

TEST(deliveries_are_counted_only_when_delivered)
{
    struct desk_instruction it = {0};
    const void *cursor = NULL;

    open_desk((struct desk_options){0});
    add("shard-a", 0);
    CHECK_OK("one", queue("shard-a", "i-1", "", 7, 1));
    queue_of("shard-a");
    CHECK("first", desk_next_instruction(desk, STR("shard-a"), true, &cursor, &it));
    CHECK("only", !desk_next_instruction(desk, STR("shard-a"), true, &cursor, &it));
    cursor = NULL;
    CHECK("second", desk_next_instruction(desk, STR("shard-a"), true, &cursor, &it));
    CHECK_U32("twice", it.deliveries, 2);
    close_desk();
}

TEST(a_new_term_forgets_everything_but_the_sequence)
{
    struct desk_shard got;
    uint64_t last = 0;

    open_desk((struct desk_options){0});
    for (int i = 0; i < 100; i++) { /* S10 */
        uint64_t next = desk_sequence(desk);
        CHECK("strictly increasing", next > last);
        last = next;
    }
    CHECK_U64("from 1", last, 100);
    add("shard-a", 0);
    take("shard-a", 1, 1, "s", "x", 1);
    CHECK_OK("queued", queue("shard-a", "i-1", "", 7, 1));
    desk_begin(desk, 8);
    CHECK_U64("the new term", desk_term(desk), 8);
    CHECK("the shard is not known", !desk_find(desk, STR("shard-a"), &got));
    CHECK_SIZE("nothing waits", desk_pending(desk, STR("shard-a")), 0);
    CHECK_SIZE("nothing is held", desk_bytes(desk), 0);
    CHECK_U64("goes on", desk_sequence(desk), 101);
    close_desk();
}

TEST(a_removed_shard_takes_its_queue_along)
{
    open_desk((struct desk_options){0});
    add("shard-a", 0);
    CHECK_OK("queued", queue("shard-a", "i-1", "", 7, 1));
    desk_remove(desk, STR("shard-a"));
    desk_remove(desk, STR("shard-a"));
    CHECK_SIZE("gone", desk_pending(desk, STR("shard-a")), 0);
    add("shard-a", 1);
    CHECK_SIZE("and new when it is back", desk_pending(desk, STR("shard-a")), 0);
    close_desk();
}

TEST(silence_is_told_once_longest_first)
{
    struct desk_shard got;

    open_desk((struct desk_options){.silent_after_ms = 100});
    CHECK_U64("nobody, never", desk_next_due(desk).ms, MONO_NEVER.ms);
    add("shard-a", 0);
    add("shard-b", 10);
    add("shard-c", 20);
    add("shard-c", 45); /* known: counts from when it was added */
    take("shard-a", 1, 1, "s", "", 50);
    CHECK_U64("the oldest is due first", desk_next_due(desk).ms, 110);
    CHECK("not yet", !desk_silent(desk, at(109), &got));
    CHECK("now", desk_silent(desk, at(120), &got));
    CHECK_STR("longest first", got.id, STR("shard-b"));
    CHECK("then", desk_silent(desk, at(120), &got));
    CHECK_STR("the next", got.id, STR("shard-c"));
    CHECK("each once", !desk_silent(desk, at(149), &got));
    CHECK_SIZE("two", desk_silent_count(desk), 2);
    CHECK("shown", find("shard-b").silent && !find("shard-a").silent);
    CHECK("it is back", take("shard-b", 1, 1, "s", "", 150).back);
    CHECK("and says so once", !take("shard-b", 1, 2, "s", "", 151).back);
    CHECK_SIZE("one", desk_silent_count(desk), 1);
    desk_remove(desk, STR("shard-c"));
    CHECK_SIZE("none", desk_silent_count(desk), 0);
    CHECK("silent again", desk_silent(desk, at(1000), &got));
    CHECK_STR("who was heard of first", got.id, STR("shard-a"));
    close_desk();
}

/* -- processes under one id -- */
static struct desk_taken hear(uint64_t process, const char *address, int64_t epoch, int64_t cycle,
                              uint64_t ms)
{
    struct desk_report report = {.shard = STR("s"),
                                 .address = str_from(address),
                                 .process = process,
                                 .epoch = epoch,
                                 .cycle = cycle};
    struct desk_taken taken;

    CHECK_OK("taken", desk_take(desk, &report, at(ms), &taken));
    desk_check(desk);
    return taken;
}

/* What tells two processes apart: the first report of a conflict is the fifth. */
TEST(two_processes_that_take_turns_are_a_conflict)
{
    static const struct {
        const char *why;
        uint64_t process[2];
        const char *address[2];
        int64_t epoch[2], cycle[2];
    } pairs[] = {
        {"two addresses", {0, 0}, {"h:1", "h:2"}, {1, 1}, {1, 1}},
        {"two epochs", {0, 0}, {"h:1", "h:1"}, {5, 3}, {1, 1}},
        {"two process ids", {7, 8}, {"h:1", "h:1"}, {1, 1}, {1, 1}},
        {"cycles alone", {0, 0}, {"h:1", "h:1"}, {1, 1}, {100, 7}},
    };

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        open_desk((struct desk_options){.silent_after_ms = 1000});
        add("s", 0);
        for (int turn = 0; turn < 6; turn++) {
            int who = turn % 2;
            bool conflict = hear(pairs[i].process[who], pairs[i].address[who], pairs[i].epoch[who],
                                 pairs[i].cycle[who] + turn / 2, (uint64_t)turn * 10)
                                .conflict;
            CHECK_U64(pairs[i].why, conflict, turn == 4);
        }
        CHECK_SIZE(pairs[i].why, desk_conflict_count(desk), 1);
        desk_remove(desk, STR("s"));
        CHECK_SIZE("gone with the shard", desk_conflict_count(desk), 0);
        close_desk();
    }
}

TEST(restarts_repeats_and_one_late_report_are_no_conflict)
{
    uint64_t now = 0;

    open_desk((struct desk_options){.silent_after_ms = 1000});
    add("s", 0);
    for (int64_t epoch = 1; epoch < 50; epoch++)
        for (int64_t cycle = 1; cycle < 4; cycle++)
            CHECK("a restart", !hear((uint64_t)epoch, "h:1", epoch, cycle, now += 10).conflict);
    for (int64_t cycle = 1; cycle < 50; cycle++) {
        CHECK("once", !hear(0, "h:2", 60, cycle, now += 10).conflict);
        CHECK("twice", !hear(0, "h:2", 60, cycle, now += 10).conflict);
    }
    CHECK("replaced", !hear(1, "h:2", 61, 1, now += 10).conflict);
    CHECK("on its way since", !hear(0, "h:2", 60, 50, now += 10).conflict);
    for (int64_t cycle = 2; cycle < 50; cycle++)
        CHECK("it goes on", !hear(1, "h:2", 61, cycle, now += 10).conflict);
    CHECK_SIZE("none", desk_conflict_count(desk), 0);
    close_desk();
}

/* Two processes, one of which was restarted: the list names two, not three. */
TEST(a_restart_replaces_the_process_of_its_address)
{
    struct desk_process processes[DESK_PROCESSES_MAX];

    open_desk((struct desk_options){.silent_after_ms = 1000});
    add("s", 0);
    hear(1, "h:1", 1, 1, 10);
    hear(2, "h:2", 1, 1, 20);
    hear(3, "h:1", 2, 1, 30);
    CHECK_SIZE("two processes", desk_processes(desk, STR("s"), processes), 2);
    for (size_t i = 0; i < 2; i++)
        CHECK("the newest of each address",
              processes[i].epoch == (str_equal(processes[i].address, STR("h:1")) ? 2 : 1));
    close_desk();
}

TEST(a_conflict_is_over_when_one_process_alone_reported_for_the_silence_time)
{
    struct desk_process processes[DESK_PROCESSES_MAX];
    struct desk_shard shard;

    open_desk((struct desk_options){.silent_after_ms = 1000});
    add("s", 0);
    for (int turn = 0; turn < 9; turn++) /* three of them */
        hear((uint64_t)(turn % 3) + 1, "h:1", 1, turn + 1, (uint64_t)turn * 10);
    CHECK_SIZE("found", desk_conflict_count(desk), 1);
    CHECK_SIZE("all three", desk_processes(desk, STR("s"), processes), 3);
    hear(1, "h:1", 1, 20, 900);
    CHECK("not yet", !desk_conflict_over(desk, at(1000), &shard));
    CHECK("over", desk_conflict_over(desk, at(1100), &shard));
    CHECK_STR("whose", shard.id, STR("s"));
    CHECK("told once", !desk_conflict_over(desk, at(1100), &shard));
    CHECK_SIZE("the one that is left", desk_processes(desk, STR("s"), processes), 1);
    CHECK("it goes on alone", !hear(1, "h:1", 1, 21, 1200).conflict);
    close_desk();
}

TEST(a_refused_instruction_waits_with_the_last_reason)
{
    struct desk_instruction it = {.id = STR("i"), .topic = STR("t"), .term = 7, .sequence = 1};
    struct desk_instruction got;

    it.stray = true;
    open_desk((struct desk_options){.bytes_max = 100});
    add("shard-a", 0);
    CHECK_OK("queued", desk_queue(desk, STR("shard-a"), &it));
    CHECK_SIZE("counted", desk_stray_count(desk), 1);
    CHECK("first", desk_refused(desk, STR("shard-a"), STR("i"), STR("3 machines serve")));
    CHECK("not first", !desk_refused(desk, STR("shard-a"), STR("i"), STR("2 serve")));
    CHECK("unknown", !desk_refused(desk, STR("shard-a"), STR("j"), STR("2 serve")));
    CHECK("waits", desk_find_topic(desk, STR("shard-a"), STR("t"), &got));
    CHECK_STR("why", got.reason, STR("2 serve"));
    desk_check(desk);
    CHECK("no room for this one",
          !desk_refused(desk, STR("shard-a"), STR("i"),
                        STR("a reason that is longer than the hundred bytes which the desk of "
                            "this test may hold in all of its texts together")));
    CHECK("waits", desk_find_topic(desk, STR("shard-a"), STR("t"), &got));
    CHECK_STR("the one before", got.reason, STR("2 serve"));
    CHECK("gone", desk_ack(desk, STR("shard-a"), STR("i")));
    CHECK_SIZE("counted", desk_stray_count(desk), 0);
    close_desk();
}
