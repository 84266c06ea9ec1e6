/* SPDX-License-Identifier: Apache-2.0 */
#include "store_compare.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "store/core/internal.h"
#include "store/machine.h"
#include "store_state_text.h"
#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum { ARENA_MAX = 1 << 20, LEASES_WRITTEN_MAX = 1024, GROUPS_WRITTEN_MAX = 64 };
static_assert((int)MODEL_TICK == (int)STORE_TICK && (int)MODEL_COMPACT == (int)STORE_COMPACT,
              "kinds have the same numbers");

/* -- commands -- */
static enum err to_text(struct str from, struct model_text *ret_text)
{
    if (from.len > MODEL_TEXT_MAX) return ERR_TOO_LARGE;
    ret_text->len = (uint32_t)from.len;
    if (from.len) memcpy(ret_text->at, from.at, from.len);
    return ERR_OK;
}

static struct model_id to_id(const struct store_id *id)
{
    struct model_id own;

    memcpy(own.b, id->b, sizeof own.b);
    return own;
}

enum err compare_command(const struct store_command *c, struct model_command *ret_command)
{
    struct model_command *m = ret_command;
    enum err err;

    *m = (struct model_command){.kind = (enum model_kind)c->kind,
                                .client = to_id(&c->client),
                                .lease = to_id(&c->lease),
                                .held = to_id(&c->held),
                                .sequence = c->sequence,
                                .acked = c->acked,
                                .expected = c->expected,
                                .token = c->token,
                                .cooldown_ms = c->cooldown_ms,
                                .ttl_ms = c->ttl_ms,
                                .slot_count = c->slot_count,
                                .flags = c->flags,
                                .prefer_slot = c->prefer_slot,
                                .wait = c->wait,
                                .renew_count = c->renew_count};
    if (c->renew_count > MODEL_RENEWALS) return ERR_TOO_LARGE;
    for (size_t i = 0; i < c->renew_count; i++) m->renew[i] = to_id(&c->renew[i]);
    for (size_t i = 0; c->renew_tokens && i < c->renew_count; i++)
        m->renew_tokens[i] = c->renew_tokens[i];
    err = to_text(c->key, &m->key);
    if (!err) err = to_text(c->value, &m->value);
    if (!err) err = to_text(c->owner, &m->owner);
    return err;
}

/* -- transactions -- */
static_assert((int)MODEL_TXN == (int)STORE_TXN &&
                  (int)MODEL_LEASE_REVOKE == (int)STORE_LEASE_REVOKE &&
                  (int)MODEL_RANGE == (int)TXN_RANGE && (int)MODEL_INNER == (int)TXN_TXN,
              "kinds have the same numbers");

static enum err op_to(const struct txn_op *op, struct model_op *m)
{
    enum err err = ERR_OK;

    *m = (struct model_op){.kind = (enum model_op_kind)op->kind};
    switch (op->kind) {
    case TXN_RANGE:
        err = to_text(op->range.range.from, &m->key);
        if (!err) err = to_text(op->range.range.end, &m->end);
        if (op->range.revision > 0) err = ERR_UNSUPPORTED; /* the model has no past */
        m->limit = op->range.limit;
        m->order = op->range.order;
        m->target = op->range.target;
        m->keys_only = op->range.keys_only;
        m->count_only = op->range.count_only;
        m->min_mod = op->range.min_mod;
        m->max_mod = op->range.max_mod;
        m->min_create = op->range.min_create;
        m->max_create = op->range.max_create;
        return err;
    case TXN_PUT:
        err = to_text(op->put.key, &m->key);
        if (!err) err = to_text(op->put.value, &m->value);
        m->lease = op->put.lease;
        m->prev = op->put.prev;
        m->ignore_value = op->put.ignore_value;
        m->ignore_lease = op->put.ignore_lease;
        return err;
    case TXN_DELETE:
        err = to_text(op->del.range.from, &m->key);
        if (!err) err = to_text(op->del.range.end, &m->end);
        m->prev = op->del.prev;
        return err;
    case TXN_TXN: return ERR_OK;
    case TXN_NONE: break;
    }
    return ERR_INVALID;
}

static enum err txn_to(const struct txn *txn, struct model_txns *t, size_t *ret_which)
{
    struct model_txn *m = &t->txns[t->txn_count];
    enum err err = ERR_OK;

