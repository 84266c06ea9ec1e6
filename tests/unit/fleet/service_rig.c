/* SPDX-License-Identifier: Apache-2.0 */
#include "service_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire/message.h"

enum { LOG_MAX = 4 << 20, EVENTS_MAX = 20000000, CLUSTER = 0xf1 };

struct rig rig;
/* Virtual time counts TLS contexts and never reads them. */
static struct {
    size_t refs;
    char rest[64];
} tls_stub = {.refs = 1};

static struct tls_context *tls(void)
{
    return rig.tls ? (struct tls_context *)(void *)&tls_stub : NULL;
}

/* -- nodes -- */

static void on_line(void *context, enum log_level level, struct str line)
{
    struct rig_node *node = context;

    (void)level;
    if (getenv("MUSTER_TEST_LOUD")) fprintf(stderr, "%zu: %.*s", node->number, STR_ARG(line));
    if (buf_append(&node->log, line)) buf_clear(&node->log);
}

static void on_change(void *owner, const struct replica_status *status)
{
    struct rig_node *node = owner;

    fleet_service_on_change(node->service, status);
}

static void on_stopped(void *owner, enum err why, const struct note *note)
{
    (void)owner;
    CHECK_ERR(note->text, why, ERR_OK);
}

static const char *leader_address(void *owner)
{
    struct rig_node *node = owner;
    uint64_t leader = node->replica ? replica_status(node->replica).leader_id : 0;

    return leader ? rig.nodes[leader - 1].grpc : "";
}

static void open_instruments(struct rig_node *node)
{
    struct note note = {""};

    buf_init(&node->log, LOG_MAX);
    CHECK_OK("log", logger_open(&(struct logger_options){.clock = node->io->clock,
                                                         .level = LOG_LEVEL_DEBUG,
                                                         .sink = on_line,
                                                         .sink_context = node,
                                                         .repeats_per_second = 1000},
                                &node->logger));
    log_source_init(&node->log_source, node->logger, "fleet", NULL);
    CHECK_OK("metrics", metrics_open(&node->metrics));
    CHECK_OK("events", events_open(&(struct events_options){.kind = EVENTS_FILE,
                                                            .fs = node->io->fs,
                                                            .clock = node->io->clock,
                                                            .path = "events"},
                                   &node->events, &note));
}

static void format(struct rig_node *node, bool founder)
{
    struct members founders = {.count = rig.nodes_count};
    struct datadir made;
    struct note note = {""};

    for (size_t i = 0; i < rig.nodes_count; i++) {
        founders.at[i].id = i + 1;
        founders.at[i].role = MEMBER_VOTER;
        snprintf(founders.at[i].address, sizeof founders.at[i].address, "%s", rig.nodes[i].raft);
    }
    CHECK_ERR(
        note.text,
        datadir_format(&(struct datadir_format_options){.fs = node->io->fs,
                                                        .entropy = node->io->entropy,
                                                        .dir = "data",
                                                        .founders = founder ? &founders : NULL,
                                                        .cluster_id = founder ? CLUSTER : 0,
                                                        .replica_id = node->number + 1},
                       &made, &note),
        ERR_OK);
}

static void open_node(struct rig_node *node, const struct rig_options *options)
{
    struct note note = {""};

    open_instruments(node);
    format(node, !options->waiting);
    CHECK_OK("service",
             fleet_service_open(&(struct fleet_service_options){.io = node->io,
                                                                .log = &node->log_source,
                                                                .metrics = node->metrics,
                                                                .events = node->events,
                                                                .name = node->grpc,
                                                                .leader_address = leader_address,
                                                                .owner = node,
                                                                .seed = options->seed,
                                                                .exports = options->exports,
                                                                .limits = options->limits},
                                &node->service, &note));
    node->machine = fleet_machine_registration(fleet_service_machine(node->service));
    CHECK_ERR(note.text,
              replica_open(
                  &(struct replica_options){
                      .io = node->io,
                      .log = &node->log_source,
                      .dir = "data",
                      .listen = node->raft,
                      .machines = &node->machine,
                      .machine_count = 1,
                      .level = options->level,
                      .limits = {.segment_bytes = 1 << 20},
                      .events = {.on_change = on_change, .on_stopped = on_stopped, .owner = node}},
                  &node->replica, &note),
              ERR_OK);
    fleet_service_attach(node->service, node->replica, &node->machine, 1);
    CHECK_OK("server",
             rpc_server_open(&(struct rpc_server_options){.io = node->io}, &node->server, &note));
    CHECK_ERR(note.text, fleet_service_methods(node->service, node->server, &note), ERR_OK);
    CHECK_OK("listen", rpc_server_listen(node->server, node->grpc, tls(), &note));
}

