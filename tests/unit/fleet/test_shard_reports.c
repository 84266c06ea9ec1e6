/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's soft state: the order of reports, the queue of instructions, and silent shards. */
#include <stdio.h>

#include "fleet/shard_reports.h"
#include "lib/reports_check.h"
#include "lib/test.h"

static struct shard_reports *reports;

static void open_reports(struct reports_options options)
{
    CHECK_OK("opened", reports_open(&options, &reports));
    reports_begin(reports, 7);
}

static void close_reports(void)
{
    reports_check(reports);
    reports_close(reports);
    reports = NULL;
}

static mono_time at(uint64_t ms)
{
    return (mono_time){ms};
}

static void add(const char *shard, uint64_t ms)
{
    CHECK_OK("added", reports_add(reports, str_from(shard), at(ms)));
}

static struct report_taken take(const char *shard, int64_t epoch, int64_t cycle,
                                const char *summary, const char *shortfalls, uint64_t ms)
{
    struct shard_report report = {
        .shard = str_from(shard),
        .epoch = epoch,
        .cycle = cycle,
        .received_at_ns = (int64_t)ms,
        .has_summary = summary != NULL,
        .summary = str_from(summary),
        .shortfalls = str_from(shortfalls),
        .shortfall_count = strlen(shortfalls),
    };
    struct report_taken taken;

    CHECK_OK("taken", reports_take(reports, &report, at(ms), &taken));
    reports_check(reports);
    return taken;
}

static enum err queue(const char *shard, const char *id, const char *topic, uint64_t term,
                      uint64_t sequence)
{
    struct instruction it = {.id = str_from(id),
                             .topic = str_from(topic),
                             .term = term,
                             .sequence = sequence,
                             .bytes = str_from(id)};
    enum err err = reports_queue(reports, reports_find(reports, str_from(shard)), &it);

    reports_check(reports);
    return err;
}

static struct reported_shard *find(const char *shard)
{
    struct reported_shard *found = reports_find(reports, str_from(shard));

    CHECK("it is known", found);
    return found;
}

static size_t pending(struct str shard)
{
    const struct reported_shard *found = reports_find(reports, shard);

    return found ? reports_pending(found) : 0;
}

/* Whether it was waiting. */
static bool ack(struct str shard, struct str id)
{
    struct reported_shard *found = reports_find(reports, shard);
    struct instruction *it = found ? reports_instruction(found, id) : NULL;

    if (it) reports_ack(reports, found, it);
    return it;
}

static const char *queue_of(const char *shard)
{
    static char text[512];
    size_t len = 0;

    text[0] = '\0';
    LIST_EACH(&find(shard)->queue, node)
    {
        const struct instruction *it = CONTAINER_OF(node, struct instruction, link);
        len += (size_t)snprintf(text + len, sizeof text - len, "%.*s ", STR_ARG(it->id));
    }
    return text;
}

/* Each row: the kept report is (1, 10, "old", shortfalls "xy"); this report arrives; this one is
 * kept afterwards. */
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
        const struct reported_shard *got;
        struct report_taken taken;

        open_reports((struct reports_options){0});
        add("shard-a", 5);
        take("shard-a", 1, 10, "old", "xy", 6);
        taken = take("shard-a", orders[i].epoch, orders[i].cycle, orders[i].summary,
                     orders[i].shortfalls, 7);
        got = find("shard-a");
        CHECK(orders[i].why, taken.late == orders[i].late);
        CHECK_STR(orders[i].why, got->summary, str_from(orders[i].kept_summary));
        CHECK_STR(orders[i].why, got->shortfalls, str_from(orders[i].kept_shortfalls));
        CHECK(orders[i].why, got->has_summary);
        CHECK(orders[i].why, (got->shortfall_count > 0) == (orders[i].kept_shortfalls[0] != '\0'));
        CHECK_I64(orders[i].why, got->summary_cycle, orders[i].kept_cycle);
        CHECK_U64("contact, late or not", got->heard_at.ms, 7);
        close_reports();
    }
}

TEST(a_report_without_data_still_makes_older_ones_late)
{
    open_reports((struct reports_options){0});
    add("shard-a", 0);
    take("shard-a", 1, 10, "old", "", 1);
    take("shard-a", 2, 1, NULL, "", 2);
    CHECK("of the epoch before", take("shard-a", 1, 11, "late", "", 3).late);
    CHECK_STR("and kept out", find("shard-a")->summary, STR("old"));
    close_reports();
}