    if (t->txn_count == MODEL_TXNS || t->compare_count + txn->compare_count > MODEL_COMPARES)
        return ERR_TOO_LARGE;
    *ret_which = t->txn_count++;
    *m = (struct model_txn){.compare_first = t->compare_count, .compare_count = txn->compare_count};
    for (size_t i = 0; !err && i < txn->compare_count; i++) {
        const struct txn_compare *from = &txn->compares[i];
        struct model_compare *to = &t->compares[t->compare_count++];

        *to = (struct model_compare){
            .result = from->result, .target = from->target, .number = from->number};
        err = to_text(from->range.from, &to->key);
        if (!err) err = to_text(from->range.end, &to->end);
        if (!err) err = to_text(from->value, &to->value);
    }
    for (int branch = 0; !err && branch < 2; branch++)
        for (size_t i = 0; !err && i < txn->op_count[branch]; i++) {
            size_t at = t->op_count++, inner = 0;

            if (at == MODEL_OPS || i == ARRAY_LEN(m->branch[0].at)) return ERR_TOO_LARGE;
            err = op_to(&txn->ops[branch][i], &t->ops[at]);
            m->branch[branch].at[m->branch[branch].count++] = at;
            if (!err && txn->ops[branch][i].kind == TXN_TXN)
                err = txn_to(txn->ops[branch][i].txn, t, &inner);
            t->ops[at].inner = inner;
        }
    return err;
}

enum err compare_txns(const struct txn *txn, struct model_txns *ret_txns)
{
    size_t which;

    ret_txns->txn_count = ret_txns->compare_count = ret_txns->op_count = 0;
    return txn_to(txn, ret_txns, &which);
}

struct text {
    char at[64 << 10];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(t->at + t->len, sizeof t->at - t->len, format, args);
    va_end(args);
    if (len > 0) t->len = min_size(t->len + (size_t)len, sizeof t->at - 1);
}

static void say_pairs(struct text *t, Mvccpb__KeyValue *const *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        say(t, "%.*s=%.*s@%lld,%lld,%lld;", (int)pairs[i]->key.len, (char *)pairs[i]->key.data,
            (int)pairs[i]->value.len, (char *)pairs[i]->value.data,
            (long long)pairs[i]->create_revision, (long long)pairs[i]->mod_revision,
            (long long)pairs[i]->version);
}

static void say_put(struct text *t, const Etcdserverpb__PutResponse *m)
{
    say(t, "put ");
    say_pairs(t, (Mvccpb__KeyValue *const *)&m->prev_kv, m->prev_kv != NULL);
}

static void say_delete(struct text *t, const Etcdserverpb__DeleteRangeResponse *m)
{
    say(t, "delete ");
    say_pairs(t, m->prev_kvs, m->n_prev_kvs);
    say(t, "count %lld", (long long)m->deleted);
}

static void say_range(struct text *t, const Etcdserverpb__RangeResponse *m)
{
    say(t, "range ");
    say_pairs(t, m->kvs, m->n_kvs);
    say(t, "count %lld more %d", (long long)m->count, m->more);
}

static void say_header(struct text *t, const Etcdserverpb__ResponseHeader *header)
{
    say(t, " #%lld|", header ? (long long)header->revision : -1);
}

static void say_txn(struct text *t, const Etcdserverpb__TxnResponse *m)
{
    say(t, "%s(", m->succeeded ? "then" : "else");
    for (size_t i = 0; i < m->n_responses; i++) {
        const Etcdserverpb__ResponseOp *op = m->responses[i];

        switch (op->response_case) {
        case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE:
            say_range(t, op->response_range);
            say_header(t, op->response_range->header);
            break;
        case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT:
            say_put(t, op->response_put);
            say_header(t, op->response_put->header);
            break;
        case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
            say_delete(t, op->response_delete_range);
            say_header(t, op->response_delete_range->header);
            break;
        case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_TXN: say_txn(t, op->response_txn); break;
        default: say(t, "nothing");
        }
    }
    say(t, ")");
}

/* The response to a command of one operation (STORE_TXN_BARE). */
static void say_bare(struct text *t, enum txn_op_kind kind, const ProtobufCMessage *message,
                     uint64_t revision)
{
    say(t, "then(");
    if (kind == TXN_PUT)
        say_put(t, (const Etcdserverpb__PutResponse *)message);
    else
        say_delete(t, (const Etcdserverpb__DeleteRangeResponse *)message);
    say(t, " #%llu|)", (unsigned long long)revision);
}

bool compare_txn(struct str reply, const struct store_command *command, struct str expected,
                 struct note *why)
{
    bool bare = command->flags & STORE_TXN_BARE;
    enum txn_op_kind kind = bare ? command->txn->ops[1][0].kind : TXN_TXN;
    const ProtobufCMessageDescriptor *type =
        kind == TXN_PUT      ? &etcdserverpb__put_response__descriptor
        : kind == TXN_DELETE ? &etcdserverpb__delete_range_response__descriptor
                             : &etcdserverpb__txn_response__descriptor;
    static struct text text;
    struct store_txn_reply parsed;
    ProtobufCMessage *message;
    struct arena arena;
    bool same;

