/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "prim/nats/store.h"

enum { BUSY_PAUSE_MS = 2, BUSY_PAUSE_MAX_MS = 50 };

/* Two machines' wall clocks: good enough for "come back in about", for nothing else. */
int64_t jet_remaining_ms(const struct jet_state *state)
{
    if (!(state->envelope.flags & ENVELOPE_LEASED) || state->stored_ms == 0) return -1;
    int64_t left = state->stored_ms + state->envelope.ttl_ms - (int64_t)prim_wall_ms();
    return left < 0 ? 0 : left > state->envelope.ttl_ms ? state->envelope.ttl_ms : left;
}

coord_result jet_corrupt(struct str key)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT,
                       "nats: %.*s holds a message that is none of ours, or damaged",
                       (int)min_size(key.len, 96), key.at);
}

coord_result jet_exists(int reason, const struct jet_state *state)
{
    coord_result result =
        prim_answer(COORD_EXISTS, reason, "held by '%.*s'", STR_ARG(state->envelope.owner));
    result.revision = state->revision;
    if (state->envelope.flags & ENVELOPE_LEASED) {
        result.token = state->token;
        result.hint_ms = jet_remaining_ms(state);
        prim_answer_owner(&result, state->envelope.owner);
    } else {
        (void)snprintf(result.text, sizeof result.text, "an entry without a lease is there");
    }
    return result;
}

bool jet_is_mine(const struct jet_state *state, const struct prim_claim *claim, uint64_t token)
{
    return state->kind == JET_LIVE && (state->envelope.flags & ENVELOPE_LEASED) != 0 &&
           prim_id_equal(&state->envelope.lease_id, &claim->lease_id) && state->token == token;
}

struct envelope jet_same(const struct jet_state *state)
{
    struct envelope same = state->envelope;
    same.revision = state->revision;
    same.token = state->token;
    same.wall_ms = prim_wall_ms();
    return same;
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
    if (err == ERR_NOMEM) return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no memory");
    if (err) return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "nats: %.120s", note.text);
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
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no memory");
    }
    coord_result result;
    natsMsg *reply = NULL;
    do { /* a server that has lost its leader says nothing at all: ask again, slowly */
        result = jet_link_request(&store->link, deadline_ns, store->get_subject, NULL, 0,
                                  buf_peek(&body), &reply);
        result.flags = 0; /* a read has no effect */
    } while (result.code == COORD_UNAVAILABLE && result.reason == COORD_R_TIMEOUT &&
             deadline_ns - prim_clock_now(&store->clock) > 1000000);
    buf_deinit(&body);
    if (result.code != COORD_OK) return result;
    result = jet_message_of(store, jet_link_body(reply), memory, ret_state);
    natsMsg_Destroy(reply);
    return result;
}

/* -- writing ---------------------------------------------------------------------------------- */

static coord_result refused(struct jet_store *store, const struct jet_error *error)
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
    /* A cluster may refuse what it has begun to store: not known. */
    return prim_unclear(error->code == 503 ? COORD_R_NO_LEADER : COORD_R_STORAGE,
                        "nats: %s (%" PRIu32 ")", error->text, error->number);
}

static coord_result acknowledged(struct jet_store *store, struct str answer, uint64_t *ret_sequence)
{
    struct jet_ack ack;
    struct note note = {""};
    enum err err = jet_decode_ack(answer, &ack, &note);
    if (err) return prim_unclear(COORD_R_STORAGE, "nats: %.120s", note.text);
    if (ack.error.code != 0) return refused(store, &ack.error);
    *ret_sequence = ack.sequence;
    return prim_ok(COORD_R_NONE);
}