/* Its epoch and cycle are back at 1, so its reports would count as late for as long as it had run
 * before. */
TEST(a_shard_that_lost_its_disk_is_late_only_until_no_report_is_ahead)
{
    open_reports((struct reports_options){.silent_after_ms = 100});
    add("shard-a", 0);
    take("shard-a", 7, 5000, "old", "", 10);
    for (uint64_t ms = 20; ms < 110; ms += 10)
        CHECK("one may be ahead", take("shard-a", 1, (int64_t)ms, "new", "", ms).late);
    CHECK("nobody is", !take("shard-a", 1, 200, "new", "", 110).late);
    CHECK_STR("kept", find("shard-a")->summary, STR("new"));
    CHECK("the order goes on from there", take("shard-a", 1, 199, "older", "", 111).late);
    CHECK("and the other is ahead again", !take("shard-a", 7, 5001, "old", "", 112).late);
    close_reports();
}

TEST(shortfalls_alone_leave_cycle_and_time_unset)
{
    const struct reported_shard *got;

    open_reports((struct reports_options){0});
    add("shard-a", 0);
    take("shard-a", 3, 4, NULL, "x", 5);
    got = find("shard-a");
    CHECK("no summary", !got->has_summary && (got->shortfall_count > 0));
    CHECK_I64("no cycle", got->summary_cycle, 0);
    CHECK_I64("no time", got->received_at_ns, 0);
    close_reports();
}

TEST(a_hundred_shortfalls_are_kept)
{
    struct shard_report report = {.shard = STR("shard-a"),
                                  .has_summary = true,
                                  .shortfalls = STR("opaque"),
                                  .shortfall_count = 250};
    struct report_taken taken;

    open_reports((struct reports_options){0});
    add("shard-a", 0);
    CHECK_OK("taken", reports_take(reports, &report, at(1), &taken));
    CHECK_SIZE("counted", find("shard-a")->shortfall_count, REPORTS_SHORTFALLS_MAX);
    close_reports();
}

TEST(the_first_report_of_a_term_is_marked)
{
    open_reports((struct reports_options){0});
    add("shard-a", 0);
    CHECK("registered is not reported", !find("shard-a")->reported);
    CHECK("first", take("shard-a", 1, 1, "s", "", 1).first);
    CHECK("not again", !take("shard-a", 1, 2, "s", "", 2).first);
    reports_begin(reports, 8);
    add("shard-a", 3);
    CHECK("a new term", take("shard-a", 1, 1, "s", "", 4).first);
    CHECK("an older cycle is not late in a new term", find("shard-a")->has_summary);
    close_reports();
}

TEST(a_report_of_an_unknown_shard_is_refused)
{
    struct shard_report report = {.shard = STR("nobody")};
    struct report_taken taken;

    open_reports((struct reports_options){0});
    CHECK_ERR("not known", reports_take(reports, &report, at(1), &taken), ERR_NOT_FOUND);
    close_reports();
}

