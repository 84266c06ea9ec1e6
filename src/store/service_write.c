/* SPDX-License-Identifier: Apache-2.0 */
/* The writes: what each may ask for, and the command that it becomes. */
#include "store/service_internal.h"

/* -- what several have -- */

static bool id_is_fine(ProtobufCBinaryData id)
{
    struct store_id whole;

    if (id.len != sizeof whole.b) return false;
    memcpy(whole.b, id.data, sizeof whole.b);
    return store_lease_number(&whole) != 0;
}

static struct store_id id_of(ProtobufCBinaryData bytes)
{
    struct store_id id = {{0}};

    if (bytes.len == sizeof id.b) memcpy(id.b, bytes.data, sizeof id.b);
    return id;
}

/* No request at all: it is not remembered, and a repeat is done again. */
static int check_request(const Muster__V1__Request *request, struct note *note)
{
    if (!request) return 0;
    if (request->client_id.len == sizeof(struct store_id) && request->sequence > 0) return 0;
    note_set(note, "request: a client_id of 16 bytes and a sequence from 1");
    return COORD_R_ARGUMENT;
}

static int check_lease(ProtobufCBinaryData id, struct note *note)
{
    if (id_is_fine(id)) return 0;
    note_set(note, "lease id of %zu bytes: 16, of which the first eight are not all zero", id.len);
    return COORD_R_HANDLE;
}

static int check_held(ProtobufCBinaryData id, struct note *note)
{
    return id.len ? check_lease(id, note) : 0;
}

static void take_request(const Muster__V1__Request *request, struct store_command *command)
{
    if (!request) return;
    command->client = id_of(request->client_id);
    command->sequence = request->sequence;
    command->acked = request->acked;
}

static enum err service_write_claim_key(struct leader_request *request, struct str name,
                                        struct str *ret_key)
{
    char *key = arena_alloc(rpc_call_arena(request->call), sizeof STORE_CLAIMS + name.len);

    if (!key) return ERR_NOMEM;
    memcpy(key, STORE_CLAIMS, sizeof STORE_CLAIMS - 1);
    if (name.len) memcpy(key + sizeof STORE_CLAIMS - 1, name.at, name.len);
    *ret_key = str_of(key, sizeof STORE_CLAIMS - 1 + name.len);
    return ERR_OK;
}

/* -- entries -- */

static int check_create(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__CreateRequest *m = (const Muster__V1__CreateRequest *)message;
    int reason = check_request(m->request, note);

    if (!reason) reason = store_check_entry_key(bytes_str(m->key), note);
    if (!reason) reason = store_check_value(bytes_str(m->value), note);
    if (!reason && m->under.len) return check_lease(m->under, note);
    if (reason || m->ttl_ms == 0) return reason;
    reason = store_check_ttl(m->ttl_ms, note);
    if (!reason) reason = store_check_owner(str_from(m->owner), note);
    return reason ? reason : check_lease(m->lease_id, note);
}

static enum err create(struct leader_request *request, struct store_command *command)
{
    const Muster__V1__CreateRequest *m = (const Muster__V1__CreateRequest *)request->message;

    command->kind = STORE_CREATE;
    take_request(m->request, command);
    command->value = bytes_str(m->value);
    command->held = id_of(m->under);
    if (!m->under.len && m->ttl_ms > 0) {
        command->ttl_ms = store_granted_ttl(m->ttl_ms);
        command->owner = str_from(m->owner);
        command->lease = id_of(m->lease_id);
    }
    return service_write_claim_key(request, bytes_str(m->key), &command->key);
}

static int check_compare_and_set(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__CompareAndSetRequest *m = (const Muster__V1__CompareAndSetRequest *)message;
    int reason = check_request(m->request, note);

    if (!reason) reason = store_check_entry_key(bytes_str(m->key), note);
    if (!reason) reason = store_check_value(bytes_str(m->value), note);
    if (!reason) reason = check_held(m->held, note);
    if (reason || m->ttl_ms == 0) return reason;
    if (m->ttl_ms == STORE_TTL_KEEP) return 0;
    reason = store_check_ttl(m->ttl_ms, note);
    if (!reason && !(m->expected && m->held.len))
        reason = store_check_owner(str_from(m->owner), note);
    return reason ? reason : check_lease(m->lease_id, note);
}

static enum err compare_and_set(struct leader_request *request, struct store_command *command)
{
    const Muster__V1__CompareAndSetRequest *m =
        (const Muster__V1__CompareAndSetRequest *)request->message;

