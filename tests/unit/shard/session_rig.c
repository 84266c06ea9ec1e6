/* SPDX-License-Identifier: Apache-2.0 */
#include "session_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "shard/sessions_internal.h"
#include "wire/message.h"

enum { EVENTS_MAX = 20000000, WAIT_MS = 60000 };

/* In virtual time contexts are only counted, never looked into. */
static struct {
    size_t refs;
    char rest[64];
} tls_stands_for = {.refs = 1};

static const struct str type_values[] = {{"m5.large", 8}};
static const struct requirement type_requirement = {
    {"node.kubernetes.io/instance-type", 32}, OPERATOR_IN, type_values, 1};
const struct profile plain_profile = {
    .requirements = &type_requirement, .requirement_count = 1, .fingerprint = {"p=0|fp", 6}};

/* -- the owner -- */

static void note_event(struct session_rig *rig, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void note_event(struct session_rig *rig, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)buf_vappendf(&rig->owner_events, format, args);
    va_end(args);
    (void)buf_append(&rig->owner_events, STR("\n"));
}

static void on_open(void *owner, struct str cluster, enum operator_link link)
{
    note_event(owner, "open %.*s%s", STR_ARG(cluster),
               link == OPERATOR_CONNECTED ? "" : " reports drains");
}

static void on_drain_report(void *owner, const struct drain_report *report)
{
    note_event(owner, "drain report %.*s %.*s action %llu drained %d left %llu error \"%.*s\"",
               STR_ARG(report->cluster), STR_ARG(report->machine),
               (unsigned long long)report->action, report->drained,
               (unsigned long long)report->left_ms, STR_ARG(report->error));
}

static void on_close(void *owner, struct str cluster)
{
    note_event(owner, "close %.*s", STR_ARG(cluster));
}

static void on_rollup(void *owner, struct rollup *rollup)
{
    struct session_rig *rig = owner;

    note_event(rig, "rollup %.*s %zu", STR_ARG(rollup->cluster), rollup->bytes.len);
    CHECK("room for what is held", rig->held_count < RIG_HELD);
    rig->held[rig->held_count++] = rollup;
    if (!rig->hold) rollup_done(rig, rig->held_count - 1, ROLLUP_ACKNOWLEDGED);
}

static void on_blob(void *owner, struct session_blob *request, enum blob_end end,
                    struct str content)
{
    static const char *const ends[] = {"ready", "no session", "timeout", "error"};

    note_event(owner, "blob %llu %s %.*s", (unsigned long long)request->action, ends[end],
               STR_ARG(content));
    free(request);
}

enum err rig_ask(struct session_rig *rig, const char *cluster, uint64_t action, uint64_t timeout_ms)
{
    struct session_blob *request = calloc(1, sizeof *request);
    enum err err;

    if (!request) return ERR_NOMEM;
    request->action = action;
    err = sessions_ask_blob(rig->sessions, str_from(cluster), request, &plain_profile, timeout_ms);
    if (err) free(request);
    return err;
}

bool rig_has(const struct session_rig *rig, const char *cluster)
{
    return session_of(rig->sessions, str_from(cluster)) != NULL;
}

static const struct sessions_events events = {on_open, on_close, on_rollup, on_blob,
                                              on_drain_report};

void rollup_done(struct session_rig *rig, size_t index, enum rollup_end end)
{
    struct rollup *rollup = rig->held[index];

    CHECK("one that is held", index < rig->held_count);
    rig->held_count--;
    memmove(&rig->held[index], &rig->held[index + 1],
            (rig->held_count - index) * sizeof rig->held[0]);
    sessions_rollup_done(rig->sessions, rollup, end);
}

/* -- the world -- */

static void on_log(void *context, enum log_level level, struct str line)
{
    (void)level;
    (void)buf_append(context, line);
}

