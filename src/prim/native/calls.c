/* SPDX-License-Identifier: Apache-2.0 */
/* The calls on entries, leases and slots. The server recognises a repeated change and answers it
 * from a table, batches renewals, and keeps the queue of callers that wait for a slot. Caller's
 * thread. */
#include "prim/native/internal.h"

enum { LEFT_ERROR_MS = 50, ANSWER_MS = 500, HEARD_MS = 100 };
#define NO_TOKEN UINT64_MAX /* the lease has no token for that key */

/* -- changes -- */

static char *owner_text(struct str owner, char text[PRIM_OWNER_MAX + 1])
{
    assert(owner.len <= PRIM_OWNER_MAX);
    if (owner.len) memcpy(text, owner.at, owner.len);
    text[owner.len] = '\0';
    return text;
}

static uint64_t token_of(const struct prim_claim *claim, struct str key)
{
    const struct prim_held *held = prim_held_of(claim, key);

    return held ? held->token : NO_TOKEN;
}

struct change_done {
    coord_result result;
    coord_id lease_id;
    uint64_t create_revision;
    int64_t sent_ns; /* before the change was sent; 0: an earlier attempt was applied */
};

/* `part`: the request field of `message`. `waits`: for a slot. */
static struct change_done change_send(struct prim_backend *base, const struct prim_call *call,
                                      const char *path, ProtobufCMessage *message,
                                      Muster__V1__Request **part, bool waits)
{
    Muster__V1__Request request = MUSTER__V1__REQUEST__INIT;
    struct native_backend *b = native_of(base);
    struct change_done done = {.sent_ns = grpc_now(&b->grpc_thread)};
    struct native_request known;
    ProtobufCMessage *answer;
    struct arena arena;

    native_request_begin(&b->requests, call, waits, done.sent_ns, &known);
    request.client_id = native_id_bytes(&known.client);
    request.sequence = known.sequence;
    request.acked = known.acked;
    *part = &request;
    done.result = native_ask(b, call->deadline_ns,
                             &(struct native_ask){.path = path,
                                                  .request = message,
                                                  .type = &muster__v1__outcome__descriptor,
                                                  .request_of = &known,
                                                  .waits = waits},
                             &arena, &answer);
    if (done.result.code == COORD_OK) {
        const Muster__V1__Outcome *outcome = (const Muster__V1__Outcome *)answer;
        uint32_t doubt = done.result.flags & COORD_F_MAYBE_APPLIED;
        done.result = native_outcome(outcome);
        if (done.result.reason == COORD_R_OTHER_STORE) done.result = native_other_store(b);
        if (done.result.code == COORD_UNAVAILABLE) done.result.flags |= doubt;
        done.lease_id = native_id(outcome->lease_id);
        done.create_revision = outcome->create_revision;
    }
    /* A replayed change may be old, so its lease counts from the start of the call. */
    if (done.result.reason == COORD_R_REPLAYED) done.sent_ns = 0;
    native_request_end(&b->requests, &known, &done.result);
    *part = NULL;
    arena_deinit(&arena);
    return done;
}

