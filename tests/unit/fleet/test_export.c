/* SPDX-License-Identifier: Apache-2.0 */
/* The state of whole coordinators as files and streams, in virtual time: which replica exports and
 * when, the effect of a failing disk, and the end of a stream whose reader stops reading. */
#include <stdio.h>
#include <string.h>

#include "fleet/archive.h"
#include "service_rig.h"

enum { EVERY_MS = 1000, STALL_MS = 5000 };
#define EXPORTS "exports"

static void open_exporting(size_t nodes)
{
    rig_open((struct rig_options){.nodes = nodes,
                                  .exports = {.dir = EXPORTS, .every_ms = EVERY_MS, .keep = 2}});
}

/* Export ticks of a leader with an outcome: done, failed or empty. */
static uint64_t ticks(struct rig_node *node, const char *outcome)
{
    char name[96];
    double value = 0;

    snprintf(name, sizeof name, "muster_coordinator_exports_total{outcome=\"%s\"}", outcome);
    return rig_metric(node, name, &value) ? (uint64_t)value : 0;
}

/* Number of shards in the node's newest export; 0: there is none. */
static uint32_t exported(const struct rig_node *node)
{
    struct archive *archive;
    struct note note = {""};
    uint32_t shards;
    enum err err = archive_open(node->io->fs, EXPORTS "/latest", NULL, &archive, &note);

    if (err == ERR_NOT_FOUND) return 0;
    CHECK_ERR(note.text, err, ERR_OK);
    shards = archive_facts(archive)->rows.of[FLEET_SHARDS];
    archive_close(archive);
    return shards;
}

static void count_exports(void *context, const char *name, enum fs_kind kind)
{
    (void)name;
    if (kind == FS_DIRECTORY) ++*(size_t *)context;
}

TEST(the_leader_exports_at_each_interval_and_keeps_the_newest)
{
    struct rig_node *node;
    size_t kept = 0;

    open_exporting(1);
    node = rig_leader();
    rig_run(3 * EVERY_MS);
    CHECK_U64("nothing to export", exported(node), 0);
    CHECK_U64("distinguished from failing", ticks(node, "failed"), 0);
    for (uint32_t i = 1; i <= 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "shard-%u", i);
        CHECK_U64("added", rig_add(name, "h:1"), GRPC_OK);
        rig_run(3 * EVERY_MS);
        CHECK_U64("exported", exported(node), i);
        CHECK("at each interval", ticks(node, "done") >= (uint64_t)2 * i);
    }
    CHECK_OK("list", fs_list(node->io->fs, EXPORTS, count_exports, &kept));
    CHECK_U64("pruned", kept, 2);
    rig_close();
}

TEST(only_the_leader_exports)
{
    struct rig_node *leader, *other;
    uint64_t done = 0;

    open_exporting(3);
    leader = rig_leader();
    CHECK_U64("added", rig_add("shard-1", "h:1"), GRPC_OK);
    rig_run(5 * EVERY_MS);
    for (size_t i = 0; i < rig.nodes_count; i++)
        CHECK("it alone", (exported(&rig.nodes[i]) > 0) == (&rig.nodes[i] == leader));
    done = ticks(leader, "done");
    /* A leader that is cut off cannot prove that it leads: it exports nothing and logs that. */
    rig_cut(leader, true);
    rig_run(10 * EVERY_MS);
    other = rig_leader();
    CHECK("another leads", other != leader);
    CHECK("which exports now", exported(other) > 0);
    CHECK_U64("the old one did not", ticks(leader, "done"), done);
    rig_cut(leader, false);
    rig_close();
}

