/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the rounds of queries to other replicas, and meanwhile answers calls on the replica's gRPC
 * port. bootstrap_rules.h has the rules and the invariant. Runs on the event loop's thread. */
#include "fleet/bootstrap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { SAY_EVERY_MS = 10000, TEXT_CAP = 512 };

struct bootstrap {
    struct io *io;
    struct log_source log;
    struct bootstrap_options options;
    struct datadir identity; /* for formatting the data directory */
    struct survey *survey;
    struct timer timer;
    mono_time began, said;
    struct bootstrap_peer peers[BOOTSTRAP_PEERS_MAX];
    char addresses[BOOTSTRAP_PEERS_MAX][SURVEY_ADDRESS_CAP];
    char reasons[BOOTSTRAP_PEERS_MAX][128]; /* why a peer is UNCLEAR or REFUSED */
    size_t count;
    bool running, by_hand; /* by_hand: an administrator ordered the round */
    bool stopped, decided;
    struct rpc_call *order; /* a BootstrapReplica call that waits for a round, or NULL */
    char name[BOOTSTRAP_NAME_CAP];
    char text[TEXT_CAP]; /* what the replica waits for */
};
static_assert((int)BOOTSTRAP_PEERS_MAX >= (int)SURVEY_ADDRESSES_MAX, "every address is asked");

/* -- describing the wait -- */

/* A description that does not fit is left out. */
static void bootstrap_describe_peer(const struct bootstrap *b, size_t at, struct buf *text)
{
    const char *address = b->addresses[at];

    switch (b->peers[at].answer) {
    case BOOTSTRAP_SILENT: (void)buf_appendf(text, "; %s does not answer", address); break;
    case BOOTSTRAP_UNCLEAR:
    case BOOTSTRAP_REFUSED: (void)buf_appendf(text, "; %s: %s", address, b->reasons[at]); break;
    case BOOTSTRAP_PROMISED:
        (void)buf_appendf(text, "; %s (%s) promised", address, b->peers[at].name);
        break;
    case BOOTSTRAP_HAS_LOG: (void)buf_appendf(text, "; %s has a log", address); break;
    case BOOTSTRAP_SELF: break;
    }
}

static void bootstrap_describe(struct bootstrap *b, const struct bootstrap_round *round)
{
    struct buf text = {.data = b->text, .cap = TEXT_CAP - 1, .max = TEXT_CAP - 1};

    (void)buf_appendf(&text, "%zu of %u other replicas promised", bootstrap_promises(round),
                      round->expect - 1);
    if (b->count == 0) (void)buf_append_c(&text, "; the join address names no replica now");
    for (size_t i = 0; i < b->count; i++) bootstrap_describe_peer(b, i, &text);
    b->text[text.len] = '\0';
}

static void bootstrap_log_wait(struct bootstrap *b, const struct bootstrap_round *round)
{
    mono_time now = loop_now(b->io->loop);
    char before[TEXT_CAP];

    memcpy(before, b->text, sizeof before);
    bootstrap_describe(b, round);
    if (strcmp(before, b->text) == 0 && mono_elapsed_ms(b->said, now) < SAY_EVERY_MS) return;
    b->said = now;
    LOG_INFO(&b->log, "waiting to bootstrap a cluster", log_u64("expect", round->expect),
             log_u64("promised", bootstrap_promises(round)), log_text("peers", b->text),
             log_u64("waited_ms", round->asking_ms));
    if (b->options.waits) b->options.waits(b->options.owner, b->text);
}

/* -- rounds -- */

static void bootstrap_begin_round(struct timer *timer)
{
    struct bootstrap *b = CONTAINER_OF(timer, struct bootstrap, timer);
    Muster__V1__PromiseBootstrapRequest request = MUSTER__V1__PROMISE_BOOTSTRAP_REQUEST__INIT;

    b->by_hand = b->order != NULL;
    b->count = 0;
    request.cluster_id = b->identity.cluster_id;
    request.replica_id = b->identity.replica_id;
    request.name = b->name;
    request.replace = b->by_hand;
    b->running = survey_begin(b->survey, &request.base) == ERR_OK;
    if (!b->running) timer_start_in(&b->timer, BOOTSTRAP_AGAIN_MS);
}

