/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what the server and the bucket's stream support: when the store is opened, and later at
 * intervals. */
#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"
#include "prim/nats/store.h"

enum { PROBE_WAIT_MS = 5000, PROBE_LOOK_MS = 100, FORMING_PAUSE_MS = 200, CHECK_PAUSE_MS = 100 };

#define UNFIT(...) prim_answer(COORD_UNSUPPORTED, COORD_R_SERVER, "nats: " __VA_ARGS__)

static coord_result ask(struct jet_store *store, int64_t deadline_ns, const char *subject,
                        struct str body, natsMsg **ret_reply)
{
    coord_result result =
        jet_link_request(&store->link, deadline_ns, subject, NULL, 0, body, ret_reply);
    result.flags = 0;
    if (result.reason == COORD_R_NO_LEADER)
        return UNFIT("JetStream does not answer on this server");
    return result;
}

static coord_result odd(struct note *note)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "nats: %.140s", note->text);
}

/* Checks the level of the cluster's leader, which handles the requests. The server of the
 * connection may be newer. */
static coord_result check_level(struct jet_store *store, int64_t deadline_ns)
{
    struct jet_account account;
    struct note note = {""};
    natsMsg *reply = NULL;
    coord_result result = ask(store, deadline_ns, "$JS.API.INFO", STR_EMPTY, &reply);
    if (result.code != COORD_OK) return result;
    enum err err = jet_decode_account(jet_link_body(reply), &account, &note);
    natsMsg_Destroy(reply);
    if (err) return odd(&note);
    if (account.error.code != 0) return UNFIT("%s", account.error.text);
    if (account.level < 1) {
        return UNFIT(
            "the server is older than 2.11 (JetStream API level 0, needed 1): it cannot end "
            "a claim by itself");
    }
    return result;
}

/* `verb`: "INFO" or "CREATE". */
static coord_result nats_stream_stream_call(struct jet_store *store, int64_t deadline_ns,
                                            const char *verb, struct str body,
                                            struct jet_stream *stream)
{
    char subject[128];
    struct note note = {""};
    natsMsg *reply = NULL;
    (void)snprintf(subject, sizeof subject, "$JS.API.STREAM.%s.%s", verb, store->stream);
    coord_result result = ask(store, deadline_ns, subject, body, &reply);
    if (result.code != COORD_OK) return result;
    enum err err = jet_decode_stream(jet_link_body(reply), str_from(store->bucket), stream, &note);
    natsMsg_Destroy(reply);
    return err ? odd(&note) : result;
}

static coord_result info(struct jet_store *store, int64_t deadline_ns, struct jet_stream *stream)
{
    return nats_stream_stream_call(store, deadline_ns, "INFO", STR_EMPTY, stream);
}

coord_result jet_server_ms(struct jet_store *store, int64_t deadline_ns, int64_t *ret_ms)
{
    struct jet_stream stream = {.error = {0}};
    coord_result result = info(store, deadline_ns, &stream);
    if (result.code != COORD_OK) return result;
    if (stream.error.code != 0 || stream.now_ms == 0) {
        return prim_answer(COORD_UNAVAILABLE,
                           stream.error.code == 503 ? COORD_R_NO_LEADER : COORD_R_STORAGE,
                           "nats: %s", stream.error.code ? stream.error.text : "it has no time");
    }
    *ret_ms = stream.now_ms;
    return result;
}

static coord_result create(struct jet_store *store, int64_t deadline_ns, int64_t replicas,
                           struct jet_stream *stream)
{
    char body[640];
    int len =
        snprintf(body, sizeof body,
                 "{\"name\":\"%s\",\"subjects\":[\"$KV.%s.>\"],\"retention\":\"limits\","
                 "\"max_msgs_per_subject\":1,\"discard\":\"new\",\"storage\":\"file\","
                 "\"num_replicas\":%" PRId64 ",\"deny_delete\":true,"
                 "\"allow_rollup_hdrs\":true,\"allow_msg_ttl\":true,"
                 "\"subject_delete_marker_ttl\":%" PRId64 "}",
                 store->stream, store->bucket, replicas, (int64_t)JET_MARKER_TTL_S * 1000000000);
    coord_result result =
        nats_stream_stream_call(store, deadline_ns, "CREATE", str_of(body, (size_t)len), stream);
    if (result.code != COORD_OK) return result;
    /* Another opener made the stream: check it like an existing stream. */
    return stream->error.number == JET_E_STREAM_EXISTS ? info(store, deadline_ns, stream) : result;
}

/* A cluster that is forming does not answer, or reports no leader or no place for the stream. */
static bool is_forming(const coord_result *result, const struct jet_error *error)
{
    return (result->code == COORD_UNAVAILABLE && result->reason == COORD_R_TIMEOUT) ||
           (result->code == COORD_OK && (error->code == 503 || error->number == JET_E_NO_PEERS));
}