    arena_init(&arena, ARENA_MAX);
    text.len = 0;
    if (store_txn_parse(reply, &parsed) ||
        message_read(type, parsed.response, NULL, &arena, &message, why)) {
        say(&text, "a reply that cannot be read");
    } else if (parsed.refusal) {
        say(&text, "refused %d", (int)parsed.refusal);
    } else {
        if (bare)
            say_bare(&text, kind, message, parsed.revision);
        else
            say_txn(&text, (const Etcdserverpb__TxnResponse *)message);
        say(&text, " at %llu", (unsigned long long)parsed.revision);
    }
    same = str_equal(str_of(text.at, text.len), expected);
    if (!same)
        note_set(why, "the store says \"%.*s\", the model \"%.*s\"", (int)min_size(text.len, 400),
                 text.at, (int)min_size(expected.len, 400), expected.at);
    arena_deinit(&arena);
    return same;
}

/* -- states -- */
static void write_keys(const struct store *store, struct buf *into)
{
    struct keys_cursor cursor;
    struct key_value value;

    keys_seek(store->keys, (struct key_range){STR_EMPTY, STR("\0")}, 0, &cursor);
    while (keys_next(&cursor, &value)) {
        const struct lease *lease = lease_by_number(store, value.lease);
        const struct claim *claim = lease ? lease_claim_of(lease, value.key) : NULL;
        write_key(into, &(struct state_key){.name = value.key,
                                            .value = value.value,
                                            .create = value.create,
                                            .mod = value.mod,
                                            .version = value.version,
                                            .lease = lease ? lease->id.b : NULL,
                                            .token = claim ? claim->token : 0});
    }
}

static int by_id(const void *a, const void *b)
{
    return memcmp((*(const struct lease *const *)a)->id.b, (*(const struct lease *const *)b)->id.b,
                  sizeof(struct store_id));
}

static void write_leases(const struct store *store, struct buf *into)
{
    const struct lease *leases[LEASES_WRITTEN_MAX];
    struct map_entry *entry;
    size_t count = 0, cursor = 0;

    while (count < LEASES_WRITTEN_MAX && (entry = map_next(&store->leases, &cursor)))
        leases[count++] = entry->value;
    qsort(leases, count, sizeof *leases, by_id);
    for (size_t i = 0; i < count; i++)
        write_lease(into,
                    &(struct state_lease){.id = leases[i]->id.b,
                                          .owner = str_of(leases[i]->owner, leases[i]->owner_len),
                                          .ttl_ns = leases[i]->ttl_ns,
                                          .deadline_ns = leases[i]->deadline_ns,
                                          .lost_reason = leases[i]->lost_reason,
                                          .lost_token = leases[i]->lost_token,
                                          .waits = leases[i]->waiter != NULL});
}

static int by_name(const void *a, const void *b)
{
    const struct group *left = *(const struct group *const *)a;
    const struct group *right = *(const struct group *const *)b;

    return str_compare(str_of(left->key, left->key_len), str_of(right->key, right->key_len));
}

static void write_groups(const struct store *store, struct buf *into)
{
    const struct group *groups[GROUPS_WRITTEN_MAX];
    struct map_entry *entry;
    size_t count = 0, cursor = 0;

    while (count < GROUPS_WRITTEN_MAX && (entry = map_next(&store->groups, &cursor)))
        groups[count++] = entry->value;
    qsort(groups, count, sizeof *groups, by_name);
    for (size_t i = 0; i < count; i++) {
        const struct group *group = groups[i];
        write_group(into, str_of(group->key, group->key_len), group->slot_count, group->revision,
                    group->cooldown_ns);
        for (uint32_t k = 0; k < group->slot_cap; k++)
            write_slot(into, k, group->slots[k].lease ? group->slots[k].lease->id.b : NULL,
                       group->slots[k].rest_until_ns);
        LIST_EACH(&group->waiters, node)
        {
            const struct slot_waiter *waiter = CONTAINER_OF(node, struct slot_waiter, in_group);
            write_waiter(into, &(struct state_waiter){waiter->lease->id.b, waiter->client.b,
                                                      waiter->sequence, waiter->prefer_slot,
                                                      str_of(waiter->value, waiter->value_len)});
        }
    }
}

