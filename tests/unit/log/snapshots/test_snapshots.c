/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of whole replicas: taken under load, sent, received, installed, and interrupted at any
 * step. */
#include "replicas.h"

#include <stdio.h>
#include <string.h>

#include "lib/sim_fs_dump.h"
#include "log/replica_internal.h"

static struct replica_status status_of(size_t number)
{
    return replica_status(world.nodes[number].replica);
}

/* Takes snapshots at every check and keeps almost no entries behind them. */
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

TEST(no_snapshot_is_taken_before_the_log_outweighs_the_last_one)
{
    open_small(1, 1);
    replicas_write(1);
    replicas_fill(); /* a state of more than 400 KB */
    wait_snapshot(0, 550);
    replicas_run(2000);
    uint64_t snapshot = status_of(0).snapshot;
    replicas_write(500); /* many entries, some 70 KB: less than the snapshot */
    replicas_run(2000);
    CHECK("enough entries", status_of(0).applied > snapshot + 50);
    CHECK_U64("too little log", status_of(0).snapshot, snapshot);
    replicas_fill(); /* some more */
    wait_snapshot(0, snapshot + 1);
    replicas_run(2000);
    snapshot = status_of(0).snapshot;
    replicas_fill(); /* 40 entries, much larger than the snapshot */
    replicas_run(2000);
    CHECK_U64("too few entries", status_of(0).snapshot, snapshot);
    replicas_write(20);
    wait_snapshot(0, snapshot + 1);
    replicas_close();
}

TEST(a_requested_snapshot_is_taken_under_any_policy)
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

