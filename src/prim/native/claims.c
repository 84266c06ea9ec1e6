/* SPDX-License-Identifier: Apache-2.0 */
/* What a holder does with its claim: renew, release, take up elsewhere.
 *
 * Renewals of a few milliseconds go in one call. Each counts from before it was put there. */
#include <stdlib.h>

#include "prim/native/internal.h"

enum { GATHER_MS = 4, LEFT_ERROR_MS = 50 };

struct beat { /* on the stack of who waits for it */
    struct list link;
    struct native_backend *backend;
    coord_id lease_id;
    uint64_t token;
    int64_t deadline_ns;
    coord_result result;
    struct post post;
    struct latch wait;
};
struct batch {
    struct courier_op op;
    struct native_backend *backend;
    struct list beats;
    size_t count;
};

static void gather(struct beat *beat);

/* -- one call for many -- */

static void tell(struct beat *beat, coord_result result)
{
    beat->result = result;
    latch_open(&beat->wait);
}

static coord_result judge(const Muster__V1__Renewal *renewal)
{
    coord_result result;

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

static void tell_all(struct batch *batch, const Muster__V1__RenewResponse *response,
                     const coord_result *failure)
{
    int64_t now_ns = courier_now(&batch->backend->courier);
    struct list *node;

    for (size_t i = 0; (node = list_pop(&batch->beats)); i++) {
        struct beat *beat = CONTAINER_OF(node, struct beat, link);
        bool hopeful = failure && failure->reason == COORD_R_TIMEOUT;
        if (response)
            tell(beat, judge(response->renewals[i]));
        else if (hopeful && beat->deadline_ns > now_ns) /* the time of another was over */
            gather(beat);
        else
            tell(beat, *failure);
    }
}

static void on_renewed(struct courier_op *op)
{
    struct batch *batch = CONTAINER_OF(op, struct batch, op);
    const Muster__V1__RenewResponse *response;
    coord_result failure = native_failed(batch->backend, op, false);
    ProtobufCMessage *message;
    struct arena arena;

    arena_init(&arena, 1);
    if (!op->err && native_read(buf_peek(&op->response), &muster__v1__renew_response__descriptor,
                                &arena, &message))
        op->err = ERR_CORRUPT;
    response = op->err ? NULL : (const Muster__V1__RenewResponse *)message;
    if (op->err == ERR_CORRUPT || (response && response->n_renewals != batch->count)) {
        failure = native_corrupt("an answer to other renewals");
        response = NULL;
    }
    tell_all(batch, response, &failure);
    arena_deinit(&arena);
    courier_op_deinit(op);
    free(batch);
}

static enum err encode(struct batch *batch)
{
    Muster__V1__RenewRequest request = MUSTER__V1__RENEW_REQUEST__INIT;
    ProtobufCBinaryData ids[NATIVE_RENEW_MAX];
    uint64_t tokens[NATIVE_RENEW_MAX];

    request.lease_ids = ids;
    request.tokens = tokens;
    LIST_EACH(&batch->beats, node)
    {
        struct beat *beat = CONTAINER_OF(node, struct beat, link);
        tokens[request.n_tokens++] = beat->token;
        ids[request.n_lease_ids++] = native_id_bytes(&beat->lease_id);
        batch->op.deadline_ns =
            beat->deadline_ns < batch->op.deadline_ns ? beat->deadline_ns : batch->op.deadline_ns;
    }
    batch->count = request.n_lease_ids;
    return native_write(batch->backend, &request.base, &batch->op.request);
}

static void flush(struct native_backend *b)
{
    struct batch *batch;
    const coord_result no_memory = prim_no_memory();
    struct list beats;

    timer_stop(&b->beats.due);
    if (b->beats.count == 0) return;
    list_init(&beats);
    list_splice(&beats, &b->beats.fresh);
    b->beats.count = 0;
    batch = calloc(1, sizeof *batch);
    if (!batch) {
        for (struct list *node; (node = list_pop(&beats));)
            tell(CONTAINER_OF(node, struct beat, link), no_memory);
        return;
    }
    batch->backend = b;
    list_init(&batch->beats);
    list_splice(&batch->beats, &beats);
    native_op_init(&batch->op, NATIVE_PATH("Renew"), INT64_MAX);
    batch->op.done = on_renewed;
    if (encode(batch)) {
        tell_all(batch, NULL, &no_memory);
        courier_op_deinit(&batch->op);
        free(batch);
        return;
    }
    courier_op_start(&b->courier, &batch->op);
}

static void on_due(struct timer *timer)
{
    flush(CONTAINER_OF(timer, struct native_backend, beats.due));
}

static void gather(struct beat *beat)
{
    struct native_backend *b = beat->backend;

    list_append(&b->beats.fresh, &beat->link);
    if (++b->beats.count == NATIVE_RENEW_MAX)
        flush(b);
    else if (!timer_running(&b->beats.due))
        timer_start_in(&b->beats.due, GATHER_MS);
}

static void on_beat(struct post *post)
{
    gather(CONTAINER_OF(post, struct beat, post));
}

enum err native_beats_setup(struct native_backend *b)
{
    list_init(&b->beats.fresh);
    return timer_init(&b->beats.due, courier_loop(&b->courier), on_due);
}

void native_beats_teardown(struct native_backend *b)
{
    assert(b->beats.count == 0);
    timer_deinit(&b->beats.due);
}

coord_result native_beat(struct native_backend *b, int64_t deadline_ns, const coord_id *lease_id,
                         uint64_t token, int64_t *ret_sent_ns)
{
    struct beat beat = {
        .backend = b, .lease_id = *lease_id, .token = token, .deadline_ns = deadline_ns};
    int64_t sent_ns = courier_now(&b->courier);

    if (b->degraded)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_DEGRADED, "muster: another store answers");
    list_init(&beat.link);
    latch_init(&beat.wait);
    post_init(&beat.post, on_beat);
    loop_post(courier_loop(&b->courier), &beat.post);
    latch_wait(&beat.wait);
    *ret_sent_ns = sent_ns;
    return beat.result;
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
