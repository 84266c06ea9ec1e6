/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the arguments of write methods, and builds commands from the arguments. */
#include "store/service_internal.h"

/* -- shared -- */

/* zero: the bytes are not an id */
static struct store_id id_of(ProtobufCBinaryData bytes)
{
    struct store_id id = {{0}};

    if (bytes.len == sizeof id.b) memcpy(id.b, bytes.data, sizeof id.b);
    return id;
}

/* Field 1 is the request id, except for Compact. Without an id a retry runs again. */
static const Muster__V1__Request *request_of(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *first =
        protobuf_c_message_descriptor_get_field(message->descriptor, 1);

    if (!first || first->descriptor != &muster__v1__request__descriptor) return NULL;
    return *(Muster__V1__Request *const *)(const void *)((const char *)message + first->offset);
}

int store_check_request(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__Request *request = request_of(message);

    if (!request || (request->client_id.len == sizeof(struct store_id) && request->sequence > 0))
        return 0;
    return note_fail(note, COORD_R_ARGUMENT,
                     "request: a client_id of 16 bytes and a sequence from 1");
}

static int check_lease(ProtobufCBinaryData id, struct note *note)
{
    struct store_id whole = id_of(id);

    if (store_lease_number(&whole)) return 0;
    return note_fail(note, COORD_R_HANDLE,
                     "lease id of %zu bytes: 16, of which the first eight are not all zero",
                     id.len);
}

static int check_held(ProtobufCBinaryData id, struct note *note)
{
    return id.len ? check_lease(id, note) : 0;
}

static enum err claim_key(struct arena *arena, struct str *key)
{
    char *whole = arena_alloc(arena, sizeof STORE_CLAIMS + key->len);

    if (!whole) return ERR_NOMEM;
    memcpy(whole, STORE_CLAIMS, sizeof STORE_CLAIMS - 1);
    memcpy(whole + sizeof STORE_CLAIMS - 1, key->at, key->len);
    *key = str_of(whole, sizeof STORE_CLAIMS - 1 + key->len);
    return ERR_OK;
}

enum err store_write_command(const struct store_method *method, const ProtobufCMessage *message,
                             struct arena *arena, struct store_command *ret_command)
{
    const Muster__V1__Request *request = request_of(message);
    bool plain = method->kind == STORE_PUT || method->kind == STORE_DELETE_RANGE;

    *ret_command = (struct store_command){.kind = method->kind, .prefer_slot = STORE_NO_SLOT};
    if (request) {
        ret_command->client = id_of(request->client_id);
        ret_command->sequence = request->sequence;
        ret_command->acked = request->acked;
    }
    method->command(message, ret_command);
    return plain || !ret_command->key.len ? ERR_OK : claim_key(arena, &ret_command->key);
}

/* -- entries -- */

static int check_create(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__CreateRequest *m = (const Muster__V1__CreateRequest *)message;
    int reason = store_check_entry_key(bytes_str(m->key), note);

    if (!reason) reason = store_check_value(bytes_str(m->value), note);
    if (!reason && m->under.len) return check_lease(m->under, note);
    if (reason || m->ttl_ms == 0) return reason;
    reason = store_check_ttl(m->ttl_ms, note);
    if (!reason) reason = store_check_owner(str_from(m->owner), note);
    return reason ? reason : check_lease(m->lease_id, note);
}

static void create(const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__CreateRequest *m = (const Muster__V1__CreateRequest *)message;

    command->value = bytes_str(m->value);
    command->held = id_of(m->under);
    if (!m->under.len && m->ttl_ms > 0) {
        command->ttl_ms = store_granted_ttl(m->ttl_ms);
        command->owner = str_from(m->owner);
        command->lease = id_of(m->lease_id);
    }
    command->key = bytes_str(m->key);
}

static int check_compare_and_set(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__CompareAndSetRequest *m = (const Muster__V1__CompareAndSetRequest *)message;
    int reason = store_check_entry_key(bytes_str(m->key), note);

    if (!reason) reason = store_check_value(bytes_str(m->value), note);
    if (!reason) reason = check_held(m->held, note);
    if (reason || m->ttl_ms == 0) return reason;
    if (m->ttl_ms == STORE_TTL_KEEP) return 0;
    reason = store_check_ttl(m->ttl_ms, note);
    if (!reason && !(m->expected && m->held.len))
        reason = store_check_owner(str_from(m->owner), note);
    return reason ? reason : check_lease(m->lease_id, note);
}