/* The engine refuses a snapshot of only the first configuration (guard 21): no file is written. */
TEST(no_snapshot_is_taken_of_the_first_configuration_alone)
{
    open_without_policy(1, 1);
    struct replica *replica = world.nodes[0].replica;
    CHECK_U64("nothing is applied yet", replica->applied, 0);
    replica->applied = 1;
    CHECK_ERR("nothing worth it", replica_snapshot(replica), ERR_NOT_READY);
    replica->applied = 0;
    replicas_write(1);
    CHECK_OK("now there is", replica_snapshot(replica));
    wait_snapshot(0, 2);
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

/* -- interrupted transfers -- */

static size_t receiver;
static bool receiving(void)
{
    return replica_install_busy(world.nodes[receiver].replica);
}

static void slow_links(uint64_t bytes_per_second)
{
    struct sim_link_faults faults = sim_link_calm;
    faults.bytes_per_second = bytes_per_second;
    sim_link_set_all(world.sim, &faults);
}

/* Stops one follower and lets it lag so far that it needs a snapshot of about 400 KB. */
static void leave_behind(void)
{
    replicas_write(100);
    receiver = (replicas_leader() + 1) % 3;
    replicas_kill(receiver, SIM_KILLED);
    replicas_write(100);
    replicas_fill();
    CHECK_OK("asked", replica_snapshot(world.nodes[replicas_leader()].replica));
    wait_snapshot(replicas_leader(), 1);
    replicas_write(50);
}

TEST(a_transfer_that_breaks_is_tried_again)
{
    open_without_policy(3, 3);
    leave_behind();
    slow_links(150000); /* a transfer takes seconds */
    replicas_start(receiver);
    for (int i = 0; i < 3; i++) {
        size_t leader = replicas_wait_leader();
        CHECK("it arrives", replicas_until(receiving, 60000));
        replicas_run(1000);
        CHECK("and is not yet whole", receiving());
        for (int k = 0; k < 2; k++)
            sim_link_block(world.nodes[k ? leader : receiver].host,
                           world.nodes[k ? receiver : leader].host, true);
        replicas_run(40000); /* until both have closed the connection */
        CHECK("the half is dropped", !receiving());
        for (int k = 0; k < 2; k++)
            sim_link_block(world.nodes[k ? leader : receiver].host,
                           world.nodes[k ? receiver : leader].host, false);
    }
    replicas_wait_same();
    CHECK("the receiver counted",
          replicas_metric(receiver, "\nmuster_log_snapshots_failed_total "));
    CHECK_U64("installed", replicas_metric(receiver, "\nmuster_log_snapshots_installed_total "), 1);
    replicas_close();
}

TEST(when_the_leader_dies_during_a_transfer_the_next_one_sends)
{
    for (int death = 0; death < 2; death++) {
        open_without_policy(3, 3);
        leave_behind();
        slow_links(300000);
        replicas_start(receiver);
        size_t old = replicas_leader();
        CHECK_OK("the other has one, too",
                 replica_snapshot(world.nodes[3 - old - receiver].replica));
        CHECK("it arrives", replicas_until(receiving, 60000));
        replicas_run(500);
        replicas_kill(old, death ? SIM_KILLED : SIM_POWER_CUT);
        replicas_write(50);
        CHECK("another leads", replicas_leader() != old);
        replicas_start(old);
        replicas_wait_same();
        replicas_close();
    }
}

static size_t files_of(size_t number, const char *part)
{
    struct buf listing;
    size_t files = 0;

    buf_init(&listing, 1 << 20);
    CHECK_OK("list", sim_fs_dump(sim_host_disk(world.nodes[number].host), &listing));
    CHECK_OK("end", buf_append_byte(&listing, '\0'));
    for (const char *at = listing.data; (at = strstr(at, part)); at++) files++;
    buf_deinit(&listing);
    return files;
}

static void send_while_taking(int newer)
{
    world.fill_keys = 120; /* more than the buffers of the connection hold */
    open_without_policy(3, 3);
    leave_behind();
    slow_links(1000000);
    replicas_start(receiver);
    CHECK("it arrives", replicas_until(receiving, 60000));
    size_t leader = replicas_leader();
    uint64_t first = status_of(leader).snapshot;
    for (int i = 0; i < newer; i++) {
        replicas_write(30);
        CHECK_OK("asked", replica_snapshot(world.nodes[leader].replica));
        wait_snapshot(leader, status_of(leader).snapshot + 1);
    }
    CHECK("newer", status_of(leader).snapshot > first);
    if (newer == 1) CHECK("the old one is still on its way", receiving());
    replicas_run(200);
    CHECK("no more than the one to send and the one that is sent", files_of(leader, ".snap") <= 2);
    sim_link_heal_all(world.sim);
    replicas_wait_same();
    if (newer == 1)
        CHECK_U64("and arrived", replicas_metric(leader, "\nmuster_log_snapshots_failed_total "),
                  0);
    replicas_run(5000);
    for (size_t i = 0; i < 3; i++) {
        CHECK("one, or none yet", files_of(i, ".snap") <= 1);
        CHECK_SIZE("no temporary is left", files_of(i, ".tmp"), 0);
    }
    replicas_close();
}

TEST(while_one_is_sent_a_newer_one_is_taken_and_in_the_end_one_file_is_left)
{
    send_while_taking(1);
}

TEST(a_snapshot_that_is_two_behind_is_not_sent_to_its_end)
{
    send_while_taking(2);
}

static void cut_off(size_t number, bool cut)
{
    for (size_t i = 0; i < world.count; i++) {
        if (i == number) continue;
        sim_link_block(world.nodes[i].host, world.nodes[number].host, cut);
        sim_link_block(world.nodes[number].host, world.nodes[i].host, cut);
    }
}

static void slow_disk(size_t number, uint64_t kib_ns)
{
    struct sim_fs *disk = sim_host_disk(world.nodes[number].host);
    struct sim_fs_options options = sim_fs_options(disk);
    options.kib_ns = kib_ns;
    CHECK_OK("slow", sim_fs_set_options(disk, &options));
}

TEST(an_install_cancels_the_snapshot_that_is_being_taken)
{
    open_without_policy(3, 3);
    replicas_write(300);
    replicas_wait_same();
    receiver = (replicas_leader() + 1) % 3;
    cut_off(receiver, true);
    replicas_write(100);
    replicas_fill();
    CHECK_OK("asked", replica_snapshot(world.nodes[replicas_leader()].replica));
    wait_snapshot(replicas_leader(), 1);
    replicas_run(40000); /* the transfer to it is dropped */
    cut_off(receiver, false);
    CHECK("it arrives", replicas_until(receiving, 60000));
    slow_disk(receiver, 20000000); /* its own snapshot takes longer than the transfer */
    CHECK_OK("asked", replica_snapshot(world.nodes[receiver].replica));
    replicas_wait_same();
    CHECK_U64("installed", replicas_metric(receiver, "\nmuster_log_snapshots_installed_total "), 1);
    CHECK_U64("ours was not", replicas_metric(receiver, "\nmuster_log_snapshots_taken_total "), 0);
    replicas_write(10);
    slow_disk(receiver, 1000);
    replicas_run(5000);
    CHECK_OK("the next one is", replica_snapshot(world.nodes[receiver].replica));
    wait_snapshot(receiver, status_of(receiver).applied);
    replicas_close();
}

TEST(a_received_snapshot_is_not_dropped_for_the_same_one_again)
{
    open_without_policy(3, 3);
    leave_behind();
    replicas_start(receiver);
    CHECK("it arrives", replicas_until(receiving, 60000));
    slow_disk(receiver, 40000000); /* the leader times out before all of the snapshot is on disk */
    replicas_wait_same();
    CHECK_U64("it was sent once",
              replicas_metric(replicas_leader(), "\nmuster_log_snapshots_sent_total "), 1);
    uint64_t refused = replicas_metric(replicas_leader(), "\nmuster_log_snapshots_failed_total ");
    CHECK("and again, in vain", refused > 0);
    CHECK("less and less often", refused < 30); /* not at every heartbeat of a minute */
    CHECK_U64("installed", replicas_metric(receiver, "\nmuster_log_snapshots_installed_total "), 1);
    CHECK_U64("none failed", replicas_metric(receiver, "\nmuster_log_snapshots_failed_total "), 0);
    CHECK_U64("received once", world.nodes[receiver].began, 1);
    replicas_close();
}

TEST(a_large_one_arrives_although_the_disk_is_slower_than_the_network)
{
    world.fill_keys = 120;
    open_without_policy(3, 3);
    leave_behind();
    replicas_start(receiver);
    slow_disk(receiver, 200000);
    replicas_wait_same();
    CHECK_U64("installed", replicas_metric(receiver, "\nmuster_log_snapshots_installed_total "), 1);
    CHECK_U64("none failed", replicas_metric(receiver, "\nmuster_log_snapshots_failed_total "), 0);
    replicas_close();
}

TEST(without_space_for_it_a_snapshot_waits_and_nothing_stops)
{
    struct sim_fs_options large, small;
    uint64_t free_bytes = 0;

    open_without_policy(3, 3);
    leave_behind();
    struct sim_fs *disk = sim_host_disk(world.nodes[receiver].host);
    large = small = sim_fs_options(disk);
    small.admits = NULL; /* its process is down while the test reads */
    CHECK_OK("look", sim_fs_set_options(disk, &small));
    CHECK_OK("free", fs_free_bytes(sim_fs_fs(disk), "data", &free_bytes));
    small.admits = large.admits;
    small.capacity -= free_bytes - 200000;
    CHECK_OK("a small disk", sim_fs_set_options(disk, &small));
    replicas_start(receiver);
    replicas_run(10000);
    CHECK_OK("it goes on", world.nodes[receiver].stopped);
    CHECK_U64("nothing was installed",
              replicas_metric(receiver, "\nmuster_log_snapshots_installed_total "), 0);
    CHECK("and the failure is counted",
          replicas_metric(receiver, "\nmuster_log_snapshots_failed_total ") > 0);
    CHECK("its bytes do not come for nothing",
          replicas_metric(receiver, "\nmuster_log_peer_bytes_total{direction=\"in\"} ") < 1000000);
    CHECK_OK("room again", sim_fs_set_options(disk, &large));
    replicas_wait_same();
    CHECK_U64("installed", replicas_metric(receiver, "\nmuster_log_snapshots_installed_total "), 1);
    replicas_close();
}

/* -- a wrong sender -- */

/* The replica's handling of a snapshot's frames from node 1; its 300 bytes are all zero. */
struct forged {
    const char *why;
    uint64_t announced, offset, len, end_id;
    uint64_t term_ahead;
    bool end, second_begin;
    bool at_once; /* the transfer stops without an end, while the connection is open */
};
static void frames_of(struct replica *replica, const struct forged *f)
{
    static const char zeros[1000];
    struct peer_frame frame = {.kind = FRAME_SNAP_BEGIN};
    uint64_t term = replica_status(replica).term + f->term_ahead;

    frame.u.snap_begin = (struct frame_snap_begin){
        .term = term, .index = 100000, .index_term = term, .bytes = f->announced, .id = 5};
    CHECK(f->why, replica_install_on_snap(replica, 2, &frame));
    if (f->second_begin) {
        frame.u.snap_begin.id = 6; /* of another sender, in the same term: refused */
        CHECK(f->why, replica_install_on_snap(replica, 3, &frame));
    }
    frame.kind = FRAME_SNAP_CHUNK;
    frame.u.snap_chunk =
        (struct frame_snap_chunk){.id = 5, .offset = f->offset, .bytes = str_of(zeros, f->len)};
    CHECK(f->why, replica_install_on_snap(replica, 2, &frame));
    if (!f->end) return;
    frame.kind = FRAME_SNAP_END;
    frame.u.snap_end.id = f->end_id;
    CHECK(f->why, replica_install_on_snap(replica, 2, &frame));
}

TEST(frames_of_a_wrong_sender_are_dropped_without_harm)
{
    static const struct forged cases[] = {
        {.why = "no snapshot at all", .announced = 300, .len = 300, .end_id = 5, .end = true},
        {.why = "shorter than announced", .announced = 300, .len = 200, .end_id = 5, .end = true},
        {.why = "longer than announced", .announced = 300, .len = 301, .end_id = 5, .end = true},
        {.why = "not from the start", .announced = 300, .offset = 1, .len = 200, .at_once = true},
        {.why = "a second one beside it",
         .announced = 300,
         .len = 300,
         .end_id = 5,
         .end = true,
         .second_begin = true},
        {.why = "of a term to come",
         .announced = 300,
         .len = 300,
         .end_id = 5,
         .end = true,
         .term_ahead = 3},
        {.why = "more than the disk holds", .announced = UINT64_MAX, .len = 300, .at_once = true},
        {.why = "nothing", .announced = 0, .len = 0, .end_id = 5, .end = true},
        {.why = "it never ends, and its connection breaks", .announced = 300, .len = 100},
    };

    open_without_policy(1, 1);
    replicas_write(100);
    struct replica *replica = world.nodes[0].replica;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        frames_of(replica, &cases[i]);
        replicas_run(100);
        CHECK(cases[i].why, !cases[i].at_once || !replica_install_busy(replica));
        replica_install_on_lost(replica, 2);
        replicas_run(100);
        CHECK(cases[i].why, !replica_install_busy(replica));
        CHECK_OK(cases[i].why, world.nodes[0].stopped);
        replicas_write(1);
    }
    CHECK_SIZE("no file is left of it", files_of(0, "incoming"), 0);
    replicas_wait_same();
    replicas_close();
}