TEST(an_export_that_fails_is_counted_and_made_at_the_next_tick)
{
    struct rig_node *node;
    struct fs_file *file;

    open_exporting(1);
    node = rig_leader();
    /* A file has the name of the directory. */
    CHECK_OK("in the way",
             fs_open(node->io->fs, EXPORTS, FS_WRITE | FS_CREATE | FS_EXCLUSIVE, 0600, &file));
    fs_close(node->io->fs, file);
    CHECK_U64("added", rig_add("shard-1", "h:1"), GRPC_OK);
    rig_run(4 * EVERY_MS);
    CHECK("counted", ticks(node, "failed") >= 2 && ticks(node, "done") == 0);
    CHECK("reported",
          buf_append_byte(&node->log, '\0') == ERR_OK && strstr(node->log.data, "export failed"));
    CHECK_OK("out of the way", fs_remove(node->io->fs, EXPORTS));
    rig_run(2 * EVERY_MS);
    CHECK_U64("exported", exported(node), 1);
    CHECK_U64("the coordinator lives", rig_add("shard-2", "h:1"), GRPC_OK);
    rig_close();
}

/* -- streams -- */

static struct {
    struct rpc_channel *channel;
    bool channel_closed;
} streams;

struct reader {
    struct rpc_client_call *call;
    size_t messages, bytes;
    struct buf *kept; /* the bytes of a backup; may be NULL */
    bool pauses, ended;
    struct rpc_outcome outcome;
    char text[256];
};

static void on_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct reader *reader = owner;

    reader->messages++;
    reader->bytes += message.len;
    if (reader->kept) {
        Muster__V1__BackupChunk *chunk =
            muster__v1__backup_chunk__unpack(NULL, message.len, (const uint8_t *)message.at);
        CHECK("a chunk", chunk);
        if (chunk->payload_case == MUSTER__V1__BACKUP_CHUNK__PAYLOAD_DATA)
            CHECK_OK("kept", buf_append(reader->kept, str_of(chunk->data.data, chunk->data.len)));
        muster__v1__backup_chunk__free_unpacked(chunk, NULL);
    }
    if (reader->pauses) rpc_call_pause(call);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct reader *reader = owner;

    (void)call;
    reader->ended = true;
    reader->outcome = *outcome;
    snprintf(reader->text, sizeof reader->text, "%.*s", STR_ARG(outcome->text));
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

static void set_true(void *flag)
{
    *(bool *)flag = true;
}

static void open_streams(const struct rig_node *node)
{
    memset(&streams, 0, sizeof streams);
    CHECK_OK("channel",
             rpc_channel_open(
                 &(struct rpc_channel_options){.io = sim_host_io(rig.clients[0].host),
                                               .addresses = (const char *[]){node->grpc, NULL}},
                 &streams.channel, NULL));
}

static void close_streams(void)
{
    rpc_channel_close(streams.channel, set_true, &streams.channel_closed);
    CHECK("closes",
          sim_wait(rig.sim, is_true, &streams.channel_closed, RIG_WAIT_MS) == SIM_REACHED);
}

static void start(struct reader *reader, const char *path, bool pauses)
{
    static const struct rpc_call_events events = {.on_message = on_message, .on_end = on_end};
    struct rpc_call_options options = {.path = path, .wait_for_ready = true, .attempts_max = 1};

    *reader = (struct reader){.pauses = pauses};
    CHECK_OK("call", rpc_call_start(streams.channel, &options, &events, reader, &reader->call));
    CHECK_OK("request", rpc_call_send(reader->call, STR_EMPTY));
    rpc_call_end(reader->call);
}

static void wait_end(struct reader *reader)
{
    CHECK("ends",
          reader->ended || sim_wait(rig.sim, is_true, &reader->ended, RIG_WAIT_MS) == SIM_REACHED);
}

/* Adds rows directly, without the log, because only their size matters. */
static void fill(struct rig_node *node, unsigned domains)
{
    struct fleet *fleet = fleet_machine_fleet(fleet_service_machine(node->service));

    for (unsigned i = 0; i < domains; i++) {
        char value[64];
        struct fleet_command command = {.kind = FLEET_ASSIGN_DOMAIN};
        int len = snprintf(value, sizeof value, "a-rather-long-name-of-a-rack-%08u", i);
        command.assign_domain =
            (struct fleet_domain){STR("rack"), str_of(value, (size_t)len), STR("shard-1")};
        CHECK("a row", fleet_apply(fleet, &command).status == FLEET_DONE);
    }
}