static void compare_and_set(const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__CompareAndSetRequest *m = (const Muster__V1__CompareAndSetRequest *)message;

    command->expected = m->expected;
    command->value = bytes_str(m->value);
    command->held = id_of(m->held);
    command->token = m->token;
    command->ttl_ms = m->ttl_ms;
    if (m->expected == 0 && m->ttl_ms < 0) command->ttl_ms = 0; /* there is no TTL to keep */
    if (m->ttl_ms > 0) {
        command->ttl_ms = store_granted_ttl(m->ttl_ms);
        command->owner = str_from(m->owner);
        command->lease = id_of(m->lease_id);
    }
    command->key = bytes_str(m->key);
}

static int check_delete(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__DeleteRequest *m = (const Muster__V1__DeleteRequest *)message;
    int reason = store_check_claim_key(bytes_str(m->key), note);

    if (!reason) reason = check_held(m->held, note);
    if (reason) return reason;
    if (m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_EXPECTED && m->expected > 0 &&
        m->expected < STORE_FORCE)
        return 0;
    if (m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_ANY ||
        m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_FORCE)
        return 0;
    return note_fail(note, COORD_R_ARGUMENT, "say a revision, any or force");
}

static void delete (const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__DeleteRequest *m = (const Muster__V1__DeleteRequest *)message;

    command->expected = m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_EXPECTED ? m->expected
                        : m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_FORCE  ? STORE_FORCE
                                                                                    : STORE_ANY;
    command->held = id_of(m->held);
    command->token = m->token;
    command->key = bytes_str(m->key);
}

/* -- slots -- */

static int check_slots(uint32_t slot_count, struct note *note)
{
    if (slot_count >= 1 && slot_count <= STORE_SLOTS_MAX) return 0;
    return note_fail(note, COORD_R_ARGUMENT, "slot_count %u: 1-%d", slot_count, STORE_SLOTS_MAX);
}

static int check_acquire(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__AcquireRequest *m = (const Muster__V1__AcquireRequest *)message;
    int reason = store_check_group(bytes_str(m->group), note);

    if (!reason) reason = check_slots(m->slot_count, note);
    if (!reason) reason = store_check_owner(str_from(m->owner), note);
    if (!reason) reason = store_check_value(bytes_str(m->value), note);
    if (!reason) reason = store_check_ttl(m->ttl_ms, note);
    if (!reason) reason = check_lease(m->lease_id, note);
    if (reason) return reason;
    if (m->flags & ~(STORE_TAKEOVER | STORE_NO_CREATE))
        return note_fail(note, COORD_R_ARGUMENT,
                         "flags 0x%x: only 1 (take over) and 2 (do not create)", m->flags);
    if (m->cooldown_ms > STORE_COOLDOWN_MAX_MS)
        return note_fail(note, COORD_R_ARGUMENT, "cooldown of %llu ms: 0-%d ms",
                         (unsigned long long)m->cooldown_ms, STORE_COOLDOWN_MAX_MS);
    if (m->wait_ms >= 0 && m->wait_ms <= STORE_WAIT_MAX_MS) return 0;
    return note_fail(note, COORD_R_ARGUMENT, "wait of %lld ms: 0-%d ms", (long long)m->wait_ms,
                     STORE_WAIT_MAX_MS);
}

static void acquire(const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__AcquireRequest *m = (const Muster__V1__AcquireRequest *)message;

    command->slot_count = m->slot_count;
    command->flags = m->flags;
    command->prefer_slot = m->prefer_slot >= 0 ? (uint32_t)m->prefer_slot : STORE_NO_SLOT;
    command->owner = str_from(m->owner);
    command->ttl_ms = store_granted_ttl(m->ttl_ms);
    command->cooldown_ms = m->cooldown_ms;
    command->value = bytes_str(m->value);
    command->lease = id_of(m->lease_id);
    command->wait = m->wait_ms > 0;
    command->key = bytes_str(m->group);
}