void session_rig_open(struct session_rig *rig, const struct sessions_options *options,
                      const struct tls_identity *const *identities)
{
    struct sessions_options settled = options ? *options : (struct sessions_options){0};
    struct rpc_server_limits limits = {0};
    struct log_source log;
    struct note note = {""};

    memset(rig, 0, sizeof *rig);
    buf_init(&rig->owner_events, RIG_TEXT_MAX);
    buf_init(&rig->log, RIG_TEXT_MAX);
    CHECK_OK("a world",
             sim_open(&(struct sim_options){.seed = 5, .events_max = EVENTS_MAX}, &rig->sim));
    CHECK_OK("a host",
             sim_host_add(rig->sim, &(struct sim_host_options){.name = "shard", .alpn = "h2"},
                          &rig->host));
    CHECK_OK("a log", logger_open(&(struct logger_options){.clock = sim_host_io(rig->host)->clock,
                                                           .sink = on_log,
                                                           .sink_context = &rig->log,
                                                           .repeats_per_second = 1000},
                                  &rig->logger));
    log_source_init(&log, rig->logger, "shard", NULL);
    settled.io = sim_host_io(rig->host);
    settled.events = &events;
    settled.owner = rig;
    settled.log = &log;
    CHECK_OK("sessions", sessions_open(&settled, &rig->sessions));
    sessions_server_limits(rig->sessions, &limits);
    CHECK_OK("a server", rpc_server_open(&(struct rpc_server_options){.io = sim_host_io(rig->host),
                                                                      .limits = limits},
                                         &rig->server, &note));
    CHECK_ERR(note.text, sessions_serve(rig->sessions, rig->server, &note), ERR_OK);
    CHECK_OK("listens",
             rpc_server_listen(rig->server, "shard:7780",
                               identities ? (struct tls_context *)(void *)&tls_stands_for : NULL,
                               &note));
    for (size_t i = 0; i < RIG_OPERATORS; i++) {
        struct op *o = &rig->operators[i];
        char name[16];
        snprintf(name, sizeof name, "op%zu", i);
        buf_init(&o->heard, RIG_TEXT_MAX);
        CHECK_OK("a host",
                 sim_host_add(
                     rig->sim,
                     &(struct sim_host_options){
                         .name = name, .identity = identities ? identities[i] : NULL, .alpn = "h2"},
                     &o->host));
        CHECK_OK("a channel",
                 rpc_channel_open(
                     &(struct rpc_channel_options){
                         .io = sim_host_io(o->host),
                         .addresses = (const char *[]){"shard:7780", NULL},
                         .tls = identities ? (struct tls_context *)(void *)&tls_stands_for : NULL},
                     &o->channel, &note));
    }
}

