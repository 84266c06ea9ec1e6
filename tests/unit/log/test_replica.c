/* SPDX-License-Identifier: Apache-2.0 */
/* A replica through log/log.h: one alone, and three. */
#include "replica_rig.h"

#include <stdio.h>
#include <string.h>

/* -- one alone -- */

TEST_BOTH(a_lone_replica_leads_takes_commands_and_keeps_them)
{
    struct node *node = &rig.nodes[0];
    struct call *call;

    rig_open(1);
    RIG_UNTIL("it leads", rig_leader() == node);
    call = rig_add(node, 0, "n", 5);
    RIG_UNTIL("answered", call->done);
    CHECK_OK("taken", call->err);
    CHECK_I64("with the machine's answer", call->reply.number, 5);
    CHECK("and its place", call->proposal.index > 0 && call->proposal.term > 0);
    call = rig_read(node, 0);
    RIG_UNTIL("a read is answered", call->done);
    CHECK_OK("by the only voter", call->err);
    CHECK_I64("new", rig_number(node, "n"), 5);

    rig_stop(0);
    rig_start_ok(0);
    RIG_UNTIL("it leads again", rig_leader() == node);
    CHECK_I64("nothing was lost", rig_number(node, "n"), 5);
    rig_close();
}

static struct {
    struct machine_ops ops;
    struct machine_recovery last;
    size_t count;
    int64_t number; /* value of register "n" at that event */
} recovered;

static void on_recover(void *state, const struct machine_recovery *recovery)
{
    (void)state;
    recovered.count++;
    recovered.last = *recovery;
    recovered.number = rig_number(&rig.nodes[0], "n");
}

/* Runs force-config as a process of its own. */
static enum err force_begin(struct io *io, void *context, void **ret_state)
{
    struct node *node = context;
    struct datadir_force force = {
        .fs = io->fs, .entropy = io->entropy, .dir = node->dir, .wall_ms = 1794727489000};
    struct datadir made;

    *ret_state = node;
    return datadir_force_config(&force, &made, &node->open_note);
}

static void force_end(void *state)
{
    (void)state;
}

static enum err force(struct node *node)
{
    static const struct sim_process_ops ops = {.start = force_begin, .destroy = force_end};
    void *state;
    enum err err;

    if (rig.real) return force_begin(node->io, node, &state);
    err = sim_host_start(node->host, &ops, node);
    sim_host_die(node->host, SIM_KILLED);
    return err;
}

/* force-config appends it to the log, after all entries; the replica applies it before it serves.
 * */
TEST_BOTH(a_forced_replica_recovers_its_machines_before_it_leads)
{
    struct node *node = &rig.nodes[0];
    struct call *call;

    memset(&recovered, 0, sizeof recovered);
    recovered.ops = trial_ops;
    recovered.ops.recover = on_recover;
    node->ops = &recovered.ops;
    node->level = CLUSTER_LEVEL;
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader() == node);
    call = rig_add(node, 0, "n", 5);
    RIG_UNTIL("answered", call->done);
    CHECK_SIZE("nothing to recover from", recovered.count, 0);
    rig_stop(0);
    CHECK_ERR(node->open_note.text, force(node), ERR_OK);
    rig_start_ok(0);
    RIG_UNTIL("it leads again", rig_leader() == node);
    CHECK_SIZE("once", recovered.count, 1);
    CHECK_I64("behind everything it had", recovered.number, 5);
    CHECK_U64("to where no history was", recovered.last.floor, 1794727489000 * 1024);
    CHECK_U64("and so is its term", replica_status(node->replica).term > recovered.last.floor, 1);
    call = rig_add(node, 1, "n", 1);
    RIG_UNTIL("answered", call->done);
    CHECK_I64("it goes on", call->reply.number, 6);
    rig_close();
}

static enum err apply_unknown(void *state, const struct machine_entry *entry, struct buf *reply,
                              struct note *note)
{
    if (entry->command.len < 100) return trial_ops.apply(state, entry, reply, note);
    note_set(note, "a command of unknown kind 99");
    return ERR_VERSION;
}

