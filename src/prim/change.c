/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of change.h and the rules for entries and leases. The judge_* functions are pure:
 * they return what to write for the record that was read. Slots are in slots.c. Caller's thread.
 *
 * Invariants: a write is conditional on the record that the judge saw. The loop ends by the
 * call's deadline or after TURNS_MAX turns. No refusal is returned while a write of this request
 * may still have been applied without a trace in the record. */
#include "prim/change.h"

#include "prim/answer.h"
#include "prim/names.h"
#include "prim/thread.h"

enum { TURNS_MAX = 64, RENEW_TURNS = 4, PAUSE_STEPS = 8, NS_IN_MS = 1000000 };

/* -- what was read ---------------------------------------------------------------------------- */

bool prim_seen_is_claims(const struct prim_seen *seen, const struct prim_claim *claim,
                         struct str key)
{
    const struct prim_held *held = prim_held_of(claim, key);
    return held != NULL && seen->kind == PRIM_SEEN_LIVE && seen->token != 0 &&
           seen->token == held->token && prim_id_equal(&seen->envelope.lease_id, &claim->lease_id);
}

void prim_seen_answer(const struct prim_seen *seen, coord_result *result)
{
    result->revision = seen->revision;
    result->token = seen->token;
    if (seen->token == 0) return;
    prim_answer_owner(result, seen->envelope.owner);
    result->hint_ms = seen->left_ms;
}

coord_result prim_seen_lost(const struct prim_seen *seen, const coord_id *lease_id)
{
    coord_result result;
    switch (seen->kind) {
    case PRIM_SEEN_LIVE:
        result =
            prim_answer(COORD_EXPIRED, COORD_R_SUPERSEDED, "another lease holds the entry now");
        result.token = seen->token;
        prim_answer_owner(&result, seen->envelope.owner);
        return result;
    case PRIM_SEEN_EXPIRED:
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "the store ended it: its time was up");
    case PRIM_SEEN_TOMBSTONE:
        if (prim_id_equal(&seen->envelope.lease_id, lease_id))
            return prim_answer(COORD_EXPIRED, COORD_R_RELEASED, "the lease was released");
        if (!prim_id_is_zero(&seen->envelope.lease_id))
            return prim_answer(COORD_EXPIRED, COORD_R_SUPERSEDED,
                               "another lease held the entry since");
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "the entry was taken away by force");
    case PRIM_SEEN_FOREIGN:
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "the entry was overwritten");
    case PRIM_SEEN_NOTHING:
    case PRIM_SEEN_DELETED: break;
    }
    return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "the entry was deleted");
}

bool prim_change_is_replay(const struct prim_change *c)
{
    return c->seen.kind == PRIM_SEEN_LIVE &&
           prim_id_equal(&c->seen.envelope.request_id, &c->call->request_id);
}

static coord_result change_refused(const struct prim_change *c, int code, int reason)
{
    const char *text = reason == COORD_R_REVISION    ? "the entry has another revision"
                       : reason == COORD_R_NOT_OWNER ? "the entry is held by another lease"
                                                     : "a live entry is there";
    coord_result result = prim_answer(code, reason, "%s", text);
    prim_seen_answer(&c->seen, &result);
    return result;
}

/* -- the loop --------------------------------------------------------------------------------- */

void prim_change_doubt(struct prim_change *c, int64_t sent_ns)
{
    c->doubt = true;
    if (c->doubt_sent_ns == 0) c->doubt_sent_ns = sent_ns;
}

/* Growing random pauses keep clients that conflicted from conflicting again. */
bool prim_change_next_turn(struct prim_change *c, coord_result *ret_why)
{
    const struct prim_clock *clock = &c->backend->clock;
    uint32_t most = c->op == COORD_OP_RENEW ? RENEW_TURNS : TURNS_MAX;
    if (c->turns++ == 0 || (c->turns == 2 && c->fresh)) return true;
    int64_t steps = c->turns < PAUSE_STEPS ? c->turns : PAUSE_STEPS;
    int64_t pause_ms = 2 + (int64_t)(prim_random() % 32) * steps / 2;
    if (c->turns > most) {
        *ret_why = prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED,
                               "others wrote this key %u times in a row", (unsigned)most);
    } else if (prim_clock_now(clock) + pause_ms * NS_IN_MS >= c->call->deadline_ns) {
        *ret_why =
            prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT, "no time left for another attempt");
    } else {
        prim_thread_pause_ms(pause_ms);
        return true;
    }
    return false;
}

