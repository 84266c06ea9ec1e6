/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/dev_fleet.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dash/token.h"
#include "muster/dev_chaos.h"
#include "muster/dev_child.h"
#include "muster/dev_demand.h"
#include "muster/dev_notes.h"
#include "muster/dev_parts.h"
#include "muster/dev_register.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"
#include "wire/pb/muster_v1_member.pb-c.h"

enum {
    END_WITHIN_MS = 10000, /* of being asked; then they are killed */
    LOOK_MS = 200,         /* while it forms */
    LOOK_CALM_MS = 1000,   /* when all is well */
    END_TOLD_MS = 1000,    /* how often it is said how many are left */
    ANSWER_ARENA_MAX = 1 << 20,
    CHILDREN_MAX = DEV_REPLICAS_MAX + 1 + DEV_SHARDS_MAX + DEV_OPERATORS + DEV_WORKERS_MAX,
};

struct dev_fleet {
    struct io *io;
    const struct log_source *log;
    struct dev_parts parts;
    void (*on_ready)(void *owner, bool ready, const char *reason);
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void (*on_word)(void *owner, const char *about, const char *text);
    void (*on_stopped)(void *owner);
    void *owner;
    struct dev_child *children[CHILDREN_MAX];
    size_t child_count, first[DEV_PARTS], count[DEV_PARTS]; /* of each part */
    struct rpc_channel *channel;
    struct dev_register reg;
    bool ready, stopping;
    char token[DASH_TOKEN_MAX + 1]; /* of the dashboards */
    size_t leader;
    struct timer look, kill, tell_end;
    struct dev_sight sight; /* of the look under way */
    const struct dev_question *asked;
    bool with_chaos;
    struct dev_chaos chaos;
    struct dev_demand demand;
    struct dev_notes notes;
};

/* -- processes -- */

static void stopped_one(void *owner)
{
    struct dev_fleet *fleet = owner;

    if (fleet->stopping && !dev_fleet_running(fleet)) fleet->on_stopped(fleet->owner);
}

static void child_failed(void *owner, enum err err, const struct note *note)
{
    struct dev_fleet *fleet = owner;
    fleet->on_failed(fleet->owner, err, note);
}

static enum err start(struct dev_fleet *fleet, enum dev_part part, size_t count, struct note *note)
{
    struct dev_line *line = calloc(1, sizeof *line);
    struct dev_child_options options = {.loop = fleet->io->loop,
                                        .log = fleet->log,
                                        .on_failed = child_failed,
                                        .on_ended = stopped_one,
                                        .owner = fleet};
    enum err err = line ? ERR_OK : ERR_NOMEM;

    fleet->first[part] = fleet->child_count;
    fleet->count[part] = count;
    for (size_t i = 0; !err && i < count; i++) {
        dev_line_make(&fleet->parts, part, i, line);
        options.name = line->name;
        options.argv = line->argv;
        err = dev_child_open(&options, &fleet->children[fleet->child_count], note);
        if (!err) fleet->child_count++;
    }
    free(line);
    return err;
}

/* -- does it stand? -- */

static void channel_closed(void *owner)
{
    struct dev_fleet *fleet = owner;

    fleet->channel = NULL;
    stopped_one(fleet);
}

static void look_ended(struct dev_fleet *fleet, bool whole)
{
    bool calm = whole;

    fleet->sight.whole = whole;
    fleet->sight.leader = fleet->leader;
    if (fleet->with_chaos) {
        dev_chaos_look(&fleet->chaos, &fleet->sight, loop_now(fleet->io->loop));
        calm = whole && !fleet->chaos.victim;
    }
    timer_start_in(&fleet->look, calm ? LOOK_CALM_MS : LOOK_MS);
}

static void tell(struct dev_fleet *fleet, bool ready, const char *reason)
{
    bool changed = ready != fleet->ready;

    fleet->ready = ready;
    if (changed || !ready) fleet->on_ready(fleet->owner, ready, reason);
    /* After the banner: this logs what the processes wrote to stderr meanwhile. */
    for (size_t i = 0; ready && i < fleet->child_count; i++) dev_child_settled(fleet->children[i]);
    look_ended(fleet, ready);
}

