/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/nats/store.h"

static int64_t granted_ttl(int64_t ttl_ms)
{
    return (ttl_ms + JET_TTL_STEP_MS - 1) / JET_TTL_STEP_MS * JET_TTL_STEP_MS;
}

bool jet_is_replay(const struct jet_change *change, const struct jet_state *state)
{
    return prim_id_equal(&state->envelope.request_id, &change->call->request_id);
}

/* This request did it already. A lease is renewed on the way: how long ago its grant left is not
 * known, and its holder must not count from now what the server counts from then. */
void jet_replay(const struct jet_change *change, const struct jet_state *state, int first,
                struct jet_plan *plan)
{
    plan->result = prim_ok(change->sent ? first : COORD_R_REPLAYED);
    if (!change->sent && (state->envelope.flags & ENVELOPE_LEASED)) {
        plan->write = true;
        plan->envelope = jet_same(state);
    }
}

/* -- create ----------------------------------------------------------------------------------- */

struct envelope jet_new(const struct prim_call *call, struct str value, struct str owner,
                        int64_t ttl_ms, const coord_id *lease_id)
{
    struct envelope envelope = {
        .request_id = call->request_id, .wall_ms = prim_wall_ms(), .value = value};
    if (ttl_ms > 0) {
        envelope.flags = ENVELOPE_LEASED;
        envelope.lease_id = *lease_id;
        envelope.ttl_ms = granted_ttl(ttl_ms);
        envelope.owner = owner;
    }
    return envelope;
}

static void decide_create(struct jet_change *change, const struct jet_state *state,
                          struct jet_plan *plan)
{
    const struct prim_create *in = change->in;
    if (state->kind == JET_LIVE && jet_is_replay(change, state)) {
        jet_replay(change, state, COORD_R_CREATED, plan);
    } else if (state->kind == JET_LIVE) {
        plan->result = jet_exists(COORD_R_HELD, state);
    } else {
        plan->write = true;
        plan->envelope = jet_new(change->call, in->value, in->owner, in->ttl_ms, &in->lease_id);
        plan->result = prim_ok(COORD_R_CREATED);
    }
}

coord_result jet_create(struct prim_backend *backend, const struct prim_call *call,
                        const struct prim_create *in, struct prim_grant *ret_grant)
{
    /* Mostly there is nothing: the server says so itself if there is. */
    static const struct jet_state nothing = {.kind = JET_NOTHING};
    struct jet_change change = {
        .call = call, .key = in->key, .decide = decide_create, .in = in, .known = &nothing};
    coord_result result = jet_change_run(jet_of(backend), &change);
    *ret_grant = change.grant;
    return result;
}

/* -- compare and set -------------------------------------------------------------------------- */

static coord_result conflict(int reason, uint64_t revision, const char *text)
{
    coord_result result = prim_answer(COORD_CONFLICT, reason, "%s", text);
    result.revision = revision;
    return result;
}

static bool owns(const struct prim_claim *claim, struct str key, const struct jet_state *state)
{
    const struct prim_held *held = prim_held_of(claim, key);
    return held != NULL && jet_is_mine(state, claim, held->token);
}

static coord_result not_owner(const struct jet_state *state)
{
    coord_result result =
        conflict(COORD_R_NOT_OWNER, state->revision, "it is leased, and not by this lease");
    result.token = state->token;
    prim_answer_owner(&result, state->envelope.owner);
    return result;
}

static void decide_update(struct jet_change *change, const struct jet_state *state,
                          struct jet_plan *plan)
{
    const struct prim_cas *in = change->in;
    bool leased = (state->envelope.flags & ENVELOPE_LEASED) != 0;
    /* A new lease replaces the one that is shown; without one there is nothing to replace. */
    if ((leased || in->ttl_ms > 0) && !owns(in->claim, in->key, state)) {
        plan->result = not_owner(state);
        return;
    }
    plan->write = true;
    plan->result = prim_ok(COORD_R_UPDATED);
    if (in->ttl_ms > 0) {
        plan->envelope =
            jet_new(change->call, in->value, state->envelope.owner, in->ttl_ms, &in->lease_id);
        return;
    }
    plan->envelope = jet_new(change->call, in->value, STR_EMPTY, 0, NULL);
    plan->envelope.token = state->token; /* of the grant, or of the creation: neither changes */
    if (in->ttl_ms == COORD_TTL_KEEP && leased) {
        plan->envelope.flags = state->envelope.flags;
        plan->envelope.lease_id = state->envelope.lease_id;
        plan->envelope.ttl_ms = state->envelope.ttl_ms;
        plan->envelope.owner = state->envelope.owner;
    }
}

