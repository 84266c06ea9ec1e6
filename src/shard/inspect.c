/* SPDX-License-Identifier: Apache-2.0 */
/* InspectNeeds and ShardView/Machine: a question becomes a job, which writes down what the core
 * knows. To a machine the loop adds what was done with it lately. */
#include <string.h>

#include "shard/shard_internal.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

enum {
    INSPECT_ANSWER_BYTES_MAX = 1 << 20,
    /* of ShardMachineResponse */
    INSPECT_FIELD_SHARD = 1,
    INSPECT_FIELD_CYCLE,
    FIELD_ID,
    INSPECT_FIELD_STATE,
    FIELD_PLANNED,
    FIELD_PENDING,
    FIELD_CLUSTER,
    FIELD_DESTINATION,
    INSPECT_FIELD_TYPE,
    INSPECT_FIELD_ZONE,
    INSPECT_FIELD_CAPACITY,
    INSPECT_FIELD_PRICE,
    FIELD_INTERRUPTION,
    FIELD_ERROR,
    FIELD_FINGERPRINT,
    INSPECT_FIELD_PRIORITY,
    FIELD_PROMISED,
    FIELD_IDLE,
    FIELD_RESTING,
    FIELD_REFUSALS,
    FIELD_ASKED,
    FIELD_LEFT,
    INSPECT_FIELD_AUDIT,
    FIELD_OPERATOR_DRAINS,
    FIELD_OPERATOR_AWAY,
    FIELD_OPERATOR_LEFT,
    FIELD_OUTSIDE,
};

/* -- InspectNeeds -- */

static void inspect_run(struct decide_job *job, struct decide_context *context, struct effects *)
{
    struct inspection *inspection = CONTAINER_OF(job, struct inspection, job);
    struct needs_view view;
    enum err err =
        core_inspect(context->core, inspection->text, inspection->limit, &context->scratch, &view);

    inspection_write(inspection, err, &view, core_dimensions(context->core));
}

static void inspect_done(struct decide_job *job, enum err err)
{
    struct inspection *inspection = CONTAINER_OF(job, struct inspection, job);

    if (err) inspection_write(inspection, err, NULL, NULL);
    inspection_done(inspection);
}

static void on_inspect(void *owner, struct inspection *inspection)
{
    struct shard *shard = owner;

    inspection->job = (struct decide_job){.run = inspect_run, .done = inspect_done};
    decide_thread_submit(shard->decide_thread, &inspection->job);
}

enum err inspect_open(struct shard *shard)
{
    struct inspections_options options = {.io = shard->io, .inspect = on_inspect, .owner = shard};

    return inspections_open(&options, &shard->inspections);
}

/* -- ShardView/Machine -- */

static void pack_rest(struct pack *pack, const struct machine_facts *facts)
{
    static const char *const why[] = {
        [RESTING_REFUSED] = "refused", [RESTING_DOUBT] = "doubt", [RESTING_FAILED] = "failed"};

    if (!facts->rests) return;
    pack_text(pack, FIELD_RESTING, str_from(why[facts->rest.why]));
    pack_u64(pack, FIELD_REFUSALS, facts->rest.refusals);
    pack_u64(pack, FIELD_ASKED, facts->rest.asked);
    pack_u64(pack, FIELD_LEFT, facts->rest.left_ms);
}