TEST(a_report_over_a_limit_is_refused_and_changes_nothing)
{
    static char large[REPORTS_REPORT_MAX + 1];
    struct shard_report report = {
        .shard = STR("shard-a"), .has_summary = true, .epoch = 9, .cycle = 9};
    struct report_taken taken;
    struct instruction it = {.id = STR("i"), .term = 7, .sequence = 1};

    open_reports((struct reports_options){.bytes_max = 100, .pending_max = 2, .shards_max = 2});
    add("shard-a", 0);
    take("shard-a", 1, 1, "s", "x", 1);
    report.summary = str_of(large, sizeof large);
    CHECK_ERR("summary", reports_take(reports, &report, at(2), &taken), ERR_TOO_LARGE);
    report.summary = str_of(large, 101);
    CHECK_ERR("of all", reports_take(reports, &report, at(2), &taken), ERR_FULL);
    CHECK_STR("the old one stays", find("shard-a")->summary, STR("s"));
    CHECK_U64("and no contact was recorded", find("shard-a")->heard_at.ms, 1);
    add("shard-b", 2);
    CHECK_ERR("shards", reports_add(reports, STR("shard-c"), at(2)), ERR_FULL);
    CHECK_OK("one", queue("shard-a", "one", "", 7, 1));
    CHECK_OK("two", queue("shard-a", "two", "", 7, 2));
    CHECK_ERR("the queue is full", queue("shard-a", "three", "", 7, 3), ERR_FULL);
    CHECK_OK("but one may be replaced", queue("shard-a", "two", "", 7, 3));
    CHECK_OK("and another shard has its own", queue("shard-b", "three", "", 7, 4));
    it.bytes = str_of(large, 90);
    CHECK_ERR("bytes of all", reports_queue(reports, reports_find(reports, STR("shard-b")), &it),
              ERR_FULL);
    it.bytes = str_of(large, REPORTS_INSTRUCTION_MAX + 1);
    CHECK_ERR("bytes of one", reports_queue(reports, reports_find(reports, STR("shard-b")), &it),
              ERR_TOO_LARGE);
    it.bytes = STR("");
    it.id = str_of(large, REPORTS_ID_MAX + 1);
    CHECK_ERR("id", reports_queue(reports, reports_find(reports, STR("shard-b")), &it),
              ERR_TOO_LARGE);
    CHECK_ERR("no id", queue("shard-b", "", "", 7, 5), ERR_INVALID);
    CHECK_ERR("no shard", queue("shard-z", "i", "", 7, 5), ERR_NOT_FOUND);
    CHECK_TEXT("all as it was", queue_of("shard-b"), "three ");
    close_reports();
}

TEST(instructions_go_out_by_term_then_sequence)
{
    open_reports((struct reports_options){0});
    add("shard-a", 0);
    CHECK_OK("third", queue("shard-a", "third", "", 7, 9));
    CHECK_OK("first", queue("shard-a", "first", "", 6, 20));
    CHECK_OK("fourth", queue("shard-a", "fourth", "", 8, 1));
    CHECK_OK("second", queue("shard-a", "second", "", 7, 2));
    CHECK_TEXT("a late term outranks a high sequence", queue_of("shard-a"),
               "first second third fourth ");
    close_reports();
}

TEST(the_same_id_replaces)
{
    open_reports((struct reports_options){0});
    add("shard-a", 0);
    CHECK_OK("one", queue("shard-a", "i-1", "", 7, 1));
    CHECK_OK("two", queue("shard-a", "i-2", "", 7, 2));
    CHECK_OK("one again", queue("shard-a", "i-1", "", 7, 3));
    CHECK_TEXT("at its new place", queue_of("shard-a"), "i-2 i-1 ");
    close_reports();
}

TEST(the_newest_word_about_a_topic_is_the_only_one)
{
    open_reports((struct reports_options){0});
    add("shard-a", 0);
    CHECK_OK("assign", queue("shard-a", "assign", "rack=1", 7, 1));
    CHECK_OK("other", queue("shard-a", "other", "rack=2", 7, 2));
    CHECK_OK("unassign", queue("shard-a", "unassign", "rack=1", 7, 3));
    CHECK_TEXT("in place of the older", queue_of("shard-a"), "other unassign ");
    CHECK_OK("id of one, topic of the other", queue("shard-a", "other", "rack=1", 7, 4));
    CHECK_TEXT("replaces both", queue_of("shard-a"), "other ");
    CHECK("an ack of a replaced instruction has no effect", !ack(STR("shard-a"), STR("assign")));
    close_reports();
}

TEST(an_ack_takes_off_its_own_instruction_once)
{
    open_reports((struct reports_options){0});
    add("shard-a", 0);
    add("shard-b", 0);
    CHECK_OK("a", queue("shard-a", "i-1", "t", 7, 1));
    CHECK_OK("b", queue("shard-b", "i-1", "t", 7, 1));
    CHECK("taken off", ack(STR("shard-a"), STR("i-1")));
    CHECK("once", !ack(STR("shard-a"), STR("i-1")));
    CHECK_SIZE("not the other shard's", pending(STR("shard-b")), 1);
    CHECK("unknown shard", !ack(STR("nobody"), STR("i-1")));
    close_reports();
}