TEST(chunks_or_ends_of_nothing_are_passed_over)
{
    struct peer_frame frame = {.kind = FRAME_SNAP_CHUNK};

    open_without_policy(1, 1);
    replicas_write(10);
    struct replica *replica = world.nodes[0].replica;
    frame.u.snap_chunk = (struct frame_snap_chunk){.id = 5, .bytes = STR("abc")};
    CHECK("a chunk", replica_install_on_snap(replica, 2, &frame));
    frame.kind = FRAME_SNAP_END;
    frame.u.snap_end.id = 5;
    CHECK("an end", replica_install_on_snap(replica, 2, &frame));
    replica_install_on_lost(replica, 2);
    replica_install_on_sent(replica, 2, 5, ERR_OK);
    CHECK("nothing begins", !replica_install_busy(replica));
    replicas_run(100);
    replicas_write(1);
    replicas_close();
}

TEST(a_sender_that_is_faster_than_the_disk_is_held_back)
{
    static const char zeros[FRAME_CHUNK_MAX];
    struct peer_frame frame = {.kind = FRAME_SNAP_BEGIN};
    uint64_t offset = 0, refused = 0;

    open_without_policy(1, 1);
    replicas_write(10);
    struct replica *replica = world.nodes[0].replica;
    uint64_t term = replica_status(replica).term;
    frame.u.snap_begin = (struct frame_snap_begin){
        .term = term, .index = 100000, .index_term = term, .bytes = 64 << 20, .id = 5};
    CHECK("begins", replica_install_on_snap(replica, 2, &frame));
    frame.kind = FRAME_SNAP_CHUNK;
    while (offset < 16 << 20 && refused < 1000) {
        frame.u.snap_chunk = (struct frame_snap_chunk){
            .id = 5, .offset = offset, .bytes = str_of(zeros, sizeof zeros)};
        if (replica_install_on_snap(replica, 2, &frame)) {
            offset += sizeof zeros;
            continue;
        }
        refused++;
        replicas_run(1);
    }
    CHECK("all was taken in the end", offset == 16 << 20);
    CHECK("after it was held back", refused > 3);
    replica_install_on_lost(replica, 2);
    replicas_run(100);
    CHECK("and forgotten", !replica_install_busy(replica));
    replicas_close();
}