/* UNAVAILABLE/corrupt: the answer has no valid grant. */
static coord_result grant_read(const struct change_done *done, bool leased,
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

static coord_result call_create(struct prim_backend *base, const struct prim_call *call,
                                const struct prim_create *in, struct prim_grant *ret_grant)
{
    Muster__V1__CreateRequest message = MUSTER__V1__CREATE_REQUEST__INIT;
    char owner[PRIM_OWNER_MAX + 1];
    struct change_done done;

    message.key = grpc_bytes(in->key);
    message.value = grpc_bytes(in->value);
    if (in->under) {
        message.under = native_id_bytes(&in->under->lease_id);
    } else if (in->ttl_ms > 0) {
        message.ttl_ms = in->ttl_ms;
        message.owner = owner_text(in->owner, owner);
        message.lease_id = native_id_bytes(&in->lease_id);
    }
    done = change_send(base, call, NATIVE_PATH("Create"), &message.base, &message.request, false);
    return grant_read(&done, !in->under && in->ttl_ms > 0, ret_grant);
}

static coord_result call_cas(struct prim_backend *base, const struct prim_call *call,
                             const struct prim_cas *in, struct prim_grant *ret_grant)
{
    Muster__V1__CompareAndSetRequest message = MUSTER__V1__COMPARE_AND_SET_REQUEST__INIT;
    char owner[PRIM_OWNER_MAX + 1];
    struct change_done done;

    message.key = grpc_bytes(in->key);
    message.value = grpc_bytes(in->value);
    message.expected = in->expected;
    message.ttl_ms = in->ttl_ms;
    if (in->claim) {
        message.held = native_id_bytes(&in->claim->lease_id);
        message.token = token_of(in->claim, in->key);
    }
    if (in->ttl_ms > 0) {
        message.owner = owner_text(in->owner, owner);
        message.lease_id = native_id_bytes(&in->lease_id);
    }
    done = change_send(base, call, NATIVE_PATH("CompareAndSet"), &message.base, &message.request,
                       false);
    return grant_read(&done, in->ttl_ms > 0, ret_grant);
}

static coord_result call_remove(struct prim_backend *base, const struct prim_call *call,
                                const struct prim_delete *in)
{
    Muster__V1__DeleteRequest message = MUSTER__V1__DELETE_REQUEST__INIT;

    message.key = grpc_bytes(in->key);
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
        message.token = token_of(in->claim, in->key);
    }
    /* The result is correct for a repeat, too, because the server knows the first attempt. */
    return change_send(base, call, NATIVE_PATH("Delete"), &message.base, &message.request, false)
        .result;
}

/* -- reads -- */

coord_result native_look(struct native_backend *b, const struct prim_call *call, struct str key,
                         bool stale, struct arena *arena, int *ret_found,
                         struct native_entry *ret_entry)
{
    Muster__V1__GetRequest request = MUSTER__V1__GET_REQUEST__INIT;
    const Muster__V1__GetResponse *response;
    ProtobufCMessage *message;
    coord_result result;

    request.key = grpc_bytes(key);
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

static coord_result call_get(struct prim_backend *base, const struct prim_call *call,
                             struct str key, int consistency, coord_entry **ret_entry)
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

/* -- leases -- */

static coord_result renewal_read(const Muster__V1__RenewResponse *response)
{
    const Muster__V1__Renewal *renewal = response->n_renewals == 1 ? response->renewals[0] : NULL;
    coord_result result;

    if (!renewal) return native_corrupt("an answer to other renewals");
    if (renewal->code != COORD_OK && renewal->code != COORD_EXPIRED)
        return native_corrupt("a renewal with an unknown code");
    if (renewal->code == COORD_OK && renewal->granted_ttl_ms <= 0)
        return native_corrupt("a renewal without a time");
    result = prim_answer(renewal->code, renewal->reason, "%s",
                         renewal->code == COORD_OK ? "" : "muster: the lease has ended");
    result.token = renewal->token;
    result.granted_ttl_ms = renewal->code == COORD_OK ? renewal->granted_ttl_ms : 0;
    return result;
}

/* `token` is the token of any claim under the lease. OK sets granted_ttl_ms. */
static coord_result lease_renew(struct native_backend *b, int64_t deadline_ns,
                                const coord_id *lease_id, uint64_t token, int64_t *ret_sent_ns)
{
    Muster__V1__RenewRequest request = MUSTER__V1__RENEW_REQUEST__INIT;
    ProtobufCBinaryData id = native_id_bytes(lease_id);
    ProtobufCMessage *message;
    struct arena arena;
    coord_result result;

    if (b->base.degraded)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_DEGRADED, "muster: another store answers");
    request.lease_ids = &id;
    request.tokens = &token;
    request.n_lease_ids = request.n_tokens = 1;
    *ret_sent_ns = grpc_now(&b->grpc_thread);
    result = native_ask(b, deadline_ns,
                        &(struct native_ask){.path = NATIVE_PATH("Renew"),
                                             .request = &request.base,
                                             .type = &muster__v1__renew_response__descriptor},
                        &arena, &message);
    if (result.code == COORD_OK) result = renewal_read((const Muster__V1__RenewResponse *)message);
    arena_deinit(&arena);
    return result;
}

