/* SPDX-License-Identifier: Apache-2.0 */
/* Executes effects on the loop: messages to operators, audit, log. Provider calls: cycle.c.
 *
 * A blob is the bootstrap data of a machine. This file keeps a blob until the Configure call is
 * sent or the action ends. The total size of all blobs is bounded. The action of a further blob
 * ends with BLOB_NO_ROOM. */
#include <stdlib.h>
#include <string.h>

#include "shard/shard_internal.h"

enum {
    BLOBS_MAX = 1 << 20,
    BLOB_BYTES_MAX = 256 << 20,
    SITES_MAX = 128,
};

struct blob {
    size_t len;
    char bytes[];
};

struct str blob_kept(const struct shard *shard, uint64_t action)
{
    const struct blob *blob = map_get(&shard->calls.blobs, action_key(&action));

    return blob ? str_of(blob->bytes, blob->len) : STR_EMPTY;
}

void blob_drop(struct shard *shard, uint64_t action)
{
    struct blob *blob = map_remove(&shard->calls.blobs, action_key(&action));

    if (blob) shard->calls.blob_bytes -= blob->len;
    free(blob);
}

/* -- operators -- */

/* Allocated with the request, so that the answer needs no memory. A lost answer would block the
 * machine for ever. */
struct blob_job {
    struct decide_job job;
    struct shard *shard;
    struct session_blob request;
    enum blob_end end;
    bool kept; /* the blob waits for a free slot for its Configure call */
    size_t len;
    char *text; /* an error text, or NULL */
};

static void blob_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    struct blob_job *t = CONTAINER_OF(job, struct blob_job, job);

    core_blob(context->core, t->request.action, t->end, str_of(t->text, t->len), context->now,
              context->wall, out);
    t->kept = core_blob_waits(context->core, t->request.action);
}

static void blob_job_done(struct decide_job *job, enum err)
{
    struct blob_job *t = CONTAINER_OF(job, struct blob_job, job);

    if (!t->kept) blob_drop(t->shard, t->request.action);
    free(t->text);
    free(t);
}

static bool apply_effects_blob_ask(struct shard *shard, const struct effect *effect)
{
    struct blob_job *t = calloc(1, sizeof *t);

    if (!t) return false;
    t->job = (struct decide_job){.run = blob_run, .done = blob_job_done};
    t->shard = shard;
    t->request.action = effect->action;
    if (!sessions_ask_blob(shard->sessions, effect->cluster, &t->request, effect->profile,
                           effect->timeout_ms))
        return true;
    free(t);
    return false;
}

/* Returns the size of all blobs, here and in the provider's client. */
size_t blob_bytes(const struct shard *shard)
{
    size_t held = shard->calls.blob_bytes;

    if (shard->stopping) return held;
    return held + provider_stats(shard->options.provider).waiting_bytes;
}

static enum err blob_keep(struct shard *shard, uint64_t action, struct str content)
{
    struct blob *blob;

    if (content.len > shard->calls.blob_bytes_max ||
        blob_bytes(shard) > shard->calls.blob_bytes_max - content.len) {
        shard->calls.blobs_refused++;
        return ERR_FULL;
    }
    blob = map_make(&shard->calls.blobs, action_key(&action), sizeof *blob + content.len);
    if (!blob) return ERR_NOMEM;
    blob->len = content.len;
    put_text(blob->bytes, content);
    shard->calls.blob_bytes += content.len;
    return ERR_OK;
}

void blob_answered(void *owner, struct session_blob *request, enum blob_end end, struct str content)
{
    struct shard *shard = owner;
    struct blob_job *t = CONTAINER_OF(request, struct blob_job, request);

    t->end = end;
    if (end == BLOB_READY && blob_keep(shard, request->action, content)) t->end = BLOB_NO_ROOM;
    if (end == BLOB_ERROR && content.len) t->text = malloc(content.len);
    if (t->text) {
        put_text(t->text, content);
        t->len = content.len;
    }
    decide_thread_submit(shard->decide_thread, &t->job);
}

