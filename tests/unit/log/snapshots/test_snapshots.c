/* Snapshots of whole replicas: taken under load, sent, received, installed, and cut short anywhere
 * in between. */
#include "replicas.h"

static struct replica_status status_of(size_t number)
{
    return replica_status(world.nodes[number].replica);
}

/* Snapshots at every look, almost nothing kept behind them. */
static void open_small(size_t count, size_t founders)
{
    world.count = count;
    world.founders = founders;
    if (!world.seed) world.seed = 11;
    world.limits = (struct replica_limits){.snapshot_entries_min = 50,
                                           .snapshot_every_ms = 300,
                                           .snapshot_chunk_bytes = 20000,
                                           .trailing_entries = 10,
                                           .hash_every = 64,
                                           .segment_bytes = 1 << 20};
    replicas_open();
}

static void open_without_policy(size_t count, size_t founders)
{
    world.count = count;
    world.founders = founders;
    if (!world.seed) world.seed = 11;
    world.limits = (struct replica_limits){.snapshot_every_ms = 1000000000,
                                           .snapshot_chunk_bytes = 20000,
                                           .trailing_entries = 10,
                                           .hash_every = 64,
                                           .segment_bytes = 1 << 20};
    replicas_open();
}

static uint64_t snapshot_wanted;
static size_t snapshot_node;
static bool has_snapshot(void)
{
    struct node *node = &world.nodes[snapshot_node];
    return node->replica && status_of(snapshot_node).snapshot >= snapshot_wanted;
}

static void wait_snapshot(size_t number, uint64_t at_least)
{
    snapshot_node = number;
    snapshot_wanted = at_least;
    CHECK("a snapshot", replicas_until(has_snapshot, 60000));
}

TEST(a_snapshot_is_taken_when_the_log_outweighs_it_and_survives_a_restart)
{
    open_small(1, 1);
    replicas_write(2000);
    wait_snapshot(0, 1000);
    replicas_run(1000);
    uint64_t snapshot = status_of(0).snapshot;
    CHECK("little is kept behind it", status_of(0).first + 10 >= snapshot);
    replicas_run(20000);
    CHECK_U64("an idle replica takes no other", status_of(0).snapshot, snapshot);
    uint64_t hash = trial_hash(world.nodes[0].trial), applied = status_of(0).applied;
    for (int i = 0; i < 3; i++) {
        replicas_kill(0, i % 2 ? SIM_KILLED : SIM_POWER_CUT);
        replicas_start(0);
        CHECK_U64("restored to it", status_of(0).applied, snapshot);
        replicas_wait_leader();
        replicas_wait_same();
        CHECK("all of the log again", status_of(0).applied > applied);
        CHECK_U64("the same state", trial_hash(world.nodes[0].trial), hash);
    }
    replicas_close();
}

TEST(asked_for_it_is_taken_whatever_the_policy_says)
{
    open_without_policy(1, 1);
    replicas_write(1);
    struct replica *replica = world.nodes[0].replica;
    CHECK_OK("asked", replica_snapshot(replica));
    CHECK_ERR("one at a time", replica_snapshot(replica), ERR_BUSY);
    wait_snapshot(0, 1);
    CHECK_ERR("nothing is new", replica_snapshot(replica), ERR_NOT_READY);
    CHECK_U64("counted", replicas_metric(0, "\nmuster_log_snapshots_taken_total "), 1);
    replicas_write(1);
    CHECK_OK("something is", replica_snapshot(replica));
    replicas_close();
}

TEST(writes_go_on_while_one_is_taken)
{
    open_without_policy(3, 3);
    replicas_write(500);
    size_t leader = replicas_leader();
    CHECK_OK("asked", replica_snapshot(world.nodes[leader].replica));
    uint64_t before = status_of(leader).applied;
    replicas_write(500);
    wait_snapshot(leader, 1);
    CHECK("of the moment it was begun", status_of(leader).snapshot < before + 64);
    CHECK("and far behind now", status_of(leader).applied >= before + 500);
    replicas_kill(leader, SIM_KILLED);
    replicas_start(leader);
    replicas_wait_same();
    replicas_close();
}

TEST(a_follower_that_was_away_for_long_gets_a_snapshot)
{
    open_small(3, 3);
    replicas_write(100);
    size_t away = (replicas_leader() + 1) % 3;
    replicas_kill(away, SIM_KILLED);
    replicas_write(3000);
    wait_snapshot(replicas_leader(), 1000);
    replicas_start(away);
    replicas_wait_same();
    CHECK_U64("by a snapshot", replicas_metric(away, "\nmuster_log_snapshots_installed_total "), 1);
    CHECK_U64("sent once", replicas_metric(replicas_leader(), "\nmuster_log_snapshots_sent_total "),
              1);
    replicas_write(200);
    replicas_kill(away, SIM_POWER_CUT);
    replicas_start(away);
    replicas_wait_same();
    replicas_close();
}

TEST(a_newcomer_gets_a_snapshot_and_becomes_a_voter)
{
    open_small(4, 3);
    replicas_write(3000);
    wait_snapshot(replicas_leader(), 1000);
    replicas_start(3);
    CHECK_OK("added", replicas_change(CHANGE_ADD, 3));
    replicas_wait_same();
    CHECK_U64("by a snapshot", replicas_metric(3, "\nmuster_log_snapshots_installed_total "), 1);
    CHECK_OK("promoted", replicas_change(CHANGE_PROMOTE, 3));
    replicas_write(100);
    replicas_kill(3, SIM_POWER_CUT);
    replicas_write(3000);
    replicas_start(3);
    replicas_wait_same();
    CHECK("a voter still", status_of(3).voter);
    replicas_close();
}
