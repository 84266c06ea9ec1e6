/* SPDX-License-Identifier: Apache-2.0 */
/* The read methods. Each runs in one loop turn, so its response shows one state of the store. */
#include <stdio.h>

#include "store/entry.h"
#include "store/service_internal.h"

enum {
    RANGE_LIMIT = 1000,
    RANGE_LIMIT_MAX = 10000,
    RANGE_BYTES = 1 << 20, /* bytes after which a response ends; its last value may exceed them */
    PAST_ROWS_MAX = 65536, /* keys that a read of the past visits, missing keys included */
};

static struct str service_read_claim_key(struct str name, char key[STORE_KEY_MAX])
{
    struct str front = STR(STORE_CLAIMS);

    memcpy(key, front.at, front.len);
    memcpy(key + front.len, name.at, name.len);
    return str_of(key, front.len + name.len);
}

/* The lease clock moves only with log entries: subtract the time since the last entry. */
static void age(const struct store_service *service, struct store_claim *claim)
{
    uint64_t since_ms = mono_elapsed_ms(service->applied_at, loop_now(service->io->loop));

    claim->remaining_ms -= (int64_t)min_u64(since_ms, (uint64_t)claim->remaining_ms);
}

/* -- Get -- */

static int check_get(const ProtobufCMessage *message, struct note *note)
{
    return store_check_claim_key(bytes_str(((const Muster__V1__GetRequest *)message)->key), note);
}

static bool read_serializable(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "serializable");

    return *(const protobuf_c_boolean *)(const void *)((const char *)message + field->offset);
}

static void get(struct leader_request *request)
{
    const Muster__V1__GetRequest *m = (const Muster__V1__GetRequest *)request->message;
    struct store_service *service = service_of(request);
    const struct store *store = service_store(service);
    struct pack answer = pack_begin(&service->answer), row = pack_begin(&service->row);
    char key[STORE_KEY_MAX];
    struct key_value value;
    struct store_claim claim;
    struct str name = service_read_claim_key(bytes_str(m->key), key);

    if (keys_get(store_keys(store), name, 0, &value) && value.version) {
        bool leased = store_claim_of(store, name, store_clock_ns(store), &claim);

        if (leased) age(service, &claim);
        if (leased || !value.lease) { /* an expired claim counts as missing */
            store_entry_pack(&row, &value, sizeof STORE_CLAIMS - 1, leased ? &claim : NULL,
                             STORE_ENTRY_WHOLE);
            pack_u64(&answer, 1, 1);
            pack_row(&answer, 2, &row);
        }
    }
    pack_u64(&answer, 3, keys_revision(store_keys(store)));
    request_reply_packed(request, &answer);
}

/* -- Holders -- */

static int check_holders(const ProtobufCMessage *message, struct note *note)
{
    return store_check_group(bytes_str(((const Muster__V1__HoldersRequest *)message)->group), note);
}

static void pack_holder(struct pack *row, const struct key_value *value,
                        const struct store_claim *claim, uint32_t slot)
{
    pack_u64(row, 1, slot);
    pack_text(row, 2, claim->owner);
    pack_u64(row, 3, claim->token);
    pack_u64(row, 4, value->mod);
    pack_bytes(row, 5, str_of(claim->lease.b, 4));
    pack_i64(row, 6, claim->remaining_ms);
    pack_text(row, 7, value->value);
}

/* True: more holders follow than fit into one response. */
static bool pack_holders(struct store_service *service, struct str group, uint32_t first,
                         struct pack *answer)
{
    const struct store *store = service_store(service);
    char from[STORE_KEY_MAX + 1], end[STORE_KEY_MAX];
    size_t len = group.len + sizeof "/slot-" - 1;
    int from_len = snprintf(from, sizeof from, "%.*s/slot-%04u", STR_ARG(group), (unsigned)first);
    struct keys_cursor cursor;
    struct key_value value;