    command->kind = STORE_CAS;
    take_request(m->request, command);
    command->expected = m->expected;
    command->value = bytes_str(m->value);
    command->held = id_of(m->held);
    command->token = m->token;
    command->ttl_ms = m->ttl_ms;
    if (m->expected == 0 && m->ttl_ms < 0) command->ttl_ms = 0; /* nothing to keep */
    if (m->ttl_ms > 0) {
        command->ttl_ms = store_granted_ttl(m->ttl_ms);
        command->owner = str_from(m->owner);
        command->lease = id_of(m->lease_id);
    }
    return service_write_claim_key(request, bytes_str(m->key), &command->key);
}

static int check_delete(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__DeleteRequest *m = (const Muster__V1__DeleteRequest *)message;
    int reason = check_request(m->request, note);

    if (!reason) reason = store_check_claim_key(bytes_str(m->key), note);
    if (!reason) reason = check_held(m->held, note);
    if (reason) return reason;
    if (m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_EXPECTED && m->expected > 0 &&
        m->expected < STORE_FORCE)
        return 0;
    if (m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_ANY ||
        m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_FORCE)
        return 0;
    note_set(note, "say a revision, any or force");
    return COORD_R_ARGUMENT;
}

static enum err delete (struct leader_request *request, struct store_command *command) {
    const Muster__V1__DeleteRequest *m = (const Muster__V1__DeleteRequest *)request->message;

    command->kind = STORE_DELETE;
    take_request(m->request, command);
    command->expected = m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_EXPECTED ? m->expected
                        : m->which_case == MUSTER__V1__DELETE_REQUEST__WHICH_FORCE  ? STORE_FORCE
                                                                                    : STORE_ANY;
    command->held = id_of(m->held);
    command->token = m->token;
    return service_write_claim_key(request, bytes_str(m->key), &command->key);
}

/* -- slots -- */

static int check_slots(uint32_t slot_count, struct note *note)
{
    if (slot_count >= 1 && slot_count <= STORE_SLOTS_MAX) return 0;
    note_set(note, "slot_count %u: 1-%d", slot_count, STORE_SLOTS_MAX);
    return COORD_R_ARGUMENT;
}

static int check_acquire(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__AcquireRequest *m = (const Muster__V1__AcquireRequest *)message;
    int reason = check_request(m->request, note);

    if (!reason) reason = store_check_group(bytes_str(m->group), note);
    if (!reason) reason = check_slots(m->slot_count, note);
    if (!reason) reason = store_check_owner(str_from(m->owner), note);
    if (!reason) reason = store_check_value(bytes_str(m->value), note);
    if (!reason) reason = store_check_ttl(m->ttl_ms, note);
    if (!reason) reason = check_lease(m->lease_id, note);
    if (reason) return reason;
    if (m->flags & ~(STORE_TAKEOVER | STORE_NO_CREATE)) {
        note_set(note, "flags 0x%x: only 1 (take over) and 2 (do not create)", m->flags);
        return COORD_R_ARGUMENT;
    }
    if (m->cooldown_ms > STORE_COOLDOWN_MAX_MS) {
        note_set(note, "cooldown of %llu ms: 0-%d ms", (unsigned long long)m->cooldown_ms,
                 STORE_COOLDOWN_MAX_MS);
        return COORD_R_ARGUMENT;
    }
    if (m->wait_ms >= 0 && m->wait_ms <= STORE_WAIT_MAX_MS) return 0;
    note_set(note, "wait of %lld ms: 0-%d ms", (long long)m->wait_ms, STORE_WAIT_MAX_MS);
    return COORD_R_ARGUMENT;
}

static enum err acquire(struct leader_request *request, struct store_command *command)
{
    const Muster__V1__AcquireRequest *m = (const Muster__V1__AcquireRequest *)request->message;
    struct store_request *wait = store_request_of(request);
    enum err err;

    command->kind = STORE_ACQUIRE;
    take_request(m->request, command);
    command->slot_count = m->slot_count;
    command->flags = m->flags;
    command->prefer_slot = m->prefer_slot >= 0 ? (uint32_t)m->prefer_slot : STORE_NO_SLOT;
    command->owner = str_from(m->owner);
    command->ttl_ms = store_granted_ttl(m->ttl_ms);
    command->cooldown_ms = m->cooldown_ms;
    command->value = bytes_str(m->value);
    command->lease = id_of(m->lease_id);
    command->wait = m->wait_ms > 0;
    err = service_write_claim_key(request, bytes_str(m->group), &command->key);
    wait->ttl_ms = command->ttl_ms;
    wait->wait_client = command->client;
    wait->wait_sequence = command->sequence;
    wait->wait_group = command->key;
    return err;
}

static int check_resize(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__ResizeRequest *m = (const Muster__V1__ResizeRequest *)message;
    int reason = check_request(m->request, note);

    if (!reason) reason = store_check_group(bytes_str(m->group), note);
    return reason ? reason : check_slots(m->slot_count, note);
}