static void pack_facts(struct pack *pack, const struct machine_facts *facts, mono_time now)
{
    const struct machine *m = &facts->machine;
    char name[MACHINE_NAME_CAP];

    pack_text(pack, FIELD_ID, m->id);
    pack_text(pack, INSPECT_FIELD_STATE, str_from(machine_state_name(m->state, name)));
    if (facts->planned_state != m->state)
        pack_text(pack, FIELD_PLANNED, str_from(machine_state_name(facts->planned_state, name)));
    pack_u64(pack, FIELD_PENDING, facts->pending);
    pack_text(pack, FIELD_CLUSTER, m->cluster);
    pack_text(pack, FIELD_DESTINATION, m->destination);
    pack_text(pack, INSPECT_FIELD_TYPE, m->attributes.instance_type);
    pack_text(pack, INSPECT_FIELD_ZONE, m->attributes.zone);
    pack_text(pack, INSPECT_FIELD_CAPACITY, str_from(capacity_type_name(m->capacity_type, name)));
    pack_double(pack, INSPECT_FIELD_PRICE, m->price_per_hour);
    pack_double(pack, FIELD_INTERRUPTION, m->interruption_probability);
    pack_text(pack, FIELD_ERROR, m->last_error);
    pack_text(pack, FIELD_FINGERPRINT, m->stamp.fingerprint);
    pack_i64(pack, INSPECT_FIELD_PRIORITY, m->stamp.priority);
    pack_text(pack, FIELD_PROMISED, m->promised.cluster);
    if (m->state == MACHINE_IDLE)
        pack_u64(pack, FIELD_IDLE, mono_elapsed_ms(facts->idle_since, now));
    pack_rest(pack, facts);
    pack_u64(pack, FIELD_OPERATOR_DRAINS, facts->operator_drains);
    pack_u64(pack, FIELD_OPERATOR_AWAY, facts->operator_away);
    pack_u64(pack, FIELD_OPERATOR_LEFT, facts->operator_left_ms);
    pack_u64(pack, FIELD_OUTSIDE, facts->outside);
}

static void machine_run(struct decide_job *job, struct decide_context *context, struct effects *)
{
    struct inspection *q = CONTAINER_OF(job, struct inspection, job);
    struct machine_facts facts;
    struct pack pack = pack_begin(&q->answer);

    q->err = core_machine(context->core, q->text, context->now, &facts);
    if (q->err) return;
    pack_u64(&pack, INSPECT_FIELD_CYCLE, core_counts(context->core)->cycles);
    pack_facts(&pack, &facts, context->now);
    q->err = pack.err;
}

/* Our own lines, so the member stands as we write it. An id that JSON has to escape finds none. */
static bool is_about(struct str line, struct str id)
{
    static const char member[] = "\"machine\":\"";
    const char *at = memmem(line.at, line.len, member, sizeof member - 1);
    struct str rest;

    if (!at) return false;
    rest = str_tail(line, (size_t)(at - line.at) + sizeof member - 1);
    return rest.len > id.len && memcmp(rest.at, id.at, id.len) == 0 && rest.at[id.len] == '"';
}

static void machine_done(struct decide_job *job, enum err err)
{
    struct inspection *q = CONTAINER_OF(job, struct inspection, job);
    const struct shard *shard = q->owner;
    struct pack pack = {&q->answer, err ? err : q->err};

    pack_text(&pack, INSPECT_FIELD_SHARD, str_from(shard->id));
    for (size_t i = 0; i < audit_kept(shard->audit); i++)
        if (is_about(audit_line(shard->audit, i), q->text))
            pack_bytes(&pack, INSPECT_FIELD_AUDIT, audit_line(shard->audit, i));
    q->err = pack.err;
    inspection_done(q);
}

static void inspect_on_message(void *service, struct rpc_call *call,
                               const ProtobufCMessage *message, struct str)
{
    const Muster__V1__ShardMachineRequest *request = (const void *)message;
    struct shard *shard = service;
    struct inspection *q = inspection_new(shard->inspections, call, str_from(request->machine_id),
                                          INSPECT_ANSWER_BYTES_MAX);

    if (!q) return;
    q->unary = true;
    q->job = (struct decide_job){.run = machine_run, .done = machine_done};
    decide_thread_submit(shard->decide_thread, &q->job);
}

enum err machine_view_serve(struct shard *shard, struct rpc_server *server, struct note *note)
{
    static const struct rpc_handler handler = {.on_message = inspect_on_message,
                                               .on_done = inspection_call_done};

    return rpc_server_add(server,
                          &(struct rpc_method){
                              .path = "/muster.v1.ShardView/Machine",
                              .kind = RPC_UNARY,
                              .input = &muster__v1__shard_machine_request__descriptor,
                              .handler = &handler,
                              .service = shard,
                          },
                          note);
}