/* What is asked of the coordinators while the fleet is looked at, and what the answer says. */
struct dev_question {
    const char *path;
    const ProtobufCMessageDescriptor *type;
    void (*judge)(struct dev_fleet *fleet, const ProtobufCMessage *answer); /* NULL: none came */
};

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str bytes)
{
    struct dev_fleet *fleet = owner;
    ProtobufCMessage *answer = NULL;
    struct arena arena;

    (void)call;
    if (fleet->stopping) return;
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (outcome->err || message_read(fleet->asked->type, bytes, NULL, &arena, &answer, NULL))
        answer = NULL;
    fleet->asked->judge(fleet, answer);
    arena_deinit(&arena);
}

static void ask(struct dev_fleet *fleet, const struct dev_question *question)
{
    struct rpc_call_options call = {.path = question->path, .timeout_ms = 2000, .idempotent = true};

    fleet->asked = question;
    if (rpc_unary(fleet->channel, &call, STR_EMPTY, on_answer, fleet, NULL))
        look_ended(fleet, false);
}

static void judge_members(struct dev_fleet *fleet, const ProtobufCMessage *answer)
{
    const Muster__V1__ClusterStatusResponse *status = (const void *)answer;
    size_t count = status ? status->active : 0;
    char reason[64];

    snprintf(reason, sizeof reason, "%zu of %zu workers beat", count, fleet->parts.workers);
    tell(fleet, count >= fleet->parts.workers, reason);
}

/* All else stands. */
static void ask_members(struct dev_fleet *fleet)
{
    static const struct dev_question members = {"/muster.v1.Membership/ClusterStatus",
                                                &muster__v1__cluster_status_response__descriptor,
                                                judge_members};

    if (fleet->parts.workers)
        ask(fleet, &members);
    else
        tell(fleet, true, "");
}

static void judge_reports(struct dev_fleet *fleet, const ProtobufCMessage *answer)
{
    const Bigfleet__V1alpha1__ListShardReportsResponse *list = (const void *)answer;
    size_t count = list ? list->n_reports : 0;
    char reason[64];

    snprintf(reason, sizeof reason, "%zu of %zu shards report", count, fleet->parts.shards);
    if (count >= fleet->parts.shards)
        ask_members(fleet);
    else
        tell(fleet, false, reason);
}

static void quorum_stands(struct dev_fleet *fleet)
{
    static const struct dev_question reports = {
        "/bigfleet.v1alpha1.Coordinator/ListShardReports",
        &bigfleet__v1alpha1__list_shard_reports_response__descriptor, judge_reports};

    if (!fleet->parts.shards) {
        ask_members(fleet);
        return;
    }
    dev_register_go(&fleet->reg);
    if (fleet->reg.known)
        ask(fleet, &reports);
    else
        tell(fleet, false, "the coordinators are told of the shards");
}

/* When it was alive for sure: counted back from before the question was asked. */
static void take_heard(struct dev_fleet *fleet, const Muster__V1__Replica *replica)
{
    uint64_t silent = replica->leader ? 0 : (uint64_t)replica->silent_ms;
    size_t number;

    if (strncmp(replica->name, "node-", 5) != 0) return;
    number = (size_t)strtoul(replica->name + 5, NULL, 10);
    if (replica->leader) fleet->leader = number;
    if (number >= DEV_REPLICAS_MAX || (!replica->leader && replica->silent_ms < 0)) return;
    if (silent < fleet->sight.began.ms)
        fleet->sight.heard[number] = (mono_time){fleet->sight.began.ms - silent};
}

static void judge_replicas(struct dev_fleet *fleet, const ProtobufCMessage *answer)
{
    const Muster__V1__ListReplicasResponse *list = (const void *)answer;
    size_t voters = 0;
    char reason[64];

    if (!list) {
        tell(fleet, false, "no leader answers yet");
        return;
    }
    fleet->leader = SIZE_MAX;
    for (size_t i = 0; i < list->n_replicas; i++) {
        const Muster__V1__Replica *replica = list->replicas[i];
        if (replica->voter) voters++;
        take_heard(fleet, replica);
    }
    snprintf(reason, sizeof reason, "%zu of %zu replicas are voters", voters,
             fleet->parts.replicas);
    if (fleet->leader != SIZE_MAX && voters == fleet->parts.replicas)
        quorum_stands(fleet);
    else
        tell(fleet, false, reason);
}