/* Finds the stream, or makes it with `replicas` replicas (0: never). */
static coord_result stream_find(struct jet_store *store, int64_t deadline_ns, int64_t replicas,
                                struct jet_stream *ret_stream)
{
    for (;;) {
        struct jet_stream stream = {.error = {0}};
        coord_result result = check_level(store, deadline_ns);
        if (result.code == COORD_OK) result = info(store, deadline_ns, &stream);
        if (result.code == COORD_OK && stream.error.number == JET_E_NO_STREAM && replicas > 0)
            result = create(store, deadline_ns, replicas, &stream);
        int64_t left_ns = deadline_ns - prim_clock_now(&store->backend.clock);
        if (!is_forming(&result, &stream.error) || left_ns < (int64_t)FORMING_PAUSE_MS * 2000000) {
            *ret_stream = stream;
            return result;
        }
        prim_thread_pause_ms(FORMING_PAUSE_MS);
    }
}

static coord_id id_of(const struct jet_store *store, const struct jet_stream *stream)
{
    char text[192];
    coord_id id = {{0}};
    int len = snprintf(text, sizeof text, "%s %s", store->stream, stream->created);
    store_le64(id.b, str_hash(str_of(text, (size_t)len), 1));
    store_le64(id.b + 8, str_hash(str_of(text, (size_t)len), 2));
    return id;
}

/* -- the probe -------------------------------------------------------------------------------- */

static coord_result probe_state(struct jet_store *store, int64_t deadline_ns, const char *body,
                                enum prim_seen_kind *ret_kind)
{
    struct jet_state state;
    struct buf memory;
    natsMsg *reply = NULL;
    coord_result result = jet_link_request(&store->link, deadline_ns, store->get_subject, NULL, 0,
                                           str_from(body), &reply);
    if (result.code != COORD_OK) return result;
    buf_init(&memory, JET_ANSWER_MAX);
    result = jet_message_of(store, jet_link_body(reply), &memory, &state);
    if (result.code == COORD_OK) *ret_kind = state.seen.kind;
    buf_deinit(&memory);
    natsMsg_Destroy(reply);
    return result;
}

/* Tests whether a message with a TTL of one second ends and leaves its marker. An existing
 * marker is proof, too, because a marker is at most 15 minutes old. No answer means not
 * supported (C3). */
static bool probe_ttl(struct jet_store *store, int64_t deadline_ns)
{
    char subject[JET_BUCKET_MAX + 16], body[JET_BUCKET_MAX + 64];
    static const struct jet_header_line ttl = {"Nats-TTL", "1s"};
    (void)snprintf(subject, sizeof subject, "$KV.%s.=probe", store->bucket);
    (void)snprintf(body, sizeof body, "{\"last_by_subj\":\"%s\"}", subject);
    int64_t until = prim_clock_now(&store->backend.clock) + (int64_t)PROBE_WAIT_MS * 1000000;
    until = until < deadline_ns ? until : deadline_ns;
    while (prim_clock_now(&store->backend.clock) < until) {
        enum prim_seen_kind kind;
        coord_result result = probe_state(store, until, body, &kind);
        if (result.code == COORD_OK && kind == PRIM_SEEN_EXPIRED) return true;
        if (result.code == COORD_OK && kind != PRIM_SEEN_FOREIGN) {
            natsMsg *reply = NULL;
            (void)jet_link_request(&store->link, until, subject, &ttl, 1, STR("probe"), &reply);
            natsMsg_Destroy(reply);
        }
        prim_thread_pause_ms(PROBE_LOOK_MS);
    }
    return false;
}

/* -- open ------------------------------------------------------------------------------------- */

static void set_caps(struct jet_store *store, const struct jet_stream *stream)
{
    coord_caps *caps = &store->caps;
    caps->bits = COORD_CAP_CREATE | COORD_CAP_CAS | COORD_CAP_STORE_ORDER | COORD_CAP_FORCE |
                 COORD_CAP_LATE_RENEWAL;
    if (store->has_ttl) caps->bits |= COORD_CAP_TTL | COORD_CAP_SLOTS;
    if (stream->replicas >= 3) caps->bits |= COORD_CAP_HA;
    if (stream->on_disk && store->durable_asserted)
        caps->bits |= COORD_CAP_DURABLE | COORD_CAP_DURABLE_LEASED;
    caps->scope = COORD_SCOPE_CLUSTER;
    caps->watch = COORD_WATCH_COALESCING;
    caps->token = COORD_TOKEN_STORE;
    caps->replay = COORD_REPLAY_LAST;
    (void)snprintf(caps->server, sizeof caps->server, "nats-server %s, %" PRIu64 " replica%s, %s",
                   stream->version[0] != '\0' ? stream->version : "2.11 or newer", stream->replicas,
                   stream->replicas == 1 ? "" : "s", stream->on_disk ? "file" : "memory");
    (void)snprintf(caps->note, sizeof caps->note, "%s%s",
                   store->has_ttl
                       ? "claims end by the servers' wall clocks: a step of them moves the end"
                       : "no claims: the stream has no message TTL, or it does not work",
                   caps->bits & COORD_CAP_DURABLE
                       ? ""
                       : "; acknowledged writes may be lost at a power cut (durable=asserted says "
                         "that sync_interval is always)");
}

