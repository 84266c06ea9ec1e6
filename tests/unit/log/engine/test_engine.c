/* SPDX-License-Identifier: Apache-2.0 */
/* The engine by itself and in small clusters: what drivers depend on. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cluster.h"
#include "lib/test.h"

TEST(a_lone_voter_leads_from_the_start_in_a_new_term)
{
    struct cluster *c = cluster_of(1, 1);
    struct node *node = cluster_node(c, 1);

    CHECK_U64("leads", cluster_leader(c), 1);
    CHECK_U64("a new term", node->term, 2);
    CHECK_U64("its own vote", node->vote, 1);
    CHECK_U64("configuration and barrier are applied", node->applied, 2);
    CHECK_OK("takes a command", cluster_submit(c, 1, "x"));
    CHECK_U64("applied at once: its disk is the majority", node->applied, 3);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

TEST(three_voters_elect_a_leader_and_apply_what_it_submits)
{
    struct cluster *c = cluster_of(3, 1);

    CHECK_U64("nobody leads yet", cluster_leader(c), 0);
    CHECK("1 is elected", cluster_elect(c, 1));
    for (int i = 0; i < 100; i++) {
        CHECK_OK("taken", cluster_submit(c, 1, "x"));
        cluster_deliver_all(c);
    }
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    for (uint64_t id = 1; id <= 3; id++)
        CHECK_U64("configuration, barrier, commands", cluster_node(c, id)->applied, 102);
    CHECK_U64("followers know it", engine_leader(cluster_node(c, 2)->engine), 1);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

TEST(a_new_leader_hands_out_its_barrier_in_the_call_that_made_it_leader)
{
    struct cluster *c = cluster_of(3, 1);
    struct node *node;

    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    node = cluster_node(c, 1);
    CHECK_U64("its log was committed to the end, and yet", node->last, 2);
    CHECK("a barrier", node->log[1].kind == ENTRY_BARRIER);
    CHECK_SIZE("without bytes", node->log[1].bytes.len, 0);
    CHECK_U64("of its term", node->log[1].term, engine_term(node->engine));
    /* The library also writes an entry of its own, with bytes, when something is uncommitted. */
    cluster_isolate(c, 1, true);
    CHECK_OK("uncommitted", cluster_submit(c, 1, "x"));
    cluster_crash(c, 1, 0);
    cluster_isolate(c, 1, false);
    cluster_start(c, 1);
    cluster_elapse(c, 2 * CLUSTER_ELECTION_MS);
    CHECK("1 leads again", cluster_elect(c, 1));
    CHECK_U64("one barrier", node->last, 4);
    CHECK("a barrier", node->log[3].kind == ENTRY_BARRIER);
    CHECK_SIZE("without bytes", node->log[3].bytes.len, 0);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

