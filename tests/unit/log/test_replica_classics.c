/* SPDX-License-Identifier: Apache-2.0 */
/* Known failures of Raft implementations, each built step by step in virtual time: partitions, slow
 * clocks, slow disks, power cuts. Each test also runs with its planted bug. */
#include <string.h>

#include "replica_rig.h"

enum { SLOW = -500000, FAST = 500000 };

static enum err answer_of(struct call *call)
{
    RIG_UNTIL("answered", call->done);
    return call->err;
}

static struct node *after(const struct node *node, size_t steps)
{
    return &rig.nodes[(node->number + steps) % rig.founders];
}

static bool leads(const struct node *node)
{
    return node->replica && replica_status(node->replica).role == REPLICA_LEADER;
}

static void block(struct node *a, struct node *b, bool blocked)
{
    sim_link_block(a->host, b->host, blocked);
    sim_link_block(b->host, a->host, blocked);
}

static void slow_disk(struct node *node, uint64_t sync_ms)
{
    struct sim_fs_options disk = sim_fs_options(sim_host_disk(node->host));

    disk.sync_ns_min = disk.sync_ns_max = sync_ms * 1000000;
    disk.write_lost_per_million = 1000000;
    CHECK_OK("set", sim_fs_set_options(sim_host_disk(node->host), &disk));
}

/* One follower's answer arrives after its round and after the leader's time. The answer must not
 * count for a later round. */
TEST(a_late_answer_to_a_finished_round_confirms_nothing)
{
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader(), *near = after(old, 1), *far = after(old, 2);

    CHECK_OK("a write", answer_of(rig_add(old, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    sim_host_clock_rate(old->host, SLOW);
    sim_host_clock_rate(near->host, FAST);
    sim_host_clock_rate(far->host, FAST);
    sim_link_clog(far->host, old->host, 100000);
    CHECK_OK("a round without the far one", answer_of(rig_read(old, 1)));
    rig_run(5); /* the round reached it, and its answer is in flight */
    block(old, near, true);
    sim_link_block(old->host, far->host, true);
    RIG_UNTIL("the others lead", rig_has_new_leader(old));
    CHECK_OK("and write", answer_of(rig_add(rig_leader(), 2, "n", 1)));
    CHECK("while the old one does not know", leads(old));
    struct call *read = rig_read(old, 3);
    rig_run(1);
    CHECK("its second round is under way", leads(old) && !read->done);
    sim_link_heal_all(rig.sim); /* the late answer arrives first */
    CHECK_ERR("it proves nothing", answer_of(read), ERR_NOT_LEADER);
    rig_close();
}

/* The power fails between a vote and its sync. No candidate may have received that vote: given
 * again to another candidate, it would elect a second leader of the term. */
TEST(a_vote_lost_in_a_power_cut_was_never_sent)
{
    uint64_t term, last;

    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader(), *voter = after(old, 1), *next = after(old, 2);

    RIG_UNTIL("quiet", rig_settled());
    rig_run(5000); /* the log is sealed, spares are made: the disk is idle */
    slow_disk(voter, 1000);
    last = replica_status(old->replica).last;
    rig_add(old, 0, "n", 1); /* the vote has to wait for the sync of this entry */
    RIG_UNTIL("the voter's disk is at work", replica_status(voter->replica).last > last &&
                                                 replica_status(next->replica).last > last);
    rig_run(1);
    slow_disk(voter, 0); /* later syncs are fast */
    rig_cut(old->number, true);
    sim_host_clock_rate(next->host, FAST);
    RIG_UNTIL("the next one leads by the voter's vote", leads(next));
    term = replica_status(next->replica).term;
    sim_host_die(voter->host, SIM_POWER_CUT);
    sim_link_heal_all(rig.sim);
    rig_cut(next->number, true); /* it still believes that it leads */
    rig_start_ok(voter->number);
    RIG_UNTIL("another leads by the same vote", leads(old) || leads(voter));
    CHECK("but not the same term", replica_status((leads(old) ? old : voter)->replica).term > term);
    rig_close();
}

static bool is_ready(struct node *node)
{
    return leads(node) && replica_status(node->replica).ready;
}

/* A follower's disk still syncs entries that another leader has replaced since. The disk's report
 * must not count for their successors, which a power cut then loses. */
TEST(a_disk_report_of_replaced_entries_does_not_count_for_their_successors)
{
    uint64_t last;

    rig_open(5);
    RIG_UNTIL("one leads", rig_leader());
    struct node *old = rig_leader(), *late = after(old, 1), *next = after(old, 2);
    struct node *fourth = after(old, 3), *fifth = after(old, 4);

    CHECK_OK("a write", answer_of(rig_add(old, 0, "n", 1)));
    RIG_UNTIL("quiet", rig_settled());
    /* The other replicas lose their connections to the late one: it does not see the next election.
     * */
    for (size_t i = 2; i < 5; i++) block(late, after(old, i), true);
    rig_run(5000); /* the log is sealed, spares are made: the disks are idle */
    /* The old leader reaches only the late one, whose disk is slow. */
    for (size_t i = 2; i < 5; i++) block(old, after(old, i), true);
    slow_disk(late, 60000);
    sim_host_clock_rate(late->host, SLOW);
    last = replica_status(old->replica).last;
    for (size_t i = 0; i < 8; i++) rig_add(old, 1 + i, "lost", 1);
    RIG_UNTIL("they are in its memory", replica_status(late->replica).last == last + 8);
    rig_cut(old->number, true);
    RIG_UNTIL("one of the three leads", is_ready(next) || is_ready(fourth) || is_ready(fifth));
    if (!is_ready(next)) { /* which one is drawn */
        struct node **leader = is_ready(fourth) ? &fourth : &fifth, *other = next;
        next = *leader;
        *leader = other;
    }
    slow_disk(fifth, 6000000); /* it follows, and acknowledges nothing */
    struct call *write = rig_add(next, 20, "kept", 1);
    block(late, next, false);
    RIG_UNTIL("the late one has the new entries",
              replica_status(late->replica).term == replica_status(next->replica).term &&
                  replica_status(late->replica).last == replica_status(next->replica).last);
    CHECK_U64("its disk still syncs the old entries", replica_status(late->replica).durable, last);
    CHECK_OK("acknowledged with the late one's help", answer_of(write));
    sim_host_die(late->host, SIM_POWER_CUT);
    sim_host_die(fifth->host, SIM_POWER_CUT);
    rig_kill(next->number);
    rig_kill(fourth->number);
    /* Three of five are left, including the late one. */
    slow_disk(late, 0);
    slow_disk(fifth, 0);
    rig_start_ok(late->number);
    rig_start_ok(fifth->number);
    sim_link_heal_all(rig.sim);
    RIG_UNTIL("one of the rest leads", rig_leader());
    CHECK_OK("a read", answer_of(rig_read(rig_leader(), 30)));
    CHECK_I64("includes every acknowledged write", rig_number(rig_leader(), "kept"), 1);
    rig_close();
}

TEST(these_find_the_planted_bugs)
{
    if (mutant_is_planted()) SKIP("one of them is in here");
    CHECK_FOUND("a_late_answer_to_a_finished_round", READ_OLD_ROUND);
    CHECK_FOUND("a_vote_lost_in_a_power_cut", VOTE_AFTER_SEND);
    CHECK_FOUND("a_disk_report_of_replaced_entries", STALE_PERSISTED);
}