static void set_true(void *flag)
{
    *(bool *)flag = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

void session_rig_close(struct session_rig *rig)
{
    for (size_t i = 0; i < RIG_OPERATORS; i++) {
        struct op *o = &rig->operators[i];
        rpc_channel_close(o->channel, set_true, &o->channel_closed);
        CHECK("the channel closes",
              o->channel_closed ||
                  sim_wait(rig->sim, is_true, &o->channel_closed, WAIT_MS) == SIM_REACHED);
        buf_deinit(&o->heard);
    }
    while (rig->held_count > 0) rollup_done(rig, 0, ROLLUP_ACKNOWLEDGED);
    rpc_server_close(rig->server, set_true, &rig->server_closed);
    CHECK("the server closes",
          sim_wait(rig->sim, is_true, &rig->server_closed, WAIT_MS) == SIM_REACHED);
    while (rig->held_count > 0) rollup_done(rig, 0, ROLLUP_ACKNOWLEDGED);
    CHECK_SIZE("nothing waits any more", session_stats(rig).outbox_bytes, 0);
    sessions_close(rig->sessions);
    logger_close(rig->logger);
    sim_close(rig->sim);
    buf_deinit(&rig->owner_events);
    buf_deinit(&rig->log);
}

void session_rig_run(struct session_rig *rig, uint64_t ms)
{
    enum sim_end end = sim_run_for(rig->sim, ms);

    CHECK("the world goes on", end == SIM_REACHED || end == SIM_QUIET);
}

struct sessions_stats session_stats(const struct session_rig *rig)
{
    return sessions_stats(rig->sessions);
}

/* -- operators -- */

static void note_frame(struct op *o, const Bigfleet__V1alpha1__ShardMessage *m)
{
    switch (m->payload_case) {
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_ACK:
        (void)buf_appendf(&o->heard, "ack %s %lld %lld%s\n", m->ack->echo,
                          (long long)m->ack->coordinator_term, (long long)m->ack->shard_epoch,
                          m->ack->takes_drain_reports ? " takes drain reports" : "");
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_BOOTSTRAP_REQUEST:
        snprintf(o->request_id, sizeof o->request_id, "%s", m->bootstrap_request->request_id);
        (void)buf_appendf(&o->heard, "blob %s", m->bootstrap_request->cluster_id);
        for (size_t i = 0; i < m->bootstrap_request->n_requirements; i++)
            (void)buf_appendf(&o->heard, " %s:%d:%s", m->bootstrap_request->requirements[i]->key,
                              (int)m->bootstrap_request->requirements[i]->operator_,
                              m->bootstrap_request->requirements[i]->values[0]);
        (void)buf_append(&o->heard, STR("\n"));
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_RECLAIM_INSTRUCTION:
        snprintf(o->instruction_id, sizeof o->instruction_id, "%s",
                 m->reclaim_instruction->instruction_id);
        (void)buf_appendf(&o->heard, "reclaim %zu %s %lld %d id=%zu\n",
                          m->reclaim_instruction->n_nodes, m->reclaim_instruction->nodes[0],
                          (long long)m->reclaim_instruction->grace_period_seconds,
                          (int)m->reclaim_instruction->preemptor_priority,
                          strlen(m->reclaim_instruction->instruction_id));
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_NODE_STATE_UPDATE:
        (void)buf_appendf(&o->heard, "node %s %s %d%s\n", m->node_state_update->machine_id,
                          m->node_state_update->cluster_id, (int)m->node_state_update->state,
                          m->node_state_update->node_name[0] ? " named" : "");
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_AVAILABLE_CAPACITY:
        (void)buf_appendf(
            &o->heard, "capacity %s %d %d %g\n", m->available_capacity->supersedes_key,
            (int)m->available_capacity->available_count, (int)m->available_capacity->confidence,
            m->available_capacity->cost_per_hour);
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_NEED_STATUS:
        (void)buf_appendf(&o->heard, "need %s %d %s\n", m->need_status->fingerprint,
                          (int)m->need_status->lacking, m->need_status->reason);
        break;
    default: (void)buf_append(&o->heard, STR("nothing\n")); break;
    }
}

static void on_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    ProtobufCMessage *message;
    struct note note = {""};
    struct arena arena;

    (void)call;
    arena_init(&arena, 16 << 20);
    CHECK_ERR(note.text,
              message_read(&bigfleet__v1alpha1__shard_message__descriptor, bytes, NULL, &arena,
                           &message, &note),
              ERR_OK);
    note_frame(owner, (const Bigfleet__V1alpha1__ShardMessage *)message);
    arena_deinit(&arena);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct op *o = owner;

    if (o->call != call) return; /* an earlier stream of the same operator */
    o->call = NULL;
    o->ended = true;
    o->status = outcome->status;
    snprintf(o->text, sizeof o->text, "%.*s", STR_ARG(outcome->text));
}

static const struct rpc_call_events call_events = {on_message, NULL, on_end};

struct op *operator_connect(struct session_rig *rig, size_t index)
{
    struct op *o = &rig->operators[index];

    o->ended = false;
    CHECK_OK("a stream",
             rpc_call_start(o->channel,
                            &(struct rpc_call_options){.path = "/bigfleet.v1alpha1.Shard/Session",
                                                       .wait_for_ready = true,
                                                       .attempts_max = 1},
                            &call_events, o, &o->call));
    return o;
}

struct op *operator_hello(struct session_rig *rig, size_t index, const char *cluster)
{
    struct op *o = operator_connect(rig, index);

    operator_say_hello(o, cluster);
    session_rig_run(rig, 50);
    return o;
}

void operator_say_bytes(struct op *o, struct str bytes)
{
    CHECK_OK("sent", rpc_call_send(o->call, bytes));
}

void operator_say(struct op *o, const Bigfleet__V1alpha1__OperatorMessage *message)
{
    struct buf bytes;

    buf_init(&bytes, 64 << 20);
    CHECK_OK("encoded", message_write(&message->base, &bytes, NULL));
    operator_say_bytes(o, buf_peek(&bytes));
    buf_deinit(&bytes);
}

void operator_say_hello(struct op *o, const char *cluster)
{
    operator_say_hello_as(o, cluster, false);
}

void operator_say_report(struct op *o, const char *instruction, const char *machine, bool drained,
                         int64_t left_seconds, const char *error)
{
    Bigfleet__V1alpha1__OperatorMessage m = BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__INIT;
    Bigfleet__V1alpha1__DrainReport report = BIGFLEET__V1ALPHA1__DRAIN_REPORT__INIT;

    report.instruction_id = (char *)(uintptr_t)instruction;
    report.machine_id = (char *)(uintptr_t)machine;
    report.drained = drained;
    report.grace_left_seconds = left_seconds;
    report.error = (char *)(uintptr_t)error;
    m.payload_case = BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__PAYLOAD_DRAIN_REPORT;
    m.drain_report = &report;
    operator_say(o, &m);
}

