/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as requests of etcd's KV, one after the other. The decoder refuses a request, or the
 * checks of the request alone, or it is accepted. An accepted request is a command of the log: two
 * stores reach the same state and the same reply, which is a message of the response's type. A read
 * returns no more than its limit, and only existing keys.
 *
 * Each record: one byte of method, two of length, then the message. */
#include <stdlib.h>

#include "store/machine.h"
#include "store/txn_wire.h"
#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANGE, PUT, DELETE, TXN, COMPACT, METHODS };
struct bed {
    struct store_machine *stores[2];
    struct state_machine machines[2];
    struct buf command, replies[2];
    struct arena arena;
    uint64_t index;
};

static void must(bool holds)
{
    if (!holds) abort();
}

static void apply(struct bed *bed)
{
    bed->index++;
    for (int i = 0; i < 2; i++) {
        struct machine_entry entry = {.index = bed->index,
                                      .term = 1,
                                      .clock_ns = bed->index * NS_PER_MS,
                                      .version = STORE_MACHINE_VERSION,
                                      .level = STORE_MACHINE_VERSION,
                                      .actor = STR_EMPTY,
                                      .request_id = STR_EMPTY,
                                      .command = buf_peek(&bed->command)};

        buf_clear(&bed->replies[i]);
        must(bed->machines[i].ops->apply(bed->machines[i].state, &entry, &bed->replies[i], NULL) ==
             ERR_OK);
        while (bed->machines[i].ops->apply_more(bed->machines[i].state, &bed->replies[i])) continue;
    }
    must(str_equal(buf_peek(&bed->replies[0]), buf_peek(&bed->replies[1])));
    must(bed->machines[0].ops->hash(bed->machines[0].state) ==
         bed->machines[1].ops->hash(bed->machines[1].state));
}

static void write(struct bed *bed, const Etcdserverpb__TxnRequest *request, uint32_t flags,
                  const ProtobufCMessageDescriptor *response)
{
    struct store_txn_reply reply;
    ProtobufCMessage *message;
    struct txn *txn;

    must(txn_from_message(request, &bed->arena, &txn) == ERR_OK);
    if (txn_check(txn)) return;
    buf_clear(&bed->command);
    must(store_txn_write(request, flags, &bed->command) == ERR_OK);
    apply(bed);
    must(store_txn_parse(buf_peek(&bed->replies[0]), &reply) == ERR_OK);
    must(reply.refusal == TXN_TAKEN || reply.refusal >= TXN_STATE);
    must(!reply.refusal || reply.response.len == 0);
    must(message_read(response, reply.response, NULL, &bed->arena, &message, NULL) == ERR_OK);
}

static void write_one(struct bed *bed, Etcdserverpb__RequestOp op,
                      const ProtobufCMessageDescriptor *response)
{
    Etcdserverpb__TxnRequest request = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__RequestOp *ops[] = {&op};

    request.n_success = 1;
    request.success = ops;
    write(bed, &request, STORE_TXN_BARE, response);
}

struct reported {
    const struct query *query;
    const struct keys *keys;
    uint64_t count;
};

static void on_pair(void *owner, const struct key_value *pair)
{
    struct reported *reported = owner;
    uint64_t at = reported->query->revision > 0 ? (uint64_t)reported->query->revision : 0;
    struct key_value there;

    reported->count++;
    must(keys_get(reported->keys, pair->key, at, &there) && there.mod == pair->mod);
    must(reported->query->keys_only ? pair->value.len == 0 : str_equal(pair->value, there.value));
    must(!reported->query->max_mod || (int64_t)pair->mod <= reported->query->max_mod);
    must(!reported->query->min_create || (int64_t)pair->create >= reported->query->min_create);
}

static void read_range(struct bed *bed, const Etcdserverpb__RangeRequest *request)
{
    const struct keys *keys = store_keys(store_machine_store(bed->stores[0]));
    struct query query = query_from_message(request);
    struct txn_op op = {.kind = TXN_RANGE, .range = query};
    struct txn txn = {.ops = {NULL, &op}, .op_count = {0, 1}};
    struct reported reported = {&query, keys, 0};
    struct query_end end;

    if (txn_check(&txn) || query_check(keys, &query)) return;
    end = query_run(keys, &query, on_pair, &reported);
    must(reported.count <= end.count || query.count_only);
    must(query.limit <= 0 || reported.count <= (uint64_t)query.limit);
    must(!query.count_only || (reported.count == 0 && !end.more));
}

static void compact(struct bed *bed, const Etcdserverpb__CompactionRequest *request)
{
    struct store_command command = {.kind = STORE_COMPACT,
                                    .prefer_slot = STORE_NO_SLOT,
                                    .expected = (uint64_t)request->revision};

    if (request->revision <= 0) return;
    buf_clear(&bed->command);
    must(store_command_write(&command, &bed->command) == ERR_OK);
    apply(bed);
}

static void ask(struct bed *bed, unsigned method, struct str bytes)
{
    static const ProtobufCMessageDescriptor *const types[METHODS] = {
        &etcdserverpb__range_request__descriptor, &etcdserverpb__put_request__descriptor,
        &etcdserverpb__delete_range_request__descriptor, &etcdserverpb__txn_request__descriptor,
        &etcdserverpb__compaction_request__descriptor};
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;
    struct note note = {""};
    ProtobufCMessage *message;

    arena_reset(&bed->arena);
    if (message_read(types[method], bytes, NULL, &bed->arena, &message, &note)) return;
    switch (method) {
    case RANGE: read_range(bed, (const Etcdserverpb__RangeRequest *)message); break;
    case PUT:
        op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        op.request_put = (Etcdserverpb__PutRequest *)message;
        write_one(bed, op, &etcdserverpb__put_response__descriptor);
        break;
    case DELETE:
        op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        op.request_delete_range = (Etcdserverpb__DeleteRangeRequest *)message;
        write_one(bed, op, &etcdserverpb__delete_range_response__descriptor);
        break;
    case TXN:
        write(bed, (const Etcdserverpb__TxnRequest *)message, 0,
              &etcdserverpb__txn_response__descriptor);
        break;
    default: compact(bed, (const Etcdserverpb__CompactionRequest *)message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct store_machine_options options = {.store = {.quota_bytes = 1 << 20}};
    struct bed bed = {.index = 0};

    arena_init(&bed.arena, (size_t)64 << 20);
    buf_init(&bed.command, REPLICA_COMMAND_MAX);
    for (int i = 0; i < 2; i++) {
        buf_init(&bed.replies[i], (size_t)16 << 20);
        must(store_machine_open(&options, &bed.stores[i]) == ERR_OK);
        bed.machines[i] = store_machine_registration(bed.stores[i]);
    }
    while (size >= 3 && bed.index < 256) {
        size_t len = min_size((size_t)(data[1] | data[2] << 8), size - 3);

        ask(&bed, data[0] % METHODS, str_of(data + 3, len));
        data += 3 + len;
        size -= 3 + len;
    }
    for (int i = 0; i < 2; i++) {
        buf_deinit(&bed.replies[i]);
        store_machine_close(bed.stores[i]);
    }
    buf_deinit(&bed.command);
    arena_deinit(&bed.arena);
    return 0;
}