static uint64_t first_token(const struct prim_claim *claim)
{
    return claim->count ? claim->held[0].token : NO_TOKEN;
}

/* Any token identifies the lease. If another thread has just released the first key, the last
 * key's token decides. */
static bool needs_last_token(const struct prim_claim *claim, const coord_result *result)
{
    return claim->count > 1 && result->code == COORD_EXPIRED && result->reason == COORD_R_REVOKED;
}

static coord_result claim_renew(struct native_backend *b, int64_t deadline_ns,
                                const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    coord_result result =
        lease_renew(b, deadline_ns, &claim->lease_id, first_token(claim), ret_sent_ns);

    if (!needs_last_token(claim, &result)) return result;
    return lease_renew(b, deadline_ns, &claim->lease_id, claim->held[claim->count - 1].token,
                       ret_sent_ns);
}

/* Adds the key's next holder to the result of a lost lease. */
static coord_result next_holder(struct native_backend *b, const struct prim_call *call,
                                const struct prim_claim *claim, coord_result over)
{
    struct native_entry entry;
    struct arena arena;
    int found = 0;
    coord_result result;

    if (over.code != COORD_EXPIRED || over.reason != COORD_R_DEADLINE || claim->count == 0)
        return over;
    result = native_look(b, call, str_from(claim->held[0].key), false, &arena, &found, &entry);
    if (result.code == COORD_OK && found && !prim_id_is_zero(&entry.lease_id) &&
        !prim_id_equal(&entry.lease_id, &claim->lease_id)) {
        over = prim_answer(COORD_EXPIRED, COORD_R_SUPERSEDED, "%.100s is held by %.*s",
                           claim->held[0].key, STR_ARG(entry.owner));
        over.token = entry.token;
        over.revision = entry.revision;
        prim_answer_owner(&over, entry.owner);
    }
    arena_deinit(&arena);
    return over;
}

static coord_result call_renew(struct prim_backend *base, const struct prim_call *call,
                               const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    struct native_backend *b = native_of(base);
    coord_result result = claim_renew(b, call->deadline_ns, claim, ret_sent_ns);

    if (result.code != COORD_OK) return next_holder(b, call, claim, result);
    if (result.granted_ttl_ms < claim->ttl_ms)
        return native_corrupt("renewed for less than was granted");
    result.revision = result.token = claim->count ? claim->held[0].token : 0;
    return result;
}

static coord_result release_send(struct prim_backend *base, const struct prim_call *call,
                                 const struct prim_claim *claim, const char *key, uint64_t token)
{
    Muster__V1__ReleaseRequest message = MUSTER__V1__RELEASE_REQUEST__INIT;

    message.lease_id = native_id_bytes(&claim->lease_id);
    message.token = token;
    if (key) message.key = grpc_bytes(str_from(key));
    return change_send(base, call, NATIVE_PATH("Release"), &message.base, &message.request, false)
        .result;
}

static coord_result call_release(struct prim_backend *base, const struct prim_call *call,
                                 const struct prim_claim *claim, const char *key)
{
    struct native_backend *b = native_of(base);
    uint64_t token = key ? token_of(claim, str_from(key)) : first_token(claim);
    coord_result result = release_send(base, call, claim, key, token);

    if (!key && needs_last_token(claim, &result)) {
        struct prim_call another = *call; /* another token makes another request */
        another.request_id = prim_id_request();
        result = release_send(base, &another, claim, NULL, claim->held[claim->count - 1].token);
    }
    if (result.code != COORD_EXPIRED && result.code != COORD_NOT_FOUND) return result;
    if (call->attempt > 0) return prim_ok(COORD_R_ALREADY);
    if (result.code == COORD_NOT_FOUND)
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "%.100s is not of this lease", key);
    return next_holder(b, call, claim, result);
}

/* The key is absent, so a renewal shows why. The renewal extends nothing, because a live lease
 * would have its key. */
static coord_result lost_reason(struct native_backend *b, const struct prim_call *call,
                                const struct prim_claim *claim)
{
    int64_t sent_ns;
    coord_result result = claim_renew(b, call->deadline_ns, claim, &sent_ns);

    if (result.code != COORD_OK) return next_holder(b, call, claim, result);
    return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "a key of the lease was deleted");
}

