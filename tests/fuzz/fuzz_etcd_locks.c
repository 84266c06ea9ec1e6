/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as requests of etcd's Lock and Election, one after the other. The decoder refuses a
 * request, or the checks of the request alone, or it is accepted. An accepted request is a
 * transaction that a store applies; then its answer must agree with the store: who owns the lock,
 * and who waits.
 *
 * Each record: one byte of method, two of length, then the message. */
#include <stdlib.h>

#include "store/etcd/internal.h"
#include "store/etcd/queue.h"
#include "store/interest.h"
#include "store/machine.h"
#include "store/txn_wire.h"
#include "wire/message.h"
#include "wire/pb/etcd_election.pb-c.h"
#include "wire/pb/etcd_lock.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LOCK, UNLOCK, CAMPAIGN, PROCLAIM, LEADER, RESIGN, METHODS };
struct bed {
    struct store_machine *store;
    struct state_machine machine;
    struct buf command, reply;
    struct str key; /* in the arena */
    struct arena arena;
    uint64_t index;
};

static void must(bool holds)
{
    if (!holds) abort();
}

static struct str view(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

static const struct keys *keys_of(const struct bed *bed)
{
    return store_keys(store_machine_store(bed->store));
}

static void apply(struct bed *bed)
{
    struct machine_entry entry = {.index = ++bed->index,
                                  .term = 1,
                                  .clock_ns = bed->index * NS_PER_MS,
                                  .version = STORE_MACHINE_VERSION,
                                  .level = STORE_MACHINE_VERSION,
                                  .actor = STR_EMPTY,
                                  .request_id = STR_EMPTY,
                                  .command = buf_peek(&bed->command)};

    buf_clear(&bed->reply);
    must(bed->machine.ops->apply(bed->machine.state, &entry, &bed->reply, NULL) == ERR_OK);
    while (bed->machine.ops->apply_more(bed->machine.state, &bed->reply)) continue;
}

/* NULL: it was refused. */
static const Etcdserverpb__TxnResponse *commit(struct bed *bed, const struct queue_txn *t,
                                               uint64_t *ret_revision)
{
    struct store_txn_reply reported;
    ProtobufCMessage *message;
    struct txn *txn;

    must(txn_from_message(&t->txn, &bed->arena, &txn) == ERR_OK);
    if (txn_check(txn)) return NULL;
    buf_clear(&bed->command);
    must(store_txn_write(&t->txn, 0, &bed->command) == ERR_OK);
    apply(bed);
    must(store_txn_parse(buf_peek(&bed->reply), &reported) == ERR_OK);
    if (reported.refusal) return NULL;
    must(message_read(&etcdserverpb__txn_response__descriptor, reported.response, NULL, &bed->arena,
                      &message, NULL) == ERR_OK);
    *ret_revision = reported.revision;
    return (const Etcdserverpb__TxnResponse *)message;
}

static struct key_range range_of(struct bed *bed, struct str name)
{
    char *room = arena_alloc(&bed->arena, 2 * (name.len + 1));

    must(room != NULL);
    return queue_range(name, room);
}

/* A client that enters again keeps its place; its earlier call must not leave another key. */
static void enter_again(struct bed *bed, const struct queue_txn *enter, struct key_range range,
                        const struct queue_entry *as)
{
    const Etcdserverpb__TxnResponse *answer;
    struct queue_entry again;
    struct queue_txn txn;
    struct key_value own;
    uint64_t revision;

    answer = commit(bed, enter, &revision);
    if (!answer) return; /* its lease ended */
    must(queue_entered(answer, revision, &again));
    must(again.create == as->create && again.mod > as->mod && !again.created);
    queue_leave(&txn, bed->key, as, range);
    must(commit(bed, &txn, &revision) != NULL);
    must(keys_get(keys_of(bed), bed->key, 0, &own) && own.mod == again.mod);
}

static void enter(struct bed *bed, struct str name, int64_t lease, struct str value, bool says)
{
    struct key_range range = range_of(bed, name);
    const Etcdserverpb__TxnResponse *answer;
    struct key_value own, first, before;
    struct queue_entry entered;
    struct queue_txn txn;
    uint64_t revision;

    char *room = arena_alloc(&bed->arena, name.len + QUEUE_LEASE_MAX);

    must(room != NULL);
    bed->key = queue_key(name, lease, room);
    must(key_range_has(range, bed->key));
    queue_enter(&txn, bed->key, lease, value, says, range);
    answer = commit(bed, &txn, &revision);
    if (!answer) return;
    must(queue_entered(answer, revision, &entered));
    must(keys_get(keys_of(bed), bed->key, 0, &own) && own.create == entered.create);
    must(!says || str_equal(own.value, value));
    must(queue_first(keys_of(bed), range, &first) == ERR_OK);
    must(entered.first == (first.create == own.create));
    must(queue_before(keys_of(bed), range, own.create, &before) == !entered.first);
    must(entered.first || (first.create <= before.create && before.create < own.create));
    must(own.mod == entered.mod && entered.created == (own.version == 1));
    enter_again(bed, &txn, range, &entered);
}

static void leader_says(struct bed *bed, const V3electionpb__LeaderKey *leader, bool stays,
                        struct str value)
{
    const Etcdserverpb__TxnResponse *answer;
    struct key_value before, now;
    struct queue_txn txn;
    uint64_t revision;
    bool was, is, there;

    if (!leader) return;
    there = keys_get(keys_of(bed), view(leader->key), 0, &before);
    was = there && before.create == (uint64_t)leader->rev;
    if (stays)
        queue_set_value(&txn, view(leader->key), leader->rev, value, leader->lease);
    else
        queue_resign(&txn, view(leader->key), leader->rev);
    answer = commit(bed, &txn, &revision);
    if (!answer) return;
    is = keys_get(keys_of(bed), view(leader->key), 0, &now);
    /* The compare with 0 holds for an absent key: then the key is created. */
    must(answer->succeeded == (was || (leader->rev == 0 && !there)));
    must(!answer->succeeded || is == stays);
    must(!answer->succeeded || !stays || str_equal(now.value, value));
}

static void unlock(struct bed *bed, struct str key)
{
    struct key_value gone;
    struct queue_txn txn;
    uint64_t revision;

    queue_delete(&txn, key);
    must(!commit(bed, &txn, &revision) || !keys_get(keys_of(bed), key, 0, &gone));
}

static void ask(struct bed *bed, unsigned method, struct str bytes)
{
    static const ProtobufCMessageDescriptor *const types[METHODS] = {
        &v3lockpb__lock_request__descriptor,         &v3lockpb__unlock_request__descriptor,
        &v3electionpb__campaign_request__descriptor, &v3electionpb__proclaim_request__descriptor,
        &v3electionpb__leader_request__descriptor,   &v3electionpb__resign_request__descriptor};
    struct note note = {""};
    struct key_value first;
    ProtobufCMessage *message;

    arena_reset(&bed->arena);
    if (message_read(types[method], bytes, NULL, &bed->arena, &message, &note)) return;
    switch (method) {
    case LOCK: {
        const V3lockpb__LockRequest *m = (const V3lockpb__LockRequest *)message;

        enter(bed, view(m->name), m->lease, STR_EMPTY, false);
        break;
    }
    case UNLOCK: unlock(bed, view(((const V3lockpb__UnlockRequest *)message)->key)); break;
    case CAMPAIGN: {
        const V3electionpb__CampaignRequest *m = (const V3electionpb__CampaignRequest *)message;

        enter(bed, view(m->name), m->lease, view(m->value), true);
        break;
    }
    case PROCLAIM: {
        const V3electionpb__ProclaimRequest *m = (const V3electionpb__ProclaimRequest *)message;

        leader_says(bed, m->leader, true, view(m->value));
        break;
    }
    case LEADER:
        (void)queue_first(keys_of(bed),
                          range_of(bed, view(((const V3electionpb__LeaderRequest *)message)->name)),
                          &first);
        break;
    default:
        leader_says(bed, ((const V3electionpb__ResignRequest *)message)->leader, false, STR_EMPTY);
    }
}

static void grant(struct bed *bed, int64_t lease)
{
    Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    struct store_command command;

    request.id = lease;
    request.ttl = 3600;
    must(etcd_grant_command(&request, 1, &command) == ETCD_OK);
    buf_clear(&bed->command);
    must(store_command_write(&command, &bed->command) == ERR_OK);
    apply(bed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct store_machine_options options = {.store = {.quota_bytes = 1 << 20}};
    static const int64_t leases[] = {1, 2, 255, -255};
    struct bed bed = {.index = 0};

    arena_init(&bed.arena, (size_t)64 << 20);
    buf_init(&bed.command, REPLICA_COMMAND_MAX);
    buf_init(&bed.reply, (size_t)16 << 20);
    must(store_machine_open(&options, &bed.store) == ERR_OK);
    bed.machine = store_machine_registration(bed.store);
    for (size_t i = 0; i < ARRAY_LEN(leases); i++) grant(&bed, leases[i]);
    while (size >= 3 && bed.index < 256) {
        size_t len = min_size((size_t)(data[1] | data[2] << 8), size - 3);

        ask(&bed, data[0] % METHODS, str_of(data + 3, len));
        data += 3 + len;
        size -= 3 + len;
    }
    store_machine_close(bed.store);
    buf_deinit(&bed.reply);
    buf_deinit(&bed.command);
    arena_deinit(&bed.arena);
    return 0;
}
