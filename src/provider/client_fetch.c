/* SPDX-License-Identifier: Apache-2.0 */
/* List: one long message, delivered in chunks. A fetch is freed when on_end was called and every
 * chunk was returned. Chunks are reused. */
#include <stdlib.h>

#include "provider/client_internal.h"
#include "wire/pack.h"

enum {
    CHUNK_BYTES = 256 << 10,
    CHUNKS_MAX = 8,
    CHUNK_SLACK = 4 << 20, /* bytes that may still arrive during a pause */
    FILTER_MAX = 1 << 20,
    FILTER_STATES = 1,
    FILTER_MAX_RESULTS = 4,
    FILTER_SINCE = 5,
    FILTER_PAGE_SIZE = 100,
    FILTER_PAGE_TOKEN = 101,
};

struct chunk {
    struct provider_chunk chunk; /* first field: the caller sees only this part */
    struct provider_fetch *fetch;
    struct buf bytes;
};
struct provider_fetch {
    struct provider *provider;
    struct rpc_client_call *call;
    mono_time sent, alive; /* alive: time of the last data */
    struct provider_fetch_events events;
    void *context;
    size_t chunk_bytes;
    uint32_t chunks_max, out; /* out: chunks that the caller holds */
    uint32_t messages;
    bool short_of_memory, two_messages;
    bool over; /* on_end was called, or the fetch did not begin */
    struct chunk *filling;
};

static void chunk_free(struct chunk *chunk)
{
    buf_deinit(&chunk->bytes);
    free(chunk);
}

static struct chunk *chunk_make(struct provider_fetch *f)
{
    struct chunk *chunk = calloc(1, sizeof *chunk);
    char *room;

    if (!chunk) return NULL;
    chunk->fetch = f;
    buf_init(&chunk->bytes, f->chunk_bytes + CHUNK_SLACK);
    if (buf_reserve(&chunk->bytes, f->chunk_bytes, &room) == ERR_OK) return chunk;
    chunk_free(chunk);
    return NULL;
}

static void free_if_done(struct provider_fetch *f)
{
    if (!f->over || f->out > 0) return;
    if (f->filling) chunk_free(f->filling);
    free(f);
}

static void fetch_pass_chunk(struct provider_fetch *f)
{
    struct chunk *chunk = f->filling;

    f->filling = NULL;
    f->out++;
    chunk->chunk.bytes = buf_peek(&chunk->bytes);
    f->events.on_chunk(f->context, &chunk->chunk);
}

static void on_piece(void *owner, struct rpc_client_call *call, struct str piece, bool last)
{
    struct provider_fetch *f = owner;

    f->alive = f->sent;
    if (f->messages > 0) f->two_messages = true;
    f->messages += last;
    if (!f->filling) f->filling = chunk_make(f);
    if (!f->filling || f->two_messages || buf_append(&f->filling->bytes, piece)) {
        f->short_of_memory = !f->two_messages;
        rpc_call_cancel(call);
        return;
    }
    if (f->filling->bytes.len < f->chunk_bytes) return;
    fetch_pass_chunk(f);
    if (f->call && f->out >= f->chunks_max) rpc_call_pause(f->call);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct provider_fetch *f = owner;
    struct provider_answer answer = {.end = provider_judge(outcome, false),
                                     .status = outcome->status,
                                     .text = outcome->text,
                                     .bytes = STR_EMPTY};
    const char *broken = f->short_of_memory                  ? "out of memory"
                         : f->two_messages                   ? "more than one message"
                         : f->messages == 0 && !outcome->err ? "answered OK, without a message"
                                                             : NULL;

    (void)call;
    f->call = NULL;
    if (outcome->status == GRPC_DEADLINE_EXCEEDED && !outcome->answered && !f->provider->closing)
        provider_doubt(f->provider->bulk, f->sent, loop_now(f->provider->options.io->loop),
                       &f->alive);
    if (broken) {
        answer.end = PROVIDER_UNKNOWN;
        answer.text = str_from(broken);
    }
    if (f->filling && f->filling->bytes.len > 0) fetch_pass_chunk(f);
    f->events.on_end(f->context, &answer);
    f->over = true;
    free_if_done(f);
}

void provider_chunk_done(struct provider_chunk *own)
{
    struct chunk *chunk = CONTAINER_OF(own, struct chunk, chunk);
    struct provider_fetch *f = chunk->fetch;

    assert(f->out > 0);
    f->out--;
    chunk_free(chunk);
    if (f->call) rpc_call_resume(f->call);
    free_if_done(f);
}

void provider_fetch_cancel(struct provider_fetch *fetch)
{
    if (fetch->call) rpc_call_cancel(fetch->call);
}

static enum err put_filter(const struct provider_fetch_request *request, struct buf *into)
{
    struct pack pack = {into, ERR_OK};

    for (size_t i = 0; i < request->state_count; i++) { /* pack_u64() would omit a 0 */
        pack_varint(&pack, FILTER_STATES << 3);
        pack_varint(&pack, request->states[i]);
    }
    pack_u64(&pack, FILTER_MAX_RESULTS, request->max_results);
    pack_text(&pack, FILTER_SINCE, request->cursor);
    pack_u64(&pack, FILTER_PAGE_SIZE, request->page_size);
    pack_text(&pack, FILTER_PAGE_TOKEN, request->page_token);
    return pack.err;
}

static enum err ask(struct provider *p, struct provider_fetch *f,
                    const struct provider_fetch_request *request)
{
    static const struct rpc_call_events events = {.on_end = on_end};
    const struct rpc_call_options options = {
        .path = "/bigfleet.v1alpha1.CapacityProvider/List",
        .timeout_ms = p->options.list_timeout_ms,
        .idempotent = true,
        .untraced = true,
        .response_max = p->options.list_max,
        .attempts_max = PROVIDER_ATTEMPTS_MAX,
    };
    struct buf filter;
    enum err err;

    buf_init(&filter, FILTER_MAX);
    err = put_filter(request, &filter);
    if (!err) err = rpc_call_start(p->bulk, &options, &events, f, &f->call);
    if (!err) {
        rpc_call_in_pieces(f->call, on_piece);
        err = rpc_call_send(f->call, buf_peek(&filter));
        if (err) {
            f->short_of_memory = true;
            rpc_call_cancel(f->call); /* the fetch ends as if the provider had sent no response */
            err = ERR_OK;
        } else {
            rpc_call_end(f->call);
        }
    }
    buf_deinit(&filter);
    return err;
}

enum err provider_fetch_start(struct provider *p, const struct provider_fetch_request *request,
                              const struct provider_fetch_events *events, void *context,
                              struct provider_fetch **ret_fetch)
{
    struct provider_fetch *f;
    enum err err;

    if (p->closing) return ERR_CLOSED;
    f = calloc(1, sizeof *f);
    if (!f) return ERR_NOMEM;
    f->provider = p;
    f->sent = loop_now(p->options.io->loop);
    f->events = *events;
    f->context = context;
    f->chunk_bytes = request->chunk_bytes ? request->chunk_bytes : CHUNK_BYTES;
    f->chunks_max = request->chunks_max ? request->chunks_max : CHUNKS_MAX;
    err = ask(p, f, request);
    if (err) {
        f->over = true;
        free_if_done(f);
        return err;
    }
    *ret_fetch = f;
    return ERR_OK;
}