static void on_look(struct timer *timer)
{
    static const struct dev_question replicas = {"/muster.v1.Fleet/ListReplicas",
                                                 &muster__v1__list_replicas_response__descriptor,
                                                 judge_replicas};
    struct dev_fleet *fleet = CONTAINER_OF(timer, struct dev_fleet, look);

    fleet->sight = (struct dev_sight){.began = loop_now(fleet->io->loop), .leader = SIZE_MAX};
    ask(fleet, &replicas);
}

static enum err open_channel(struct dev_fleet *fleet, struct note *note)
{
    char texts[DEV_REPLICAS_MAX][32];
    const char *list[DEV_REPLICAS_MAX + 1] = {NULL};
    struct rpc_channel_options options = {
        .io = fleet->io, .addresses = list, .follow_leader = true, .backoff_max_ms = 500};

    for (size_t i = 0; i < fleet->parts.replicas; i++) {
        dev_address(texts[i], fleet->parts.ports.grpc[i]);
        list[i] = texts[i];
    }
    return rpc_channel_open(&options, &fleet->channel, note);
}

static void row(FILE *out, const struct dev_child *child, const char *role, uint16_t grpc,
                uint16_t http)
{
    char address[32] = "";

    if (grpc) dev_address(address, grpc);
    fprintf(out, "  %-10s  %-11s  %-15s  http://127.0.0.1:%-5u  %d\n", dev_child_name(child), role,
            address, http, dev_child_pid(child));
}

void dev_fleet_dashboard(const struct dev_fleet *fleet, FILE *out)
{
    fprintf(out, "  dashboard    http://127.0.0.1:%u/   admin token: %s\n",
            fleet->parts.ports.http[0], fleet->token);
}

void dev_fleet_logs(const struct dev_fleet *fleet, FILE *out)
{
    static const char *const titles[DEV_PARTS] = {"coordinators", "provider", "shards", "operators",
                                                  "workers"};
    const char *title = "logs";

    for (size_t part = 0; part < DEV_PARTS; part++) {
        size_t count = fleet->count[part];
        struct dev_child *const *child = &fleet->children[fleet->first[part]];

        if (count == 0) continue;
        fprintf(out, "  %-11s  %-12s  %s/%s.log", title, titles[part], fleet->parts.dir,
                dev_child_name(child[0]));
        if (count > 1) fprintf(out, " to %s.log", dev_child_name(child[count - 1]));
        fputc('\n', out);
        title = "";
    }
}

void dev_fleet_table(const struct dev_fleet *fleet, FILE *out)
{
    const struct dev_ports *ports = &fleet->parts.ports;
    struct dev_child *const *child = fleet->children;

    fprintf(out, "  NAME        ROLE         GRPC             HTTP                    PID\n");
    for (size_t i = 0; i < fleet->parts.replicas; i++)
        row(out, *child++, i == fleet->leader ? "leader" : "follower", ports->grpc[i],
            ports->http[i]);
    if (fleet->parts.workers)
        fprintf(out, "  %zu workers  musterctl workers --coordinator 127.0.0.1:%u\n",
                fleet->parts.workers, ports->grpc[0]);
    if (!fleet->parts.shards) return;
    child += fleet->parts.workers;
    row(out, *child++, "provider", ports->provider_grpc, ports->provider_http);
    for (size_t i = 0; i < fleet->parts.shards; i++)
        row(out, *child++, "shard", ports->shard_grpc[i], ports->shard_http[i]);
    for (size_t i = 0; i < DEV_OPERATORS; i++)
        row(out, *child++, dev_cluster(i), 0, ports->operator_http[i]);
}