TEST(a_new_term_forgets_everything_but_the_sequence)
{
    uint64_t last = 0;

    open_reports((struct reports_options){0});
    for (int i = 0; i < 100; i++) { /* S10 */
        uint64_t next = ++reports->sequence;
        CHECK("strictly increasing", next > last);
        last = next;
    }
    CHECK_U64("from 1", last, 100);
    add("shard-a", 0);
    take("shard-a", 1, 1, "s", "x", 1);
    CHECK_OK("queued", queue("shard-a", "i-1", "", 7, 1));
    reports_begin(reports, 8);
    CHECK_U64("the new term", reports->term, 8);
    CHECK("the shard is not known", !reports_find(reports, STR("shard-a")));
    CHECK_SIZE("nothing waits", pending(STR("shard-a")), 0);
    CHECK_SIZE("nothing is held", reports->bytes, 0);
    CHECK_U64("goes on", ++reports->sequence, 101);
    close_reports();
}

TEST(a_removed_shard_loses_its_queue)
{
    open_reports((struct reports_options){0});
    add("shard-a", 0);
    CHECK_OK("queued", queue("shard-a", "i-1", "", 7, 1));
    reports_remove(reports, STR("shard-a"));
    reports_remove(reports, STR("shard-a"));
    CHECK_SIZE("gone", pending(STR("shard-a")), 0);
    add("shard-a", 1);
    CHECK_SIZE("and new when it is back", pending(STR("shard-a")), 0);
    close_reports();
}

TEST(silence_is_reported_once_longest_first)
{
    const struct reported_shard *got;

    open_reports((struct reports_options){.silent_after_ms = 100});
    add("shard-a", 0);
    add("shard-b", 10);
    add("shard-c", 20);
    add("shard-c", 45); /* known: silence counts from the time it was added */
    take("shard-a", 1, 1, "s", "", 50);
    CHECK("not yet", !(got = reports_silent(reports, at(109))));
    CHECK("now", (got = reports_silent(reports, at(120))));
    CHECK_STR("longest first", got->id, STR("shard-b"));
    CHECK("then", (got = reports_silent(reports, at(120))));
    CHECK_STR("the next", got->id, STR("shard-c"));
    CHECK("each once", !(got = reports_silent(reports, at(149))));
    CHECK_SIZE("two", reports->silent_count, 2);
    CHECK("shown", find("shard-b")->silent && !find("shard-a")->silent);
    CHECK("it is back", take("shard-b", 1, 1, "s", "", 150).back);
    CHECK("and reports it once", !take("shard-b", 1, 2, "s", "", 151).back);
    CHECK_SIZE("one", reports->silent_count, 1);
    reports_remove(reports, STR("shard-c"));
    CHECK_SIZE("none", reports->silent_count, 0);
    CHECK("silent again", (got = reports_silent(reports, at(1000))));
    CHECK_STR("the earliest contact", got->id, STR("shard-a"));
    close_reports();
}

/* -- several processes with one id -- */
static struct report_taken hear(uint64_t process, const char *address, int64_t epoch, int64_t cycle,
                                uint64_t ms)
{
    struct shard_report report = {.shard = STR("s"),
                                  .address = str_from(address),
                                  .process = process,
                                  .epoch = epoch,
                                  .cycle = cycle};
    struct report_taken taken;

    CHECK_OK("taken", reports_take(reports, &report, at(ms), &taken));
    reports_check(reports);
    return taken;
}

static size_t processes_of(const char *shard,
                           struct shard_process ret_processes[REPORTS_PROCESSES_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++)
        if (find(shard)->processes[i].used) ret_processes[count++] = find(shard)->processes[i];
    return count;
}

/* Differences between two processes: the first report of a conflict is the fifth. */
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
        open_reports((struct reports_options){.silent_after_ms = 1000});
        add("s", 0);
        for (int turn = 0; turn < 6; turn++) {
            int who = turn % 2;
            bool conflict = hear(pairs[i].process[who], pairs[i].address[who], pairs[i].epoch[who],
                                 pairs[i].cycle[who] + turn / 2, (uint64_t)turn * 10)
                                .conflict;
            CHECK_U64(pairs[i].why, conflict, turn == 4);
        }
        CHECK_SIZE(pairs[i].why, reports->conflict_count, 1);
        reports_remove(reports, STR("s"));
        CHECK_SIZE("gone with the shard", reports->conflict_count, 0);
        close_reports();
    }
}

TEST(restarts_repeats_and_one_late_report_are_no_conflict)
{
    uint64_t now = 0;

    open_reports((struct reports_options){.silent_after_ms = 1000});
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
    CHECK_SIZE("none", reports->conflict_count, 0);
    close_reports();
}