    if (first >= STORE_SLOTS_MAX) return false;
    memcpy(end, from, len);
    end[len - 1] = '-' + 1;
    keys_seek(store_keys(store),
              (struct key_range){str_of(from, (size_t)from_len), str_of(end, len)}, 0, &cursor);
    while (!answer->err && keys_next(&cursor, &value)) {
        struct pack row = pack_begin(&service->row);
        struct store_claim claim;
        uint64_t slot;

        if (str_to_u64(str_tail(value.key, len), &slot) || slot >= STORE_SLOTS_MAX) continue;
        if (!store_claim_of(store, value.key, store_clock_ns(store), &claim)) continue;
        if (service->answer.len > RANGE_BYTES) return true;
        age(service, &claim);
        pack_holder(&row, &value, &claim, (uint32_t)slot);
        pack_row(answer, 6, &row);
    }
    return false;
}

static void holders(struct leader_request *request)
{
    const Muster__V1__HoldersRequest *m = (const Muster__V1__HoldersRequest *)request->message;
    struct store_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    char key[STORE_KEY_MAX];
    struct str group = service_read_claim_key(bytes_str(m->group), key);
    struct store_group found;

    if (store_group_of(service_store(service), group, &found)) {
        pack_u64(&answer, 1, 1);
        pack_u64(&answer, 2, found.slot_count);
        pack_u64(&answer, 3, found.revision);
        pack_u64(&answer, 4, found.cooldown_ms);
        pack_u64(&answer, 5, found.waiters);
        pack_u64(&answer, 7, pack_holders(service, group, m->from_slot, &answer));
        pack_u64(&answer, 8, keys_revision(store_keys(service_store(service))));
    }
    request_reply_packed(request, &answer);
}

/* -- Range -- */

static int service_read_check_range(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__RangeRequest *m = (const Muster__V1__RangeRequest *)message;

    if (m->key.len > STORE_KEY_MAX || m->range_end.len > STORE_KEY_MAX ||
        (m->key.len == 0 && m->range_end.len == 0))
        return note_fail(note, COORD_R_KEY,
                         "key of %zu bytes, range_end of %zu: a key of 1-%d bytes, or a range",
                         m->key.len, m->range_end.len, STORE_KEY_MAX);
    if (m->limit <= RANGE_LIMIT_MAX) return 0;
    return note_fail(note, COORD_R_ARGUMENT, "limit %u: at most %d", m->limit, RANGE_LIMIT_MAX);
}

static void range(struct leader_request *request)
{
    const Muster__V1__RangeRequest *m = (const Muster__V1__RangeRequest *)request->message;
    struct store_service *service = service_of(request);
    const struct store *store = service_store(service);
    const struct keys *keys = store_keys(store);
    struct key_range scope = {bytes_str(m->key), bytes_str(m->range_end)};
    struct pack answer = pack_begin(&service->answer);
    uint32_t limit = m->limit ? m->limit : RANGE_LIMIT, sent = 0;
    uint64_t at = m->revision == keys_revision(keys) ? 0 : m->revision, count = 0;
    struct keys_cursor cursor;
    struct key_value value;
    bool more = false;

    if (m->revision > keys_revision(keys)) {
        request_fail(request, GRPC_OUT_OF_RANGE,
                     "Range: revision %llu is still to come, after %llu",
                     (unsigned long long)m->revision, (unsigned long long)keys_revision(keys));
        return;
    }
    if (m->revision && m->revision < keys_compacted(keys)) {
        request_fail(request, GRPC_OUT_OF_RANGE, "Range: revision %llu is compacted, up to %llu",
                     (unsigned long long)m->revision, (unsigned long long)keys_compacted(keys));
        return;
    }
    keys_seek(keys, scope, at, &cursor);
    if (at) cursor.rows_left = PAST_ROWS_MAX;
    while (at && m->count_only && keys_next(&cursor, &value)) count++;
    while (!m->count_only && !answer.err && keys_next(&cursor, &value)) {
        struct pack row = pack_begin(&service->row);
        struct store_claim claim;
        bool leased;

        if (sent == limit || service->answer.len > RANGE_BYTES) {
            more = true;
            break;
        }
        leased = value.lease && store_claim_of(store, value.key, store_clock_ns(store), &claim) &&
                 store_lease_number(&claim.lease) == value.lease;
        store_entry_pack(&row, &value, 0, leased ? &claim : NULL,
                         m->keys_only ? STORE_ENTRY_KEYS : STORE_ENTRY_WHOLE);
        pack_row(&answer, 1, &row);
        sent++;
    }
    if (cursor.next.len && !sent) {
        request_fail(request, GRPC_RESOURCE_EXHAUSTED,
                     "Range: at revision %llu it would look at more than %d keys; ask for a "
                     "smaller range, or for the present",
                     (unsigned long long)m->revision, PAST_ROWS_MAX);
        return;
    }
    /* Current keys are counted cheaply. Past keys need a walk, so later pages omit the count. */
    pack_u64(&answer, 2, at ? count : keys_count_range(keys, scope, 0));
    pack_u64(&answer, 3, more || cursor.next.len > 0);
    pack_u64(&answer, 4, keys_revision(keys));
    request_reply_packed(request, &answer);
}