void dev_fleet_tour(const struct dev_fleet *fleet, FILE *out)
{
    const struct dev_parts *parts = &fleet->parts;
    const struct dev_ports *ports = &parts->ports;
    char grpc[32];

    dev_address(grpc, ports->grpc[0]);
    fprintf(out, "\n  1  watch     open the dashboard; every view is an address: /fleet /needs "
                 "/raft ...\n");
    fprintf(out,
            "  2  claim     musterctl coord exec --group jobs --slots 3 --store muster://%s "
            "-- sleep 60   and look at /store\n",
            grpc);
    fprintf(out, "  3  write     musterctl store put hello world --coordinator %s\n", grpc);
    fprintf(out, "  4  fail over kill -9 %d   and see /raft elect another leader\n",
            fleet->leader < parts->replicas ? dev_child_pid(fleet->children[fleet->leader]) : 0);
    if (parts->workers)
        fprintf(out,
                "     workers   kill -9 any of them, and see musterctl partitions --watch; their "
                "input is in %s/input\n",
                parts->dir);
    if (!parts->shards) return;
    fprintf(out, "  5  demand    edit %s/cluster-a.toml   and see /fleet follow\n", parts->dir);
    fprintf(out, "  6  why       musterctl needs --shard 127.0.0.1:%u   or /needs\n",
            ports->shard_grpc[0]);
}

/* -- what happens by itself -- */

static void chaos_says(void *owner, const char *text)
{
    struct dev_fleet *fleet = owner;

    dev_notes_add(&fleet->notes, "chaos", text);
    fleet->on_word(fleet->owner, "chaos", text);
}

static void demand_says(void *owner, const char *text, bool yours)
{
    struct dev_fleet *fleet = owner;

    dev_notes_add(&fleet->notes, "demand", text);
    if (yours) fleet->on_word(fleet->owner, "demand", text);
}

static void begin_chaos(struct dev_fleet *fleet, uint64_t every_ms)
{
    const struct dev_chaos_options options = {.seed = entropy_u64(fleet->io->entropy),
                                              .every_ms = every_ms,
                                              .children = fleet->children,
                                              .first = fleet->first,
                                              .count = fleet->count,
                                              .say = chaos_says,
                                              .owner = fleet};
    fleet->with_chaos = true;
    dev_chaos_init(&fleet->chaos, &options, loop_now(fleet->io->loop));
}

static enum err begin_demand(struct dev_fleet *fleet, uint64_t every_ms, struct note *note)
{
    const struct dev_demand_options options = {.io = fleet->io,
                                               .log = fleet->log,
                                               .parts = &fleet->parts,
                                               .every_ms = every_ms,
                                               .say = demand_says,
                                               .owner = fleet};
    return dev_demand_open(&fleet->demand, &options, note);
}

/* -- life -- */

/* So that nobody wonders whether it hangs. */
static void on_tell_end(struct timer *timer)
{
    struct dev_fleet *fleet = CONTAINER_OF(timer, struct dev_fleet, tell_end);
    size_t left = 0;
    char text[64];

    for (size_t i = 0; i < fleet->child_count; i++) left += dev_child_running(fleet->children[i]);
    snprintf(text, sizeof text, "%zu of %zu processes are left", left, fleet->child_count);
    fleet->on_word(fleet->owner, "stopping", text);
    timer_start_in(timer, END_TOLD_MS);
}

static void on_kill(struct timer *timer)
{
    struct dev_fleet *fleet = CONTAINER_OF(timer, struct dev_fleet, kill);

    for (size_t i = 0; i < fleet->child_count; i++) dev_child_kill(fleet->children[i]);
}

static enum err find_program(struct dev_fleet *fleet, struct note *note)
{
    char *program = fleet->parts.program;
    ssize_t len = readlink("/proc/self/exe", program, sizeof fleet->parts.program - 1);

    if (len > 0) {
        program[len] = '\0';
        return ERR_OK;
    }
    note_set(note, "cannot find this very program");
    return ERR_NOT_FOUND;
}

static enum err start_all(struct dev_fleet *fleet, uint64_t demand_every_ms, struct note *note)
{
    const struct dev_parts *parts = &fleet->parts;
    char path[DEV_PATH_CAP + 64];
    enum err err;

