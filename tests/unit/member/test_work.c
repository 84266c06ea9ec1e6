/* SPDX-License-Identifier: Apache-2.0 */
/* Work items. Numbers are those of the specification's test cases (section 24.16). */
#include <stdio.h>

#include "rig.h"

static struct member_digest id_of(unsigned number)
{
    return (struct member_digest){{(uint8_t)(number >> 8), (uint8_t)number}};
}

static enum member_status put(struct rig *rig, unsigned number, const char *payload)
{
    struct member_op op = {
        .kind = MEMBER_OP_ENQUEUE, .item = id_of(number), .bytes = str_from(payload)};

    return rig_op(rig, &op).status;
}

static uint32_t pull(struct rig *rig, const char *worker, uint64_t count)
{
    struct member_op op = rig_of(rig, MEMBER_OP_PULL, worker);

    op.number = count;
    return rig_op(rig, &op).items;
}

static enum member_status say(struct rig *rig, enum member_kind kind, const char *worker,
                              unsigned number)
{
    struct member_op op = rig_of(rig, kind, worker);

    op.item = id_of(number);
    op.bytes = STR("result");
    return rig_op(rig, &op).status;
}

static struct member_item item(const struct rig *rig, unsigned number)
{
    struct member_digest id = id_of(number);
    struct member_item row = {0};

    CHECK("an item", member_find_item(rig->m, &id, &row));
    return row;
}

static struct rig *with(unsigned items, int workers)
{
    static const char *const names[] = {"w0", "w1", "w2"};
    struct rig *rig = rig_open(NULL);

    for (int i = 0; i < workers; i++) (void)rig_beat(rig, names[i], MEMBER_READY, 0);
    for (unsigned i = 0; i < items; i++) CHECK_U64("put", put(rig, i, "payload"), MEMBER_S_DONE);
    return rig;
}

TEST(case_219_220_pending_running_done)
{
    struct rig *rig = with(1, 2);

    CHECK_U64("pending", item(rig, 0).state, MEMBER_ITEM_PENDING);
    CHECK_U32("pulled", pull(rig, "w0", 5), 1);
    CHECK_U64("running", item(rig, 0).state, MEMBER_ITEM_RUNNING);
    CHECK_STR("under", item(rig, 0).worker, STR("w0"));
    CHECK_U32("not twice", pull(rig, "w1", 5), 0);
    CHECK_U64("not another's", say(rig, MEMBER_OP_SUBMIT, "w1", 0), MEMBER_S_NOT_OWNER);
    CHECK_U64("submitted", say(rig, MEMBER_OP_SUBMIT, "w0", 0), MEMBER_S_DONE);
    CHECK_U64("done", item(rig, 0).state, MEMBER_ITEM_DONE);
    CHECK_STR("with", item(rig, 0).result, STR("result"));
    CHECK_U64("again", say(rig, MEMBER_OP_SUBMIT, "w0", 0), MEMBER_S_FINAL);
    CHECK_U64("nor released", say(rig, MEMBER_OP_RELEASE, "w0", 0), MEMBER_S_FINAL);
    CHECK_U64("still", item(rig, 0).state, MEMBER_ITEM_DONE);
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_WORK_COMPLETED, "w0"), 1);
    rig_close(rig);
}

TEST(case_221_222_as_they_came)
{
    struct rig *rig = with(0, 1);
    static const unsigned order[] = {9, 4, 7};
    struct member_item row;
    size_t op;

    for (size_t i = 0; i < 3; i++) (void)put(rig, order[i], "p");
    CHECK_U32("two", pull(rig, "w0", 2), 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK("given", member_assigned(rig->m, i, &op, &row));
        CHECK("in order", row.id.b[1] == order[i] && row.state == MEMBER_ITEM_RUNNING);
    }
    CHECK("no more", !member_assigned(rig->m, 2, &op, &row));
    CHECK_U64("waits", item(rig, 7).state, MEMBER_ITEM_PENDING);
    rig_close(rig);
}

TEST(a_pull_is_bounded_by_bytes_too)
{
    struct rig *rig = with(4, 1);
    struct member_op op = rig_of(rig, MEMBER_OP_PULL, "w0");

    op.number = 4;
    op.limit = 15;
    CHECK_U32("two of seven bytes", rig_op(rig, &op).items, 2);
    op.limit = 1;
    CHECK_U32("one at least", rig_op(rig, &op).items, 1);
    rig_close(rig);
}

