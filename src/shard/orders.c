/* SPDX-License-Identifier: Apache-2.0 */
/* ShardControl/Cordon, and the list of cordons. An operator's order goes through three steps, and
 * one order runs at a time:
 *
 *   count    the decide thread counts the machines that match
 *   write    the loop writes the file of cordons
 *   apply    the decide thread gives all cordons to the core; then the order is audited, answered
 *
 * An order that is on disk is in effect after a restart. An order is answered with success only
 * after the file is written and the core has the cordons. Loop's thread. */
#include <inttypes.h>
#include <stdlib.h>

#include "shard/shard_internal.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

struct running_order {
    struct decide_job job;
    struct shard *shard;
    struct shard_order order; /* with texts of its own */
    struct arena arena;
    struct cordon_rule *rules; /* for the core */
    size_t rule_count;
    uint32_t machines;
    enum err err;   /* of the core */
    enum err write; /* ERR_OK or ERR_UNKNOWN */
    bool retried;   /* repeats what the core has not received */
};

static enum err rules_copy(const struct shard *shard, struct arena *arena,
                           struct cordon_rule **ret_rules, size_t *ret_count)
{
    const struct cordon_entry *each = NULL;
    struct cordon_rule *rules;
    size_t count = 0;
    enum err err = ERR_OK;

    if (shard->options.cordons) each = cordon_file_list(shard->options.cordons, &count);
    rules = arena_calloc(arena, count, sizeof *rules);
    for (size_t i = 0; rules && !err && i < count; i++) {
        rules[i].cordon = each[i].cordon;
        err = text_copy(arena, each[i].key, &rules[i].key);
        if (!err) err = text_copy(arena, each[i].value, &rules[i].value);
    }
    *ret_rules = rules;
    *ret_count = count;
    return rules ? err : ERR_NOMEM;
}

enum err orders_at_start(const struct shard *shard, struct core_options *options,
                         struct cordon_rule **own_rules)
{
    const struct cordon_entry *each = NULL;
    size_t count = 0;

    *own_rules = NULL;
    if (shard->options.cordons) each = cordon_file_list(shard->options.cordons, &count);
    if (!count) return ERR_OK;
    *own_rules = calloc(count, sizeof **own_rules);
    if (!*own_rules) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        (*own_rules)[i] = (struct cordon_rule){each[i].key, each[i].value, each[i].cordon};
    options->cordons = *own_rules;
    options->cordon_count = count;
    return ERR_OK;
}

/* -- the steps -- */

static void machine_order_free(struct running_order *o)
{
    o->shard->order_runs = false;
    arena_deinit(&o->arena);
    free(o);
}

static void order_end(struct running_order *o, enum err err, const char *why)
{
    const struct cordon_entry *e = &o->order.entry;
    const char *order = e->cordon ? machine_cordon_name(e->cordon) : "uncordon";
    struct shard *shard = o->shard;

    audit_order(shard, e, o->machines, err);
    if (err)
        LOG_WARN(&shard->log, "an operator's order failed", log_text("order", order),
                 log_str("key", e->key), log_str("value", e->value), log_str("by", e->by),
                 log_err("err", err), log_text("why", why));
    else
        LOG_INFO(&shard->log, "an operator's order is in effect", log_text("order", order),
                 log_str("key", e->key), log_str("value", e->value), log_str("by", e->by),
                 log_u64("machines", o->machines));
    o->order.done(o->order.context, err, o->machines, str_from(why));
    machine_order_free(o);
}

static void apply_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    struct running_order *o = CONTAINER_OF(job, struct running_order, job);

    o->err = core_cordon(context->core, o->rules, o->rule_count, context->now, out);
}

static void apply_done(struct decide_job *job, enum err err)
{
    struct running_order *o = CONTAINER_OF(job, struct running_order, job);

    if (!err && o->err) o->shard->cordons_owed = true;
    if (o->retried)
        machine_order_free(o);
    else if (err || o->err)
        order_end(o, err ? err : o->err, "the order is on disk, and is in effect later");
    else
        order_end(o, o->write,
                  o->write ? "the order is in effect, but a power cut may undo it: repeat it" : "");
}

static enum err order_apply(struct running_order *o)
{
    enum err err = rules_copy(o->shard, &o->arena, &o->rules, &o->rule_count);