#define SAVE   "/bigfleet.v1alpha1.Coordinator/SnapshotSave"
#define BACKUP "/muster.v1.Fleet/Backup"

TEST(a_client_that_does_not_read_loses_its_stream_and_blocks_others_only_briefly)
{
    struct rig_node *node;
    struct reader slow, second, third;
    size_t before;

    rig_open((struct rig_options){.limits.stall_ms = STALL_MS});
    node = rig_leader();
    open_streams(node);
    start(&slow, SAVE, false);
    wait_end(&slow);
    CHECK_U64("nothing was ever applied", slow.outcome.status, GRPC_NOT_FOUND);
    CHECK_U64("added", rig_add("shard-1", "h:1"), GRPC_OK);
    fill(node, 100000);
    before = fleet_bytes(fleet_machine_fleet(fleet_service_machine(node->service)));
    start(&slow, BACKUP, true);
    rig_run(500);
    CHECK("it began, and stopped", slow.messages == 1 && !slow.ended);
    start(&second, SAVE, false);
    wait_end(&second);
    CHECK_U64("one at a time", second.outcome.status, GRPC_RESOURCE_EXHAUSTED);
    CHECK_HAS("the message", second.text, "another one is under way");
    rig_run(2 * STALL_MS); /* the paused client does not read buffered bytes either */
    CHECK("memory did not grow with it",
          fleet_bytes(fleet_machine_fleet(fleet_service_machine(node->service))) <= before);
    start(&third, SAVE, false);
    wait_end(&third);
    CHECK_U64("its place is free", third.outcome.status, GRPC_OK);
    CHECK("all of it came", third.bytes > 8000000 && third.messages > 8);
    rpc_call_resume(slow.call);
    slow.pauses = false;
    wait_end(&slow);
    CHECK_U64("and it was refused", slow.outcome.status, GRPC_UNAVAILABLE);
    CHECK_HAS("why", slow.text, "takes nothing");
    close_streams();
    rig_close();
}

TEST(writes_go_on_while_the_state_of_one_moment_is_streamed)
{
    struct rig_node *node;
    struct reader reader;
    struct archive *archive;
    struct note note = {""};
    struct buf kept;

    rig_open((struct rig_options){.limits.stall_ms = STALL_MS});
    node = rig_leader();
    open_streams(node);
    CHECK_U64("added", rig_add("shard-1", "h:1"), GRPC_OK);
    fill(node, 100000);
    buf_init(&kept, 64 << 20);
    start(&reader, BACKUP, true);
    reader.kept = &kept;
    rig_run(200);
    CHECK("under way", reader.messages == 1 && !reader.ended);
    for (unsigned i = 0; i < 20; i++) {
        char value[64];
        snprintf(value, sizeof value, "a-rather-long-name-of-a-rack-%08u", i * 4001);
        CHECK_U64("a row goes", rig_unassign("rack", value), GRPC_OK);
    }
    reader.pauses = false;
    rpc_call_resume(reader.call);
    wait_end(&reader);
    CHECK_U64(reader.text, reader.outcome.status, GRPC_OK);
    CHECK_OK("a file", fs_publish(node->io->fs, "b.muster", buf_peek(&kept), 0600, 1));
    buf_deinit(&kept);
    CHECK_ERR(note.text, archive_open(node->io->fs, "b.muster", NULL, &archive, &note), ERR_OK);
    CHECK_U64("as it was when it was asked for", archive_facts(archive)->rows.of[FLEET_DOMAINS],
              100000);
    archive_close(archive);
    close_streams();
    rig_close();
}