/* -- people -- */

/* The log counts repeats per site, so each text has its own site. The log keeps pointers to sites,
 * so they are static. */
static struct log_site *log_site_of(const char *text)
{
    static struct {
        const char *text;
        struct log_site site;
    } sites[SITES_MAX];
    size_t i = 0;

    while (i < SITES_MAX - 1 && sites[i].text && sites[i].text != text) i++;
    sites[i].text = text;
    return &sites[i].site;
}

static void log_effect(struct shard *shard, const struct effect *effect)
{
    static const enum log_level levels[] = {
        [CORE_INFO] = LOG_LEVEL_INFO, [CORE_WARN] = LOG_LEVEL_WARN, [CORE_ERROR] = LOG_LEVEL_ERROR};
    enum log_level level = levels[effect->log.level];
    const struct log_field fields[] = {log_str("details", effect->log.details), LOG_END};

    if (log_enabled(&shard->log, level))
        log_write(&shard->log, log_site_of(effect->log.text), level, effect->log.text, fields);
}

/* -- all effects -- */

/* If memory runs out, the node state is sent with the machine's next change or the next session. */
void effect_prepare(struct effect *effect, struct decide_context *context, struct arena *arena)
{
    if (effect->kind != EFFECT_NODE_STATE ||
        frame_write_node_state(&context->frames, effect->cluster, effect->node,
                               core_dimensions(context->core)))
        return;
    (void)text_copy(arena, buf_peek(&context->frames.frame), &effect->frame);
}

/* A stopping shard makes no calls, because nobody would handle the answers. */
bool effect_apply(void *owner, const struct effect *effect)
{
    struct shard *shard = owner;

    effect_check(effect); /* invariant I6 of core.h */
    switch (effect->kind) {
    case EFFECT_CREATE:
    case EFFECT_CONFIGURE:
    case EFFECT_DRAIN:
    case EFFECT_DELETE:
    case EFFECT_GET: return shard->stopping || call_provider(shard, effect);
    case EFFECT_ASK_BLOB: return shard->stopping || apply_effects_blob_ask(shard, effect);
    case EFFECT_RECLAIM: /* a shard that stopped acting sends no reclaims */
        if (shard_holds(shard)) return true;
        (void)sessions_reclaim(shard->sessions, effect->cluster, effect->action, effect->machine,
                               effect->drain.grace_ms, effect->drain.preemptor_priority);
        return true;
    case EFFECT_NODE_STATE:
        if (effect->frame.len)
            sessions_node_state(shard->sessions, effect->cluster, effect->machine,
                                !str_equal(effect->node->cluster, effect->cluster), effect->frame);
        return true;
    case EFFECT_CAPACITY:
        sessions_capacity(shard->sessions, effect->cluster, &effect->capacity);
        return true;
    case EFFECT_NEED_STATUS:
        sessions_need_status(shard->sessions, effect->cluster, &effect->status);
        return true;
    case EFFECT_AUDIT:
        audit_write(shard, effect);
        if (effect->action) blob_drop(shard, effect->action);
        return true;
    case EFFECT_LOG: log_effect(shard, effect); return true;
    case EFFECT_OBSERVE:
        shard_metrics_observe(shard->metrics, effect->observe.histogram, effect->observe.seconds);
        return true;
    case EFFECT_CYCLE_SOON: cycles_wake(shard); return true;
    }
    return true;
}

void provider_calls_open(struct shard *shard)
{
    shard->calls.blob_bytes_max =
        shard->options.blob_bytes_max ? shard->options.blob_bytes_max : BLOB_BYTES_MAX;
    map_init(&shard->calls.blobs, BLOBS_MAX, entropy_u64(shard->io->entropy));
}

void provider_calls_close(struct shard *shard)
{
    assert(shard->calls.under_way == 0); /* the provider's client must be closed first */
    map_free(&shard->calls.blobs);
}