static coord_result change_look(struct prim_change *c)
{
    if (c->turns == 1 && c->known != NULL) {
        c->seen = *c->known;
        return prim_ok(COORD_R_NONE);
    }
    const struct prim_ways *ways = c->backend->ops->ways;
    bool fresh = c->fresh, guesses = c->guesses || (c->expected != 0 && ways->expects);
    c->fresh = false;
    if (fresh) return prim_ok(COORD_R_NONE);
    if (c->turns == 1 && guesses && ways->guess != NULL && ways->guess(c))
        return prim_ok(COORD_R_NONE);
    return ways->read(c);
}

static void change_grant(struct prim_change *c, coord_result *result, int64_t sent_ns)
{
    const struct prim_seen *seen = &c->seen;
    result->revision = seen->revision;
    result->token = seen->token;
    c->grant = (struct prim_grant){
        .token = seen->token, .create_revision = seen->create_revision, .sent_ns = sent_ns};
    if (seen->token == 0) return;
    c->grant.lease_id = seen->envelope.lease_id;
    c->grant.granted_ttl_ms = result->granted_ttl_ms = seen->ttl_ms;
}

/* False: the result is final. */
static bool change_turn(struct prim_change *c, coord_result *result)
{
    const struct prim_ways *ways = c->backend->ops->ways;
    struct prim_plan plan = {.act = PRIM_ACT_NONE};
    if (!prim_change_next_turn(c, result)) return false;
    *result = change_look(c);
    if (result->code != COORD_OK) return false;
    bool foreign = c->seen.kind == PRIM_SEEN_FOREIGN || (c->seen.barred && !c->reads);
    if (foreign && c->claim == NULL) {
        *result = ways->foreign(c);
        return false;
    }
    c->judge(c, &plan);
    if (plan.act == PRIM_ACT_NONE) {
        *result = plan.result;
        if (result->code == COORD_OK && c->seen.kind == PRIM_SEEN_LIVE)
            change_grant(c, result, c->doubt_sent_ns);
        return false;
    }
    plan.envelope.wall_ms = prim_wall_ms();
    c->act = plan.act;
    switch (ways->write(c, &plan, result)) {
    case PRIM_WROTE:
        *result = plan.result;
        change_grant(c, result, c->sent_ns);
        return false;
    case PRIM_WROTE_NOT: return false;
    case PRIM_WROTE_RACE: break;
    }
    if (!c->once || c->doubt_sent_ns != 0) return true;
    *result = prim_answer(COORD_CONFLICT, COORD_R_REVISION, "another was faster");
    return false;
}

coord_result prim_change_run(struct prim_change *c)
{
    const struct prim_ways *ways = c->backend->ops->ways;
    coord_result result;
    c->doubt = c->call->attempt > 0 && !c->reads;
    c->own = ways->begin(c);
    if (c->own == NULL) return prim_no_memory();
    while (change_turn(c, &result)) {}
    if (result.code == COORD_UNAVAILABLE && c->doubt) result.flags |= COORD_F_MAYBE_APPLIED;
    ways->end(c, &result);
    return result;
}

static coord_result change_run_grant(struct prim_change *c, struct prim_grant *ret_grant)
{
    coord_result result = prim_change_run(c);
    if (result.code == COORD_OK) *ret_grant = c->grant;
    return result;
}

/* -- judging ---------------------------------------------------------------------------------- */

static void plan_write(const struct prim_change *c, struct prim_plan *plan, enum prim_act act,
                       int reason)
{
    plan->act = act;
    plan->envelope = (struct claim_envelope){
        .request_id = c->call->request_id, .owner = STR_EMPTY, .value = STR_EMPTY};
    plan->result = prim_ok(reason);
}

static void plan_lease(const struct prim_change *c, struct prim_plan *plan,
                       const coord_id *lease_id, struct str owner, int64_t ttl_ms)
{
    const int64_t step_ms = c->backend->limits.ttl_step_ms;
    plan->envelope.flags |= ENVELOPE_LEASED;
    plan->envelope.lease_id = *lease_id;
    plan->envelope.owner = owner;
    plan->envelope.ttl_ms = (ttl_ms + step_ms - 1) / step_ms * step_ms;
}

