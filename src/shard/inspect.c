/* SPDX-License-Identifier: Apache-2.0 */
/* Answers InspectNeeds and ShardView/Machine. A job on the decide thread encodes the core's data.
 * The loop adds the recent actions on a machine. */
#include <string.h>

#include "shard/shard_internal.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

enum {
    INSPECT_ANSWER_BYTES_MAX = 1 << 20,
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
    if (!facts->rests) return;
    pack_text(pack, 19, str_from(resting_why_name(facts->rest.why)));
    pack_u64(pack, 20, facts->rest.refusals);
    pack_u64(pack, 21, facts->rest.asked);
    pack_u64(pack, 22, facts->rest.left_ms);
}

static void pack_facts(struct pack *pack, const struct machine_facts *facts, mono_time now)
{
    const struct machine *m = &facts->machine;
    char name[MACHINE_NAME_CAP];

    pack_text(pack, 3, m->id);
    pack_text(pack, 4, str_from(machine_state_name(m->state, name)));
    if (facts->planned_state != m->state)
        pack_text(pack, 5, str_from(machine_state_name(facts->planned_state, name)));
    pack_u64(pack, 6, facts->pending);
    pack_text(pack, 7, m->cluster);
    pack_text(pack, 8, m->destination);
    pack_text(pack, 9, m->attributes.instance_type);
    pack_text(pack, 10, m->attributes.zone);
    pack_text(pack, 11, str_from(capacity_type_name(m->capacity_type, name)));
    pack_double(pack, 12, m->price_per_hour);
    pack_double(pack, 13, m->interruption_probability);
    pack_text(pack, 14, m->last_error);
    pack_text(pack, 15, m->stamp.fingerprint);
    pack_i64(pack, 16, m->stamp.priority);
    pack_text(pack, 17, m->promised.cluster);
    if (m->state == MACHINE_IDLE) pack_u64(pack, 18, mono_elapsed_ms(facts->idle_since, now));
    pack_rest(pack, facts);
    pack_u64(pack, 24, facts->operator_drains);
    pack_u64(pack, 25, facts->operator_away);
    pack_u64(pack, 26, facts->operator_left_ms);
    pack_u64(pack, 27, facts->outside);
    pack_text(pack, 28, str_from(machine_cordon_name(m->cordon)));
    pack_u64(pack, 40, facts->occupancy_known);
    pack_u64(pack, 41, facts->evictable_pods);
    pack_u64(pack, 42, facts->held_pods);
    pack_u64(pack, 43, facts->no_room);
}

static void machine_run(struct decide_job *job, struct decide_context *context, struct effects *)
{
    struct inspection *q = CONTAINER_OF(job, struct inspection, job);
    struct machine_facts facts;
    struct pack pack = pack_begin(&q->answer);

    q->err = core_machine(context->core, q->text, context->now, &facts);
    if (q->err) return;
    pack_u64(&pack, 2, core_counts(context->core)->cycles);
    pack_facts(&pack, &facts, context->now);
    q->err = pack.err;
}

/* True if an audit line in the format of audit.c is about the machine. An id that JSON must escape
 * is not found. */
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

    pack_text(&pack, 1, str_from(shard->id));
    for (size_t i = 0; i < audit_kept(&shard->audit); i++)
        if (is_about(audit_line(&shard->audit, i), q->text))
            pack_bytes(&pack, 23, audit_line(&shard->audit, i));
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

const struct rpc_handler machine_view_handler = {.on_message = inspect_on_message,
                                                 .on_done = inspection_call_done};