TEST(a_leader_knows_who_answered_when)
{
    struct cluster *c = cluster_of(3, 1);
    struct engine *engine = cluster_node(c, 1)->engine;
    mono_time then;

    CHECK("1 leads", cluster_elect(c, 1));
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    then = engine_heard(engine, 3);
    CHECK("3 answered", then.ms > 0);
    CHECK_U64("all of it", engine_match(engine, 3), 2);
    CHECK_U64("nobody knows 9", engine_heard(engine, 9).ms, 0);
    CHECK_U64("nobody knows 9", engine_match(engine, 9), 0);
    cluster_isolate(c, 3, true);
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    CHECK_U64("silent since", engine_heard(engine, 3).ms, then.ms);
    CHECK("2 is not", engine_heard(engine, 2).ms > then.ms);
    cluster_isolate(c, 2, true);
    cluster_run(c, 3 * CLUSTER_ELECTION_MS);
    CHECK("alone it steps down", engine_role(engine) != REPLICA_LEADER);
    cluster_isolate(c, 2, false);
    cluster_isolate(c, 3, true);
    CHECK("leads again, by 2's vote", cluster_elect(c, 1));
    CHECK_U64("and had no contact with 3 since", engine_heard(engine, 3).ms, 0);
    CHECK_U64("a follower knows nothing of that", engine_heard(cluster_node(c, 2)->engine, 1).ms,
              0);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

/* -- elections that fail -- */

enum { LATE_MS = 5 * CLUSTER_ELECTION_MS / 2, LATE_MAX = 256 };
static struct {
    struct parcel *own[LATE_MAX];
    uint64_t at[LATE_MAX];
    size_t count;
} late;

/* Delays votes until the candidate's usual time is over, as slow replicas do. */
static bool hold_votes(struct cluster *c, struct parcel *parcel)
{
    if (parcel->message.type != RAFT_REQUEST_VOTE_RESULT) return true;
    CHECK("room for late votes", late.count < LATE_MAX);
    late.own[late.count] = cluster_copy(parcel);
    late.at[late.count++] = c->now.ms + LATE_MS;
    return false;
}

static void give_late(struct cluster *c)
{
    size_t due = 0;

    while (due < late.count && late.at[due] <= c->now.ms) cluster_give(c, late.own[due++]);
    late.count -= due;
    memmove(late.own, late.own + due, late.count * sizeof late.own[0]);
    memmove(late.at, late.at + due, late.count * sizeof late.at[0]);
}

TEST(votes_that_come_late_elect_a_leader_in_the_end)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster *c = cluster_of(3, seed);

        c->on_post = hold_votes;
        for (uint64_t ms = 0; ms < 100 * CLUSTER_ELECTION_MS && !cluster_leader(c); ms++) {
            cluster_run(c, 1);
            give_late(c);
        }
        CHECK("a replica leads", cluster_leader(c) != 0);
        CHECK("sound", cluster_sound(c));
        c->on_post = NULL;
        while (late.count) cluster_drop(late.own[--late.count]);
        cluster_close(c);
    }
}

/* Time until the next candidacy of `id`, which no node answers. */
static uint64_t candidacy_after(struct cluster *c, uint64_t id)
{
    uint64_t before = c->now.ms;

    cluster_fire(c, id);
    cluster_drop_all(c);
    return c->now.ms - before;
}