static void plan_renewal(const struct prim_change *c, struct prim_plan *plan)
{
    plan->act = PRIM_ACT_RENEW;
    plan->envelope = c->seen.envelope; /* keeps the request id of the entry's last change */
}

/* Plans the answer to a request that was applied before. Only this call's own granting write has a
 * known send time. Otherwise the lease is renewed once: its holder must count the TTL from an
 * earlier time than contenders do. */
static void plan_replay(const struct prim_change *c, struct prim_plan *plan, bool granted_lease)
{
    bool timed = c->call->attempt == 0 && c->doubt_sent_ns != 0;
    if (granted_lease && c->seen.token != 0 && !timed) plan_renewal(c, plan);
    plan->result = prim_ok(COORD_R_REPLAYED);
}

/* True: a write in doubt may have been applied and then overwritten, so *result is unknown. */
static bool may_have_passed(const struct prim_change *c, uint64_t expected, coord_result *result)
{
    if (!c->backend->ops->ways->dense || !c->doubt || c->seen.kind == PRIM_SEEN_NOTHING ||
        c->seen.revision == expected + 1)
        return false;
    *result = prim_unclear(COORD_R_STORAGE, "the entry changed more than once meanwhile");
    return true;
}

void prim_change_judge_make(struct prim_change *c, struct prim_plan *plan)
{
    const struct prim_make *in = c->in;
    bool live = prim_seen_is_live(&c->seen);
    bool same = live && str_equal(c->seen.envelope.owner, in->owner);
    /* If only one of entry and request has a lease, another call with this id made the entry. */
    if (prim_change_is_replay(c) && (c->seen.token != 0) == (in->ttl_ms > 0)) {
        plan_replay(c, plan, true);
    } else if (live && !(in->takeover && same)) {
        bool already = same && (in->flags & ENVELOPE_SLOT);
        plan->result = change_refused(c, in->code, already ? COORD_R_ALREADY_HOLDER : in->present);
    } else {
        plan_write(c, plan, PRIM_ACT_MAKE, in->made);
        plan->envelope.flags = in->flags;
        plan->envelope.value = in->value;
        if (in->ttl_ms > 0) plan_lease(c, plan, &in->lease_id, in->owner, in->ttl_ms);
    }
}

coord_result prim_change_create(struct prim_backend *backend, const struct prim_call *call,
                                const struct prim_create *in, struct prim_grant *ret_grant)
{
    const struct prim_claim *under = in->under;
    const struct prim_make make = {.value = in->value,
                                   .owner = under != NULL ? str_from(under->owner) : in->owner,
                                   .ttl_ms = under != NULL ? under->ttl_ms : in->ttl_ms,
                                   .lease_id = under != NULL ? under->lease_id : in->lease_id,
                                   .made = COORD_R_CREATED,
                                   .code = COORD_EXISTS,
                                   .present = COORD_R_HELD};
    struct prim_change c = {.backend = backend,
                            .call = call,
                            .op = under != NULL ? COORD_OP_CREATE_UNDER : COORD_OP_CREATE,
                            .key = in->key,
                            .judge = prim_change_judge_make,
                            .in = &make,
                            .under = under,
                            .lease_id = make.ttl_ms > 0 && under == NULL ? &make.lease_id : NULL,
                            .guesses = true,
                            .makes = true};
    return change_run_grant(&c, ret_grant);
}

static void plan_update(const struct prim_change *c, struct prim_plan *plan)
{
    const struct prim_cas *in = c->in;
    const struct claim_envelope *old = &c->seen.envelope;
    plan_write(c, plan, in->ttl_ms > 0 ? PRIM_ACT_GRANT : PRIM_ACT_UPDATE, COORD_R_UPDATED);
    plan->envelope.value = in->value;
    if (in->ttl_ms > 0)
        plan_lease(c, plan, &in->lease_id, old->owner, in->ttl_ms);
    else if (in->ttl_ms == COORD_TTL_KEEP && c->seen.token != 0)
        plan_lease(c, plan, &old->lease_id, old->owner, old->ttl_ms);
}