/* The next due time, without history that waits to be freed: the model has none. */
static uint64_t next_due(const struct store *store)
{
    struct order_place place = order_begin(&store->due);
    const struct lease *lease = order_next(&place);
    uint64_t due = lease ? lease->deadline_ns : UINT64_MAX;
    const struct group *group;

    if (!keys_prune_left(store->keys)) return store_next_due(store);
    place = order_begin(&store->rests);
    group = order_next(&place);
    return group ? min_u64(due, due_get(group->due)) : due;
}

void compare_write_state(const struct store *store, struct buf *into)
{
    write_marks(into, &(struct state_marks){keys_revision(store->keys), keys_compacted(store->keys),
                                            store->clock_ns, next_due(store),
                                            map_count(&store->clients), store->identity.b});
    write_keys(store, into);
    write_leases(store, into);
    write_groups(store, into);
}

static struct str line_at(struct str text, size_t from)
{
    size_t end = from;

    while (end < text.len && text.at[end] != '\n') end++;
    return str_of(text.at + from, end - from);
}

bool compare_lines(struct str shipped, struct str model, struct note *why)
{
    size_t line = 0, at = 0;

    if (str_equal(shipped, model)) return false;
    for (; at < shipped.len && at < model.len && shipped.at[at] == model.at[at]; at++)
        if (shipped.at[at] == '\n') line = at + 1;
    note_set(why, "the store has \"%.*s\", the model \"%.*s\"", STR_ARG(line_at(shipped, line)),
             STR_ARG(line_at(model, line)));
    return true;
}

/* -- answers -- */
static bool same_renewals(struct str reply, size_t count, const struct model_renewal *model,
                          struct note *why)
{
    struct store_renewal shipped[MODEL_RENEWALS];

    if (store_renewals_parse(reply, shipped, MODEL_RENEWALS) != count) {
        note_set(why, "not %zu renewals", count);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (shipped[i].code != model[i].code || shipped[i].reason != model[i].reason ||
            shipped[i].granted_ttl_ms != model[i].granted_ttl_ms ||
            shipped[i].token != model[i].token) {
            note_set(why, "a renewal: the store says %d/%d, the model %d/%d", shipped[i].code,
                     shipped[i].reason, model[i].code, model[i].reason);
            return false;
        }
    return true;
}

static bool same_lease(ProtobufCBinaryData shipped, const struct model_id *model)
{
    static const struct model_id zero;

    if (shipped.len == 0) return memcmp(model, &zero, sizeof zero) == 0;
    return shipped.len == sizeof model->b && memcmp(shipped.data, model->b, sizeof model->b) == 0;
}

static bool same_outcome(const Muster__V1__Outcome *shipped, const struct model_answer *model)
{
    return shipped->code == model->code && shipped->reason == model->reason &&
           shipped->revision == model->revision && shipped->token == model->token &&
           shipped->create_revision == model->create_revision &&
           shipped->granted_ttl_ms == model->granted_ttl_ms && shipped->hint_ms == model->hint_ms &&
           shipped->slot == model->slot && shipped->live == model->live &&
           shipped->slot_count == model->slot_count &&
           same_lease(shipped->lease_id, &model->lease) &&
           str_equal(str_from(shipped->owner), str_of(model->owner.at, model->owner.len));
}

bool compare_reply(struct str reply, const struct store_command *command,
                   const struct model_answer *answer, const struct model_renewal *renewals,
                   struct note *why)
{
    const Muster__V1__Outcome *outcome;
    struct store_reply parsed;
    ProtobufCMessage *message;
    struct arena arena;
    bool same;

    if (command->kind == STORE_RENEW)
        return same_renewals(reply, command->renew_count, renewals, why);
    arena_init(&arena, ARENA_MAX);
    if (store_reply_parse(reply, &parsed) ||
        message_read(&muster__v1__outcome__descriptor, parsed.outcome, NULL, &arena, &message,
                     why)) {
        note_set(why, "a reply that cannot be read");
        arena_deinit(&arena);
        return false;
    }
    outcome = (const Muster__V1__Outcome *)message;
    same = same_outcome(outcome, answer) && parsed.waiting == answer->waiting;
    if (!same)
        note_set(why,
                 "kind %d: the store says %d/%d revision %" PRIu64 " token %" PRIu64
                 " slot %u live %u hint %" PRId64 ", the model %d/%d %" PRIu64 " %" PRIu64
                 " %u %u %" PRId64,
                 (int)command->kind, (int)outcome->code, (int)outcome->reason, outcome->revision,
                 outcome->token, outcome->slot, outcome->live, outcome->hint_ms, answer->code,
                 answer->reason, answer->revision, answer->token, answer->slot, answer->live,
                 answer->hint_ms);
    arena_deinit(&arena);
    return same;
}
