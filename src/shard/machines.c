/* SPDX-License-Identifier: Apache-2.0 */
/* ShardView/ListMachines. One job on the decide thread encodes the machines that the filter passes,
 * in messages of CHUNK_BYTES. The loop sends the messages as fast as the client reads (read.h), so
 * that a list of 500,000 machines delays no other call. */
#include "shard/shard_internal.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

enum {
    CHUNK_BYTES = 64 << 10, /* beyond this size, a message ends after the current row */
    LIST_LABELS_MAX = 8,
    LIST_REQUEST_MAX = 16 << 10,
};

/* -- on the decide thread -- */

struct machines_copy {
    struct inspection *inspection;
    struct pack pack; /* of one message */
    struct buf *row;
};

static enum err machines_chunk_end(struct machines_copy *copy)
{
    enum err err = copy->pack.err;

    if (!err) err = inspection_frame(copy->inspection, buf_peek(copy->pack.into));
    copy->pack = pack_begin(copy->pack.into);
    return err;
}

static enum err machines_add(void *context, const struct listed_machine *listed)
{
    struct machines_copy *copy = context;
    const struct machine *m = &listed->machine;
    struct pack row = pack_begin(copy->row);
    char name[MACHINE_NAME_CAP];

    pack_text(&row, 1, m->id);
    pack_text(&row, 2, str_from(machine_state_name(m->state, name)));
    if (listed->planned_state != m->state)
        pack_text(&row, 3, str_from(machine_state_name(listed->planned_state, name)));
    pack_text(&row, 4, m->cluster.len ? m->cluster : m->destination);
    pack_text(&row, 5, m->attributes.instance_type);
    pack_text(&row, 6, m->attributes.zone);
    pack_text(&row, 7, str_from(capacity_type_name(m->capacity_type, name)));
    pack_double(&row, 8, m->price_per_hour);
    pack_u64(&row, 9, listed->since_ms);
    pack_text(&row, 10, str_from(machine_cordon_name(m->cordon)));
    pack_u64(&row, 11, listed->pending);
    pack_u64(&row, 12, listed->rests);
    pack_row(&copy->pack, 1, &row);
    return copy->pack.into->len < CHUNK_BYTES ? copy->pack.err : machines_chunk_end(copy);
}

static enum err machines_filter(const Muster__V1__ShardListMachinesRequest *request,
                                struct label labels[LIST_LABELS_MAX], struct machine_filter *filter)
{
    char name[MACHINE_NAME_CAP];
    uint32_t state = MACHINE_STATE_COUNT;

    *filter = (struct machine_filter){.cluster = str_from(request->cluster),
                                      .labels = labels,
                                      .label_count = request->n_labels,
                                      .cordoned = request->cordoned};
    if (request->n_labels > LIST_LABELS_MAX) return ERR_INVALID;
    for (size_t i = 0; i < request->n_labels; i++)
        labels[i] =
            (struct label){str_from(request->labels[i]->key), str_from(request->labels[i]->value)};
    if (!request->state[0]) return ERR_OK;
    while (--state &&
           !str_equal(str_from(machine_state_name(state, name)), str_from(request->state)))
        ;
    filter->state = (enum machine_state)state;
    return state ? ERR_OK : ERR_INVALID;
}

static void machines_run(struct decide_job *job, struct decide_context *context, struct effects *)
{
    struct inspection *q = CONTAINER_OF(job, struct inspection, job);
    const struct shard *shard = q->owner;
    struct machines_copy copy = {.inspection = q, .row = &context->frames.piece};
    struct label labels[LIST_LABELS_MAX];
    struct machine_filter filter;
    ProtobufCMessage *request;

    q->err = message_read(&muster__v1__shard_list_machines_request__descriptor, q->text, NULL,
                          &context->scratch, &request, NULL);
    if (!q->err)
        q->err =
            machines_filter((const Muster__V1__ShardListMachinesRequest *)request, labels, &filter);
    if (q->err) return;
    copy.pack = pack_begin(&context->frames.frame);
    pack_text(&copy.pack, 2, str_from(shard->id));
    pack_u64(&copy.pack, 3, core_counts(context->core)->cycles);
    q->err = core_machines(context->core, &filter, context->now, machines_add, &copy);
    if (!q->err) q->err = machines_chunk_end(&copy);
}

/* -- on the loop -- */

static void machines_done(struct decide_job *job, enum err err)
{
    struct inspection *q = CONTAINER_OF(job, struct inspection, job);

    if (err) q->err = err;
    inspection_done(q);
}

static void machines_on_message(void *service, struct rpc_call *call,
                                const ProtobufCMessage *message, struct str)
{
    struct shard *shard = service;
    struct inspection *q;
    struct buf text;
    enum err err;

    buf_init(&text, LIST_REQUEST_MAX);
    err = message_write(message, &text, NULL);
    if (err)
        rpc_fail(call, err == ERR_FULL ? ERR_INVALID : err, NULL);
    else if ((q = inspection_begin(shard->inspections, call, buf_peek(&text)))) {
        q->job = (struct decide_job){.run = machines_run, .done = machines_done};
        q->owner = shard;
        decide_thread_submit(shard->decide_thread, &q->job);
    }
    buf_deinit(&text);
}

const struct rpc_handler machines_handler = {.on_message = machines_on_message,
                                             .on_writable = inspection_on_writable,
                                             .on_drain = inspection_on_drain,
                                             .on_done = inspection_call_done};
