/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking channel: turns its loop until the answer is there, tries again while there is no
 * leader, and describes errors in words. One thread. */
#include "ctl/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/real.h"
#include "rpc/client.h"
#include "rpc/retry.h"
#include "wire/grpc.h"

enum {
    REACH_MS = 1900,         /* REACH_MS: default time for dialing all addresses */
    SLOW_MS = REACH_MS + 50, /* SLOW_MS: when a person reads why an answer takes longer */
    SLOW_TIMEOUT_MS = 2 * SLOW_MS,
    DIAL_MS_MIN = 250,
    DIAL_MS_MAX = 30000,
    ATTEMPTS_MAX = 6, /* tries in a row, then a new search for the leader */
    LEADER_WAIT_MS = 100,
    PING_AFTER_MS = 10000, /* pings detect a dead peer, as streams have no deadline */
    PING_TIMEOUT_MS = 10000,
    REQUEST_MAX = 16 * 1024 * 1024,
    MESSAGE_MEMORY_MAX = 64 * 1024 * 1024, /* bytes of memory for a decoded stream message */
    WHERE_CAP = 160,
    WHERE_NAMED = 3,
    TRIED_MAX = 5, /* limit of addresses whose failures are named */
    TRIED_CAP = 96,
};

struct callee { /* in words */
    const char *who, *option, *look, *refused;
};
static const struct callee callees[] = {
    [REMOTE_COORDINATOR] = {"coordinator", "--coordinator", "--coordinator says where to look",
                            "is one running there? --coordinator says where to look"},
    [REMOTE_SHARD] = {"shard", "--shard", "--shard says where to look",
                      "is one running there? --shard says where to look"},
};

struct remote {
    const struct callee *callee;
    struct real_io *real;
    struct tls_context *tls;
    struct rpc_channel *channel;
    struct timer timer, slow;
    const struct answer *asking; /* the call that `slow` explains to the user */
    char request_id[REMOTE_REQUEST_ID_CAP];
    char where[WHERE_CAP];
    struct {
        char address[RPC_ADDRESS_CAP], why[TRIED_CAP];
    } tried[TRIED_MAX]; /* addresses whose last dial failed */
    size_t tried_count, address_count;
    uint64_t timeout_ms;
    bool reach_only; /* without --timeout only dialing is limited */
    bool woken, closed;
};

/* One call's state and result. */
struct answer {
    struct remote *remote;
    const struct remote_method *method;
    struct arena *arena;
    ProtobufCMessage *message;
    /* streams */
    remote_message_fn *each;
    void *owner;
    uint64_t messages;
    enum err refused; /* error of `each`, or of an unreadable message */
    /* the end */
    bool over, answered, refused_once; /* refused_once: a replica said that it does not lead */
    enum err err;
    enum grpc_status status;
    char peer[RPC_ADDRESS_CAP];
    struct note text;
};

/* -- opening -- */

uint64_t remote_dial_ms(const struct conf *conf, size_t among)
{
    uint64_t timeout_ms = conf_number(conf, "timeout");
    uint64_t share = conf_source(conf, "timeout") == CONF_DEFAULT
                         ? min_u64(REACH_MS, timeout_ms) / among
                         : timeout_ms / (among + 1);

    return min_u64(DIAL_MS_MAX, max_u64(DIAL_MS_MIN, share));
}

static void remote_put_where(struct remote *remote, const struct str *addresses, size_t count)
{
    size_t used = 0;

    for (size_t i = 0; i < count && i < WHERE_NAMED; i++)
        used += (size_t)snprintf(remote->where + used, sizeof remote->where - used, "%s%.*s",
                                 i > 0 ? ", " : "", (int)min_size(addresses[i].len, 40),
                                 addresses[i].at);
    if (count > WHERE_NAMED)
        snprintf(remote->where + used, sizeof remote->where - used, " and %zu more",
                 count - WHERE_NAMED);
}

enum err remote_tls_open(const struct conf *conf, struct tls_context **ret_tls, struct note *note)
{
    static const char *const names[] = {"tls.cert-file", "tls.key-file", "tls.ca-file"};
    const char *files[ARRAY_LEN(names)];
    size_t given = 0, missing = 0;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        files[i] = conf_text(conf, names[i]);
        if (files[i])
            given++;
        else
            missing = i;
    }
    if (given == 0) {
        *ret_tls = NULL;
        return ERR_OK;
    }
    if (given < ARRAY_LEN(names))
        return note_fail(note, ERR_INVALID,
                         "--tls-cert, --tls-key and --tls-ca belong together; %s is missing",
                         names[missing]);
    const struct tls_options options = {
        .side = TLS_CLIENT,
        .version_min = TLS_V1_3,
        .cert_file = files[0],
        .key_file = files[1],
        .ca_files = {files[2]},
        .alpn = {"h2"},
    };
    return tls_context_open(fs_real(), &options, ret_tls, note);
}

