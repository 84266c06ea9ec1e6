/* SPDX-License-Identifier: Apache-2.0 */
/* What a holder does with its claim: renew, release, take up elsewhere. The server gathers renewals
 * of all its clients itself. */
#include "prim/native/internal.h"

enum { LEFT_ERROR_MS = 50 };

static coord_result judge(const Muster__V1__RenewResponse *response)
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

coord_result native_beat(struct native_backend *b, int64_t deadline_ns, const coord_id *lease_id,
                         uint64_t token, int64_t *ret_sent_ns)
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
    *ret_sent_ns = courier_now(&b->courier);
    result = native_ask(b, deadline_ns,
                        &(struct native_ask){.path = NATIVE_PATH("Renew"),
                                             .request = &request.base,
                                             .type = &muster__v1__renew_response__descriptor},
                        &arena, &message);
    if (result.code == COORD_OK) result = judge((const Muster__V1__RenewResponse *)message);
    arena_deinit(&arena);
    return result;
}

/* -- the claim -- */

static uint64_t first_token(const struct prim_claim *claim)
{
    return claim->count ? claim->held[0].token : NATIVE_NO_TOKEN;
}

/* The lease as a whole is known by any token of it. Another thread may just have released the first
 * key: then the last one decides. */
static bool needs_last_token(const struct prim_claim *claim, const coord_result *result)
{
    return claim->count > 1 && result->code == COORD_EXPIRED && result->reason == COORD_R_REVOKED;
}

static coord_result beat_claim(struct native_backend *b, int64_t deadline_ns,
                               const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    coord_result result =
        native_beat(b, deadline_ns, &claim->lease_id, first_token(claim), ret_sent_ns);

    if (!needs_last_token(claim, &result)) return result;
    return native_beat(b, deadline_ns, &claim->lease_id, claim->held[claim->count - 1].token,
                       ret_sent_ns);
}

/* The store knows that the lease is over, not who came after: the key does. */
static coord_result who_came_after(struct native_backend *b, const struct prim_call *call,
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

coord_result native_renew(struct prim_backend *base, const struct prim_call *call,
                          const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    struct native_backend *b = native_of(base);
    coord_result result = beat_claim(b, call->deadline_ns, claim, ret_sent_ns);

    if (result.code != COORD_OK) return who_came_after(b, call, claim, result);
    if (result.granted_ttl_ms < claim->ttl_ms)
        return native_corrupt("renewed for less than was granted");
    result.revision = result.token = claim->count ? claim->held[0].token : 0;
    return result;
}

static coord_result release(struct native_backend *b, const struct prim_call *call,
                            const struct prim_claim *claim, const char *key, uint64_t token)
{
    Muster__V1__ReleaseRequest message = MUSTER__V1__RELEASE_REQUEST__INIT;
    Muster__V1__Request request = MUSTER__V1__REQUEST__INIT;
    struct native_done done;

    message.request = &request;
    message.lease_id = native_id_bytes(&claim->lease_id);
    message.token = token;
    if (key) message.key = native_bytes(str_from(key));
    native_change(b, call,
                  &(struct native_change){NATIVE_PATH("Release"), &message.base, &request, false},
                  &done);
    return done.result;
}

coord_result native_release(struct prim_backend *base, const struct prim_call *call,
                            const struct prim_claim *claim, const char *key)
{
    struct native_backend *b = native_of(base);
    uint64_t token = key ? native_token(claim, str_from(key)) : first_token(claim);
    coord_result result = release(b, call, claim, key, token);

    if (!key && needs_last_token(claim, &result)) {
        struct prim_call another = *call; /* with another token it is another request */
        another.request_id = prim_id_request();
        result = release(b, &another, claim, NULL, claim->held[claim->count - 1].token);
    }
    if (result.code != COORD_EXPIRED && result.code != COORD_NOT_FOUND) return result;
    if (call->attempt > 0) return prim_ok(COORD_R_ALREADY);
    if (result.code == COORD_NOT_FOUND)
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "%.100s is not of this lease", key);
    return who_came_after(b, call, claim, result);
}

/* Absent: only the lease itself can say why. It does not live on by being asked, since it would
 * have its key. */
static coord_result why_gone(struct native_backend *b, const struct prim_call *call,
                             const struct prim_claim *claim)
{
    int64_t sent_ns;
    coord_result result = beat_claim(b, call->deadline_ns, claim, &sent_ns);

    if (result.code != COORD_OK) return who_came_after(b, call, claim, result);
    return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "a key of the lease was deleted");
}

coord_result native_adopt(struct prim_backend *base, const struct prim_call *call,
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
                result = why_gone(b, call, claim);
            else if (entry.remaining_ms < left_ms)
                left_ms = entry.remaining_ms;
        }
        arena_deinit(&arena);
    }
    /* What is left of it there, less what a slow disk may have hidden of the last entry's age. */
    if (left_ms > LEFT_ERROR_MS && left_ms < INT64_MAX) left_ms -= LEFT_ERROR_MS;
    if (result.code == COORD_OK) *ret_left_ms = left_ms == INT64_MAX ? -1 : left_ms;
    return result;
}