coord_result jet_write(struct jet_store *store, int64_t deadline_ns, struct str key,
                       const struct envelope *envelope, uint64_t expected_sequence,
                       uint64_t *ret_sequence, int64_t *ret_sent_ns)
{
    char subject[JET_SUBJECT_CAP], expected[24], ttl[24];
    struct jet_header_line headers[2] = {{"Nats-Expected-Last-Subject-Sequence", expected},
                                         {"Nats-TTL", ttl}};
    int64_t ttl_s = 0;
    if (envelope->flags & ENVELOPE_LEASED) {
        /* C2: without the server's TTL nothing would ever end this entry. */
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
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no memory");
    }
    jet_subject_of(str_from(store->bucket), key, subject);
    (void)snprintf(expected, sizeof expected, "%" PRIu64, expected_sequence);
    (void)snprintf(ttl, sizeof ttl, "%" PRId64 "s", ttl_s);
    natsMsg *reply = NULL;
    *ret_sent_ns = prim_clock_now(&store->clock);
    coord_result result = jet_link_request(&store->link, deadline_ns, subject, headers,
                                           ttl_s > 0 ? 2 : 1, buf_peek(&bytes), &reply);
    buf_deinit(&bytes);
    if (result.code == COORD_OK) {
        result = acknowledged(store, jet_link_body(reply), ret_sequence);
        natsMsg_Destroy(reply);
    }
    return result;
}

/* -- a change --------------------------------------------------------------------------------- */

void jet_pause_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* An earlier publish of this call may have arrived: whatever came after, that stays open. */
static coord_result open_end(const struct jet_change *change, coord_result result)
{
    if (change->sent && result.code == COORD_UNAVAILABLE) result.flags = COORD_F_MAYBE_APPLIED;
    return result;
}

static coord_result granted(struct jet_change *change, const struct envelope *envelope,
                            coord_result result, uint64_t sequence, int64_t sent_ns)
{
    uint64_t revision = envelope->revision > 0 ? envelope->revision : sequence;
    uint64_t token = envelope->token > 0 ? envelope->token : revision;
    bool leased = (envelope->flags & ENVELOPE_LEASED) != 0;
    result.revision = revision;
    result.token = leased ? token : 0;
    result.granted_ttl_ms = leased ? envelope->ttl_ms : 0;
    change->grant = (struct prim_grant){.lease_id = envelope->lease_id,
                                        .token = result.token,
                                        .create_revision = token,
                                        .granted_ttl_ms = result.granted_ttl_ms,
                                        .sent_ns = sent_ns};
    return result;
}

coord_result jet_change_run(struct jet_store *store, struct jet_change *change)
{
    int64_t deadline_ns = change->call->deadline_ns;
    struct jet_state state = {.kind = JET_NOTHING};
    struct buf memory;
    coord_result result;
    buf_init(&memory, JET_ANSWER_MAX);
    int64_t busy_ms = BUSY_PAUSE_MS;
    for (uint32_t round = 0;;) {
        if (change->known != NULL) {
            state = *change->known;
            change->known = NULL;
        } else {
            result = jet_read(store, deadline_ns, change->key, &memory, &state);
            if (result.code != COORD_OK) break;
        }
        struct jet_plan plan = {.write = false};
        if (state.kind == JET_FOREIGN) {
            result = jet_corrupt(change->key);
            break;
        }
        change->decide(change, &state, &plan);
        result = plan.result;
        if (!plan.write) {
            if (result.code == COORD_OK && state.kind == JET_LIVE)
                result = granted(change, &state.envelope, result, state.sequence, change->sent_ns);
            break;
        }
        uint64_t sequence = 0;
        int64_t sent_ns = 0;
        coord_result written = jet_write(store, deadline_ns, change->key, &plan.envelope,
                                         state.sequence, &sequence, &sent_ns);
        if (written.code == COORD_OK) {
            result = granted(change, &plan.envelope, result, sequence, sent_ns);
            break;
        }
        result = written;
        bool unclear = (written.flags & COORD_F_MAYBE_APPLIED) != 0;
        if (unclear && !change->sent) {
            change->sent = true;
            change->sent_ns = sent_ns;
        }
        /* Silence is looked into at once; after a lost connection the caller backs off first. */
        if (unclear && written.reason == COORD_R_TIMEOUT) continue;
        if (written.code != COORD_CONFLICT) break;
        if (written.reason == COORD_R_NONE) { /* its outcome is seen soon, or time is up */
            jet_pause_ms(busy_ms);
            busy_ms = busy_ms * 2 < BUSY_PAUSE_MAX_MS ? busy_ms * 2 : BUSY_PAUSE_MAX_MS;
        } else if (++round == JET_ROUNDS_MAX) {
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED,
                                 "nats: others wrote this key %d times in a row", JET_ROUNDS_MAX);
            break;
        }
    }
    buf_deinit(&memory);
    return open_end(change, result);
}