static void remote_on_timer(struct timer *timer)
{
    CONTAINER_OF(timer, struct remote, timer)->woken = true;
}

/* Shows a person who has waited for 2 s why the command goes on waiting. */
static void remote_on_slow(struct timer *timer)
{
    const struct remote *remote = CONTAINER_OF(timer, struct remote, slow);
    const struct answer *a = remote->asking;

    if (a->each && !a->refused_once) return; /* a quiet stream is no fault */
    fprintf(stderr, "%s at %s; waiting up to %" PRIu64 " ms (--timeout)\n",
            a->refused_once ? "no leader yet" : "no answer yet", remote->where, remote->timeout_ms);
}

static enum err remote_settle_request_id(struct remote *remote, const char *given,
                                         struct note *note)
{
    if (!given) {
        snprintf(remote->request_id, sizeof remote->request_id, "%016" PRIx64 "%016" PRIx64,
                 entropy_u64(entropy_real()), entropy_u64(entropy_real()));
        return ERR_OK;
    }
    for (const char *c = given; *c; c++) {
        if (*c > ' ' && *c <= '~' && c - given < REMOTE_REQUEST_ID_CAP - 1) continue;
        return note_fail(note, ERR_INVALID, "--request-id: up to %d visible ASCII characters",
                         REMOTE_REQUEST_ID_CAP - 1);
    }
    snprintf(remote->request_id, sizeof remote->request_id, "%s", given);
    return ERR_OK;
}

/* `why` is "ADDRESS: dial ADDRESS: connection refused"; keeps the last part. */
static void remote_on_dial_failed(void *owner, const char *address, const struct note *why)
{
    struct remote *remote = owner;
    const char *text = why->text, *at;
    size_t i = 0;

    while ((at = strstr(text, address)) && str_starts(str_from(at + strlen(address)), STR(": ")))
        text = at + strlen(address) + 2;
    while (i < remote->tried_count && strcmp(remote->tried[i].address, address) != 0) i++;
    if (i == TRIED_MAX) return;
    remote->tried_count = max_size(remote->tried_count, i + 1);
    snprintf(remote->tried[i].address, sizeof remote->tried[i].address, "%s", address);
    snprintf(remote->tried[i].why, sizeof remote->tried[i].why, "%.*s", TRIED_CAP - 1,
             *text ? text : "it closed the connection; is this the gRPC port, not that of Raft?");
}

static enum err remote_open_channel(struct remote *remote, const struct str *addresses,
                                    size_t count, uint64_t dial_ms, bool follow, struct note *note)
{
    const char *list[OPTION_LIST_MAX + 1] = {NULL};

    for (size_t i = 0; i < count; i++) {
        list[i] = addresses[i].at; /* each address ends with a NUL */
        if (str_ends(addresses[i], STR(":0")))
            return note_fail(note, ERR_INVALID, "%s: %s: port 0 cannot be dialed",
                             remote->callee->option, list[i]);
    }
    const struct rpc_channel_options options = {
        .io = real_io_io(remote->real),
        .addresses = list,
        .tls = remote->tls,
        .follow_leader = follow,
        .backoff_first_ms = REMOTE_BACKOFF_FIRST_MS,
        .backoff_max_ms = REMOTE_BACKOFF_MAX_MS,
        .dial_timeout_ms = dial_ms,
        .on_dial_failed = remote_on_dial_failed,
        .owner = remote,
        .ping_after_ms = PING_AFTER_MS,
        .ping_timeout_ms = PING_TIMEOUT_MS,
    };
    enum err err = rpc_channel_open(&options, &remote->channel, note);

    if (err) note_prefix(note, "%s", remote->callee->option);
    return err;
}