/* A complete file as a peer sends it: an empty state after entry 100,000. */
static void forge(uint64_t term, struct buf *into)
{
    struct snap_head head = {
        .mark = {.index = 100000, .term = term, .members_index = 1}, .cluster_id = 77, .level = 1};
    struct snap_writer *writer = NULL;
    struct sim_fs *disk;
    struct prng prng;
    struct note note = {""};
    char name[SNAP_NAME_CAP], path[100];
    uint64_t bytes;

    prng_seed(&prng, 1);
    CHECK_OK("a disk", sim_fs_open(&(struct sim_fs_options){0}, &prng, &disk));
    CHECK_OK("a directory", fs_make_dirs(sim_fs_fs(disk), "data/snap", 0700));
    head.mark.members.count = 1;
    head.mark.members.at[0].id = 2;
    head.mark.members.at[0].role = MEMBER_VOTER;
    strcpy(head.mark.members.at[0].address, "r1:7791");
    CHECK_OK("begin", snap_create(sim_fs_fs(disk), "data", &head, 1, &writer, &note));
    CHECK_OK("finish", snap_finish(writer, &bytes, &note));
    snap_name(&head.mark, name);
    snprintf(path, sizeof path, "data/snap/%s", name);
    CHECK_OK("read", fs_read_whole(sim_fs_fs(disk), path, 1 << 20, into));
    sim_fs_close(disk);
}

