/* SPDX-License-Identifier: Apache-2.0 */
/* One key for prim/change.h: reads the last message of the key's subject, and publishes a
 * replacement with that message's sequence. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "prim/nats/store.h"

/* Compares the wall clocks of two machines: only a hint. */
static int64_t entry_left_ms(const struct jet_state *state)
{
    int64_t ttl_ms = state->seen.ttl_ms;
    if (ttl_ms == 0 || state->stored_ms == 0) return -1;
    int64_t left = state->stored_ms + ttl_ms - (int64_t)prim_wall_ms();
    return left < 0 ? 0 : left > ttl_ms ? ttl_ms : left;
}

/* -- reading ---------------------------------------------------------------------------------- */

enum err jet_get_body(struct jet_store *store, struct str key, struct buf *out)
{
    char subject[JET_SUBJECT_CAP];
    jet_subject_of(str_from(store->bucket), key, subject);
    return buf_appendf(out, "{\"last_by_subj\":\"%s\"}", subject);
}

coord_result jet_message_of(struct jet_store *store, struct str answer, struct buf *memory,
                            struct jet_state *ret_state)
{
    struct jet_error error;
    struct note note = {""};
    enum err err = jet_decode_message(answer, memory, &error, ret_state, &note);
    if (err == ERR_NOMEM) return prim_no_memory();
    if (err) return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "nats: %.120s", note.text);
    ret_state->seen.left_ms = entry_left_ms(ret_state);
    if (error.number == JET_E_NO_MESSAGE || error.code == 0) return prim_ok(COORD_R_NONE);
    if (error.number == JET_E_NO_STREAM) jet_degrade(store, "the stream is gone");
    return prim_answer(COORD_UNAVAILABLE, error.code == 503 ? COORD_R_NO_LEADER : COORD_R_STORAGE,
                       "nats: %s (%" PRIu32 ")", error.text, error.number);
}

coord_result jet_read(struct jet_store *store, int64_t deadline_ns, struct str key,
                      struct buf *memory, struct jet_state *ret_state)
{
    struct buf body;
    buf_init(&body, 8192);
    if (jet_get_body(store, key, &body)) {
        buf_deinit(&body);
        return prim_no_memory();
    }
    coord_result result;
    natsMsg *reply = NULL;
    do { /* a server without a leader does not answer: ask again, slowly */
        result = jet_link_request(&store->link, deadline_ns, store->get_subject, NULL, 0,
                                  buf_peek(&body), &reply);
        result.flags = 0; /* a read has no effect */
    } while (result.code == COORD_UNAVAILABLE && result.reason == COORD_R_TIMEOUT &&
             deadline_ns - prim_clock_now(&store->backend.clock) > 1000000);
    buf_deinit(&body);
    if (result.code != COORD_OK) return result;
    result = jet_message_of(store, jet_link_body(reply), memory, ret_state);
    natsMsg_Destroy(reply);
    return result;
}

/* -- writing ---------------------------------------------------------------------------------- */

static coord_result entry_refused(struct jet_store *store, const struct jet_error *error)
{
    switch (error->number) {
    case JET_E_WRONG_LAST:
        return prim_answer(COORD_CONFLICT, COORD_R_REVISION, "nats: another was faster");
    case JET_E_SUBJECT_BUSY:
    case JET_E_SUBJECT_IN_WORK:
        return prim_answer(COORD_CONFLICT, COORD_R_NONE, "nats: another write is under way");
    case JET_E_TOO_MANY:
        return prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED, "nats: %s", error->text);
    case JET_E_TTL_DISABLED:
    case JET_E_TTL_INVALID:
        jet_degrade(store, "the stream does not take message TTLs any more");
        return prim_answer(COORD_UNAVAILABLE, COORD_R_DEGRADED, "nats: %s", error->text);
    default: break;
    }
    if (strstr(error->text, "maximum") != NULL || strstr(error->text, "insufficient") != NULL)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_QUOTA, "nats: %s", error->text);
    /* A cluster may refuse a message that it has begun to store. */
    return prim_unclear(error->code == 503 ? COORD_R_NO_LEADER : COORD_R_STORAGE,
                        "nats: %s (%" PRIu32 ")", error->text, error->number);
}

static coord_result acknowledged(struct jet_store *store, struct str answer, uint64_t *ret_sequence)
{
    struct jet_ack ack;
    struct note note = {""};
    enum err err = jet_decode_ack(answer, &ack, &note);
    if (err) return prim_unclear(COORD_R_STORAGE, "nats: %.120s", note.text);
    if (ack.error.code != 0) return entry_refused(store, &ack.error);
    *ret_sequence = ack.sequence;
    return prim_ok(COORD_R_NONE);
}