TEST_BOTH(a_command_that_a_machine_does_not_know_stops_the_replica_before_it)
{
    static struct machine_ops ops;
    struct node *node = &rig.nodes[0];
    char value[101] = {0};
    struct call *call;
    uint64_t applied;

    ops = trial_ops;
    ops.apply = apply_unknown;
    node->ops = &ops;
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader() == node);
    call = rig_add(node, 0, "n", 5);
    RIG_UNTIL("answered", call->done);
    applied = replica_status(node->replica).applied;
    memset(value, 'v', sizeof value - 1);
    call = rig_set(node, 1, "v", value);
    RIG_UNTIL("stopped", node->stopped);
    CHECK_ERR("as one that is too old", node->stopped, ERR_VERSION);
    CHECK_HAS("names the entry", node->why.text, "cannot be applied: machine trial: a command of");
    CHECK_U64("before it", replica_status(node->replica).applied, applied);
    CHECK("and nobody is notified that it was done", call->done && call->err == ERR_UNKNOWN);
    rig_close();
}

TEST_BOTH(proposals_during_a_sync_form_the_next_batch)
{
    struct node *node = &rig.nodes[0];
    uint64_t syncs;
    size_t done = 0;

    rig_open(1);
    RIG_UNTIL("it leads", rig_leader() == node);
    syncs = rig_counter(node, "muster_log_syncs_total ");
    for (size_t i = 0; i < 1000; i++) rig_add(node, i, "n", 1);
    while (done < 1000 && rig_turn())
        for (done = 0; done < 1000 && rig.calls[done].done;) done++;
    CHECK_I64("all of them, once", rig_number(node, "n"), 1000);
    for (size_t i = 0; i < 1000; i++) CHECK_I64("in order", rig.calls[i].reply.number, i + 1);
    syncs = rig_counter(node, "muster_log_syncs_total ") - syncs;
    CHECK("few syncs", syncs >= 1 && syncs <= 3);
    rig_close();
}

/* A machine with expensive entries: each takes more than one turn. */
static struct {
    struct machine_ops ops;
    struct io *io;
    uint64_t work, turn, in_turn, most; /* most: entries applied in one turn */
    int left, parts;                    /* left: parts of the current entry that remain */
    struct str command;                 /* the current entry's command, until its last part */
    uint64_t command_hash;
    struct buf kept; /* the entry's answer, sent after the last part */
} heavy;

static enum err heavy_apply(void *state, const struct machine_entry *entry, struct buf *reply,
                            struct note *note)
{
    uint64_t turn = loop_stats(heavy.io->loop).turns;

    CHECK("one at a time", heavy.left == 0);
    heavy.in_turn = turn == heavy.turn ? heavy.in_turn + 1 : 1;
    heavy.turn = turn;
    heavy.most = max_u64(heavy.most, heavy.in_turn);
    heavy.work += 600;
    heavy.left = heavy.parts;
    buf_clear(&heavy.kept);
    heavy.command = entry->command;
    heavy.command_hash = str_hash(entry->command, 0);
    return trial_ops.apply(state, entry, heavy.parts ? &heavy.kept : reply, note);
}

static bool heavy_more(void *state, struct buf *reply)
{
    (void)state;
    if (heavy.parts == 0) return false;
    CHECK_U64("its command is still there", str_hash(heavy.command, 0), heavy.command_hash);
    heavy.work += 2000;
    if (heavy.left-- > 0) return true;
    heavy.left = 0;
    CHECK_OK("the answer", buf_append(reply, buf_peek(&heavy.kept)));
    return false;
}

static uint64_t heavy_work(const void *state)
{
    (void)state;
    return heavy.work;
}

static void open_heavy(int parts)
{
    memset(&heavy, 0, sizeof heavy);
    buf_init(&heavy.kept, 1 << 20);
    heavy.ops = trial_ops;
    heavy.ops.apply = heavy_apply;
    heavy.ops.apply_more = heavy_more;
    heavy.ops.work = heavy_work;
    heavy.parts = parts;
    rig.nodes[0].ops = &heavy.ops;
    rig_open(1);
    heavy.io = rig.nodes[0].io;
    RIG_UNTIL("it leads", rig_leader());
}

static void add_a_hundred(void)
{
    struct call *read;
    size_t done = 0;

    for (size_t i = 0; i < 100; i++) rig_add(&rig.nodes[0], i, "n", 1);
    read = rig_read(&rig.nodes[0], 100);
    while (done < 100 && rig_turn())
        for (done = 0; done < 100 && rig.calls[done].done;) done++;
    for (size_t i = 0; i < 100; i++) CHECK_I64("in order", rig.calls[i].reply.number, i + 1);
    RIG_UNTIL("a read", read->done);
    CHECK_OK("as new as they are", read->err);
}

TEST(entries_that_are_much_work_do_not_share_a_turn)
{
    open_heavy(0);
    add_a_hundred();
    CHECK_U64("two are more than a turn has room for", heavy.most, 2);
    rig_close();
    buf_deinit(&heavy.kept);
}

