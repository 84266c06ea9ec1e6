/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, while an engine follows, votes, is elected, leads,
 * receives and sends snapshots; allocations of the raft library count, because it uses our heap.
 * After each failure the call returned out of memory, the engine is closed, and nothing leaks. The
 * library itself frees twice on such paths (defect 22 of docs/raft-guards.md). */
#include <stdlib.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "log/engine.h"
#include "mutants/mutant.h"

static const struct members three = {
    .at = {{1, MEMBER_VOTER, "a"}, {2, MEMBER_VOTER, "b"}, {3, MEMBER_VOTER, "c"}}, .count = 3};
static const struct members four = {.at = {{1, MEMBER_VOTER, "a"},
                                           {2, MEMBER_VOTER, "b"},
                                           {3, MEMBER_VOTER, "c"},
                                           {4, MEMBER_LEARNER, "d"}},
                                    .count = 4};
static struct buf first, second; /* their bytes */

#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum err try_err = (call);                                                                 \
        if (try_err) return try_err;                                                               \
    } while (0)

static enum err follow(struct engine *engine, mono_time now)
{
    struct engine_effects effects;
    struct entry entries[] = {{2, 2, ENTRY_BARRIER, STR_EMPTY},
                              {3, 2, ENTRY_COMMAND, STR("x")},
                              {4, 2, ENTRY_CHANGE, buf_peek(&second)},
                              {5, 2, ENTRY_COMMAND, STR("y")}};
    struct engine_append append = {
        .term = 2, .prev_index = 1, .prev_term = 1, .entries = entries, .entry_count = 4};

    TRY(engine_receive_append(engine, now, 2, &append, &effects));
    TRY(engine_persisted(engine, now, 5, &effects));
    append = (struct engine_append){.term = 2, .prev_index = 5, .prev_term = 2, .commit = 5};
    TRY(engine_receive_append(engine, now, 2, &append, &effects));
    TRY(engine_configuration(engine, now, 4, buf_peek(&second), &effects));
    /* another leader replaces the last one */
    entries[0] = (struct entry){6, 3, ENTRY_BARRIER, STR_EMPTY};
    append = (struct engine_append){.term = 3,
                                    .prev_index = 5,
                                    .prev_term = 2,
                                    .commit = 5,
                                    .entries = entries,
                                    .entry_count = 1};
    TRY(engine_receive_append(engine, now, 3, &append, &effects));
    return engine_persisted(engine, now, 6, &effects);
}

static enum err lead(struct engine *engine, mono_time *now)
{
    struct raft_message yes = {
        .type = RAFT_REQUEST_VOTE_RESULT, .server_id = 2, .request_vote_result = {.term = 4}};
    struct raft_message ack = {.type = RAFT_APPEND_ENTRIES_RESULT, .server_id = 2};
    struct entry command = {.kind = ENTRY_COMMAND, .bytes = STR("z")};
    struct engine_effects effects;
    uint64_t at;

    *now = engine_due(engine);
    TRY(engine_timeout(engine, *now, &effects)); /* asks whether it could win */
    yes.request_vote_result.vote_granted = yes.request_vote_result.pre_vote = true;
    TRY(engine_receive(engine, *now, &yes, &effects));
    yes.request_vote_result.pre_vote = false;
    TRY(engine_receive(engine, *now, &yes, &effects));
    CHECK("leads", engine_role(engine) == REPLICA_LEADER);
    TRY(engine_submit(engine, *now, &command, 1, &at, &effects));
    TRY(engine_persisted(engine, *now, at, &effects));
    ack.append_entries_result.term = 4;
    ack.append_entries_result.last_log_index = at;
    TRY(engine_receive(engine, *now, &ack, &effects));
    CHECK_U64("committed", engine_commit(engine), at);
    TRY(engine_compacted(
        engine, *now,
        &(struct snapshot_mark){.index = at, .term = 4, .members_index = 4, .members = four}, 1,
        &effects));
    command = (struct entry){.kind = ENTRY_CHANGE, .bytes = buf_peek(&first)};
    TRY(engine_submit(engine, *now, &command, 1, &at, &effects));
    return engine_transfer(engine, *now, 3, &effects);
}

static enum err install(struct engine *engine, mono_time now)
{
    struct snapshot_mark mark = {.index = 50, .term = 9, .members_index = 40, .members = three};
    struct engine_effects effects;

    TRY(engine_offer(engine, now, 3, 9, &mark, &effects));
    CHECK("wanted", effects.flags & ENGINE_INSTALL);
    return engine_installed(engine, now, &mark, &effects);
}

static enum err live(struct engine *engine)
{
    struct entry entry = {1, 1, ENTRY_CHANGE, buf_peek(&first)};
    struct engine_start start = {.term = 1, .start_index = 1, .entries = &entry, .entry_count = 1};
    struct engine_effects effects;
    mono_time now = {100};

    TRY(engine_begin(engine, now, &start, &effects));
    TRY(follow(engine, now));
    TRY(lead(engine, &now));
    return install(engine, now);
}

static bool sweep_holds(void)
{
    const struct engine_options options = {.id = 1,
                                           .address = "here",
                                           .election_ms = 100,
                                           .heartbeat_ms = 20,
                                           .in_flight_entries = 16,
                                           .seed = 1};
    uint64_t runs = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct engine *engine = NULL;
        enum err err = engine_open(&options, &engine);

        if (!err) err = live(engine);
        engine_close(engine);
        if (err != (fault_alloc_fired() ? ERR_NOMEM : ERR_OK)) return false;
        runs++;
    }
    return runs > 40; /* many allocations were tried */
}

TEST(the_kth_allocation_fails_in_the_life_of_an_engine)
{
    buf_init(&first, 4096);
    buf_init(&second, 4096);
    CHECK_OK("encoded", members_encode(&three, &first));
    CHECK_OK("encoded", members_encode(&four, &second));
    CHECK("as the code is", sweep_holds());
    CHECK("breaks without GUARD_22", mutant_breaks(sweep_holds, MUTANT_GUARD_22));
    buf_deinit(&first);
    buf_deinit(&second);
}