    /* Before the first of them: each would make its own. */
    snprintf(path, sizeof path, "%s/%s", parts->dir, DEV_TOKEN_FILE);
    err = dash_token_read(fleet->io->fs, path, fleet->token, note);
    if (err == ERR_NOT_FOUND) err = dash_token_make(fleet->io, path, fleet->token, note);
    if (!err) err = start(fleet, DEV_COORDINATOR, parts->replicas, note);
    if (!err && parts->workers)
        err = dev_input_write(parts, fleet->io->fs, entropy_u64(fleet->io->entropy), note);
    if (!err) err = start(fleet, DEV_WORKER, parts->workers, note);
    if (err || !parts->shards) return err;
    err = begin_demand(fleet, demand_every_ms, note);
    if (!err) err = start(fleet, DEV_PROVIDER, 1, note);
    if (!err) err = start(fleet, DEV_SHARD, parts->shards, note);
    if (!err) err = start(fleet, DEV_OPERATOR, DEV_OPERATORS, note);
    return err;
}

enum err dev_fleet_open(const struct dev_fleet_options *options, struct dev_fleet **ret_fleet,
                        struct note *note)
{
    struct dev_fleet *fleet = calloc(1, sizeof *fleet);
    struct dev_parts *parts;
    enum err err;

    if (!fleet) return ERR_NOMEM;
    *ret_fleet = fleet; /* also when it fails half-way: it must be stopped then */
    fleet->io = options->io;
    fleet->log = options->log;
    fleet->on_ready = options->on_ready;
    fleet->on_failed = options->on_failed;
    fleet->on_word = options->on_word;
    fleet->on_stopped = options->on_stopped;
    fleet->owner = options->owner;
    fleet->leader = SIZE_MAX;
    parts = &fleet->parts;
    parts->replicas = options->replicas;
    parts->shards = options->shards;
    parts->workers = options->workers;
    parts->ports = options->ports;
    snprintf(parts->log_level, sizeof parts->log_level, "%s", options->log_level);
    if (snprintf(parts->dir, sizeof parts->dir, "%s", options->dir) >= DEV_PATH_CAP)
        return ERR_TOO_LARGE;
    if (!realpath(parts->dir, parts->whole_dir)) return ERR_NOT_FOUND;
    err = find_program(fleet, note);
    if (!err) err = timer_init(&fleet->look, fleet->io->loop, on_look);
    if (!err) err = timer_init(&fleet->kill, fleet->io->loop, on_kill);
    if (!err) err = timer_init(&fleet->tell_end, fleet->io->loop, on_tell_end);
    fleet->notes = (struct dev_notes){.io = fleet->io, .log = fleet->log, .parts = parts};
    if (!err) err = start_all(fleet, options->demand_every_ms, note);
    if (!err) err = open_channel(fleet, note);
    if (err) return err;
    fleet->reg =
        (struct dev_register){.parts = parts, .log = fleet->log, .channel = fleet->channel};
    if (options->chaos) begin_chaos(fleet, options->chaos_every_ms);
    timer_start_in(&fleet->look, LOOK_MS);
    return ERR_OK;
}

bool dev_fleet_running(const struct dev_fleet *fleet)
{
    for (size_t i = 0; i < fleet->child_count; i++)
        if (dev_child_running(fleet->children[i])) return true;
    return fleet->channel != NULL;
}

void dev_fleet_stop(struct dev_fleet *fleet)
{
    if (fleet->stopping) return;
    fleet->stopping = true;
    timer_stop(&fleet->look);
    dev_demand_stop(&fleet->demand);
    timer_start_in(&fleet->tell_end, END_TOLD_MS);
    for (size_t i = 0; i < fleet->child_count; i++) dev_child_stop(fleet->children[i]);
    timer_start_in(&fleet->kill, END_WITHIN_MS);
    if (fleet->channel)
        rpc_channel_close(fleet->channel, channel_closed, fleet);
    else
        stopped_one(fleet);
}

void dev_fleet_close(struct dev_fleet *fleet)
{
    if (!fleet) return;
    assert(!dev_fleet_running(fleet));
    for (size_t i = 0; i < fleet->child_count; i++) dev_child_close(fleet->children[i]);
    timer_deinit(&fleet->look);
    timer_deinit(&fleet->kill);
    timer_deinit(&fleet->tell_end);
    dev_demand_close(&fleet->demand);
    free(fleet);
}