static void decide_cas(struct jet_change *change, const struct jet_state *state,
                       struct jet_plan *plan)
{
    const struct prim_cas *in = change->in;
    if (state->kind == JET_LIVE && jet_is_replay(change, state)) {
        jet_replay(change, state, in->expected == 0 ? COORD_R_CREATED : COORD_R_UPDATED, plan);
    } else if (state->kind == JET_LIVE && in->expected == 0) {
        plan->result = conflict(COORD_R_PRESENT, state->revision, "a live entry is there");
    } else if (state->kind == JET_LIVE && state->revision != in->expected) {
        plan->result = conflict(COORD_R_REVISION, state->revision, "it has another revision");
    } else if (state->kind == JET_LIVE) {
        decide_update(change, state, plan);
    } else if (in->expected != 0) {
        plan->result = conflict(COORD_R_ABSENT, 0, "no live entry is there");
    } else {
        plan->write = true;
        plan->envelope = jet_new(change->call, in->value, in->owner, in->ttl_ms, &in->lease_id);
        plan->result = prim_ok(COORD_R_CREATED);
    }
}

coord_result jet_cas(struct prim_backend *backend, const struct prim_call *call,
                     const struct prim_cas *in, struct prim_grant *ret_grant)
{
    struct jet_change change = {.call = call, .key = in->key, .decide = decide_cas, .in = in};
    coord_result result = jet_change_run(jet_of(backend), &change);
    *ret_grant = change.grant;
    /* Under the lease that was there no lease was made. */
    if (in->ttl_ms <= 0) ret_grant->granted_ttl_ms = 0;
    return result;
}

/* -- delete ----------------------------------------------------------------------------------- */

static struct envelope tombstone(const struct prim_call *call)
{
    return (struct envelope){
        .flags = ENVELOPE_TOMBSTONE, .request_id = call->request_id, .wall_ms = prim_wall_ms()};
}

static void decide_remove(struct jet_change *change, const struct jet_state *state,
                          struct jet_plan *plan)
{
    const struct prim_delete *in = change->in;
    if (state->kind == JET_TOMBSTONE && jet_is_replay(change, state)) {
        plan->result = prim_ok(change->sent ? COORD_R_DELETED : COORD_R_ALREADY);
        plan->result.revision = state->revision;
    } else if (state->kind != JET_LIVE) {
        plan->result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no live entry is there");
    } else if ((state->envelope.flags & ENVELOPE_LEASED) && in->expected != COORD_FORCE &&
               !owns(in->claim, in->key, state)) {
        plan->result = not_owner(state);
    } else if (in->expected != COORD_FORCE && in->expected != COORD_ANY &&
               in->expected != state->revision) {
        plan->result = conflict(COORD_R_REVISION, state->revision, "it has another revision");
    } else {
        plan->write = true;
        plan->envelope = tombstone(change->call);
        plan->result = prim_ok(COORD_R_DELETED);
    }
}

coord_result jet_remove(struct prim_backend *backend, const struct prim_call *call,
                        const struct prim_delete *in)
{
    struct jet_change change = {.call = call, .key = in->key, .decide = decide_remove, .in = in};
    return jet_change_run(jet_of(backend), &change);
}

coord_result jet_get(struct prim_backend *backend, const struct prim_call *call, struct str key,
                     int consistency, coord_entry **ret_entry)
{
    (void)consistency; /* the leader's answer is as cheap as a stale one */
    struct jet_state state;
    struct buf memory;
    buf_init(&memory, JET_ANSWER_MAX);
    coord_result result = jet_read(jet_of(backend), call->deadline_ns, key, &memory, &state);
    if (result.code == COORD_OK && state.kind == JET_FOREIGN) result = jet_corrupt(key);
    if (result.code == COORD_OK && state.kind != JET_LIVE)
        result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no live entry is there");
    if (result.code == COORD_OK) {
        bool leased = (state.envelope.flags & ENVELOPE_LEASED) != 0;
        coord_entry like = {.lease_id = state.envelope.lease_id,
                            .revision = state.revision,
                            .create_revision = state.token,
                            .token = leased ? state.token : 0,
                            .ttl_ms = leased ? state.envelope.ttl_ms : 0,
                            .remaining_ms = jet_remaining_ms(&state)};
        result.revision = like.revision;
        result.token = like.token;
        *ret_entry = prim_entry_make(&like, key, state.envelope.value, state.envelope.owner);
        if (*ret_entry == NULL)
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no memory");
    }
    buf_deinit(&memory);
    return result;
}

/* -- leases ----------------------------------------------------------------------------------- */

struct holding {
    const struct prim_claim *claim;
    uint64_t token;
};

/* Why the key is not this lease's any more. */
static coord_result lost(const struct jet_state *state, const coord_id *lease_id)
{
    coord_result result;
    switch (state->kind) {
    case JET_LIVE:
        result = prim_answer(COORD_EXPIRED, COORD_R_SUPERSEDED, "another lease is there");
        result.token = state->envelope.flags & ENVELOPE_LEASED ? state->token : 0;
        prim_answer_owner(&result, state->envelope.owner);
        return result;
    case JET_EXPIRED:
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "the server ended it: time was up");
    case JET_TOMBSTONE:
        if (prim_id_equal(&state->envelope.lease_id, lease_id))
            return prim_answer(COORD_EXPIRED, COORD_R_RELEASED, "this lease was released");
        break;
    default: break;
    }
    return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "the entry was deleted");
}