static void judge_cas(struct prim_change *c, struct prim_plan *plan)
{
    const struct prim_cas *in = c->in;
    const struct prim_seen *seen = &c->seen;
    if (prim_change_is_replay(c)) {
        plan_replay(c, plan, in->ttl_ms > 0);
    } else if (!prim_seen_is_live(seen)) {
        if (!may_have_passed(c, in->expected, &plan->result))
            plan->result = prim_answer(COORD_CONFLICT, COORD_R_ABSENT, "no live entry is there");
    } else if (seen->revision != in->expected) {
        if (!may_have_passed(c, in->expected, &plan->result))
            plan->result = change_refused(c, COORD_CONFLICT, COORD_R_REVISION);
    } else if ((seen->token != 0 || in->ttl_ms > 0) &&
               !prim_seen_is_claims(seen, in->claim, c->key)) {
        /* For a leased entry or a new lease, the caller's claim must hold the entry. */
        plan->result = change_refused(c, COORD_CONFLICT, COORD_R_NOT_OWNER);
    } else {
        plan_update(c, plan);
    }
}

coord_result prim_change_cas(struct prim_backend *backend, const struct prim_call *call,
                             const struct prim_cas *in, struct prim_grant *ret_grant)
{
    const struct prim_make make = {.value = in->value,
                                   .owner = in->owner,
                                   .ttl_ms = in->ttl_ms > 0 ? in->ttl_ms : 0,
                                   .lease_id = in->lease_id,
                                   .made = COORD_R_CREATED,
                                   .code = COORD_CONFLICT,
                                   .present = COORD_R_PRESENT};
    struct prim_change c = {.backend = backend,
                            .call = call,
                            .op = COORD_OP_CAS,
                            .key = in->key,
                            .judge = in->expected != 0 ? judge_cas : prim_change_judge_make,
                            .in = in->expected != 0 ? (const void *)in : &make,
                            .held = in->claim,
                            .lease_id = in->ttl_ms > 0 ? &in->lease_id : NULL,
                            .expected = in->expected,
                            .guesses = in->expected == 0,
                            .makes = in->expected == 0};
    coord_result result = change_run_grant(&c, ret_grant);
    if (in->ttl_ms <= 0) ret_grant->granted_ttl_ms = 0; /* the change made no lease */
    return result;
}

static void judge_remove(struct prim_change *c, struct prim_plan *plan)
{
    const struct prim_delete *in = c->in;
    const struct prim_seen *seen = &c->seen;
    bool force = in->expected == COORD_FORCE, exact = !force && in->expected != COORD_ANY;
    bool own = prim_seen_is_claims(seen, in->claim, c->key);
    if (seen->kind == PRIM_SEEN_TOMBSTONE &&
        prim_id_equal(&seen->envelope.request_id, &c->call->request_id)) {
        plan->result = prim_ok(COORD_R_ALREADY);
        plan->result.revision = seen->revision;
    } else if (c->doubt && c->backend->ops->ways->traceless && !prim_seen_is_live(seen)) {
        plan->result = prim_ok(COORD_R_ALREADY);
    } else if (!prim_seen_is_live(seen)) {
        if (!exact || !may_have_passed(c, in->expected, &plan->result))
            plan->result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no live entry is there");
    } else if (exact && in->expected != seen->revision) {
        plan->result = change_refused(c, COORD_CONFLICT, COORD_R_REVISION);
    } else if (!force && seen->token != 0 && !own) {
        plan->result = change_refused(c, COORD_CONFLICT, COORD_R_NOT_OWNER);
    } else {
        plan_write(c, plan, PRIM_ACT_BURY, COORD_R_DELETED);
        plan->envelope.flags = ENVELOPE_TOMBSTONE;
        if (own) plan->envelope.lease_id = in->claim->lease_id;
    }
}

coord_result prim_change_remove(struct prim_backend *backend, const struct prim_call *call,
                                const struct prim_delete *in)
{
    bool exact = in->expected != COORD_ANY && in->expected != COORD_FORCE;
    struct prim_change c = {.backend = backend,
                            .call = call,
                            .op = COORD_OP_DELETE,
                            .key = in->key,
                            .judge = judge_remove,
                            .in = in,
                            .held = in->claim,
                            .expected = exact ? in->expected : 0};
    return prim_change_run(&c);
}