static int check_resize(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__ResizeRequest *m = (const Muster__V1__ResizeRequest *)message;
    int reason = store_check_group(bytes_str(m->group), note);

    return reason ? reason : check_slots(m->slot_count, note);
}

static void resize(const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__ResizeRequest *m = (const Muster__V1__ResizeRequest *)message;

    command->expected = m->expected;
    command->slot_count = m->slot_count;
    command->key = bytes_str(m->group);
}

/* -- leases -- */

static int check_release(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__ReleaseRequest *m = (const Muster__V1__ReleaseRequest *)message;
    int reason = check_lease(m->lease_id, note);

    return reason || !m->key.len ? reason : store_check_claim_key(bytes_str(m->key), note);
}

static void release(const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__ReleaseRequest *m = (const Muster__V1__ReleaseRequest *)message;

    command->lease = id_of(m->lease_id);
    command->token = m->token;
    command->key = bytes_str(m->key);
}

static int check_renew(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__RenewRequest *m = (const Muster__V1__RenewRequest *)message;

    if (m->n_lease_ids > STORE_RENEW_MAX)
        return note_fail(note, COORD_R_ARGUMENT, "renews %zu leases: at most %d", m->n_lease_ids,
                         STORE_RENEW_MAX);
    if (m->n_tokens && m->n_tokens != m->n_lease_ids)
        return note_fail(note, COORD_R_ARGUMENT,
                         "renews %zu leases with %zu tokens: one for each, or none", m->n_lease_ids,
                         m->n_tokens);
    for (size_t i = 0; i < m->n_lease_ids; i++) {
        int reason = check_lease(m->lease_ids[i], note);
        if (reason) return reason;
    }
    return 0;
}

/* -- plain keys -- */

static int service_write_check_put(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__PutRequest *m = (const Muster__V1__PutRequest *)message;
    int reason = store_check_plain_key(bytes_str(m->key), note);

    return reason ? reason : store_check_value(bytes_str(m->value), note);
}

static void put(const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__PutRequest *m = (const Muster__V1__PutRequest *)message;

    command->key = bytes_str(m->key);
    command->value = bytes_str(m->value);
}

static int check_delete_range(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__DeleteRangeRequest *m = (const Muster__V1__DeleteRangeRequest *)message;

    return store_check_plain_range(bytes_str(m->key), bytes_str(m->range_end), note);
}

static void delete_range(const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__DeleteRangeRequest *m = (const Muster__V1__DeleteRangeRequest *)message;

    command->key = bytes_str(m->key);
    command->range_end = bytes_str(m->range_end);
}

static void compact(const ProtobufCMessage *message, struct store_command *command)
{
    const Muster__V1__CompactRequest *m = (const Muster__V1__CompactRequest *)message;

    command->expected = m->revision;
}

#define WRITE(rpc, word, kind_, check_fn)                                                          \
    {                                                                                              \
        LEADER_METHOD("muster.v1.Coordination", rpc, muster__v1__##word##_request,                 \
                      muster__v1__outcome),                                                        \
            .kind = kind_, .check = check_fn, .command = word                                      \
    }
const struct store_method store_write_methods[] = {
    WRITE("Create", create, STORE_CREATE, check_create),
    WRITE("CompareAndSet", compare_and_set, STORE_CAS, check_compare_and_set),
    WRITE("Delete", delete, STORE_DELETE, check_delete),
    WRITE("Acquire", acquire, STORE_ACQUIRE, check_acquire),
    WRITE("Resize", resize, STORE_RESIZE, check_resize),
    WRITE("Release", release, STORE_RELEASE, check_release),
    WRITE("Put", put, STORE_PUT, service_write_check_put),
    WRITE("DeleteRange", delete_range, STORE_DELETE_RANGE, check_delete_range),
    WRITE("Compact", compact, STORE_COMPACT, NULL),
    {LEADER_METHOD("muster.v1.Coordination", "Renew", muster__v1__renew_request,
                   muster__v1__renew_response),
     .check = check_renew, .begin = renew_begin},
    {.base = {.path = NULL}},
};