    if (err) return err;
    o->job = (struct decide_job){.run = apply_run, .done = apply_done};
    decide_thread_submit(o->shard->decide_thread, &o->job);
    return ERR_OK;
}

void orders_owed(struct shard *shard)
{
    struct running_order *o;

    if (!shard->cordons_owed || shard->order_runs || shard->stopping) return;
    o = calloc(1, sizeof *o);
    if (!o) return;
    o->shard = shard;
    o->retried = true;
    arena_init(&o->arena, SIZE_MAX);
    shard->order_runs = true;
    if (order_apply(o))
        machine_order_free(o);
    else
        shard->cordons_owed = false; /* set again if the core has no memory */
}

static void count_run(struct decide_job *job, struct decide_context *context, struct effects *)
{
    struct running_order *o = CONTAINER_OF(job, struct running_order, job);
    const struct cordon_entry *e = &o->order.entry;

    o->err = core_cordon_count(context->core, e->key, e->value, &o->machines);
}

static void count_done(struct decide_job *job, enum err err)
{
    struct running_order *o = CONTAINER_OF(job, struct running_order, job);
    struct cordon_entry *e = &o->order.entry;
    struct shard *shard = o->shard;
    struct note note = {""};

    /* A machine that is gone can still be uncordoned. */
    if (!err && o->err && e->cordon) {
        order_end(o, o->err,
                  e->key.len ? "no machine of this shard has this label"
                             : "the shard knows no such machine");
        return;
    }
    e->at_ms = clock_wall(shard->io->clock).ms;
    if (!err)
        err = cordon_file_set(shard->options.cordons, e, entropy_u64(shard->io->entropy), &note);
    if (err && err != ERR_UNKNOWN) {
        order_end(o, err, note.text);
        return;
    }
    o->write = err;
    if (order_apply(o)) {
        shard->cordons_owed = true;
        order_end(o, ERR_NOMEM, "the order is on disk, and is in effect later");
    }
}

static enum err order_copy(struct running_order *o, const struct cordon_entry *from)
{
    struct cordon_entry *to = &o->order.entry;
    enum err err = text_copy(&o->arena, from->key, &to->key);

    if (!err) err = text_copy(&o->arena, from->value, &to->value);
    if (!err) err = text_copy(&o->arena, from->by, &to->by);
    return err ? err : text_copy(&o->arena, from->reason, &to->reason);
}

enum err shard_order(struct shard *shard, const struct shard_order *order)
{
    struct running_order *o;

    if (!shard->options.cordons) return ERR_UNSUPPORTED;
    if (shard->order_runs || shard->stopping) return ERR_BUSY;
    o = calloc(1, sizeof *o);
    if (!o) return ERR_NOMEM;
    o->shard = shard;
    o->order = *order;
    arena_init(&o->arena, SIZE_MAX);
    shard->order_runs = true;
    if (order_copy(o, &order->entry)) {
        machine_order_free(o);
        return ERR_NOMEM;
    }
    o->job = (struct decide_job){.run = count_run, .done = count_done};
    decide_thread_submit(shard->decide_thread, &o->job);
    return ERR_OK;
}

/* -- the RPC -- */

struct order_call {
    struct shard *shard;
    struct rpc_call *call; /* NULL: the client is gone */
    bool answered;
};

static const char *order_hold(const struct shard *shard)
{
    if (shard->holds[CORE_FENCED].begun) return "fenced";
    if (shard->options.core.paused) return "paused";
    return shard->options.core.dry_run ? "dry-run" : "";
}

static void order_answered(void *context, enum err err, uint32_t machines, struct str why)
{
    struct order_call *c = context;
    Muster__V1__ShardCordonResponse response = MUSTER__V1__SHARD_CORDON_RESPONSE__INIT;

    c->answered = true;
    if (!c->call) {
        free(c);
        return;
    }
    response.machines = machines;
    response.hold = (char *)order_hold(c->shard);
    if (!err)
        rpc_reply(c->call, &response.base);
    else if (why.len)
        rpc_finish(c->call, err_grpc_status(err), why, STR_EMPTY);
    else
        rpc_fail(c->call, err, NULL);
}