static void bootstrap_on_asked(void *owner, size_t at, const char *address)
{
    struct bootstrap *b = owner;

    b->peers[at] = (struct bootstrap_peer){.answer = BOOTSTRAP_SILENT};
    b->reasons[at][0] = '\0';
    snprintf(b->addresses[at], sizeof b->addresses[at], "%s", address);
    b->count = at + 1;
}

static void bootstrap_read_answer(struct bootstrap *b, size_t at,
                                  const Muster__V1__PromiseBootstrapResponse *said)
{
    struct bootstrap_peer *peer = &b->peers[at];

    if (said->has_log) {
        peer->answer = BOOTSTRAP_HAS_LOG;
        return;
    }
    if (said->replica_id == b->identity.replica_id) {
        peer->answer = BOOTSTRAP_SELF;
        return;
    }
    snprintf(b->reasons[at], sizeof b->reasons[at], "%s", said->reason);
    peer->answer = said->promised ? BOOTSTRAP_PROMISED : BOOTSTRAP_REFUSED;
    peer->replica_id = said->replica_id;
    snprintf(peer->name, sizeof peer->name, "%s", said->name);
}

static void bootstrap_on_answered(void *owner, size_t at, const struct rpc_client_call *,
                                  const struct rpc_outcome *outcome,
                                  const ProtobufCMessage *message)
{
    struct bootstrap *b = owner;

    if (outcome->err && !outcome->answered) return; /* silent */
    b->peers[at].answer = BOOTSTRAP_UNCLEAR;
    snprintf(b->reasons[at], sizeof b->reasons[at],
             "it does not say whether it has a log (another release or program?): %.*s",
             STR_ARG(outcome->text));
    if (message)
        bootstrap_read_answer(b, at, (const Muster__V1__PromiseBootstrapResponse *)message);
}

static void bootstrap_log_cluster(const struct bootstrap *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->peers[i].answer == BOOTSTRAP_HAS_LOG)
            LOG_INFO(&b->log, "found an existing cluster: joining it",
                     log_text("peer", b->addresses[i]));
}