/* `among` 0: any address leads to the leader. */
static enum err remote_open_with(const struct conf *conf, enum remote_callee callee,
                                 const char *request_id, const struct str *addresses, size_t count,
                                 size_t among, struct remote **ret_remote, struct note *note)
{
    struct remote *remote = calloc(1, sizeof *remote);
    enum err err;

    if (!remote) return ERR_NOMEM;
    remote->callee = &callees[callee];
    remote->timeout_ms = conf_number(conf, "timeout");
    remote->reach_only = conf_source(conf, "timeout") == CONF_DEFAULT;
    remote->address_count = count;
    remote_put_where(remote, addresses, count);
    err = remote_settle_request_id(remote, request_id, note);
    if (!err) err = remote_tls_open(conf, &remote->tls, note);
    if (!err) err = real_io_open(&remote->real);
    if (!err) err = timer_init(&remote->timer, real_io_io(remote->real)->loop, remote_on_timer);
    if (!err) err = timer_init(&remote->slow, real_io_io(remote->real)->loop, remote_on_slow);
    if (!err)
        err = remote_open_channel(remote, addresses, count,
                                  remote_dial_ms(conf, among ? among : max_size(count, 1)),
                                  among == 0, note);
    if (err)
        remote_close(remote);
    else
        *ret_remote = remote;
    return err;
}

enum err remote_open(const struct conf *conf, const char *request_id, struct remote **ret_remote,
                     struct note *note)
{
    struct option_value list = conf_list(conf, "coordinator");

    return remote_open_with(conf, REMOTE_COORDINATOR, request_id, list.items, list.item_count, 0,
                            ret_remote, note);
}

enum err remote_open_at(const struct conf *conf, enum remote_callee callee, const char *address,
                        size_t among, struct remote **ret_remote, struct note *note)
{
    struct str one = str_from(address);

    return remote_open_with(conf, callee, NULL, &one, 1, among, ret_remote, note);
}

static void remote_on_closed(void *owner)
{
    ((struct remote *)owner)->closed = true;
}

void remote_close(struct remote *remote)
{
    if (!remote) return;
    if (remote->channel) {
        rpc_channel_close(remote->channel, remote_on_closed, remote);
        while (!remote->closed) real_io_turn(remote->real, true);
    }
    timer_deinit(&remote->timer);
    timer_deinit(&remote->slow);
    real_io_close(remote->real);
    tls_context_unref(remote->tls);
    free(remote);
}

const char *remote_request_id(const struct remote *remote)
{
    return remote->request_id;
}

/* -- words -- */

static const char *remote_text_or_status(const struct answer *a)
{
    return a->text.text[0] ? a->text.text : grpc_status_name(a->status);
}

/* Appends "A (connection refused), B (the server did not speak within 633 ms)" to the note. */
static void remote_say_tried(const struct remote *remote, const struct answer *a, struct note *note)
{
    for (size_t i = 0; i < remote->tried_count; i++) {
        struct note before = *note;
        note_set(note, "%s%s%s (%s)", before.text, i ? ", " : "", remote->tried[i].address,
                 remote->tried[i].why);
    }
    if (!remote->tried_count)
        note_set(note, "%s (%s)", remote->where, remote_text_or_status(a));
    else if (remote->address_count > TRIED_MAX) {
        struct note before = *note;
        note_set(note, "%s and %zu more", before.text, remote->address_count - TRIED_MAX);
    }
}

static void remote_say_unavailable(const struct remote *remote, const struct answer *a,
                                   struct note *note)
{
    struct note tried = {""};
    const char *advice = "if it speaks TLS give --tls-cert, --tls-key and --tls-ca";

    remote_say_tried(remote, a, &tried);
    if (strstr(tried.text, "speaks HTTP/1.1"))
        advice = remote->callee->look;
    else if (strstr(tried.text, "connection refused"))
        advice = remote->callee->refused;
    else if (remote->tls)
        advice = "--tls-cert, --tls-key and --tls-ca must be of its authority";
    note_set(note, "no %s answers at %s; %s%s", remote->callee->who, tried.text, advice,
             remote->reach_only && strstr(tried.text, " within ") ? "; --timeout waits longer"
                                                                  : "");
}

static void remote_say_unknown(const struct remote *remote, const struct answer *a,
                               struct note *note)
{
    note_set(note, "it is not known whether this was done (%s); look with: %s",
             remote_text_or_status(a), a->method->look);
    if (a->method->kind != REMOTE_WRITE) return;
    struct note how = *note;
    note_set(note, "%s; or repeat it with --request-id %s, which does it once", how.text,
             remote->request_id);
}

static void remote_say_unsupported(const struct remote *remote, const struct answer *a,
                                   struct note *note)
{
    const char *peer = a->peer[0] ? a->peer : remote->where, *path = a->method->path;
    const char *name = strrchr(path, '/') + 1;