/* -- Status: of this replica, leader or not -- */

bool store_always(const ProtobufCMessage *)
{
    return true;
}

static uint64_t voters(const struct store_service *service)
{
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = service->leader.replica ? replica_members(service->leader.replica, members) : 0;
    uint64_t voters = 0;

    for (size_t i = 0; i < count; i++) voters += members[i].role == MEMBER_VOTER;
    return voters;
}

static void status(struct leader_request *request)
{
    struct store_service *service = service_of(request);
    const struct store *store = service_store(service);
    const struct keys *keys = store_keys(store);
    struct store_sizes sizes = store_sizes(store);
    struct store_id id = store_identity(store);
    struct pack answer = pack_begin(&service->answer);

    pack_bytes(&answer, 1, str_of(id.b, sizeof id.b));
    pack_u64(&answer, 2, keys_revision(keys));
    pack_u64(&answer, 3, keys_compacted(keys));
    pack_u64(&answer, 4, keys_count(keys));
    pack_u64(&answer, 5, sizes.bytes);
    pack_u64(&answer, 6, sizes.quota);
    pack_u64(&answer, 7, sizes.leases);
    pack_u64(&answer, 8, sizes.groups);
    pack_u64(&answer, 9, sizes.waiters);
    pack_u64(&answer, 10, service->watcher_count);
    pack_u64(&answer, 11, sizes.clients);
    pack_u64(&answer, 12, sizes.no_space);
    pack_u64(&answer, 13, store_clock_ns(store) / NS_PER_MS);
    pack_u64(&answer, 14, service->leader.ready);
    pack_u64(&answer, 15, voters(service));
    request_reply_packed(request, &answer);
}

#define READ(rpc, word, check_fn, serializable_fn, read_fn, ...)                                   \
    {                                                                                              \
        LEADER_METHOD("muster.v1.Coordination", rpc, muster__v1__##word##_request,                 \
                      muster__v1__##word##_response, __VA_ARGS__),                                 \
            .check = check_fn, .serializable = serializable_fn, .read = read_fn                    \
    }
const struct store_method store_read_methods[] = {
    READ("Get", get, check_get, read_serializable, get),
    READ("Holders", holders, check_holders, read_serializable, holders),
    READ("Range", range, service_read_check_range, read_serializable, range),
    READ("Status", status, NULL, store_always, status),
    READ("Watch", watch, watch_check, read_serializable, watch_begin, .kind = RPC_SERVER_STREAM,
         .response_max = STORE_ANSWER_MAX),
    {.base = {.path = NULL}},
};