static void decide_renew(struct jet_change *change, const struct jet_state *state,
                         struct jet_plan *plan)
{
    const struct holding *holding = change->in;
    if (!jet_is_mine(state, holding->claim, holding->token)) {
        plan->result = lost(state, &holding->claim->lease_id);
        return;
    }
    /* Also when an earlier publish may have arrived: only an answered one has a known time. */
    plan->write = true;
    plan->envelope = jet_same(state);
    plan->result = prim_ok(COORD_R_RENEWED);
}

coord_result jet_renew(struct prim_backend *backend, const struct prim_call *call,
                       const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    coord_result result = prim_ok(COORD_R_RENEWED);
    int64_t earliest = INT64_MAX;
    for (size_t i = 0; i < claim->count && result.code == COORD_OK; i++) {
        struct holding holding = {claim, claim->held[i].token};
        struct jet_change change = {.call = call,
                                    .key = str_from(claim->held[i].key),
                                    .decide = decide_renew,
                                    .in = &holding};
        result = jet_change_run(jet_of(backend), &change);
        if (change.grant.sent_ns < earliest) earliest = change.grant.sent_ns;
    }
    if (result.code == COORD_OK) *ret_sent_ns = earliest;
    return result;
}

/* *ret_stored_ms: when its last message was stored, by the server's clock; with OK. */
static coord_result check_claim(struct jet_store *store, int64_t deadline_ns, struct str key,
                                const coord_id *lease_id, uint64_t token, int64_t *ret_stored_ms)
{
    struct prim_claim claim = {.lease_id = *lease_id};
    struct jet_state state;
    struct buf memory;
    buf_init(&memory, JET_ANSWER_MAX);
    coord_result result = jet_read(store, deadline_ns, key, &memory, &state);
    if (result.code == COORD_OK && !jet_is_mine(&state, &claim, token)) {
        result = state.kind == JET_FOREIGN
                     ? prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "the entry was overwritten")
                     : lost(&state, lease_id);
    } else if (result.code == COORD_OK) {
        *ret_stored_ms = state.stored_ms;
    }
    buf_deinit(&memory);
    return result;
}

coord_result jet_check_claim(struct jet_store *store, int64_t deadline_ns, struct str key,
                             const coord_id *lease_id, uint64_t token)
{
    int64_t stored_ms;
    return check_claim(store, deadline_ns, key, lease_id, token, &stored_ms);
}

/* The server ends a claim some time after its TTL, and until then would take a renewal. Both times
 * are the server's own; asked for first, so that a message stored meanwhile has more left. */
coord_result jet_adopt(struct prim_backend *backend, const struct prim_call *call,
                       const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct jet_store *store = jet_of(backend);
    int64_t now_ms, stored_ms = 0, least_ms = claim->ttl_ms;
    coord_result result = jet_server_ms(store, call->deadline_ns, &now_ms);
    for (size_t i = 0; i < claim->count && result.code == COORD_OK; i++) {
        result = check_claim(store, call->deadline_ns, str_from(claim->held[i].key),
                             &claim->lease_id, claim->held[i].token, &stored_ms);
        if (result.code != COORD_OK) break;
        int64_t left_ms = stored_ms + claim->ttl_ms - now_ms;
        if (left_ms < least_ms) least_ms = left_ms;
    }
    if (result.code == COORD_OK && least_ms <= 0)
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "its time was over before this call");
    *ret_left_ms = least_ms;
    return result;
}

static void decide_release(struct jet_change *change, const struct jet_state *state,
                           struct jet_plan *plan)
{
    const struct holding *holding = change->in;
    if (jet_is_mine(state, holding->claim, holding->token)) {
        plan->write = true;
        plan->envelope = tombstone(change->call);
        plan->envelope.lease_id = holding->claim->lease_id; /* a release, and of which lease */
        plan->result = prim_ok(COORD_R_RELEASED);
        return;
    }
    plan->result = lost(state, &holding->claim->lease_id);
    if (plan->result.reason == COORD_R_RELEASED) {
        bool now = change->sent && jet_is_replay(change, state);
        plan->result = prim_ok(now ? COORD_R_RELEASED : COORD_R_ALREADY);
    } else if (change->call->attempt > 0 && state->kind != JET_LIVE) {
        plan->result = prim_ok(COORD_R_ALREADY);
    }
}

coord_result jet_release(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_claim *claim, const char *key)
{
    coord_result result = prim_ok(COORD_R_ALREADY);
    for (size_t i = 0; i < claim->count; i++) {
        if (key != NULL && strcmp(key, claim->held[i].key) != 0) continue;
        struct holding holding = {claim, claim->held[i].token};
        struct jet_change change = {.call = call,
                                    .key = str_from(claim->held[i].key),
                                    .decide = decide_release,
                                    .in = &holding};
        result = jet_change_run(jet_of(backend), &change);
        if (result.code != COORD_OK) break;
    }
    return result;
}