static coord_result call_adopt(struct prim_backend *base, const struct prim_call *call,
                               const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct native_backend *b = native_of(base);
    coord_result result = prim_ok(COORD_R_NONE);
    int64_t left_ms = INT64_MAX;

    for (size_t i = 0; i < claim->count && result.code == COORD_OK; i++) {
        struct native_entry entry;
        struct arena arena;
        int found = 0;

        result = native_look(b, call, str_from(claim->held[i].key), false, &arena, &found, &entry);
        if (result.code == COORD_OK) {
            if (!found || !prim_id_equal(&entry.lease_id, &claim->lease_id) ||
                entry.token != claim->held[i].token)
                result = lost_reason(b, call, claim);
            else if (entry.remaining_ms < left_ms)
                left_ms = entry.remaining_ms;
        }
        arena_deinit(&arena);
    }
    /* Subtracts the possible age of the last log entry, which a slow disk may have delayed. */
    if (left_ms > LEFT_ERROR_MS && left_ms < INT64_MAX) left_ms -= LEFT_ERROR_MS;
    if (result.code == COORD_OK) *ret_left_ms = left_ms == INT64_MAX ? -1 : left_ms;
    return result;
}

/* -- slots -- */

/* The server's wait ends before the call's deadline, so that the answer arrives in time. */
static int64_t slot_wait_ms(const struct native_backend *b, const struct prim_call *call,
                            const struct prim_acquire *in)
{
    int64_t left = (call->deadline_ns - grpc_now(&b->grpc_thread)) / (int64_t)NS_PER_MS;
    int64_t most = left / 2 > ANSWER_MS ? left - ANSWER_MS : left / 2;

    if (in->wait_ms <= 0) return 0;
    return in->wait_ms < most ? in->wait_ms : most > 0 ? most : 1;
}

/* Only the server knows when it granted the slot. A renewal shows the time left. */
static coord_result slot_confirm(struct native_backend *b, const struct prim_call *call,
                                 coord_result result, struct prim_grant *grant)
{
    int64_t sent_ns;
    coord_result renewed;

    if (grant->sent_ns + HEARD_MS * (int64_t)NS_PER_MS > grpc_now(&b->grpc_thread)) return result;
    renewed = lease_renew(b, call->deadline_ns, &grant->lease_id, grant->token, &sent_ns);
    if (renewed.code == COORD_EXPIRED)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                           "muster: a slot was given, but it was over before that was heard");
    if (renewed.code == COORD_OK) grant->sent_ns = sent_ns;
    return result;
}

static coord_result call_acquire(struct prim_backend *base, const struct prim_call *call,
                                 const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    Muster__V1__AcquireRequest message = MUSTER__V1__ACQUIRE_REQUEST__INIT;
    struct native_backend *b = native_of(base);
    char owner[PRIM_OWNER_MAX + 1];
    struct change_done done;
    coord_result result;

    message.group = grpc_bytes(in->group);
    message.slot_count = in->slot_count;
    message.flags = in->flags;
    message.prefer_slot = in->prefer_slot < PRIM_SLOTS_MAX ? (int32_t)in->prefer_slot : -1;
    message.owner = owner_text(in->owner, owner);
    message.ttl_ms = in->ttl_ms;
    message.wait_ms = slot_wait_ms(b, call, in);
    message.cooldown_ms = (uint64_t)in->cooldown_ms;
    message.value = grpc_bytes(in->value);
    message.lease_id = native_id_bytes(&in->lease_id);
    done = change_send(base, call, NATIVE_PATH("Acquire"), &message.base, &message.request,
                       in->wait_ms > 0);
    result = grant_read(&done, true, ret_grant);
    if (result.reason == COORD_R_ALREADY_HOLDER) prim_answer_owner(&result, in->owner);
    if (result.code != COORD_OK) return result;
    if (result.slot >= PRIM_SLOTS_MAX) return native_corrupt("a slot that cannot be");
    ret_grant->slot = result.slot;
    return in->wait_ms > 0 ? slot_confirm(b, call, result, ret_grant) : result;
}

static coord_result call_resize(struct prim_backend *base, const struct prim_call *call,
                                struct str group, uint64_t expected, uint32_t slot_count)
{
    Muster__V1__ResizeRequest message = MUSTER__V1__RESIZE_REQUEST__INIT;

