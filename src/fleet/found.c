#include "fleet/found.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/targets.h"
#include "rpc/client.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { ANSWER_ARENA_MAX = 1 << 20, UNCLEAR_SAID_EVERY = 60 /* looks: 15 s */ };

struct look { /* at one peer */
    struct founding *founding;
    struct rpc_channel *channel;
    bool closing;
    char address[TARGET_CAP];
};
struct founding {
    struct io *io;
    struct log_source log;
    struct tls_context *tls;
    struct targets *targets;
    struct timer timer;
    mono_time began;
    struct look looks[FOUND_PEERS_MAX];
    enum found_answer answers[FOUND_PEERS_MAX];
    size_t count, open;
    uint32_t unclear; /* answers so far */
    bool looking;     /* targets are being found */
    bool closing;
    founding_fn *done;
    void (*closed)(void *owner);
    void *owner, *closed_owner;
};
static_assert((int)FOUND_PEERS_MAX >= (int)TARGETS_MAX, "every target is asked");

static void finish_close(struct founding *f)
{
    if (!f->closing || f->open > 0) return;
    timer_deinit(&f->timer);
    targets_close(f->targets);
    if (f->closed) f->closed(f->closed_owner);
    free(f);
}

/* -- one round -- */

static void decide(struct founding *f)
{
    uint64_t looking_ms = mono_elapsed_ms(f->began, loop_now(f->io->loop));
    enum found_verdict verdict = found_look(f->answers, f->count, looking_ms);

    /* No name behind the join address yet is silence, not an empty list of peers. */
    if (f->count == 0 && targets_count(f->targets) > 0 && looking_ms < FOUND_LOOK_MS)
        verdict = FOUND_ASK_AGAIN;
    if (verdict == FOUND_ASK_AGAIN)
        timer_start_in(&f->timer, FOUND_AGAIN_MS);
    else
        f->done(f->owner, verdict);
}

static void look_closed(void *owner)
{
    struct look *look = owner;
    struct founding *f = look->founding;

    look->channel = NULL;
    f->open--;
    if (f->closing)
        finish_close(f);
    else if (f->open == 0)
        decide(f);
}

static void look_close(struct look *look)
{
    if (!look->channel || look->closing) return;
    look->closing = true;
    rpc_channel_close(look->channel, look_closed, look);
}

static enum found_answer read_answer(struct str bytes)
{
    enum found_answer answer = FOUND_UNCLEAR;
    ProtobufCMessage *message;
    struct arena arena;

    arena_init(&arena, ANSWER_ARENA_MAX);
    if (!message_read(&muster__v1__state_hash_response__descriptor, bytes, NULL, &arena, &message,
                      NULL)) {
        const Muster__V1__StateHashResponse *of = (const Muster__V1__StateHashResponse *)message;
        answer = of->term > 0 || of->applied > 0 ? FOUND_HAS_LOG : FOUND_EMPTY;
    }
    arena_deinit(&arena);
    return answer;
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct look *look = owner;
    struct founding *f = look->founding;
    size_t at = (size_t)(look - f->looks);

    (void)call;
    if (!outcome->err)
        f->answers[at] = read_answer(message);
    else if (outcome->answered)
        f->answers[at] = FOUND_UNCLEAR;
    if (f->answers[at] == FOUND_UNCLEAR && f->unclear++ % UNCLEAR_SAID_EVERY == 0)
        LOG_WARN(&f->log,
                 "a peer does not say whether it has a cluster; nothing is founded beside it",
                 log_text("peer", look->address), log_str("why", outcome->text));
    if (f->answers[at] == FOUND_HAS_LOG)
        LOG_INFO(&f->log, "a cluster exists, joining it", log_text("peer", look->address));
    look_close(look);
}

static bool look_at(struct founding *f, const char *address, const char *tls_name)
{
    struct look *look = &f->looks[f->count];
    const char *const addresses[] = {address, NULL};
    struct rpc_channel_options options = {.io = f->io,
                                          .addresses = addresses,
                                          .tls = f->tls,
                                          .tls_name = tls_name,
                                          .dial_timeout_ms = FOUND_CALL_MS};
    struct rpc_call_options call = {.path = "/muster.v1.Fleet/StateHash",
                                    .timeout_ms = FOUND_CALL_MS,
                                    .idempotent = true,
                                    .attempts_max = 1};

    *look = (struct look){.founding = f};
    snprintf(look->address, sizeof look->address, "%s", address);
    if (rpc_channel_open(&options, &look->channel, NULL)) return false;
    f->answers[f->count++] = FOUND_SILENT;
    f->open++;
    if (rpc_unary(look->channel, &call, STR_EMPTY, on_answer, look, NULL)) look_close(look);
    return true;
}

static void on_targets(void *owner, const char *const *list, const char *tls_name)
{
    struct founding *f = owner;

    f->looking = false;
    f->count = 0;
    for (size_t i = 0; list[i] && f->count < FOUND_PEERS_MAX; i++)
        (void)look_at(f, list[i], tls_name);
    if (f->open == 0) decide(f);
}

static void on_timer(struct timer *timer)
{
    struct founding *f = CONTAINER_OF(timer, struct founding, timer);

    f->looking = true;
    targets_find(f->targets, on_targets, f);
}

/* -- life -- */

enum err founding_open(const struct founding_options *options, founding_fn *done, void *owner,
                       struct founding **ret_founding, struct note *note)
{
    struct targets_options targets = {.io = options->io,
                                      .addresses = options->addresses,
                                      .self = options->self,
                                      .look_up = options->look_up};
    struct founding *f = calloc(1, sizeof *f);
    enum err err;

    if (!f) return ERR_NOMEM;
    f->io = options->io;
    f->tls = options->tls;
    f->done = done;
    f->owner = owner;
    f->began = loop_now(f->io->loop);
    if (options->log) f->log = *options->log;
    err = targets_open(&targets, &f->targets, note);
    if (!err) err = timer_init(&f->timer, f->io->loop, on_timer);
    if (err) {
        f->closing = true;
        finish_close(f);
        return err;
    }
    timer_start_in(&f->timer, 0);
    *ret_founding = f;
    return ERR_OK;
}

void founding_close(struct founding *founding, void (*closed)(void *owner), void *owner)
{
    founding->closing = true;
    founding->closed = closed;
    founding->closed_owner = owner;
    timer_stop(&founding->timer);
    if (founding->looking) { /* its answer must not come to us */
        targets_close(founding->targets);
        founding->targets = NULL;
    }
    for (size_t i = 0; i < founding->count; i++) look_close(&founding->looks[i]);
    finish_close(founding);
}