static void order_on_done(void *, struct rpc_call *call)
{
    struct order_call *c = rpc_call_data(call);

    if (!c) return;
    c->call = NULL;
    if (c->answered) free(c);
}

static bool order_read(const Muster__V1__ShardCordonRequest *request, struct cordon_entry *e)
{
    static const enum machine_cordon orders[] = {
        [MUSTER__V1__SHARD_CORDON_REQUEST__ORDER__ORDER_CORDON] = CORDON_KEEP,
        [MUSTER__V1__SHARD_CORDON_REQUEST__ORDER__ORDER_DRAIN] = CORDON_EMPTY,
        [MUSTER__V1__SHARD_CORDON_REQUEST__ORDER__ORDER_UNCORDON] = CORDON_NONE,
    };
    uint32_t order = (uint32_t)request->order;

    if (!order || order >= ARRAY_LEN(orders)) return false;
    e->cordon = orders[order];
    e->reason = str_from(request->reason);
    if (!request->label) {
        e->value = str_from(request->machine_id);
        return e->value.len > 0;
    }
    e->key = str_from(request->label->key);
    e->value = str_from(request->label->value);
    return !request->machine_id[0] && e->key.len && e->value.len;
}

static void order_on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                             struct str)
{
    struct shard_order order = {.done = order_answered};
    struct shard *shard = service;
    struct order_call *c;
    enum err err;

    if (!order_read((const Muster__V1__ShardCordonRequest *)message, &order.entry)) {
        rpc_finish(call, GRPC_INVALID_ARGUMENT,
                   STR("an order, and either a machine_id or a label are required"), STR_EMPTY);
        return;
    }
    order.entry.by = rpc_access_name(rpc_call_identity(call));
    if (!order.entry.by.len) order.entry.by = str_from(rpc_call_peer(call));
    c = calloc(1, sizeof *c);
    rpc_call_set_data(call, c);
    if (!c) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    *c = (struct order_call){.shard = shard, .call = call};
    order.context = c;
    err = shard_order(shard, &order);
    if (!err) return;
    c->answered = true;
    if (err == ERR_BUSY)
        rpc_finish(call, GRPC_RESOURCE_EXHAUSTED, STR("another order is being written: try again"),
                   STR_EMPTY);
    else
        rpc_fail(call, err, NULL);
}

const struct rpc_handler order_handler = {.on_message = order_on_message, .on_done = order_on_done};

/* -- the list -- */

enum { CORDONS_BYTES_MAX = 16 << 20, CORDON_ROW_MAX = 4 << 10 };

static void cordon_pack(struct pack *answer, const struct cordon_entry *e, struct buf *scratch,
                        struct buf *inner)
{
    struct pack row = pack_begin(scratch), label = pack_begin(inner);

    pack_text(&row, 1, str_from(machine_cordon_name(e->cordon)));
    pack_text(&label, 1, e->key);
    pack_text(&label, 2, e->value);
    if (e->key.len)
        pack_row(&row, 3, &label);
    else
        pack_text(&row, 2, e->value);
    pack_i64(&row, 4, (int64_t)e->at_ms);
    pack_text(&row, 5, e->by);
    pack_text(&row, 6, e->reason);
    pack_row(answer, 1, &row);
}

static void cordons_on_message(void *service, struct rpc_call *call, const ProtobufCMessage *,
                               struct str)
{
    const struct cordon_entry *each = NULL;
    const struct shard *shard = service;
    struct buf into, row, label;
    struct pack answer;
    size_t count = 0;

    if (shard->options.cordons) each = cordon_file_list(shard->options.cordons, &count);
    buf_init(&into, CORDONS_BYTES_MAX);
    buf_init(&row, CORDON_ROW_MAX);
    buf_init(&label, CORDON_ROW_MAX);
    answer = pack_begin(&into);
    for (size_t i = 0; i < count; i++) cordon_pack(&answer, &each[i], &row, &label);
    if (answer.err)
        rpc_fail(call, answer.err, NULL);
    else
        rpc_reply_bytes(call, buf_peek(&into));
    buf_deinit(&label);
    buf_deinit(&row);
    buf_deinit(&into);
}

const struct rpc_handler cordons_handler = {.on_message = cordons_on_message};
