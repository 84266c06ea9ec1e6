/* SPDX-License-Identifier: Apache-2.0 */
/* Entries: create, compare and set, delete, get. Each change is one call that the server knows by
 * its request; a repeat is answered from its table. */
#include "prim/native/internal.h"

char *native_owner(struct str owner, char text[PRIM_OWNER_MAX + 1])
{
    assert(owner.len <= PRIM_OWNER_MAX);
    if (owner.len) memcpy(text, owner.at, owner.len);
    text[owner.len] = '\0';
    return text;
}

uint64_t native_token(const struct prim_claim *claim, struct str key)
{
    const struct prim_held *held = prim_held_of(claim, key);

    return held ? held->token : NATIVE_NO_TOKEN;
}

void native_change(struct native_backend *b, const struct prim_call *call,
                   const struct native_change *change, struct native_done *ret_done)
{
    struct native_done done = {.sent_ns = courier_now(&b->courier)};
    struct native_request request;
    ProtobufCMessage *message;
    struct arena arena;

    native_request_begin(&b->requests, call, change->waits, done.sent_ns, &request);
    change->request->client_id = native_id_bytes(&request.client);
    change->request->sequence = request.sequence;
    change->request->acked = request.acked;
    done.result = native_ask(b, call->deadline_ns,
                             &(struct native_ask){.path = change->path,
                                                  .request = change->message,
                                                  .type = &muster__v1__outcome__descriptor,
                                                  .request_of = &request,
                                                  .waits = change->waits},
                             &arena, &message);
    if (done.result.code == COORD_OK) {
        const Muster__V1__Outcome *outcome = (const Muster__V1__Outcome *)message;
        uint32_t doubt = done.result.flags & COORD_F_MAYBE_APPLIED;
        done.result = native_outcome(outcome);
        if (done.result.reason == COORD_R_OTHER_STORE) done.result = native_other_store(b);
        if (done.result.code == COORD_UNAVAILABLE) done.result.flags |= doubt;
        done.lease_id = native_id(outcome->lease_id);
        done.create_revision = outcome->create_revision;
    }
    /* It may have been done long ago: count from when the call began. */
    if (done.result.reason == COORD_R_REPLAYED) done.sent_ns = 0;
    native_request_end(&b->requests, &request, &done.result);
    arena_deinit(&arena);
    *ret_done = done;
}

coord_result native_granted(const struct native_done *done, bool leased,
                            struct prim_grant *ret_grant)
{
    const coord_result *result = &done->result;

    if (result->code != COORD_OK) return *result;
    if (result->revision == 0 || done->create_revision > result->revision ||
        result->token > result->revision)
        return native_corrupt("a change without a revision");
    if (leased && (result->granted_ttl_ms <= 0 || result->token == 0 ||
                   done->create_revision == 0 || prim_id_is_zero(&done->lease_id)))
        return native_corrupt("a grant without a lease");
    ret_grant->token = result->token;
    ret_grant->create_revision = done->create_revision;
    if (!leased) return *result;
    ret_grant->lease_id = done->lease_id;
    ret_grant->granted_ttl_ms = result->granted_ttl_ms;
    ret_grant->sent_ns = done->sent_ns;
    return *result;
}

coord_result native_create(struct prim_backend *base, const struct prim_call *call,
                           const struct prim_create *in, struct prim_grant *ret_grant)
{
    Muster__V1__CreateRequest message = MUSTER__V1__CREATE_REQUEST__INIT;
    Muster__V1__Request request = MUSTER__V1__REQUEST__INIT;
    char owner[PRIM_OWNER_MAX + 1];
    struct native_done done;

    message.request = &request;
    message.key = native_bytes(in->key);
    message.value = native_bytes(in->value);
    if (in->under) {
        message.under = native_id_bytes(&in->under->lease_id);
    } else if (in->ttl_ms > 0) {
        message.ttl_ms = in->ttl_ms;
        message.owner = native_owner(in->owner, owner);
        message.lease_id = native_id_bytes(&in->lease_id);
    }
    native_change(native_of(base), call,
                  &(struct native_change){NATIVE_PATH("Create"), &message.base, &request, false},
                  &done);
    return native_granted(&done, !in->under && in->ttl_ms > 0, ret_grant);
}