static uint32_t steal(struct rig *rig, const char *thief)
{
    struct member_op op = rig_of(rig, MEMBER_OP_STEAL, thief);

    return rig_op(rig, &op).items;
}

TEST(case_223_224_half_of_the_busiest)
{
    static const struct {
        unsigned backlog;
        uint32_t stolen;
    } rows[] = {{7, 4}, {100, 32}, {2, 1}, {1, 1}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rig *rig = with(rows[i].backlog + 1, 3);

        CHECK_U32("some", pull(rig, "w0", rows[i].backlog), rows[i].backlog);
        if (rows[i].backlog > 1) CHECK_U32("one", pull(rig, "w1", 1), 1);
        CHECK_U32("stolen", steal(rig, "w2"), rows[i].stolen);
        CHECK_STR("the lowest ids", item(rig, 0).worker, STR("w2"));
        CHECK_U32("left", rig_worker(rig, "w0").items, rows[i].backlog - rows[i].stolen);
        CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_WORK_STOLEN, "w2"), rows[i].stolen);
        CHECK_U64("the victim's is refused", say(rig, MEMBER_OP_SUBMIT, "w0", 0),
                  MEMBER_S_NOT_OWNER);
        CHECK_U64("the thief's is taken", say(rig, MEMBER_OP_SUBMIT, "w2", 0), MEMBER_S_DONE);
        rig_close(rig);
    }
}

TEST(case_225_226_a_worker_with_work_steals_nothing_and_ties)
{
    struct rig *rig = with(7, 3);

    CHECK_U32("alone", steal(rig, "w0"), 0);
    (void)pull(rig, "w0", 6);
    (void)pull(rig, "w1", 1);
    CHECK_U32("has one", steal(rig, "w1"), 0);
    CHECK_U32("keeps", rig_worker(rig, "w0").items, 6);
    rig_close(rig);
    rig = with(4, 3);
    (void)pull(rig, "w0", 2);
    (void)pull(rig, "w1", 2);
    CHECK_U32("a tie", steal(rig, "w2"), 1);
    CHECK_U32("the greater id", rig_worker(rig, "w1").items, 1);
    rig_close(rig);
}

TEST(started_items_are_not_stolen)
{
    struct rig *rig = with(2, 2);

    (void)pull(rig, "w0", 2);
    CHECK_U64("begun", say(rig, MEMBER_OP_WORK_START, "w0", 0), MEMBER_S_DONE);
    CHECK_U32("the other", steal(rig, "w1"), 1);
    CHECK_STR("w0", item(rig, 0).worker, STR("w0"));
    CHECK_STR("w1", item(rig, 1).worker, STR("w1"));
    rig_close(rig);
}

TEST(case_228_content_is_done_once)
{
    struct rig *rig = with(1, 1);

    CHECK_U64("joined", put(rig, 0, "payload"), MEMBER_S_JOINED);
    (void)pull(rig, "w0", 1);
    CHECK_U64("joined", put(rig, 0, "payload"), MEMBER_S_JOINED);
    (void)say(rig, MEMBER_OP_SUBMIT, "w0", 0);
    CHECK_U64("done", put(rig, 0, "payload"), MEMBER_S_FINAL);
    CHECK_U32("not again", pull(rig, "w0", 1), 0);
    rig_close(rig);
}

TEST(case_229_the_work_of_the_dead_waits_again)
{
    struct rig *rig = with(2, 2);
    struct member_op late = rig_of(rig, MEMBER_OP_SUBMIT, "w0");

    (void)pull(rig, "w0", 2);
    late.item = id_of(0);
    rig_run(rig, 7000);
    CHECK_U64("dead", rig_worker(rig, "w0").standing, MEMBER_DEAD);
    CHECK_U64("pending", item(rig, 0).state, MEMBER_ITEM_PENDING);
    CHECK_STR("payload", item(rig, 0).payload, STR("payload"));
    CHECK_U64("a late result", rig_op(rig, &late).status, MEMBER_S_DEAD_NOW);
    (void)rig_beat(rig, "w0", MEMBER_READY, 0);
    CHECK_U64("of the old one", rig_op(rig, &late).status, MEMBER_S_STALE);
    CHECK_U32("for another", pull(rig, "w0", 1), 1);
    rig_close(rig);
}