static void send_forged(struct replica *replica, uint64_t term, struct str bytes, bool with_end)
{
    struct peer_frame frame = {.kind = FRAME_SNAP_BEGIN};

    frame.u.snap_begin = (struct frame_snap_begin){
        .term = term, .index = 100000, .index_term = term, .bytes = bytes.len, .id = 5};
    CHECK("begin", replica_install_on_snap(replica, 2, &frame));
    frame.kind = FRAME_SNAP_CHUNK;
    frame.u.snap_chunk = (struct frame_snap_chunk){.id = 5, .bytes = bytes};
    CHECK("all of it", replica_install_on_snap(replica, 2, &frame));
    frame.kind = FRAME_SNAP_END;
    frame.u.snap_end.id = 5;
    if (with_end) CHECK("end", replica_install_on_snap(replica, 2, &frame));
}

TEST(a_complete_snapshot_of_a_deposed_leader_is_not_installed)
{
    struct peer_frame end = {.kind = FRAME_SNAP_END, .u.snap_end = {.id = 5}};
    struct buf bytes;

    open_without_policy(3, 3);
    replicas_write(20);
    replicas_wait_same();
    size_t old = replicas_leader(), other = (old + 1) % 3;
    struct replica *replica = world.nodes[other].replica;
    uint64_t term = status_of(other).term;
    buf_init(&bytes, 1 << 20);
    forge(term, &bytes);
    send_forged(replica, term, buf_peek(&bytes), false);
    replicas_kill(old, SIM_KILLED);
    replicas_run(5000);
    CHECK("there is a newer term", status_of(other).term > term);
    CHECK("it ends", replica_install_on_snap(replica, 2, &end));
    replicas_run(1000);
    CHECK("not wanted, and gone", !replica_install_busy(replica));
    replicas_start(old);
    replicas_wait_same();
    buf_deinit(&bytes);
    replicas_close();
}