static void set_true(void *flag)
{
    *(bool *)flag = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

static void close_node(struct rig_node *node)
{
    rpc_server_close(node->server, set_true, &node->server_closed);
    CHECK("the server closes",
          sim_wait(rig.sim, is_true, &node->server_closed, RIG_WAIT_MS) == SIM_REACHED);
    fleet_service_stop(node->service, NULL, NULL);
    replica_close(node->replica);
    fleet_service_close(node->service);
    events_close(node->events);
    metrics_close(node->metrics);
    logger_close(node->logger);
    buf_deinit(&node->log);
}

/* -- the world -- */

void rig_open(struct rig_options options)
{
    memset(&rig, 0, sizeof rig);
    rig.nodes_count = options.nodes ? options.nodes : 1;
    rig.tls = options.identities != NULL;
    arena_init(&rig.arena, 64 << 20);
    CHECK_OK("a world",
             sim_open(&(struct sim_options){.seed = 11, .events_max = EVENTS_MAX}, &rig.sim));
    for (size_t i = 0; i < rig.nodes_count; i++) {
        struct rig_node *node = &rig.nodes[i];
        char name[8];

        node->number = i;
        snprintf(name, sizeof name, "%c", (char)('a' + i));
        snprintf(node->raft, sizeof node->raft, "%s:7791", name);
        snprintf(node->grpc, sizeof node->grpc, "%s:7790", name);
        CHECK_OK("a host",
                 sim_host_add(rig.sim, &(struct sim_host_options){.name = name, .alpn = "h2"},
                              &node->host));
        node->io = sim_host_io(node->host);
    }
    for (size_t i = 0; i < RIG_CLIENTS; i++) {
        char name[16];

        snprintf(name, sizeof name, "client%zu", i);
        CHECK_OK("a host",
                 sim_host_add(rig.sim,
                              &(struct sim_host_options){
                                  .name = name,
                                  .alpn = "h2",
                                  .identity = options.identities ? &options.identities[i] : NULL},
                              &rig.clients[i].host));
    }
    for (size_t i = 0; i < rig.nodes_count; i++) open_node(&rig.nodes[i], &options);
}

void rig_close(void)
{
    for (size_t c = 0; c < RIG_CLIENTS; c++)
        for (size_t n = 0; n < RIG_NODES; n++) {
            struct rig_client *client = &rig.clients[c];

            if (!client->channels[n]) continue;
            rpc_channel_close(client->channels[n], set_true, &client->closed[n]);
            CHECK("the channel closes",
                  sim_wait(rig.sim, is_true, &client->closed[n], RIG_WAIT_MS) == SIM_REACHED);
        }
    for (size_t i = 0; i < rig.nodes_count; i++) close_node(&rig.nodes[i]);
    sim_close(rig.sim);
    arena_deinit(&rig.arena);
}

void rig_run(uint64_t ms)
{
    sim_run_for(rig.sim, ms);
}

/* A leader that is cut off still claims to lead for a while: the highest term counts. */
static struct rig_node *find_leader(void)
{
    struct rig_node *best = NULL;
    uint64_t term = 0;

    for (size_t i = 0; i < rig.nodes_count; i++) {
        struct replica_status status = replica_status(rig.nodes[i].replica);

        if (!status.ready || status.term <= term) continue;
        term = status.term;
        best = &rig.nodes[i];
    }
    return best;
}

static bool has_leader(void *context)
{
    (void)context;
    return find_leader() != NULL;
}

struct rig_node *rig_leader(void)
{
    CHECK("a replica leads",
          find_leader() || sim_wait(rig.sim, has_leader, NULL, RIG_WAIT_MS) == SIM_REACHED);
    return find_leader();
}

struct rig_node *rig_other(const struct rig_node *node)
{
    return &rig.nodes[(node->number + 1) % rig.nodes_count];
}

void rig_cut(const struct rig_node *node, bool cut)
{
    for (size_t i = 0; i < rig.nodes_count; i++) {
        if (i == node->number) continue;
        sim_link_block(node->host, rig.nodes[i].host, cut);
        sim_link_block(rig.nodes[i].host, node->host, cut);
    }
}

/* -- calls -- */

static struct rpc_channel *channel(size_t client, const struct rig_node *node)
{
    struct rpc_channel **at = &rig.clients[client].channels[node->number];
    struct note note = {""};

    if (!*at)
        CHECK_OK("channel",
                 rpc_channel_open(
                     &(struct rpc_channel_options){.io = sim_host_io(rig.clients[client].host),
                                                   .addresses = (const char *[]){node->grpc, NULL},
                                                   .tls = tls()},
                     at, &note));
    return *at;
}

static void keep_trailer(const struct rpc_client_call *call, const char *name, char *into,
                         size_t cap)
{
    struct str value;

    if (rpc_call_trailer(call, str_from(name), &value))
        snprintf(into, cap, "%.*s", STR_ARG(value));
    else
        snprintf(into, cap, "(none)");
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct rig_answer *answer = owner;

    CHECK("once", !answer->done);
    answer->done = true;
    answer->err = outcome->err;
    answer->status = outcome->status;
    snprintf(answer->text, sizeof answer->text, "%.*s", STR_ARG(outcome->text));
    keep_trailer(call, RPC_LEADER_TRAILER, answer->leader, sizeof answer->leader);
    keep_trailer(call, RPC_APPLIED_TRAILER, answer->applied, sizeof answer->applied);
    CHECK_OK("kept", buf_append(&answer->bytes, message));
}

void rig_start(struct rig_answer *answer, struct rig_call call, const char *method,
               const ProtobufCMessage *request)
{
    const struct rig_node *node = call.node ? call.node : rig_leader();
    struct rpc_call_options options = {
        .timeout_ms = call.timeout_ms,
        .request_id = str_from(call.request_id),
        .wait_for_ready = true,
        .attempts_max = 1,
        .response_max = 64 << 20,
    };
    struct buf bytes;
    char path[128];

    if (method[0] == '.')
        snprintf(path, sizeof path, "/muster.v1.Fleet/%s", method + 1);
    else
        snprintf(path, sizeof path, "/bigfleet.v1alpha1.Coordinator/%s", method);
    options.path = path;
    memset(answer, 0, sizeof *answer);
    buf_init(&answer->bytes, 64 << 20);
    buf_init(&bytes, 64 << 20);
    CHECK_OK("request", message_write(request, &bytes, NULL));
    CHECK_OK("sent", rpc_unary(channel(call.client, node), &options, buf_peek(&bytes), on_answer,
                               answer, NULL));
    buf_deinit(&bytes);
}

void rig_wait(struct rig_answer *answer)
{
    CHECK("an answer comes",
          answer->done || sim_wait(rig.sim, is_true, &answer->done, RIG_WAIT_MS) == SIM_REACHED);
}

void rig_answer_deinit(struct rig_answer *answer)
{
    buf_deinit(&answer->bytes);
}

struct rig_answer *rig_call(struct rig_call call, const char *method,
                            const ProtobufCMessage *request)
{
    static struct rig_answer answer;

    rig_answer_deinit(&answer);
    rig_start(&answer, call, method, request);
    rig_wait(&answer);
    return &answer;
}

const void *rig_message(const struct rig_answer *answer, const ProtobufCMessageDescriptor *type)
{
    struct note note = {""};
    ProtobufCMessage *message;

    CHECK_U64(answer->text, answer->status, GRPC_OK);
    arena_reset(&rig.arena);
    CHECK_OK("readable",
             message_read(type, buf_peek(&answer->bytes), NULL, &rig.arena, &message, &note));
    return message;
}

/* -- common requests -- */

enum grpc_status rig_assign(const char *key, const char *value, const char *shard)
{
    Bigfleet__V1alpha1__AssignDomainRequest m = BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_REQUEST__INIT;

    m.topology_key = (char *)(uintptr_t)key;
    m.topology_value = (char *)(uintptr_t)value;
    m.shard_id = (char *)(uintptr_t)shard;
    return rig_call((struct rig_call){0}, "AssignDomain", &m.base)->status;
}

enum grpc_status rig_unassign(const char *key, const char *value)
{
    Bigfleet__V1alpha1__UnassignDomainRequest m = BIGFLEET__V1ALPHA1__UNASSIGN_DOMAIN_REQUEST__INIT;

    m.topology_key = (char *)(uintptr_t)key;
    m.topology_value = (char *)(uintptr_t)value;
    return rig_call((struct rig_call){0}, "UnassignDomain", &m.base)->status;
}

enum grpc_status rig_remove(const char *shard)
{
    Bigfleet__V1alpha1__RemoveShardRequest m = BIGFLEET__V1ALPHA1__REMOVE_SHARD_REQUEST__INIT;

    m.shard_id = (char *)(uintptr_t)shard;
    return rig_call((struct rig_call){0}, "RemoveShard", &m.base)->status;
}

enum grpc_status rig_add(const char *shard, const char *address)
{
    Muster__V1__AddShardRequest m = MUSTER__V1__ADD_SHARD_REQUEST__INIT;

    m.shard_id = (char *)(uintptr_t)shard;
    m.address = (char *)(uintptr_t)address;
    return rig_call((struct rig_call){0}, ".AddShard", &m.base)->status;
}

struct rig_answer *rig_try_report(struct rig_call call, struct rig_report report)
{
    enum { SHORTFALLS = 300 };
    static Bigfleet__V1alpha1__Shortfall shortfalls[SHORTFALLS], *list[SHORTFALLS];
    Bigfleet__V1alpha1__ShardReport m = BIGFLEET__V1ALPHA1__SHARD_REPORT__INIT;
    Bigfleet__V1alpha1__ShardSummary summary = BIGFLEET__V1ALPHA1__SHARD_SUMMARY__INIT;
    Bigfleet__V1alpha1__InstructAck ack = BIGFLEET__V1ALPHA1__INSTRUCT_ACK__INIT, *acks[] = {&ack};
    Bigfleet__V1alpha1__ReportedDomain domain = BIGFLEET__V1ALPHA1__REPORTED_DOMAIN__INIT,
                                       *domains[] = {&domain};

    m.shard_id = (char *)(uintptr_t)report.shard;
    if (report.address) m.shard_address = (char *)(uintptr_t)report.address;
    m.shard_epoch = report.epoch;
    m.cycle = report.cycle;
    m.process_id = report.process;
    m.scope = report.scope;
    if (report.provider) summary.provider_address = (char *)(uintptr_t)report.provider;
    if (report.total) {
        summary.total_machines = report.total;
        summary.free_machines = report.free;
        m.summary = &summary;
    }
    CHECK("as many as there are", report.shortfalls <= SHORTFALLS);
    for (size_t i = 0; i < report.shortfalls; i++) {
        bigfleet__v1alpha1__shortfall__init(&shortfalls[i]);
        shortfalls[i].priority = 1000 - (int32_t)i;
        list[i] = &shortfalls[i];
    }
    m.shortfalls = list;
    m.n_shortfalls = report.shortfalls;
    if (report.ack) {
        ack.instruction_id = (char *)(uintptr_t)report.ack;
        ack.outcome = report.outcome;
        ack.reason = (char *)(uintptr_t)(report.reason ? report.reason : "because");
        m.instruction_acks = acks;
        m.n_instruction_acks = 1;
    }
    if (report.key) {
        domain.topology_key = (char *)(uintptr_t)report.key;
        domain.topology_value = (char *)(uintptr_t)report.value;
        m.domains = domains;
        m.n_domains = 1;
    }
    return rig_call(call, "ReportShard", &m.base);
}

const Bigfleet__V1alpha1__ReportAck *rig_report(struct rig_report report)
{
    return rig_message(rig_try_report((struct rig_call){0}, report),
                       &bigfleet__v1alpha1__report_ack__descriptor);
}

const Bigfleet__V1alpha1__ListShardsResponse *rig_shards(void)
{
    Bigfleet__V1alpha1__ListShardsRequest m = BIGFLEET__V1ALPHA1__LIST_SHARDS_REQUEST__INIT;

    return rig_message(rig_call((struct rig_call){0}, "ListShards", &m.base),
                       &bigfleet__v1alpha1__list_shards_response__descriptor);
}

const Bigfleet__V1alpha1__ListShardReportsResponse *rig_reports(const char *shard)
{
    Bigfleet__V1alpha1__ListShardReportsRequest m =
        BIGFLEET__V1ALPHA1__LIST_SHARD_REPORTS_REQUEST__INIT;

    m.shard_id = (char *)(uintptr_t)shard;
    return rig_message(rig_call((struct rig_call){0}, "ListShardReports", &m.base),
                       &bigfleet__v1alpha1__list_shard_reports_response__descriptor);
}

const Muster__V1__ListInstructionsResponse *rig_instructions(const char *shard)
{
    Muster__V1__ListInstructionsRequest m = MUSTER__V1__LIST_INSTRUCTIONS_REQUEST__INIT;

    m.shard_id = (char *)(uintptr_t)shard;
    return rig_message(rig_call((struct rig_call){0}, ".ListInstructions", &m.base),
                       &muster__v1__list_instructions_response__descriptor);
}

enum grpc_status rig_queue(const char *shard, const char *id)
{
    Muster__V1__QueueInstructionRequest m = MUSTER__V1__QUEUE_INSTRUCTION_REQUEST__INIT;
    Bigfleet__V1alpha1__CoordinatorInstruction it =
        BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__INIT;
    Bigfleet__V1alpha1__ReassignSpeculative what = BIGFLEET__V1ALPHA1__REASSIGN_SPECULATIVE__INIT;
    char *shards[] = {(char *)(uintptr_t)shard};

    it.instruction_id = (char *)(uintptr_t)id;
    it.payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_REASSIGN_SPECULATIVE;
    it.reassign_speculative = &what;
    m.n_shard_ids = 1;
    m.shard_ids = shards;
    m.instruction = &it;
    return rig_call((struct rig_call){0}, ".QueueInstruction", &m.base)->status;
}

/* -- a node's metrics and log -- */

bool rig_metric(const struct rig_node *node, const char *line, double *ret_value)
{
    struct buf text;
    const char *found;
    bool there;

    buf_init(&text, 4 << 20);
    CHECK_OK("metrics", metrics_write(node->metrics, &text));
    CHECK_OK("an end", buf_append_byte(&text, '\0'));
    for (found = text.data; (found = strstr(found, line)); found++)
        if ((found == text.data || found[-1] == '\n') && found[strlen(line)] == ' ') break;
    there = found != NULL;
    if (there) *ret_value = strtod(found + strlen(line), NULL);
    buf_deinit(&text);
    return there;
}

size_t rig_lines(const struct rig_node *node, const char *const *parts)
{
    struct buf text;
    struct str rest, line;
    size_t count = 0;

    buf_init(&text, 16 << 20);
    events_flush(node->events);
    CHECK_OK("the journal", fs_read_whole(node->io->fs, "events", 16 << 20, &text));
    rest = buf_peek(&text);
    while (str_split(&rest, '\n', &line)) {
        char c_line[8192];
        bool all = true;

        snprintf(c_line, sizeof c_line, "%.*s", STR_ARG(line));
        for (const char *const *part = parts; *part; part++) all = all && strstr(c_line, *part);
        count += all && line.len;
    }
    buf_deinit(&text);
    return count;
}