TEST(case_230_five_deaths_are_poison)
{
    struct rig *rig = with(1, 0);

    for (int i = 0; i < 5; i++) {
        (void)rig_beat(rig, "w0", MEMBER_READY, 0);
        CHECK_U32("tried", pull(rig, "w0", 1), 1);
        rig_run(rig, 7000);
    }
    CHECK_U64("failed", item(rig, 0).state, MEMBER_ITEM_FAILED);
    CHECK_STR("why", item(rig, 0).result, STR("poison"));
    CHECK_U64("for good", put(rig, 0, "payload"), MEMBER_S_FINAL);
    rig_close(rig);
}

TEST(given_back_is_no_attempt)
{
    struct rig *rig = with(1, 1);

    for (int i = 0; i < 9; i++) {
        CHECK_U32("tried", pull(rig, "w0", 1), 1);
        CHECK_U64("back", say(rig, MEMBER_OP_RELEASE, "w0", 0), MEMBER_S_DONE);
    }
    CHECK_U64("waits", item(rig, 0).state, MEMBER_ITEM_PENDING);
    CHECK_U32("nobody died", item(rig, 0).attempts, 0);
    rig_close(rig);
}

TEST(case_237_239_a_restart_keeps_what_runs)
{
    struct rig *rig = with(12, 3);
    struct member_status_counts counts;

    (void)pull(rig, "w0", 4);
    (void)pull(rig, "w1", 4);
    for (unsigned i = 0; i < 4; i++) (void)say(rig, MEMBER_OP_SUBMIT, "w0", i);
    rig_reload(rig);
    counts = member_counts(rig->m);
    CHECK("as it was", counts.pending == 4 && counts.running == 4 && counts.done == 4);
    CHECK_STR("in flight under its worker", item(rig, 4).worker, STR("w1"));
    for (unsigned i = 0; i < 8; i++)
        CHECK_U64("acks replayed", say(rig, MEMBER_OP_SUBMIT, i < 4 ? "w0" : "w1", i),
                  i < 4 ? MEMBER_S_FINAL : MEMBER_S_DONE);
    (void)pull(rig, "w2", 4);
    for (unsigned i = 8; i < 12; i++) (void)say(rig, MEMBER_OP_SUBMIT, "w2", i);
    CHECK_U64("each once", member_counts(rig->m).done, 12);
    CHECK_SIZE("reported", rig_count(rig, MEMBER_EV_WORK_COMPLETED, NULL), 12);
    rig_close(rig);
}

TEST(case_231_238_epochs_of_coordinators)
{
    struct rig *rig = rig_open(NULL);
    struct member_op op = {.kind = MEMBER_OP_LEAD, .worker = STR("c2"), .number = rig->term};

    CHECK_U64("the first takes 0", member_counts(rig->m).coord_epoch, 0);
    CHECK_U64("the same term again", rig_op(rig, &op).status, MEMBER_S_SAME);
    CHECK_STR("holder", member_counts(rig->m).leader, STR("c1"));
    rig_takeover(rig);
    rig_takeover(rig);
    CHECK_U64("two more", member_counts(rig->m).coord_epoch, 2);
    rig_reload(rig);
    CHECK_U64("kept, and one more", member_counts(rig->m).coord_epoch, 3);
    rig_close(rig);
}

TEST(a_full_quota_refuses_additions_and_accepts_deletions)
{
    struct member_options options = {.quota_bytes = 99500};
    struct membership *m = member_open(&options);
    char payload[1000] = {0};
    struct member_op op = {.kind = MEMBER_OP_ENQUEUE, .bytes = str_of(payload, sizeof payload)};
    struct member_command command = {.ops = &op, .op_count = 1};
    struct member_result result = {0};
    uint64_t index = 0;
    unsigned count = 0;

    for (; count < 1000; count++) {
        op.item = id_of(count);
        member_apply(m, ++index, 0, &command, &result);
        if (result.status != MEMBER_S_DONE) break;
    }
    CHECK_U64("full", result.status, MEMBER_S_FULL);
    CHECK("within it", member_bytes(m) <= 99500 && count > 55);
    op = (struct member_op){.kind = MEMBER_OP_REGISTER, .worker = STR("w0"), .by_beat = true};
    member_apply(m, ++index, 0, &command, &result);
    CHECK_U64("a worker is not shut out by work", result.status, MEMBER_S_DONE);
    for (count = 0; count < 1000 && result.status == MEMBER_S_DONE; count++) {
        char name[16];

        op.worker = str_of(name, (size_t)snprintf(name, sizeof name, "v%u", count));
        member_apply(m, ++index, 0, &command, &result);
    }
    CHECK_U64("but by workers", result.status, MEMBER_S_FULL);
    member_close(m);
}