TEST(each_failed_candidacy_waits_longer_and_a_leader_ends_that)
{
    /* Once to twice these times: as configured at first, then doubled, up to four times. */
    static const uint64_t times[] = {1, 1, 2, 4, 4, 4};
    struct cluster *c = cluster_of(3, 7);

    for (size_t round = 0; round < 3; round++) {
        CHECK("2 leads", cluster_elect(c, 2));
        cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
        cluster_isolate(c, 1, true);
        for (size_t i = 0; i < ARRAY_LEN(times); i++) {
            uint64_t waited = candidacy_after(c, 1);

            CHECK("not sooner",
                  waited + (i ? 0 : CLUSTER_HEARTBEAT_MS + 1) >= times[i] * CLUSTER_ELECTION_MS);
            CHECK("nor later", waited <= 2 * times[i] * CLUSTER_ELECTION_MS);
        }
        cluster_isolate(c, 1, false);
    }
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

TEST(a_leader_that_backed_off_as_candidate_steps_down_as_soon_as_any)
{
    struct cluster *c = cluster_of(3, 3);
    uint64_t waited = 0;

    cluster_isolate(c, 1, true);
    for (int i = 0; i < 5; i++) (void)candidacy_after(c, 1);
    cluster_isolate(c, 1, false);
    CHECK("1 leads in the end", cluster_elect(c, 1));
    cluster_run(c, 3 * CLUSTER_HEARTBEAT_MS);
    cluster_isolate(c, 1, true);
    for (; engine_role(cluster_node(c, 1)->engine) == REPLICA_LEADER; waited++) cluster_run(c, 1);
    CHECK("within the usual time", waited <= 2 * CLUSTER_ELECTION_MS);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

/* -- messages that no correct peer sends -- */

static const struct {
    const char *why;
    uint64_t from;
    struct engine_append append;
    struct entry entries[2];
} bad_appends[] = {
    {"from nobody", 0, {.term = 2}, {{0}}},
    {"from ourselves", 1, {.term = 2}, {{0}}},
    {"without a term", 2, {.term = 0}, {{0}}},
    {"a previous term without an index", 2, {.term = 2, .prev_term = 1}, {{0}}},
    {"a previous index without a term", 2, {.term = 2, .prev_index = 1}, {{0}}},
    {"what came before is of a later term", 2, {.term = 2, .prev_index = 1, .prev_term = 3}, {{0}}},
    {"an index past all reason",
     2,
     {.term = 2, .prev_index = UINT64_MAX, .prev_term = 1, .entry_count = 1},
     {{0, 2, ENTRY_COMMAND, {"x", 1}}}},
    {"a gap",
     2,
     {.term = 2, .prev_index = 1, .prev_term = 1, .entry_count = 1},
     {{3, 2, ENTRY_COMMAND, {"x", 1}}}},
    {"an entry without a term",
     2,
     {.term = 2, .prev_index = 1, .prev_term = 1, .entry_count = 1},
     {{2, 0, ENTRY_COMMAND, {"x", 1}}}},
    {"an entry of a later term than its leader",
     2,
     {.term = 2, .prev_index = 1, .prev_term = 1, .entry_count = 1},
     {{2, 3, ENTRY_COMMAND, {"x", 1}}}},
    {"terms that fall",
     2,
     {.term = 4, .prev_index = 1, .prev_term = 1, .entry_count = 2},
     {{2, 4, ENTRY_COMMAND, {"x", 1}}, {3, 2, ENTRY_COMMAND, {"x", 1}}}},
    {"an unknown kind",
     2,
     {.term = 2, .prev_index = 1, .prev_term = 1, .entry_count = 1},
     {{2, 2, (enum entry_kind)9, {"x", 1}}}},
    {"a configuration that cannot be read",
     2,
     {.term = 2, .prev_index = 1, .prev_term = 1, .entry_count = 1},
     {{2, 2, ENTRY_CHANGE, {"\1\377\377\377\377\377\377\377\377", 9}}}},
    {"a log that begins with a command",
     2,
     {.term = 2, .entry_count = 1},
     {{1, 2, ENTRY_COMMAND, {"x", 1}}}},
};

TEST(an_append_that_cannot_be_is_refused_and_changes_nothing)
{
    struct cluster *c = cluster_of(3, 1);
    struct engine *engine = cluster_node(c, 1)->engine;
    struct engine_effects effects;
    struct engine_append append = {.term = 2};

    for (size_t i = 0; i < ARRAY_LEN(bad_appends); i++) {
        append = bad_appends[i].append;
        append.entries = bad_appends[i].entries;
        CHECK_ERR(bad_appends[i].why,
                  engine_receive_append(engine, c->now, bad_appends[i].from, &append, &effects),
                  ERR_INVALID);
        CHECK_U64(bad_appends[i].why, engine_last(engine), 1);
        CHECK_U64(bad_appends[i].why, engine_term(engine), 1);
    }
    CHECK("1 leads", cluster_elect(c, 1));
    append = (struct engine_append){.term = engine_term(engine)};
    CHECK_ERR("of the term we lead", engine_receive_append(engine, c->now, 2, &append, &effects),
              ERR_INVALID);
    CHECK("still leads", engine_role(engine) == REPLICA_LEADER);
    append.term--;
    CHECK_OK("of an older term it may be",
             engine_receive_append(engine, c->now, 2, &append, &effects));
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

TEST(a_message_or_snapshot_that_cannot_be_is_refused)
{
    struct cluster *c = cluster_of(3, 1);
    struct engine *engine = cluster_node(c, 1)->engine;
    struct raft_message message = {
        .type = RAFT_REQUEST_VOTE, .server_id = 2, .request_vote = {.term = 9, .candidate_id = 3}};
    struct snapshot_mark mark = {
        .index = 5, .term = 2, .members_index = 1, .members = cluster_members(3, 0)};
    struct engine_effects effects;

    CHECK_ERR("a vote for another", engine_receive(engine, c->now, &message, &effects),
              ERR_INVALID);
    message.request_vote.candidate_id = message.server_id = 1;
    CHECK_ERR("from ourselves", engine_receive(engine, c->now, &message, &effects), ERR_INVALID);
    message.request_vote.candidate_id = message.server_id = 0;
    CHECK_ERR("from nobody", engine_receive(engine, c->now, &message, &effects), ERR_INVALID);
    message.server_id = 2;
    message.type = RAFT_APPEND_ENTRIES;
    CHECK_ERR("has its own door", engine_receive(engine, c->now, &message, &effects), ERR_INVALID);
    message.type = RAFT_INSTALL_SNAPSHOT;
    CHECK_ERR("has its own door", engine_receive(engine, c->now, &message, &effects), ERR_INVALID);
    message.type = (enum raft_message_type)99;
    CHECK_ERR("unknown", engine_receive(engine, c->now, &message, &effects), ERR_INVALID);
    CHECK_ERR("of a later term than its leader",
              engine_offer(engine, c->now, 2, 1, &mark, &effects), ERR_INVALID);
    mark.members_index = 6;
    CHECK_ERR("its configuration comes after it",
              engine_offer(engine, c->now, 2, 2, &mark, &effects), ERR_INVALID);
    mark.members_index = 1;
    mark.members.count = 0;
    CHECK_ERR("nobody in it", engine_offer(engine, c->now, 2, 2, &mark, &effects), ERR_INVALID);
    mark.members.count = 3;
    mark.index = 0;
    CHECK_ERR("of nothing", engine_offer(engine, c->now, 2, 2, &mark, &effects), ERR_INVALID);
    CHECK_U64("nothing changed", engine_term(engine), 1);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

/* Frames carry no version of the library's messages; without a version the library counts a late
 * pre-vote answer as a vote. */
TEST(a_pre_vote_is_not_counted_as_a_vote)
{
    struct cluster *c = cluster_of(3, 1);
    struct engine *engine = cluster_node(c, 1)->engine;
    struct raft_message yes = {.type = RAFT_REQUEST_VOTE_RESULT, .server_id = 2};
    struct engine_effects effects;

    cluster_fire(c, 1);
    yes.request_vote_result =
        (struct raft_request_vote_result){.term = 2, .vote_granted = true, .pre_vote = true};
    CHECK_OK("would be elected", engine_receive(engine, c->now, &yes, &effects));
    CHECK("asks for votes", effects.flags & ENGINE_VOTE);
    yes.server_id = 3;
    CHECK_OK("the other answer", engine_receive(engine, c->now, &yes, &effects));
    CHECK("no vote", engine_role(engine) == REPLICA_CANDIDATE);
    yes.request_vote_result.pre_vote = false;
    CHECK_OK("a vote", engine_receive(engine, c->now, &yes, &effects));
    CHECK("leads", engine_role(engine) == REPLICA_LEADER);
    cluster_close(c);
}

/* -- starting -- */

static enum err begin(const struct engine_start *start)
{
    struct engine_options options = {
        .id = 1, .address = "a", .election_ms = 100, .heartbeat_ms = 20, .seed = 1};
    struct engine_effects effects;
    struct engine *engine;
    enum err err;

    CHECK_OK("opens", engine_open(&options, &engine));
    err = engine_begin(engine, (mono_time){5}, start, &effects);
    engine_close(engine);
    return err;
}

TEST(a_log_that_cannot_be_is_not_started_from)
{
    struct members members = cluster_members(3, 0);
    struct snapshot_mark mark = {.index = 5, .term = 2, .members_index = 1, .members = members};
    struct entry entries[2] = {{1, 1, ENTRY_CHANGE, STR_EMPTY}, {2, 1, ENTRY_COMMAND, STR("x")}};
    struct engine_start start = {.term = 2, .start_index = 1, .entries = entries};
    struct buf bytes;

    buf_init(&bytes, 4096);
    CHECK_OK("encoded", members_encode(&members, &bytes));
    entries[0].bytes = buf_peek(&bytes);
    CHECK_OK("empty", begin(&start));
    start.entry_count = 2;
    CHECK_OK("sound", begin(&start));
    start.entries = entries + 1;
    start.entry_count = 1;
    CHECK_ERR("does not begin with its configuration", begin(&start), ERR_CORRUPT);
    start.start_index = 2;
    CHECK_ERR("begins later, and there is no snapshot", begin(&start), ERR_CORRUPT);
    start.entries = entries;
    start.entry_count = 2;
    start.start_index = 1;
    entries[1].term = 3;
    CHECK_ERR("of a later term than we know", begin(&start), ERR_CORRUPT);
    entries[1].term = 0;
    CHECK_ERR("without a term", begin(&start), ERR_CORRUPT);
    entries[0].term = 2;
    entries[1].term = 1;
    CHECK_ERR("terms that fall", begin(&start), ERR_CORRUPT);
    entries[0].term = 1;
    entries[1].index = 3;
    CHECK_ERR("a gap", begin(&start), ERR_CORRUPT);
    entries[1].index = 2;
    entries[0].bytes.len -= 8;
    CHECK_ERR("its configuration is cut", begin(&start), ERR_CORRUPT);
    entries[0].bytes.len += 8;
    start.snapshot = &mark;
    CHECK_ERR("ends before the snapshot", begin(&start), ERR_CORRUPT);
    start.entry_count = 0;
    start.start_index = 7;
    CHECK_ERR("begins behind a gap after the snapshot", begin(&start), ERR_CORRUPT);
    start.start_index = 6;
    CHECK_OK("only a snapshot", begin(&start));
    mark.term = 3;
    CHECK_ERR("a snapshot of a later term than we know", begin(&start), ERR_CORRUPT);
    buf_deinit(&bytes);
}

TEST(a_restart_remembers_snapshot_entries_term_and_vote)
{
    struct cluster *c = cluster_of(3, 1);
    struct node *node = cluster_node(c, 2);
    uint64_t last, term;

    CHECK("1 leads", cluster_elect(c, 1));
    for (int i = 0; i < 20; i++) {
        CHECK_OK("taken", cluster_submit(c, 1, "x"));
        cluster_deliver_all(c);
    }
    cluster_run(c, 2 * CLUSTER_HEARTBEAT_MS);
    cluster_snapshot(c, 2, 4);
    CHECK_U64("compacted", node->first, node->snapshot.index - 4 + 1);
    last = node->last;
    term = node->term;
    cluster_crash(c, 2, 0);
    cluster_start(c, 2);
    CHECK_U64("log", engine_last(node->engine), last);
    CHECK_U64("term", engine_term(node->engine), term);
    CHECK_U64("the entries of the snapshot are committed", engine_commit(node->engine),
              node->snapshot.index);
    cluster_run(c, 3 * CLUSTER_HEARTBEAT_MS);
    CHECK_U64("goes on", node->applied, cluster_node(c, 1)->applied);
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

TEST(a_snapshot_that_comes_too_late_is_a_conflict)
{
    struct cluster *c = cluster_of(1, 1);
    struct node *node = cluster_node(c, 1);
    struct snapshot_mark mark;
    struct engine_effects effects;

    CHECK_OK("taken", cluster_submit(c, 1, "x"));
    cluster_snapshot(c, 1, 0);
    mark = node->snapshot;
    CHECK_ERR("the same again", engine_compacted(node->engine, c->now, &mark, 0, &effects),
              ERR_CONFLICT);
    mark.index--;
    CHECK_ERR("an older one", engine_compacted(node->engine, c->now, &mark, 0, &effects),
              ERR_CONFLICT);
    CHECK_OK("goes on", cluster_submit(c, 1, "y"));
    CHECK("sound", cluster_sound(c));
    cluster_close(c);
}

TEST(a_report_about_what_is_durable_already_changes_nothing)
{
    struct cluster *c = cluster_of(1, 1);
    struct node *node = cluster_node(c, 1);
    struct engine_effects effects;

    CHECK_OK("taken", cluster_submit(c, 1, "x"));
    CHECK_OK("reported again", engine_persisted(node->engine, c->now, node->last, &effects));
    CHECK_U64("no effect", effects.flags, 0);
    CHECK_OK("notified of less", engine_persisted(node->engine, c->now, 1, &effects));
    CHECK_U64("no effect", effects.flags, 0);
    CHECK_OK("goes on", cluster_submit(c, 1, "y"));
    CHECK_U64("committed", node->applied, node->last);
    cluster_close(c);
    /* A follower would acknowledge again, with a lower index. */
    c = cluster_of(3, 1);
    CHECK("1 leads", cluster_elect(c, 1));
    node = cluster_node(c, 2);
    CHECK_OK("notified of less", engine_persisted(node->engine, c->now, 1, &effects));
    CHECK_U64("no effect", effects.flags, 0);
    cluster_close(c);
}

/* -- configurations as bytes -- */

TEST(a_configuration_has_the_bytes_of_the_engine)
{
    struct members members = cluster_members(3, 2), back;
    struct raft_configuration theirs;
    struct raft_buffer encoded;
    struct buf bytes;

    buf_init(&bytes, 65536);
    members.at[1].id = UINT64_MAX;
    strcpy(members.at[2].address, "some.where.example:7791");
    raft_configuration_init(&theirs);
    for (size_t i = 0; i < members.count; i++)
        CHECK("added", !raft_configuration_add(&theirs, members.at[i].id, members.at[i].address,
                                               members.at[i].role == MEMBER_VOTER ? RAFT_VOTER
                                                                                  : RAFT_STANDBY));
    CHECK("encoded by the engine", !raft_configuration_encode(&theirs, &encoded));
    CHECK_OK("encoded by us", members_encode(&members, &bytes));
    CHECK_STR("the same", buf_peek(&bytes), str_of(encoded.base, encoded.len));
    CHECK_OK("decoded", members_decode(buf_peek(&bytes), &back));
    CHECK_SIZE("all of them", back.count, members.count);
    for (size_t i = 0; i < members.count; i++) {
        CHECK_U64("id", back.at[i].id, members.at[i].id);
        CHECK_U64("role", back.at[i].role, members.at[i].role);
        CHECK_TEXT("address", back.at[i].address, members.at[i].address);
    }
    CHECK_SIZE("voters", members_voters(&back), 3);
    CHECK("found", members_find(&back, UINT64_MAX) == &back.at[1]);
    CHECK("not found", members_find(&back, 77) == NULL);
    raft_free(encoded.base);
    raft_configuration_close(&theirs);
    buf_deinit(&bytes);
}

TEST(damaged_bytes_are_no_configuration)
{
    struct members members = cluster_members(2, 1), back;
    struct buf bytes;
    char *copy;

    buf_init(&bytes, 4096);
    CHECK_OK("encoded", members_encode(&members, &bytes));
    for (size_t len = 0; len < bytes.len;
         len++) { /* a copy of exactly that size, so that ASan sees a read past the end */
        copy = malloc(len ? len : 1);
        memcpy(copy, bytes.data, len);
        CHECK_ERR("cut", members_decode(str_of(copy, len), &back), ERR_PARSE);
        free(copy);
    }
    copy = malloc(bytes.len + 8);
    memcpy(copy, bytes.data, bytes.len);
    memset(copy + bytes.len, 0, 8);
    CHECK_ERR("longer", members_decode(str_of(copy, bytes.len + 8), &back), ERR_PARSE);
    copy[0] = 2;
    CHECK_ERR("another format", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[0] = 1;
    copy[1] = 2;
    CHECK_ERR("fewer than there are", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[1] = 4;
    CHECK_ERR("more than there are", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[1] = REPLICA_MEMBERS_MAX + 1;
    CHECK_ERR("more than we take", members_decode(str_of(copy, bytes.len), &back), ERR_FULL);
    copy[1] = 0;
    CHECK_ERR("nobody", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[1] = 3;
    copy[9] = 2;
    CHECK_ERR("the same id twice", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[9] = 0;
    CHECK_ERR("no id", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[9] = 1;
    copy[18] = '2';
    CHECK_ERR("the same address twice", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[18] = '1';
    copy[20] = 2;
    CHECK_ERR("a spare", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[20] = 1;
    copy[bytes.len - 1] = 1;
    CHECK_ERR("not zeros", members_decode(str_of(copy, bytes.len), &back), ERR_PARSE);
    copy[bytes.len - 1] = 0;
    CHECK_OK("and as it was", members_decode(str_of(copy, bytes.len), &back));
    free(copy);
    buf_deinit(&bytes);
}

TEST(what_does_not_fit_leaves_the_buffer_as_it_was)
{
    struct members members = cluster_members(3, 0);
    struct buf bytes;

    for (size_t max = 1; max < 48; max++) {
        buf_init(&bytes, max);
        CHECK_OK("a byte before", buf_append_byte(&bytes, 'x'));
        CHECK_ERR("full", members_encode(&members, &bytes), ERR_FULL);
        CHECK_SIZE("as it was", bytes.len, 1);
        buf_deinit(&bytes);
    }
}