/* Copies the entry, because the backend's strings are valid only during the change. */
static void judge_get(struct prim_change *c, struct prim_plan *plan)
{
    const struct prim_seen *seen = &c->seen;
    coord_entry **ret_entry = c->out;
    coord_entry like = {.lease_id = seen->envelope.lease_id,
                        .revision = seen->revision,
                        .create_revision = seen->create_revision,
                        .token = seen->token,
                        .ttl_ms = seen->ttl_ms,
                        .remaining_ms = seen->left_ms};
    plan->result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no live entry is there");
    if (!prim_seen_is_live(seen)) return;
    plan->result = prim_ok(COORD_R_NONE);
    prim_seen_answer(seen, &plan->result);
    *ret_entry = prim_entry_make(&like, c->key, seen->envelope.value, seen->envelope.owner);
    if (*ret_entry == NULL) plan->result = prim_no_memory();
}

coord_result prim_change_get(struct prim_backend *backend, const struct prim_call *call,
                             struct str key, int consistency, coord_entry **ret_entry)
{
    struct prim_change c = {.backend = backend,
                            .call = call,
                            .op = COORD_OP_GET,
                            .key = key,
                            .judge = judge_get,
                            .out = ret_entry,
                            .reads = true,
                            .stale = consistency == COORD_STALE_OK};
    return prim_change_run(&c);
}

/* -- leases ----------------------------------------------------------------------------------- */

static void judge_renew(struct prim_change *c, struct prim_plan *plan)
{
    if (c->seen.barred) {
        plan->result = prim_answer(COORD_EXPIRED, COORD_R_REVOKED,
                                   "another controller coordinates by this record");
    } else if (!prim_seen_is_claims(&c->seen, c->claim, c->key)) {
        plan->result = prim_seen_lost(&c->seen, &c->claim->lease_id);
    } else {
        plan_renewal(c, plan); /* even if in doubt: only an answered renewal has a send time */
        plan->result = prim_ok(COORD_R_RENEWED);
    }
}

coord_result prim_change_renew(struct prim_backend *backend, const struct prim_call *call,
                               const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    assert(claim->count <= 1);
    if (claim->count == 0) return prim_answer(COORD_EXPIRED, COORD_R_RELEASED, "it has no key");
    struct prim_change c = {.backend = backend,
                            .call = call,
                            .op = COORD_OP_RENEW,
                            .key = str_from(claim->held[0].key),
                            .judge = judge_renew,
                            .claim = claim,
                            .guesses = true};
    coord_result result = prim_change_run(&c);
    if (result.code == COORD_OK) *ret_sent_ns = c.sent_ns;
    return result;
}

static void judge_release(struct prim_change *c, struct prim_plan *plan)
{
    if (prim_seen_is_claims(&c->seen, c->claim, c->key)) {
        plan_write(c, plan, PRIM_ACT_BURY, COORD_R_RELEASED);
        plan->envelope.flags = ENVELOPE_TOMBSTONE;
        plan->envelope.lease_id = c->claim->lease_id; /* a tombstone of a release names the lease */
        return;
    }
    plan->result = prim_seen_lost(&c->seen, &c->claim->lease_id);
    if (plan->result.reason == COORD_R_RELEASED ||
        (c->call->attempt > 0 && c->seen.kind != PRIM_SEEN_LIVE))
        plan->result = prim_ok(COORD_R_ALREADY);
}

static coord_result change_release_key(struct prim_backend *backend, const struct prim_call *call,
                                       const struct prim_claim *claim, const char *key)
{
    struct prim_change c = {.backend = backend,
                            .call = call,
                            .op = COORD_OP_RELEASE,
                            .key = str_from(key),
                            .judge = judge_release,
                            .claim = claim,
                            .guesses = true};
    return prim_change_run(&c);
}

int prim_release_rank(const coord_result *result)
{
    if (result->code == COORD_UNAVAILABLE) return 3; /* retry */
    if (result->code == COORD_OK && result->reason == COORD_R_RELEASED) return 2;
    return result->code == COORD_OK ? 1 : 0;
}

coord_result prim_change_release(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_claim *claim, const char *key)
{
    if (key != NULL) return change_release_key(backend, call, claim, key);
    coord_result all = prim_ok(COORD_R_ALREADY);
    for (size_t i = 0; i < claim->count; i++) {
        coord_result one = change_release_key(backend, call, claim, claim->held[i].key);
        if (i == 0 || prim_release_rank(&one) > prim_release_rank(&all)) all = one;
    }
    return all;
}