TEST(a_leader_takes_no_snapshot_of_its_own_term)
{
    struct buf bytes;

    open_without_policy(1, 1);
    replicas_write(20);
    uint64_t term = status_of(0).term;
    buf_init(&bytes, 1 << 20);
    forge(term, &bytes);
    send_forged(world.nodes[0].replica, term, buf_peek(&bytes), true);
    replicas_run(1000);
    CHECK("gone", !replica_install_busy(world.nodes[0].replica));
    CHECK_OK("it goes on", world.nodes[0].stopped);
    replicas_write(10);
    replicas_wait_same();
    buf_deinit(&bytes);
    replicas_close();
}

/* -- releases that cannot read a snapshot -- */

static bool level_is_two(void)
{
    return status_of(0).level == 2;
}

TEST(a_program_below_the_level_of_the_snapshot_does_not_start)
{
    world.level = 2;
    open_without_policy(1, 1);
    replicas_write(10);
    CHECK("the cluster rises", replicas_until(level_is_two, 60000));
    CHECK_OK("asked", replica_snapshot(world.nodes[0].replica));
    wait_snapshot(0, 1);
    replicas_kill(0, SIM_KILLED);
    world.level = 1;
    CHECK_ERR("an older program", replicas_try_start(0), ERR_VERSION);
    CHECK_HAS("the reason", world.nodes[0].open_note.text, "level 2, this program speaks 1");
    world.level = 2;
    replicas_start(0);
    CHECK_U64("the level is restored", status_of(0).level, 2);
    replicas_wait_same();
    replicas_close();
}

/* A reverted upgrade: nothing was ever written to the new release's machine. */
TEST(a_machine_above_the_cluster_s_level_has_no_section)
{
    world.newer = true;
    open_without_policy(1, 1);
    replicas_write(10);
    CHECK_OK("asked", replica_snapshot(world.nodes[0].replica));
    wait_snapshot(0, 1);
    replicas_kill(0, SIM_KILLED);
    world.newer = false;
    replicas_start(0);
    replicas_wait_same();
    replicas_close();
}

TEST(a_program_without_the_machine_does_not_start)
{
    open_without_policy(1, 1);
    replicas_write(10);
    CHECK_OK("asked", replica_snapshot(world.nodes[0].replica));
    wait_snapshot(0, 1);
    replicas_kill(0, SIM_KILLED);
    world.no_machine = true;
    CHECK_ERR("no such machine", replicas_try_start(0), ERR_VERSION);
    CHECK_HAS("it names the section", world.nodes[0].open_note.text, "section 1");
    world.no_machine = false;
    replicas_start(0);
    replicas_wait_same();
    replicas_close();
}