/* CONFLICT: another message exists or is being stored. */
static coord_result entry_publish(struct jet_store *store, struct prim_change *c,
                                  const struct claim_envelope *envelope, uint64_t *ret_sequence)
{
    char subject[JET_SUBJECT_CAP], expected[24], ttl[24];
    struct jet_header_line headers[2] = {{"Nats-Expected-Last-Subject-Sequence", expected},
                                         {"Nats-TTL", ttl}};
    int64_t ttl_s = 0;
    if (envelope->flags & ENVELOPE_LEASED) {
        /* Without the server's TTL nothing would end this entry (C2). */
        if (!store->has_ttl) {
            return prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                               "nats: a lease, on a stream that ends none");
        }
        assert(envelope->ttl_ms >= JET_TTL_MIN_MS);
        ttl_s = (envelope->ttl_ms + 999) / 1000;
    } else if ((envelope->flags & ENVELOPE_TOMBSTONE) && store->has_ttl) {
        ttl_s = JET_TOMBSTONE_TTL_S;
    }
    struct buf bytes;
    buf_init(&bytes, ENVELOPE_HEADER + PRIM_OWNER_MAX + PRIM_VALUE_MAX);
    if (envelope_encode(envelope, &bytes)) {
        buf_deinit(&bytes);
        return prim_no_memory();
    }
    jet_subject_of(str_from(store->bucket), c->key, subject);
    (void)snprintf(expected, sizeof expected, "%" PRIu64, c->seen.sequence);
    (void)snprintf(ttl, sizeof ttl, "%" PRId64 "s", ttl_s);
    natsMsg *reply = NULL;
    c->sent_ns = prim_clock_now(&store->backend.clock);
    coord_result result = jet_link_request(&store->link, c->call->deadline_ns, subject, headers,
                                           ttl_s > 0 ? 2 : 1, buf_peek(&bytes), &reply);
    buf_deinit(&bytes);
    if (result.code == COORD_OK) {
        result = acknowledged(store, jet_link_body(reply), ret_sequence);
        natsMsg_Destroy(reply);
    }
    return result;
}

static enum prim_wrote entry_write_key(struct prim_change *c, const struct prim_plan *plan,
                                       coord_result *ret_why)
{
    struct claim_envelope envelope = plan->envelope;
    uint64_t sequence = 0;
    if (plan->act == PRIM_ACT_RENEW) envelope.revision = c->seen.revision;
    if (plan->act == PRIM_ACT_RENEW || plan->act == PRIM_ACT_UPDATE)
        envelope.token = c->seen.create_revision; /* token of the grant, or creation revision */
    *ret_why = entry_publish(jet_of(c->backend), c, &envelope, &sequence);
    if (ret_why->code == COORD_OK) {
        jet_seen_of(&envelope, sequence, &c->seen);
        return PRIM_WROTE;
    }
    if (ret_why->code == COORD_CONFLICT) return PRIM_WROTE_RACE;
    if (!(ret_why->flags & COORD_F_MAYBE_APPLIED)) return PRIM_WROTE_NOT;
    prim_change_doubt(c, c->sent_ns);
    /* After a timeout the caller reads the key immediately. After a lost connection the caller
     * first waits. */
    return ret_why->reason == COORD_R_TIMEOUT ? PRIM_WROTE_RACE : PRIM_WROTE_NOT;
}

/* -- a change --------------------------------------------------------------------------------- */

/* Allocates the memory of the change's last answer. */
static void *entry_begin(struct prim_change *)
{
    struct buf *memory = malloc(sizeof *memory);
    if (memory != NULL) buf_init(memory, JET_ANSWER_MAX);
    return memory;
}

static void entry_end(struct prim_change *c, const coord_result *)
{
    buf_deinit(c->own);
    free(c->own);
}

/* Guesses that the key is absent, as a new key usually is. The server refuses a wrong guess. */
static bool entry_guess(struct prim_change *c)
{
    if (c->claim != NULL) return false;
    c->seen = (struct prim_seen){.kind = PRIM_SEEN_NOTHING, .left_ms = -1};
    return true;
}

static coord_result entry_read_key(struct prim_change *c)
{
    struct jet_state state;
    coord_result result =
        jet_read(jet_of(c->backend), c->call->deadline_ns, c->key, c->own, &state);
    if (result.code == COORD_OK) c->seen = state.seen;
    return result;
}

static coord_result entry_foreign(const struct prim_change *c)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT,
                       "nats: %.*s holds a message that is none of ours, or damaged",
                       (int)min_size(c->key.len, 96), c->key.at);
}

const struct prim_ways jet_ways = {.begin = entry_begin,
                                   .end = entry_end,
                                   .guess = entry_guess,
                                   .read = entry_read_key,
                                   .write = entry_write_key,
                                   .foreign = entry_foreign,
                                   .list = jet_list,
                                   .list_end = jet_list_end};

/* -- claims ----------------------------------------------------------------------------------- */

/* Imports a claim. The server accepts renewals for some time after the TTL, so the time left is
 * computed here, from the server's clock. The clock is read before the message: a message that is
 * stored in between only gets more time. */
coord_result jet_adopt(struct prim_backend *backend, const struct prim_call *call,
                       const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct jet_store *store = jet_of(backend);
    struct jet_state state = {.stored_ms = 0};
    struct buf memory;
    int64_t now_ms = 0;
    assert(claim->count == 1); /* CAP_MULTI_KEY is not set */
    struct str key = str_from(claim->held[0].key);
    buf_init(&memory, JET_ANSWER_MAX);
    coord_result result = jet_server_ms(store, call->deadline_ns, &now_ms);
    if (result.code == COORD_OK) result = jet_read(store, call->deadline_ns, key, &memory, &state);
    int64_t left = state.stored_ms + claim->ttl_ms - now_ms;
    if (result.code == COORD_OK && !prim_seen_is_claims(&state.seen, claim, key))
        result = prim_seen_lost(&state.seen, &claim->lease_id);
    else if (result.code == COORD_OK && left <= 0)
        result = prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "its time was over before this call");
    else if (result.code == COORD_OK)
        *ret_left_ms = left < claim->ttl_ms ? left : claim->ttl_ms;
    buf_deinit(&memory);
    return result;
}