/* Two processes, one of which restarted: the list names two, not three. */
TEST(a_restart_replaces_the_process_of_its_address)
{
    struct shard_process processes[REPORTS_PROCESSES_MAX];

    open_reports((struct reports_options){.silent_after_ms = 1000});
    add("s", 0);
    hear(1, "h:1", 1, 1, 10);
    hear(2, "h:2", 1, 1, 20);
    hear(3, "h:1", 2, 1, 30);
    CHECK_SIZE("two processes", processes_of("s", processes), 2);
    for (size_t i = 0; i < 2; i++)
        CHECK("the newest of each address",
              processes[i].epoch == (str_equal(processes[i].address, STR("h:1")) ? 2 : 1));
    close_reports();
}

TEST(a_conflict_is_over_when_one_process_alone_reported_for_the_silence_time)
{
    struct shard_process processes[REPORTS_PROCESSES_MAX];
    const struct reported_shard *shard;

    open_reports((struct reports_options){.silent_after_ms = 1000});
    add("s", 0);
    for (int turn = 0; turn < 9; turn++) /* three of them */
        hear((uint64_t)(turn % 3) + 1, "h:1", 1, turn + 1, (uint64_t)turn * 10);
    CHECK_SIZE("found", reports->conflict_count, 1);
    CHECK_SIZE("all three", processes_of("s", processes), 3);
    hear(1, "h:1", 1, 20, 900);
    CHECK("not yet", !(shard = reports_conflict_over(reports, at(1000))));
    CHECK("over", (shard = reports_conflict_over(reports, at(1100))));
    CHECK_STR("the shard", shard->id, STR("s"));
    CHECK("reported once", !(shard = reports_conflict_over(reports, at(1100))));
    CHECK_SIZE("the one that is left", processes_of("s", processes), 1);
    CHECK("it goes on alone", !hear(1, "h:1", 1, 21, 1200).conflict);
    close_reports();
}

TEST(several_shards_are_given_an_instruction_or_none)
{
    struct instruction it = {.id = STR("i"), .bytes = STR("123456789"), .term = 7, .sequence = 1};
    const struct str both[] = {STR("shard-a"), STR("shard-b")};
    const struct str unknown[] = {STR("shard-a"), STR("nobody")};
    size_t place = 9;

    open_reports((struct reports_options){.bytes_max = 40, .pending_max = 1});
    add("shard-a", 0);
    add("shard-b", 0);
    CHECK_OK("room for both", reports_may_queue(reports, both, 2, &it, &place));
    CHECK_ERR("one is not known", reports_may_queue(reports, unknown, 2, &it, &place),
              ERR_NOT_FOUND);
    CHECK_SIZE("which", place, 1);
    CHECK_OK("queued", queue("shard-b", "j", "", 7, 2));
    CHECK_ERR("one has no room", reports_may_queue(reports, both, 2, &it, &place), ERR_FULL);
    CHECK_SIZE("which", place, 1);
    it.bytes = STR("1234567890123456789");
    CHECK_ERR("bytes", reports_may_queue(reports, both, 2, &it, &place), ERR_FULL);
    close_reports();
}

TEST(a_refused_instruction_waits_with_the_last_reason)
{
    struct instruction it = {.id = STR("i"), .topic = STR("t"), .term = 7, .sequence = 1};
    struct instruction *got;

    it.stray = true;
    open_reports((struct reports_options){.bytes_max = 100});
    add("shard-a", 0);
    CHECK_OK("queued", reports_queue(reports, find("shard-a"), &it));
    CHECK_SIZE("counted", reports->stray_count, 1);
    got = reports_about(find("shard-a"), STR("t"));
    CHECK("waits", got && got == reports_instruction(find("shard-a"), STR("i")));
    CHECK("first", reports_refused(reports, got, STR("3 machines serve")));
    CHECK("not first", !reports_refused(reports, got, STR("2 serve")));
    CHECK_STR("why", got->reason, STR("2 serve"));
    reports_check(reports);
    CHECK("no room for this one",
          !reports_refused(reports, got,
                           STR("a reason that is longer than the hundred bytes which the reports "
                               "of this test may hold in all of their texts together")));
    CHECK_STR("the one before", got->reason, STR("2 serve"));
    CHECK("gone", ack(STR("shard-a"), STR("i")));
    CHECK_SIZE("counted", reports->stray_count, 0);
    close_reports();
}