TEST(an_entry_that_takes_turns_is_done_before_the_next_and_no_snapshot_begins_in_it)
{
    open_heavy(3);
    add_a_hundred();
    CHECK_U64("one", heavy.most, 1);
    CHECK_I64("all of them", rig_number(&rig.nodes[0], "n"), 100);
    rig_add(&rig.nodes[0], 0, "n", 1);
    while (heavy.left == 0 && rig_turn()) continue;
    CHECK_OK("asked for", replica_snapshot(rig.nodes[0].replica));
    while (!rig.calls[0].done && rig_turn())
        CHECK_U64("not yet", rig_counter(&rig.nodes[0], "muster_log_snapshots_taken_total "), 0);
    RIG_UNTIL("then", rig_counter(&rig.nodes[0], "muster_log_snapshots_taken_total ") == 1);
    rig_stop(0);
    heavy.left = 0;
    rig_start_ok(0);
    RIG_UNTIL("it leads again", rig_leader());
    CHECK_I64("the entry is in it", rig_number(&rig.nodes[0], "n"), 101);
    rig_close();
    buf_deinit(&heavy.kept);
}

/* -- three -- */

TEST_BOTH(three_agree_on_one_leader_and_one_order)
{
    struct node *leader;

    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    leader = rig_leader();
    for (size_t i = 0; i < 300; i++) rig_add(leader, i, i % 2 ? "a" : "b", 1);
    RIG_UNTIL("the last is answered", rig.calls[299].done);
    for (size_t i = 0; i < 300; i++) CHECK_OK("taken", rig.calls[i].err);
    RIG_UNTIL("all have it", rig_settled());
    for (size_t i = 0; i < 3; i++) {
        CHECK_I64("a", rig_number(&rig.nodes[i], "a"), 150);
        CHECK_U64("the same state", trial_hash(rig.nodes[i].trial), trial_hash(leader->trial));
        CHECK_U64("every replica knows the leader", replica_status(rig.nodes[i].replica).leader_id,
                  leader->id);
        CHECK_TEXT("and where it is", replica_status(rig.nodes[i].replica).leader_address,
                   leader->address);
    }
    rig_close();
}

TEST_BOTH(a_follower_refuses_and_names_the_reason)
{
    struct node *leader, *other;
    struct call *call;

    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    leader = rig_leader();
    other = &rig.nodes[leader->number == 0 ? 1 : 0];
    call = rig_add(other, 0, "n", 1);
    rig_read(other, 1);
    rig_change(other, 2, CHANGE_REMOVE, leader);
    rig_transfer(other, 3, 0);
    RIG_UNTIL("all are answered",
              call->done && rig.calls[1].done && rig.calls[2].done && rig.calls[3].done);
    for (size_t i = 0; i < 4; i++) CHECK_ERR("not the leader", rig.calls[i].err, ERR_NOT_LEADER);
    CHECK_U64("nowhere in the log", call->proposal.index, 0);
    rig_close();
}

TEST_BOTH(when_the_leader_dies_another_takes_over_with_everything)
{
    struct node *first, *second;
    struct call *call;

    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    first = rig_leader();
    for (size_t i = 0; i < 50; i++) rig_add(first, i, "n", 1);
    RIG_UNTIL("taken", rig.calls[49].done);
    CHECK_OK("and acknowledged", rig.calls[49].err);
    rig_kill(first->number);
    RIG_UNTIL("another leads", rig_leader());
    second = rig_leader();
    CHECK("another", second != first);
    CHECK_I64("nothing was lost", rig_number(second, "n"), 50);
    call = rig_add(second, 0, "n", 1);
    RIG_UNTIL("two go on", call->done);
    CHECK_OK("taken", call->err);
    rig_start_ok(first->number);
    RIG_UNTIL("the first comes back and catches up", rig_settled());
    CHECK_I64("to the end", rig_number(first, "n"), 51);
    rig_close();
}

TEST_BOTH(all_stop_and_start_and_nothing_is_lost)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    for (size_t i = 0; i < 100; i++) rig_add(rig_leader(), i, "n", 1);
    RIG_UNTIL("taken", rig.calls[99].done);
    for (size_t i = 0; i < 3; i++) rig_kill(i);
    for (size_t i = 0; i < 3; i++) rig_start_ok(i);
    RIG_UNTIL("one leads again", rig_leader());
    CHECK_I64("all of it", rig_number(rig_leader(), "n"), 100);
    rig_close();
}