/* `order` gets success or the reason of a refusal. */
static void bootstrap_answer_order(struct bootstrap *bootstrap, bool done, const char *reason)
{
    Muster__V1__BootstrapReplicaResponse response = MUSTER__V1__BOOTSTRAP_REPLICA_RESPONSE__INIT;
    struct rpc_call *call = bootstrap->order;
    struct note note = {""};

    bootstrap->order = NULL;
    if (done) {
        response.cluster_id = bootstrap->identity.cluster_id;
        response.replica_id = bootstrap->identity.replica_id;
        rpc_reply(call, &response.base);
        return;
    }
    note_set(&note, "not bootstrapped: %s", reason);
    (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
    rpc_fail(call, ERR_PRECONDITION, &note);
}

static void bootstrap_finish_round(struct bootstrap *b, const struct bootstrap_round *round)
{
    enum bootstrap_verdict verdict = bootstrap_decide(round);

    if (verdict == BOOTSTRAP_WAIT) {
        if (b->order && b->by_hand) bootstrap_answer_order(b, false, b->text);
        timer_start_in(&b->timer, b->order ? 0 : BOOTSTRAP_AGAIN_MS);
        return;
    }
    b->decided = true;
    bootstrap_log_cluster(b);
    if (b->order)
        bootstrap_answer_order(b, verdict == BOOTSTRAP_NOW, "a cluster exists, it is joined");
    b->options.done(b->options.owner, verdict);
}

static void bootstrap_on_over(void *owner, size_t count)
{
    struct bootstrap *b = owner;
    struct bootstrap_round round = {
        .peers = b->peers,
        .count = count,
        .name = b->name,
        .expect = b->options.expect,
        .by_hand = b->by_hand,
        .asking_ms = mono_elapsed_ms(b->began, loop_now(b->io->loop)),
    };

    b->count = count;
    b->running = false;
    bootstrap_log_wait(b, &round);
    bootstrap_finish_round(b, &round);
}

/* -- PromiseBootstrap -- */

static void bootstrap_answer_promise(void *service, struct rpc_call *call,
                                     const ProtobufCMessage *message, struct str)
{
    struct bootstrap *b = service;
    const Muster__V1__PromiseBootstrapRequest *from = (const void *)message;
    Muster__V1__PromiseBootstrapResponse response = MUSTER__V1__PROMISE_BOOTSTRAP_RESPONSE__INIT;
    struct promise_facts facts = {.replica_id = b->identity.replica_id,
                                  .waits = true,
                                  .asked = {from->cluster_id, from->replica_id}};
    struct note note = {""};

    response.replica_id = b->identity.replica_id;
    response.name = b->name;
    switch (promise_decide(&facts)) {
    case PROMISE_INVALID:
        note_set(&note, "cluster_id and replica_id are required");
        rpc_fail(call, ERR_INVALID, &note);
        return;
    case PROMISE_SELF: break;
    default:
        response.reason = "it waits to bootstrap a cluster, too: only one replica may have "
                          "ordinal 0";
    }
    rpc_reply(call, &response.base);
}

/* -- BootstrapReplica -- */

static void bootstrap_take_order(void *service, struct rpc_call *call, const ProtobufCMessage *,
                                 struct str)
{
    struct bootstrap *b = service;

    if (b->order || b->decided || b->stopped) {
        (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
        rpc_fail(call, ERR_UNAVAILABLE, NULL);
        return;
    }
    LOG_WARN(&b->log, "an administrator ordered this replica to bootstrap a cluster",
             log_text("caller", rpc_call_peer(call)));
    b->order = call;
    if (!b->running) timer_start_in(&b->timer, 0);
}

static void bootstrap_order_gone(void *service, struct rpc_call *call)
{
    struct bootstrap *b = service;
    if (b->order == call) b->order = NULL;
}

/* -- StateHash: reports an empty log, in a form that older releases also understand -- */

static void bootstrap_answer_hash(void *service, struct rpc_call *call, const ProtobufCMessage *,
                                  struct str)
{
    struct bootstrap *b = service;
    Muster__V1__StateHashResponse response = MUSTER__V1__STATE_HASH_RESPONSE__INIT;

    response.replica_id = b->identity.replica_id;
    response.name = b->name;
    rpc_reply(call, &response.base);
}

/* -- all other methods -- */

static void bootstrap_refuse_call(void *service, struct rpc_call *call)
{
    const struct bootstrap *b = service;
    char text[TEXT_CAP + 64];

    snprintf(text, sizeof text, "this replica waits to bootstrap a cluster: %s", b->text);
    (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
    rpc_finish(call, GRPC_UNAVAILABLE, str_from(text), STR_EMPTY);
}

static void bootstrap_other_message(void *service, struct rpc_call *call, const ProtobufCMessage *,
                                    struct str)
{
    bootstrap_refuse_call(service, call);
}

#define BOOTSTRAP_METHOD(path_of, fn, gone, in, out)                                               \
    {                                                                                              \
        {.on_message = (fn), .on_done = (gone)},                                                   \
        {                                                                                          \
            .path = (path_of), .kind = RPC_UNARY, .input = &(in), .output = &(out)                 \
        }                                                                                          \
    }
static const struct {
    struct rpc_handler handler;
    struct rpc_method method;
} methods[] = {
    BOOTSTRAP_METHOD("/muster.v1.Fleet/PromiseBootstrap", bootstrap_answer_promise, NULL,
                     muster__v1__promise_bootstrap_request__descriptor,
                     muster__v1__promise_bootstrap_response__descriptor),
    BOOTSTRAP_METHOD("/muster.v1.Fleet/BootstrapReplica", bootstrap_take_order,
                     bootstrap_order_gone, muster__v1__bootstrap_replica_request__descriptor,
                     muster__v1__bootstrap_replica_response__descriptor),
    BOOTSTRAP_METHOD("/muster.v1.Fleet/StateHash", bootstrap_answer_hash, NULL,
                     muster__v1__state_hash_request__descriptor,
                     muster__v1__state_hash_response__descriptor),
};

static bool is_own_method(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (strcmp(methods[i].method.path, path) == 0) return true;
    return false;
}

enum err bootstrap_methods(struct bootstrap *bootstrap, struct rpc_server *server,
                           struct note *note)
{
    static const struct rpc_handler other = {.on_start = bootstrap_refuse_call,
                                             .on_message = bootstrap_other_message};
    const struct rpc_access_row *rows;
    size_t count = rpc_access_table(&rows);
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(methods); i++) {
        struct rpc_method method = methods[i].method;
        method.handler = &methods[i].handler;
        method.service = bootstrap;
        err = rpc_server_add(server, &method, note);
    }
    for (size_t i = 0; !err && i < count; i++) { /* all are streams: refused before any message */
        struct rpc_method method = {
            .path = rows[i].path, .kind = RPC_BIDI, .handler = &other, .service = bootstrap};
        if (is_own_method(rows[i].path)) continue;
        err = rpc_server_add(server, &method, note);
    }
    return err;
}

/* -- life -- */

static enum err bootstrap_take_identity(struct bootstrap *b, struct note *note)
{
    struct fs *fs = b->io->fs;
    enum err err = datadir_mark_read(fs, b->options.dir, DATADIR_BOOTSTRAP, &b->identity, note);

    if (err == ERR_NOT_FOUND) {
        b->identity = datadir_draw(b->io->entropy);
        err = datadir_mark_write(fs, b->options.dir, DATADIR_BOOTSTRAP, &b->identity,
                                 entropy_u64(b->io->entropy), note);
    }
    return !err && b->identity.cluster_id == 0 ? ERR_CORRUPT : err;
}

enum err bootstrap_open(const struct bootstrap_options *options, struct bootstrap **ret_bootstrap,
                        struct note *note)
{
    struct bootstrap *b = calloc(1, sizeof *b);
    struct survey_options survey = {.to = options->to,
                                    .path = "/muster.v1.Fleet/PromiseBootstrap",
                                    .answer = &muster__v1__promise_bootstrap_response__descriptor,
                                    .timeout_ms = BOOTSTRAP_CALL_MS,
                                    .asked = bootstrap_on_asked,
                                    .answered = bootstrap_on_answered,
                                    .over = bootstrap_on_over,
                                    .owner = b};
    enum err err;

    if (!b) return ERR_NOMEM;
    b->io = options->to.io;
    b->options = *options;
    if (options->log) b->log = *options->log;
    snprintf(b->name, sizeof b->name, "%s", options->name);
    b->began = loop_now(b->io->loop);
    err = bootstrap_take_identity(b, note);
    if (!err) err = survey_open(&survey, &b->survey, note);
    if (!err) err = timer_init(&b->timer, b->io->loop, bootstrap_begin_round);
    if (err) {
        bootstrap_stop(b, NULL, NULL);
        bootstrap_free(b);
        return err;
    }
    timer_start_in(&b->timer, 0);
    *ret_bootstrap = b;
    return ERR_OK;
}

struct datadir bootstrap_identity(const struct bootstrap *bootstrap)
{
    return bootstrap->identity;
}

void bootstrap_stop(struct bootstrap *bootstrap, void (*closed)(void *owner), void *owner)
{
    struct survey *survey = bootstrap->survey;

    bootstrap->stopped = true;
    bootstrap->survey = NULL;
    timer_stop(&bootstrap->timer);
    survey_close(survey, closed, owner);
}

void bootstrap_free(struct bootstrap *bootstrap)
{
    if (!bootstrap) return;
    assert(bootstrap->stopped && !bootstrap->order);
    timer_deinit(&bootstrap->timer);
    free(bootstrap);
}