void operator_say_hello_as(struct op *o, const char *cluster, bool reports_drains)
{
    Bigfleet__V1alpha1__OperatorMessage m = BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__INIT;
    Bigfleet__V1alpha1__Hello hello = BIGFLEET__V1ALPHA1__HELLO__INIT;

    hello.cluster_id = (char *)(uintptr_t)cluster;
    hello.protocol_version = (char *)(uintptr_t) "v1alpha1";
    hello.reports_drains = hello.takes_need_status = reports_drains;
    m.payload_case = BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__PAYLOAD_HELLO;
    m.hello = &hello;
    operator_say(o, &m);
}

void operator_say_rollup(struct op *o, const char *cluster, size_t padding)
{
    Bigfleet__V1alpha1__OperatorMessage m = BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__INIT;
    Bigfleet__V1alpha1__ClusterCapacityNeeds needs =
        BIGFLEET__V1ALPHA1__CLUSTER_CAPACITY_NEEDS__INIT;
    Bigfleet__V1alpha1__CapacityNeed row = BIGFLEET__V1ALPHA1__CAPACITY_NEED__INIT;
    Bigfleet__V1alpha1__CapacityNeed *rows[] = {&row};
    uint8_t *group = malloc(padding + 1);

    memset(group, 'g', padding + 1);
    row.group = (ProtobufCBinaryData){padding, group};
    needs.cluster_id = (char *)(uintptr_t)cluster;
    needs.n_needs = 1;
    needs.needs = rows;
    m.payload_case = BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__PAYLOAD_ROLLUP;
    m.rollup = &needs;
    operator_say(o, &m);
    free(group);
}

void operator_say_blob(struct op *o, const char *request_id, const char *data, const char *error)
{
    Bigfleet__V1alpha1__OperatorMessage m = BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__INIT;
    Bigfleet__V1alpha1__BootstrapBlobResponse response =
        BIGFLEET__V1ALPHA1__BOOTSTRAP_BLOB_RESPONSE__INIT;

    response.request_id = (char *)(uintptr_t)request_id;
    response.user_data = (ProtobufCBinaryData){strlen(data), (uint8_t *)(uintptr_t)data};
    response.error = (char *)(uintptr_t)error;
    m.payload_case = BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__PAYLOAD_BOOTSTRAP_RESPONSE;
    m.bootstrap_response = &response;
    operator_say(o, &m);
}

void operator_hang_up(struct op *o)
{
    rpc_call_cancel(o->call);
}

static const char *text_of(struct buf *buf)
{
    char *room;

    CHECK_OK("text", buf_reserve(buf, 1, &room));
    *room = '\0';
    return buf->data;
}

const char *heard(struct op *o)
{
    return text_of(&o->heard);
}

const char *owner_log(struct session_rig *rig)
{
    return text_of(&rig->owner_events);
}

const char *logged(struct session_rig *rig)
{
    return text_of(&rig->log);
}

void forget(struct session_rig *rig)
{
    buf_clear(&rig->owner_events);
    for (size_t i = 0; i < RIG_OPERATORS; i++) buf_clear(&rig->operators[i].heard);
}

void check_ended(struct op *o, const char *why, enum grpc_status status)
{
    CHECK(why, o->ended);
    CHECK_U64(why, o->status, status);
}

void node_state(struct session_rig *rig, const char *cluster, const char *machine,
                enum machine_state state)
{
    bool bound =
        state == MACHINE_CONFIGURING || state == MACHINE_CONFIGURED || state == MACHINE_DRAINING;
    struct machine m = {.id = str_from(machine),
                        .state = state,
                        .cluster = bound ? str_from(cluster) : STR_EMPTY,
                        .host_ref = STR("i-1"),
                        .attributes = {.instance_type = STR("m5.large"), .zone = STR_EMPTY}};
    struct dimensions dimensions;
    struct frame_writer writer;

    dimensions_init(&dimensions);
    frame_writer_init(&writer);
    CHECK_OK("a frame", frame_write_node_state(&writer, str_from(cluster), &m, &dimensions));
    sessions_node_state(rig->sessions, str_from(cluster), m.id, !bound, buf_peek(&writer.frame));
    frame_writer_deinit(&writer);
    dimensions_deinit(&dimensions);
}
