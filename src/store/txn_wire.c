/* SPDX-License-Identifier: Apache-2.0 */
/* Converts transactions from protobuf messages to the core's structs, and their results to protobuf
 * bytes. Pure; any thread. */
#include "store/txn_wire.h"

#include <string.h>

#include "store/keyvalue.h"

/* -- requests -- */

struct query query_from_message(const Etcdserverpb__RangeRequest *m)
{
    return (struct query){
        .range = {bytes_str(m->key), bytes_str(m->range_end)},
        .limit = m->limit,
        .revision = m->revision,
        .order = (uint32_t)m->sort_order,
        .target = (uint32_t)m->sort_target,
        .keys_only = m->keys_only,
        .count_only = m->count_only,
        .min_mod = m->min_mod_revision,
        .max_mod = m->max_mod_revision,
        .min_create = m->min_create_revision,
        .max_create = m->max_create_revision,
    };
}

/* A compare with zero or an empty value lacks that field, because proto3 omits defaults. */
static void compare_from(const Etcdserverpb__Compare *m, struct txn_compare *compare)
{
    bool given =
        m->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION + (uint32_t)m->target;

    static_assert(ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE ==
                      ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION + COMPARE_LEASE,
                  "the fields of the union have the order of the targets");
    *compare = (struct txn_compare){.result = (uint32_t)m->result,
                                    .target = (uint32_t)m->target,
                                    .range = {bytes_str(m->key), bytes_str(m->range_end)}};
    if (given && compare->target == COMPARE_VALUE)
        compare->value = bytes_str(m->value);
    else if (given)
        compare->number = m->version; /* all number fields of the union share this storage */
}

static enum err op_from(const Etcdserverpb__RequestOp *m, struct arena *arena, struct txn_op *op)
{
    switch (m->request_case) {
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE:
        op->kind = TXN_RANGE;
        op->range = query_from_message(m->request_range);
        break;
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT: {
        const Etcdserverpb__PutRequest *put = m->request_put;

        op->kind = TXN_PUT;
        op->put = (struct txn_put){.key = bytes_str(put->key),
                                   .value = bytes_str(put->value),
                                   .lease = put->lease,
                                   .prev = put->prev_kv,
                                   .ignore_value = put->ignore_value,
                                   .ignore_lease = put->ignore_lease};
        break;
    }
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE: {
        const Etcdserverpb__DeleteRangeRequest *del = m->request_delete_range;

        op->kind = TXN_DELETE;
        op->del =
            (struct txn_delete){{bytes_str(del->key), bytes_str(del->range_end)}, del->prev_kv};
        break;
    }
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN:
        op->kind = TXN_TXN;
        return txn_from_message(m->request_txn, arena, &op->txn);
    default: op->kind = TXN_NONE;
    }
    return ERR_OK;
}

static enum err branch_from(Etcdserverpb__RequestOp *const *list, size_t count, struct arena *arena,
                            const struct txn_op **ret_ops)
{
    struct txn_op *ops = count ? arena_calloc(arena, count, sizeof *ops) : NULL;
    enum err err = count && !ops ? ERR_NOMEM : ERR_OK;

    for (size_t i = 0; !err && i < count; i++) err = op_from(list[i], arena, &ops[i]);
    *ret_ops = ops;
    return err;
}

enum err txn_from_message(const Etcdserverpb__TxnRequest *m, struct arena *arena,
                          struct txn **ret_txn)
{
    struct txn *txn = ARENA_NEW(arena, struct txn);
    struct txn_compare *compares =
        m->n_compare ? arena_calloc(arena, m->n_compare, sizeof *compares) : NULL;
    enum err err;

    if (!txn || (m->n_compare && !compares)) return ERR_NOMEM;
    for (size_t i = 0; i < m->n_compare; i++) compare_from(m->compare[i], &compares[i]);
    txn->compares = compares;
    txn->compare_count = m->n_compare;
    txn->op_count[0] = m->n_failure;
    txn->op_count[1] = m->n_success;
    err = branch_from(m->failure, m->n_failure, arena, &txn->ops[0]);
    if (!err) err = branch_from(m->success, m->n_success, arena, &txn->ops[1]);
    *ret_txn = txn;
    return err;
}

/* -- responses -- */

/* Begins a message of unknown length. One byte is reserved for the length; a longer length moves
 * the content. */
static void open_message(struct txn_writer *w, uint32_t field)
{
    pack_varint(&w->pack, field << 3 | 2);
    pack_varint(&w->pack, 0);
    w->starts[w->depth++] = w->pack.into->len;
}

static void close_message(struct txn_writer *w)
{
    struct buf *into = w->pack.into;
    size_t start = w->starts[--w->depth], len = into->len - start, more = keyvalue_varint(len) - 1;
    char *room;

    if (w->pack.err) return;
    if (more && buf_reserve(into, more, &room)) {
        w->pack.err = ERR_FULL;
        return;
    }
    if (more) {
        buf_commit(into, more);
        memmove(into->data + start + more, into->data + start, len);
    }
    for (char *at = into->data + start - 1;; at++, len >>= 7) {
        *at = (char)(len > 0x7f ? len | 0x80 : len);
        if (len <= 0x7f) break;
    }
}

static void begin(struct txn_sink *sink, enum txn_op_kind kind, bool held)
{
    struct txn_writer *w = CONTAINER_OF(sink, struct txn_writer, sink);
    size_t level = w->depth / 2;

    w->kinds[level] = kind;
    if (kind == TXN_TXN && level == 0) {
        if (!w->bare) pack_u64(&w->pack, 2, held);
        w->depth = 2; /* the same depth as with an open message */
        return;
    }
    if (!w->bare) {
        open_message(w, 3);              /* TxnResponse.responses */
        open_message(w, (uint32_t)kind); /* ResponseOp's fields have the numbers of the kinds */
    } else {
        w->depth += 2;
    }
    if (kind == TXN_TXN) pack_u64(&w->pack, 2, held);
}

static void pair(struct txn_sink *sink, const struct key_value *value)
{
    struct txn_writer *w = CONTAINER_OF(sink, struct txn_writer, sink);
    enum txn_op_kind kind = w->kinds[w->depth / 2 - 1];

    keyvalue_pack(&w->pack, kind == TXN_DELETE ? 3 : 2, value);
}

static void end(struct txn_sink *sink, const struct txn_end *end)
{
    struct txn_writer *w = CONTAINER_OF(sink, struct txn_writer, sink);
    struct pack *pack = &w->pack;

    if (w->depth == 2) { /* the outermost message: the caller writes its header */
        w->depth = 0;
        return;
    }
    if (end->kind == TXN_RANGE) {
        pack_u64(pack, 3, end->range.more);
        pack_u64(pack, 4, end->range.count);
    } else if (end->kind == TXN_DELETE) {
        pack_u64(pack, 2, end->deleted);
    }
    if (w->bare) {
        w->depth -= 2;
        return;
    }
    pack_varint(pack, 1 << 3 | 2);
    pack_varint(pack, keyvalue_number(end->revision));
    pack_u64(pack, 3, end->revision);
    close_message(w);
    close_message(w);
}

void txn_writer_init(struct txn_writer *writer, struct buf *into, bool bare)
{
    *writer = (struct txn_writer){.sink = {begin, pair, end}, .pack = {into, ERR_OK}, .bare = bare};
}