static enum err resize(struct leader_request *request, struct store_command *command)
{
    const Muster__V1__ResizeRequest *m = (const Muster__V1__ResizeRequest *)request->message;

    command->kind = STORE_RESIZE;
    take_request(m->request, command);
    command->expected = m->expected;
    command->slot_count = m->slot_count;
    return service_write_claim_key(request, bytes_str(m->group), &command->key);
}

/* -- leases -- */

static int check_release(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__ReleaseRequest *m = (const Muster__V1__ReleaseRequest *)message;
    int reason = check_request(m->request, note);

    if (!reason) reason = check_lease(m->lease_id, note);
    return reason || !m->key.len ? reason : store_check_claim_key(bytes_str(m->key), note);
}

static enum err release(struct leader_request *request, struct store_command *command)
{
    const Muster__V1__ReleaseRequest *m = (const Muster__V1__ReleaseRequest *)request->message;

    command->kind = STORE_RELEASE;
    take_request(m->request, command);
    command->lease = id_of(m->lease_id);
    command->token = m->token;
    return m->key.len ? service_write_claim_key(request, bytes_str(m->key), &command->key) : ERR_OK;
}

static int check_renew(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__RenewRequest *m = (const Muster__V1__RenewRequest *)message;

    if (m->n_lease_ids > STORE_RENEW_MAX) {
        note_set(note, "renews %zu leases: at most %d", m->n_lease_ids, STORE_RENEW_MAX);
        return COORD_R_ARGUMENT;
    }
    if (m->n_tokens && m->n_tokens != m->n_lease_ids) {
        note_set(note, "renews %zu leases with %zu tokens: one for each, or none", m->n_lease_ids,
                 m->n_tokens);
        return COORD_R_ARGUMENT;
    }
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
    int reason = check_request(m->request, note);

    if (!reason) reason = store_check_plain_key(bytes_str(m->key), note);
    return reason ? reason : store_check_value(bytes_str(m->value), note);
}

static enum err put(struct leader_request *request, struct store_command *command)
{
    const Muster__V1__PutRequest *m = (const Muster__V1__PutRequest *)request->message;

    command->kind = STORE_PUT;
    take_request(m->request, command);
    command->key = bytes_str(m->key);
    command->value = bytes_str(m->value);
    return ERR_OK;
}

static int check_delete_range(const ProtobufCMessage *message, struct note *note)
{
    const Muster__V1__DeleteRangeRequest *m = (const Muster__V1__DeleteRangeRequest *)message;
    int reason = check_request(m->request, note);

    return reason ? reason
                  : store_check_plain_range(bytes_str(m->key), bytes_str(m->range_end), note);
}

static enum err delete_range(struct leader_request *request, struct store_command *command)
{
    const Muster__V1__DeleteRangeRequest *m =
        (const Muster__V1__DeleteRangeRequest *)request->message;

    command->kind = STORE_DELETE_RANGE;
    take_request(m->request, command);
    command->key = bytes_str(m->key);
    command->range_end = bytes_str(m->range_end);
    return ERR_OK;
}

static enum err compact(struct leader_request *request, struct store_command *command)
{
    const Muster__V1__CompactRequest *m = (const Muster__V1__CompactRequest *)request->message;

    command->kind = STORE_COMPACT;
    command->expected = m->revision;
    return ERR_OK;
}

#define WRITE(rpc, word, check_fn)                                                                 \
    {                                                                                              \
        .base = {.path = "/muster.v1.Coordination/" rpc,                                           \
                 .name = rpc,                                                                      \
                 .input = &muster__v1__##word##_request__descriptor,                               \
                 .output = &muster__v1__outcome__descriptor},                                      \
        .check = check_fn, .command = word,                                                        \
    }
const struct store_method store_write_methods[] = {
    WRITE("Create", create, check_create),
    WRITE("CompareAndSet", compare_and_set, check_compare_and_set),
    WRITE("Delete", delete, check_delete),
    WRITE("Acquire", acquire, check_acquire),
    WRITE("Resize", resize, check_resize),
    WRITE("Release", release, check_release),
    WRITE("Put", put, service_write_check_put),
    WRITE("DeleteRange", delete_range, check_delete_range),
    WRITE("Compact", compact, NULL),
    {.base = {.path = "/muster.v1.Coordination/Renew",
              .name = "Renew",
              .input = &muster__v1__renew_request__descriptor,
              .output = &muster__v1__renew_response__descriptor},
     .check = check_renew,
     .begin = renew_begin},
    {.base = {.path = NULL}},
};