    /* Without a [transport] section this service has no methods; older releases lack some
     * methods. */
    if (str_starts(str_from(path), STR(MEMBERSHIP_PATH)))
        note_set(note,
                 "%s does not serve workers: its configuration has no [transport] section (muster "
                 "help coordinator run); or it is of an older release, without %s",
                 peer, name);
    else
        note_set(note,
                 "%s does not implement %s (%s); is it the gRPC port of a %s of this release?",
                 peer, name, remote_text_or_status(a), remote->callee->who);
}

static enum err remote_in_words(const struct remote *remote, struct answer *a, struct note *note)
{
    /* A read changes nothing, so its outcome is never unknown. */
    if (a->err == ERR_UNKNOWN && a->method->kind == REMOTE_READ) {
        a->err = retry_err_from_status(a->status);
        if (a->err == ERR_UNKNOWN || a->err == ERR_OK) a->err = ERR_UNAVAILABLE;
    }
    switch (a->err) {
    case ERR_UNKNOWN: remote_say_unknown(remote, a, note); break;
    case ERR_NOT_LEADER:
        note_set(
            note,
            "no leader (%s): an election may be under way; try again, or give every replica to "
            "--coordinator. Asked %s",
            remote_text_or_status(a), remote->where);
        break;
    case ERR_UNSUPPORTED: remote_say_unsupported(remote, a, note); break;
    case ERR_TIMEOUT:
        note_set(note, "no answer within %" PRIu64 " ms, and nothing was done; tried %s",
                 remote->timeout_ms, remote->where);
        break;
    default:
        if (a->answered)
            note_set(note, "%s (%s from %s)", remote_text_or_status(a), grpc_status_name(a->status),
                     a->peer[0] ? a->peer : remote->where);
        else if (a->err == ERR_UNAVAILABLE)
            remote_say_unavailable(remote, a, note);
        else
            note_set(note, "%s: %s", remote->where, remote_text_or_status(a));
    }
    return a->err;
}

/* -- calls -- */

static void remote_take_outcome(struct answer *a, const struct rpc_outcome *outcome)
{
    a->over = true;
    a->err = outcome->err;
    a->status = outcome->status;
    a->answered = outcome->answered;
    snprintf(a->peer, sizeof a->peer, "%s", rpc_channel_peer(a->remote->channel));
    note_set(&a->text, "%.*s", (int)min_size(outcome->text.len, NOTE_CAP), outcome->text.at);
}

/* Handles an unreadable answer with the status OK. A write that got such an answer was done. */
static void remote_take_unreadable(struct answer *a, enum err err, const struct note *why)
{
    if (err == ERR_NOMEM)
        a->err = err;
    else
        a->err = a->method->kind == REMOTE_READ ? ERR_INTERNAL : ERR_UNKNOWN;
    a->answered = false;
    note_set(&a->text, "the answer cannot be read: %s", why->text[0] ? why->text : err_text(err));
}

static void remote_on_unary(void *owner, const struct rpc_client_call *,
                            const struct rpc_outcome *outcome, struct str message)
{
    struct answer *a = owner;
    struct note why = {""};
    enum err err;

    remote_take_outcome(a, outcome);
    if (a->err) return;
    err = message_read(a->method->answer, message, NULL, a->arena, &a->message, &why);
    if (err) remote_take_unreadable(a, err, &why);
}

static void remote_wait_for(struct remote *remote, uint64_t ms)
{
    remote->woken = false;
    timer_start_in(&remote->timer, ms);
    while (!remote->woken) real_io_turn(remote->real, true);
}

/* BigFleet's coordinators answer "not leader" and name no leader, so the next address is tried. */
static void remote_understand_original(struct answer *a)
{
    if (a->err != ERR_PRECONDITION || !str_ends(str_from(a->text.text), STR("not leader"))) return;
    a->err = ERR_NOT_LEADER;
    rpc_channel_next_address(a->remote->channel);
}

/* -- streams -- */

static void remote_on_stream_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    struct answer *a = owner;
    ProtobufCMessage *message;
    struct arena arena;

    if (a->refused) return;
    a->messages++;
    arena_init(&arena, MESSAGE_MEMORY_MAX);
    a->refused = message_read(a->method->answer, bytes, NULL, &arena, &message, &a->text);
    if (!a->refused) a->refused = a->each(a->owner, message, &a->text);
    arena_deinit(&arena);
    if (a->refused) rpc_call_cancel(call);
}