coord_result jet_stream_open(struct jet_store *store, const struct prim_open *in)
{
    int64_t make = 0, replicas = 1;
    const char *durable = prim_url_param(in->url, "durable");
    coord_result result = prim_url_number(in->url, "create", 0, 1, &make);
    if (result.code == COORD_OK) result = prim_url_number(in->url, "replicas", 1, 5, &replicas);
    if (result.code != COORD_OK) return result;
    if (durable != NULL && strcmp(durable, "asserted") != 0)
        return prim_answer(COORD_INVALID, COORD_R_URL, "nats: durable is 'asserted' or not there");
    store->durable_asserted = durable != NULL;
    struct jet_stream stream;
    result = stream_find(store, in->deadline_ns, make ? replicas : 0, &stream);
    if (result.code != COORD_OK) return result;
    if (stream.error.number == JET_E_NO_STREAM)
        return UNFIT("there is no bucket '%s'; create=1 makes it", store->bucket);
    if (stream.error.code != 0) return UNFIT("%s", stream.error.text);
    if (stream.fault[0] != '\0')
        return UNFIT("bucket '%s' is not fit: %s", store->bucket, stream.fault);
    uint64_t room = (uint64_t)natsConnection_GetMaxPayload(store->link.connection);
    if (stream.message_max > 0 && stream.message_max < room) room = stream.message_max;
    const uint64_t around = ENVELOPE_HEADER + PRIM_OWNER_MAX + 256; /* headers count, too */
    if (room <= around) return UNFIT("bucket '%s': max_msg_size is too small", store->bucket);
    store->backend.id = id_of(store, &stream);
    store->has_ttl = stream.message_ttl && probe_ttl(store, in->deadline_ns);
    store->backend.limits = prim_limits(JET_TTL_MIN_MS, PRIM_CHANGE_TTL_STEP_MS,
                                        min_u64(PRIM_VALUE_MAX, room - around));
    set_caps(store, &stream);
    return result;
}

/* -- while open ------------------------------------------------------------------------------- */

void jet_degrade(struct jet_store *store, const char *why)
{
    (void)pthread_mutex_lock(&store->lock);
    store->caps.bits &= ~(COORD_CAP_TTL | COORD_CAP_SLOTS);
    if (!atomic_load(&store->backend.degraded))
        (void)snprintf(store->caps.note, sizeof store->caps.note, "degraded: %s", why);
    (void)pthread_mutex_unlock(&store->lock);
    prim_degrade(&store->backend, why);
}

static void check(struct jet_store *store)
{
    struct jet_stream stream;
    int64_t deadline_ns =
        prim_clock_now(&store->backend.clock) + (int64_t)JET_REQUEST_MS_MAX * 1000000;
    if (info(store, deadline_ns, &stream).code != COORD_OK) return;
    if (stream.error.number == JET_E_NO_STREAM) {
        jet_degrade(store, "the bucket is gone");
    } else if (stream.error.code == 0) {
        coord_id id = id_of(store, &stream);
        if (!prim_id_equal(&id, &store->backend.id))
            jet_degrade(store, "the bucket was made anew");
        else if (stream.fault[0] != '\0')
            jet_degrade(store, stream.fault);
        else if (store->has_ttl && !stream.message_ttl)
            jet_degrade(store, "the stream was edited: no message TTL any more");
    }
}

static void *stream_run(void *arg)
{
    struct jet_store *store = arg;
    while (!atomic_load(&store->closing)) {
        natsMsg *edit = NULL;
        (void)natsSubscription_NextMsg(&edit, store->edits, JET_CHECK_MS);
        natsMsg_Destroy(edit);
        if (atomic_load(&store->closing)) break;
        check(store);
        prim_thread_pause_ms(CHECK_PAUSE_MS);
    }
    nats_ReleaseThreadMemory();
    return NULL;
}

coord_result jet_check_start(struct jet_store *store)
{
    char subject[128];
    struct jet_pipe_guard guard;
    (void)snprintf(subject, sizeof subject, "$JS.EVENT.ADVISORY.STREAM.*.%s", store->stream);
    jet_pipe_guard_begin(&guard);
    natsStatus status =
        natsConnection_SubscribeSync(&store->edits, store->link.connection, subject);
    jet_pipe_guard_end(&guard);
    if (status != NATS_OK) return jet_link_failed(&store->link, status, false);
    if (prim_thread_start(&store->checker, stream_run, store)) return prim_ok(COORD_R_NONE);
    natsSubscription_Destroy(store->edits);
    store->edits = NULL;
    return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no thread");
}

void jet_check_stop(struct jet_store *store)
{
    struct jet_pipe_guard guard;
    if (store->edits == NULL) return;
    atomic_store(&store->closing, true);
    jet_pipe_guard_begin(&guard);
    (void)natsSubscription_Unsubscribe(store->edits); /* wakes the thread */
    (void)pthread_join(store->checker, NULL);
    natsSubscription_Destroy(store->edits);
    jet_pipe_guard_end(&guard);
}