coord_result native_cas(struct prim_backend *base, const struct prim_call *call,
                        const struct prim_cas *in, struct prim_grant *ret_grant)
{
    Muster__V1__CompareAndSetRequest message = MUSTER__V1__COMPARE_AND_SET_REQUEST__INIT;
    Muster__V1__Request request = MUSTER__V1__REQUEST__INIT;
    char owner[PRIM_OWNER_MAX + 1];
    struct native_done done;

    message.request = &request;
    message.key = native_bytes(in->key);
    message.value = native_bytes(in->value);
    message.expected = in->expected;
    message.ttl_ms = in->ttl_ms;
    if (in->claim) {
        message.held = native_id_bytes(&in->claim->lease_id);
        message.token = native_token(in->claim, in->key);
    }
    if (in->ttl_ms > 0) {
        message.owner = native_owner(in->owner, owner);
        message.lease_id = native_id_bytes(&in->lease_id);
    }
    native_change(
        native_of(base), call,
        &(struct native_change){NATIVE_PATH("CompareAndSet"), &message.base, &request, false},
        &done);
    return native_granted(&done, in->ttl_ms > 0, ret_grant);
}

coord_result native_remove(struct prim_backend *base, const struct prim_call *call,
                           const struct prim_delete *in)
{
    Muster__V1__DeleteRequest message = MUSTER__V1__DELETE_REQUEST__INIT;
    Muster__V1__Request request = MUSTER__V1__REQUEST__INIT;
    struct native_done done;

    message.request = &request;
    message.key = native_bytes(in->key);
    if (in->expected == COORD_ANY) {
        message.which_case = MUSTER__V1__DELETE_REQUEST__WHICH_ANY;
        message.any = true;
    } else if (in->expected == COORD_FORCE) {
        message.which_case = MUSTER__V1__DELETE_REQUEST__WHICH_FORCE;
        message.force = true;
    } else {
        message.which_case = MUSTER__V1__DELETE_REQUEST__WHICH_EXPECTED;
        message.expected = in->expected;
    }
    if (in->claim) {
        message.held = native_id_bytes(&in->claim->lease_id);
        message.token = native_token(in->claim, in->key);
    }
    native_change(native_of(base), call,
                  &(struct native_change){NATIVE_PATH("Delete"), &message.base, &request, false},
                  &done);
    return done.result; /* of a repeat, too: the server knows what the first one did */
}

coord_result native_look(struct native_backend *b, const struct prim_call *call, struct str key,
                         bool stale, struct arena *arena, int *ret_found,
                         struct native_entry *ret_entry)
{
    Muster__V1__GetRequest request = MUSTER__V1__GET_REQUEST__INIT;
    const Muster__V1__GetResponse *response;
    ProtobufCMessage *message;
    coord_result result;

    request.key = native_bytes(key);
    request.serializable = stale;
    result = native_ask(b, call->deadline_ns,
                        &(struct native_ask){.path = NATIVE_PATH("Get"),
                                             .request = &request.base,
                                             .type = &muster__v1__get_response__descriptor},
                        arena, &message);
    if (result.code != COORD_OK) return result;
    response = (const Muster__V1__GetResponse *)message;
    *ret_found = response->found;
    if (!response->found) return result;
    if (native_entry(response->entry, true, ret_entry) || !str_equal(ret_entry->key, key))
        return native_corrupt("an answer to something else");
    return result;
}

coord_result native_get(struct prim_backend *base, const struct prim_call *call, struct str key,
                        int consistency, coord_entry **ret_entry)
{
    struct native_entry entry;
    struct arena arena;
    int found = 0;
    coord_result result = native_look(native_of(base), call, key, consistency == COORD_STALE_OK,
                                      &arena, &found, &entry);

    if (result.code == COORD_OK && !found) {
        result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such entry");
    } else if (result.code == COORD_OK) {
        const coord_entry like = {.lease_id = entry.lease_id,
                                  .revision = entry.revision,
                                  .create_revision = entry.create_revision,
                                  .token = entry.token,
                                  .ttl_ms = entry.ttl_ms,
                                  .remaining_ms = entry.ttl_ms ? entry.remaining_ms : -1};
        *ret_entry = prim_entry_make(&like, entry.key, entry.value, entry.owner);
        if (!*ret_entry) result = prim_no_memory();
        result.revision = entry.revision;
        result.token = entry.token;
    }
    arena_deinit(&arena);
    return result;
}