static void remote_on_stream_end(void *owner, struct rpc_client_call *,
                                 const struct rpc_outcome *outcome)
{
    struct answer *a = owner;
    struct note kept = a->text;

    remote_take_outcome(a, outcome);
    if (!a->refused) return;
    a->err = a->refused;
    a->answered = false;
    a->text = kept;
}

static enum err remote_begin_stream(struct answer *a, const struct rpc_call_options *options,
                                    struct str request)
{
    static const struct rpc_call_events events = {.on_message = remote_on_stream_message,
                                                  .on_end = remote_on_stream_end};
    struct rpc_client_call *call;
    enum err err = rpc_call_start(a->remote->channel, options, &events, a, &call);

    if (!err) err = rpc_call_send(call, request);
    if (!err) rpc_call_end(call);
    return err;
}

/* -- both -- */

static void remote_ask_once(struct answer *a, struct str request, uint64_t left_ms)
{
    struct remote *remote = a->remote;
    const struct rpc_call_options options = {
        .path = a->method->path,
        .timeout_ms = a->each ? 0 : left_ms,
        .request_id = a->method->kind == REMOTE_WRITE ? str_from(remote->request_id) : STR_EMPTY,
        .dedups_by_request_id = a->method->kind == REMOTE_WRITE,
        .idempotent = a->method->kind == REMOTE_READ,
        .response_max = REMOTE_RESPONSE_MAX,
        .attempts_max = ATTEMPTS_MAX,
    };

    a->over = false;
    a->err = a->each ? remote_begin_stream(a, &options, request)
                     : rpc_unary(remote->channel, &options, request, remote_on_unary, a, NULL);
    if (a->err) {
        note_set(&a->text, "%s", err_text(a->err));
        return;
    }
    while (!a->over) real_io_turn(remote->real, true);
    remote_understand_original(a);
}

/* "not leader" means that nothing was done, so the request is sent again. A stream is not restarted
 * after its first message. */
static void remote_ask(struct answer *a, struct str request)
{
    struct remote *remote = a->remote;
    mono_time deadline = mono_after(clock_mono(clock_real()), remote->timeout_ms);
    struct answer refused = {0};

    remote->asking = a;
    if (remote->timeout_ms >= SLOW_TIMEOUT_MS) timer_start_in(&remote->slow, SLOW_MS);
    for (;;) {
        uint64_t left = mono_elapsed_ms(clock_mono(clock_real()), deadline);
        if (left == 0) break;
        remote_ask_once(a, request, left);
        if (a->err != ERR_NOT_LEADER || a->messages > 0) break;
        refused = *a;
        a->refused_once = true;
        if (mono_elapsed_ms(clock_mono(clock_real()), deadline) <= LEADER_WAIT_MS) break;
        remote_wait_for(remote, LEADER_WAIT_MS);
    }
    /* the earlier refusal says more than the time-out */
    if (a->refused_once && a->err == ERR_TIMEOUT) *a = refused;
    timer_stop(&remote->slow);
}

static enum err remote_run(struct answer *a, const ProtobufCMessage *request, struct note *note)
{
    struct buf bytes;
    enum err err;

    buf_init(&bytes, REQUEST_MAX);
    err = request ? message_write(request, &bytes, note) : ERR_OK;
    if (err && !note->text[0]) note_set(note, "the request: %s", err_text(err));
    if (!err) remote_ask(a, buf_peek(&bytes));
    buf_deinit(&bytes);
    if (a->refused) *note = a->text;
    if (err || a->refused) return err ? err : a->refused;
    return a->err ? remote_in_words(a->remote, a, note) : ERR_OK;
}

enum err remote_call(struct remote *remote, const struct remote_method *method,
                     const ProtobufCMessage *request, struct arena *arena,
                     ProtobufCMessage **ret_answer, struct note *note)
{
    struct answer a = {.remote = remote, .method = method, .arena = arena, .err = ERR_TIMEOUT};
    enum err err = remote_run(&a, request, note);

    if (!err) *ret_answer = a.message;
    return err;
}

enum err remote_stream(struct remote *remote, const struct remote_method *method,
                       const ProtobufCMessage *request, remote_message_fn *each, void *owner,
                       struct note *note)
{
    struct answer a = {.remote = remote, .method = method, .each = each, .owner = owner};

    assert(method->kind == REMOTE_READ); /* a restarted write would be a second write */
    return remote_run(&a, request, note);
}