    message.group = grpc_bytes(group);
    message.expected = expected;
    message.slot_count = slot_count;
    return change_send(base, call, NATIVE_PATH("Resize"), &message.base, &message.request, false)
        .result;
}

static bool holder_add(coord_holders *holders, const Muster__V1__Holder *row)
{
    coord_holder like = {.slot = row->slot,
                         .token = row->token,
                         .revision = row->revision,
                         .remaining_ms = row->remaining_ms < 0 ? 0 : row->remaining_ms};

    if (row->lease_id_prefix.len == sizeof like.lease_id_prefix)
        memcpy(like.lease_id_prefix, row->lease_id_prefix.data, sizeof like.lease_id_prefix);
    return prim_holders_add(holders, &like, str_from(row->owner), grpc_str(row->value));
}

/* Holders are read in pages, because the values may not fit into one answer. */
struct holders_pages {
    coord_holders *holders;
    uint64_t revision;
    uint32_t next;
};

static coord_result holders_add_page(const Muster__V1__HoldersResponse *page,
                                     struct holders_pages *all)
{
    if (!page->found) return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    if (page->slot_count == 0 || page->slot_count > PRIM_SLOTS_MAX ||
        page->n_holders > PRIM_SLOTS_MAX || (page->more && page->n_holders == 0))
        return native_corrupt("a group that cannot be");
    if (!all->holders) {
        all->holders = prim_holders_make(page->more ? PRIM_SLOTS_MAX : page->n_holders);
        if (!all->holders) return prim_no_memory();
        all->holders->atomic = 1;
        all->revision = page->revision;
    }
    for (size_t i = 0; i < page->n_holders; i++) {
        const Muster__V1__Holder *row = page->holders[i];
        if (row->slot >= PRIM_SLOTS_MAX || row->slot < all->next)
            return native_corrupt("a slot that cannot be");
        if (!holder_add(all->holders, row)) return prim_no_memory();
        all->next = row->slot + 1;
    }
    if (page->revision != all->revision) all->holders->atomic = 0;
    all->holders->slot_count = page->slot_count;
    all->holders->revision = page->group_revision;
    all->holders->cooldown_ms = (int64_t)page->cooldown_ms;
    all->holders->certainty = COORD_BY_AUTHORITY;
    return prim_ok(COORD_R_NONE);
}

static coord_result call_holders(struct prim_backend *base, const struct prim_call *call,
                                 struct str group, coord_holders **ret_holders)
{
    Muster__V1__HoldersRequest request = MUSTER__V1__HOLDERS_REQUEST__INIT;
    struct holders_pages all = {0};
    ProtobufCMessage *message;
    coord_result result;
    struct arena arena;
    bool more;

    request.group = grpc_bytes(group);
    do {
        more = false;
        request.from_slot = all.next;
        result = native_ask(native_of(base), call->deadline_ns,
                            &(struct native_ask){.path = NATIVE_PATH("Holders"),
                                                 .request = &request.base,
                                                 .type = &muster__v1__holders_response__descriptor},
                            &arena, &message);
        if (result.code == COORD_OK) {
            result = holders_add_page((const Muster__V1__HoldersResponse *)message, &all);
            more = ((const Muster__V1__HoldersResponse *)message)->more;
        }
        arena_deinit(&arena);
    } while (more && result.code == COORD_OK);
    if (result.code != COORD_OK) {
        coord_holders_free(all.holders);
        return result;
    }
    *ret_holders = all.holders;
    return result;
}

const struct prim_backend_ops native_ops = {
    .name = "muster",
    .guards_max = 64 * 1024,
    .guards_alone = 4, /* each watch is a stream */
    .capabilities = native_capabilities,
    .create = call_create,
    .cas = call_cas,
    .remove = call_remove,
    .get = call_get,
    .acquire = call_acquire,
    .resize = call_resize,
    .holders = call_holders,
    .renew = call_renew,
    .release = call_release,
    .adopt = call_adopt,
    .watch = native_watch,
    .unwatch = native_unwatch,
    .wake = native_wake,
    .close = native_close,
};
