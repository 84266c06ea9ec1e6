/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a shard's cycle, from its timer tick to the provider's answers, in the order of execution.
 * Functions named `_run` run on the decide thread, all others on the loop's thread.
 *
 *   tick -> List -> its end -> decision -> effects (apply_effects.c) -> calls -> answers
 *   wake --------------------> decision
 *
 * If a List takes longer than the interval, the next tick decides with the known state. Changed
 * demand wakes a cycle without a List. Cycles never overlap. The pause between woken cycles is at
 * least as long as the last cycle, so that a storm of roll-ups uses at most half of the thread. */
#include <stdlib.h>

#include "provider/list.h"
#include "shard/pools_file.h"
#include "shard/shard_internal.h"
#include "text/utf8.h"

enum {
    WAKE_GAP_MS = 20,  /* least pause between woken cycles */
    CURSOR_MAX = 4096, /* bytes of a revision or page token; longer ones are not used */
    PAGES_MAX = 16384, /* in case a provider always announces another page */
    CLUSTERS_ARENA_MAX = 64 << 20,
    TEXT_MAX = ERROR_TEXT_MAX / 2 /* bytes kept of a provider's error text */
};

struct token { /* opaque bytes from the provider */
    size_t len;
    char bytes[CURSOR_MAX];
};

struct decision_job {
    struct decide_job job;
    mono_ns last;
    double seconds;
    enum err err;
    struct arena arena;
    struct cluster_counts *clusters;
    size_t cluster_count;
    struct buf pools; /* the file of pools_file.h; empty if nothing changed */
    uint64_t pools_version;
    struct buf rests; /* the page /rests; empty if not requested or out of memory */
    struct status_cycle status;
    bool status_wanted;
};

struct cycles {
    struct shard *shard;
    struct timer tick, wake;
    /* -- the List: one page at a time -- */
    struct provider_fetch *fetch; /* NULL: no List is being read */
    mono_ns list_began;
    double list_seconds; /* of the last List */
    bool listing;        /* from the request of the first page to the end of the last page */
    bool delta, cut;     /* delta: a List of changes; cut: a part of the page was lost here */
    bool arrived;        /* the whole page has arrived */
    uint64_t failed;     /* incomplete Lists in a row */
    mono_ns failing;     /* start of the first of the Lists that `failed` counts */
    /* Allocated in advance, so that a List begins and ends without memory. */
    struct decide_job begins, ends;
    uint64_t pools_version; /* of the text last passed to on_pools */
    /* Owned by the decide thread until the job `ends` is done: */
    struct provider_list *reading;
    struct decide_context *context; /* set only while a job runs, like `out` */
    struct effects *out;
    bool given_up; /* the rest of this List is ignored */
    struct note why;
    bool whole; /* all pages so far were complete */
    uint32_t pages;
    uint64_t machines;
    struct token cursor; /* revision of the next List request; empty: request a full List */
    struct token page;   /* of the requested page; empty: the first page */
    bool listed;
    /* -- the decision -- */
    struct decision_job decision;
    bool cycling, again;
    mono_ns cycle_began;
    uint64_t cycles, last_ms;
    bool ready;
};

static void list_begin(struct cycles *c);
static void decision_begin(struct cycles *c, mono_ns since);

static double seconds_since(const struct cycles *c, mono_ns since)
{
    return (double)(clock_mono_ns(c->shard->io->clock).ns - since.ns) / 1e9;
}

/* True if metrics count the present or next cycle. */
static bool is_observed(const struct cycles *c)
{
    return c->cycles + !c->cycling > c->shard->options.warmup_cycles;
}

static void token_keep(struct token *token, struct str bytes)
{
    token->len = bytes.len <= CURSOR_MAX ? bytes.len : 0;
    put_text(token->bytes, str_of(bytes.at, token->len));
}

static struct str token_bytes(const struct token *token)
{
    return str_of(token->bytes, token->len);
}

/* -- ticks -- */

static void on_tick(struct timer *timer)
{
    struct cycles *c = CONTAINER_OF(timer, struct cycles, tick);

    timer_start_in(&c->tick, c->shard->options.cycle_ms);
    if (!c->listing)
        list_begin(c);
    else if (c->cycles)
        decision_begin(c, clock_mono_ns(c->shard->io->clock));
}

static void on_wake(struct timer *timer)
{
    struct cycles *c = CONTAINER_OF(timer, struct cycles, wake);

    decision_begin(c, clock_mono_ns(c->shard->io->clock));
}

void cycles_wake(struct shard *shard)
{
    struct cycles *c = shard->cycles;

    /* Before the first List nothing can be decided. The end of that List starts a decision. */
    if (shard->stopping || !shard->started || c->cycles == 0) return;
    if (c->cycling)
        c->again = true;
    else if (!timer_running(&c->wake))
        timer_start_in(&c->wake, max_u64(c->last_ms, WAKE_GAP_MS));
}

/* -- round trip 1 to the decide thread: a page of the List begins -- */

static enum err on_machine(void *context, const struct machine_record *record)
{
    const struct cycles *c = context;

    return core_list_machine(c->context->core, &record->machine, record->metadata,
                             record->metadata_count, c->context->now, c->out);
}

static void on_refused(void *context, struct str id, const char *why)
{
    const struct cycles *c = context;

    core_list_refused(c->context->core, id, why, c->out);
}

static void on_removed(void *context, struct str id)
{
    const struct cycles *c = context;

    core_list_gone(c->context->core, id, c->context->now, c->out);
}

static void list_give_up(struct cycles *c, const char *why)
{
    c->given_up = true;
    note_set(&c->why, "%s", why);
}

static void list_begins_run(struct decide_job *job, struct decide_context *context,
                            struct effects *)
{
    static const struct provider_list_events events = {
        .on_machine = on_machine, .on_refused = on_refused, .on_removed = on_removed};
    struct cycles *c = CONTAINER_OF(job, struct cycles, begins);

    if (!c->page.len) {
        c->given_up = false;
        c->whole = true;
        c->pages = 0;
        c->machines = 0;
        core_list_begin(context->core, c->delta ? LIST_DELTA : LIST_FULL);
    }
    provider_list_close(c->reading);
    c->reading = NULL;
    if (provider_list_open(context->reader, &events, c, &c->reading))
        list_give_up(c, "out of memory");
}

/* -- round trip 2 to the decide thread: a piece of the page is decoded -- */

struct list_piece {
    struct decide_job job;
    struct cycles *cycles;
    struct provider_chunk *chunk;
};

static void list_piece_run(struct decide_job *job, struct decide_context *context,
                           struct effects *out)
{
    const struct list_piece *piece = CONTAINER_OF(job, struct list_piece, job);
    struct cycles *c = piece->cycles;
    struct note note = {""};

    c->context = context;
    c->out = out;
    if (!c->given_up && provider_list_feed(c->reading, piece->chunk->bytes, &note))
        list_give_up(c, note.text);
}

static void list_piece_done(struct decide_job *job, enum err)
{
    struct list_piece *piece = CONTAINER_OF(job, struct list_piece, job);

    provider_chunk_done(piece->chunk);
    free(piece);
}

static void on_chunk(void *context, struct provider_chunk *own_chunk)
{
    struct cycles *c = context;
    struct list_piece *piece = malloc(sizeof *piece);

    if (!piece) { /* the pieces after a lost piece cannot be decoded */
        c->cut = true;
        provider_chunk_done(own_chunk);
        provider_fetch_cancel(c->fetch);
        return;
    }
    *piece = (struct list_piece){{.run = list_piece_run, .done = list_piece_done}, c, own_chunk};
    decide_thread_submit(c->shard->decide_thread, &piece->job);
}

/* -- round trip 3 to the decide thread: the page ends, and with its last page the List -- */

/* Returns why the List cannot continue; NULL: it can. */
static const char *lost_after(const struct cycles *c, struct str next)
{
    if (next.len > CURSOR_MAX) return "next_page: too long";
    if (str_equal(next, token_bytes(&c->page))) return "next_page: the one that was asked for";
    return c->pages >= PAGES_MAX ? "more pages than anybody needs" : NULL;
}

static void list_ends_run(struct decide_job *job, struct decide_context *context,
                          struct effects *out)
{
    struct cycles *c = CONTAINER_OF(job, struct cycles, ends);
    struct provider_list_end end = {0};
    struct note note = {""};
    const char *lost;

    c->context = context;
    c->out = out;
    if (c->arrived && !c->given_up && provider_list_finish(c->reading, &end, &note))
        list_give_up(c, note.text);
    c->whole = c->whole && c->arrived;
    c->machines += end.machines;
    c->pages++;
    lost = end.more ? lost_after(c, end.next_page) : NULL;
    if (lost) list_give_up(c, lost);
    c->page.len = 0;
    if (!c->given_up && end.more) {
        token_keep(&c->page, end.next_page);
        return;
    }
    c->whole = c->whole && !c->given_up;
    core_list_end(context->core, c->whole, context->now, out);
    c->cursor.len = 0;
    if (c->whole && c->shard->options.incremental && !core_wants_full_list(context->core))
        token_keep(&c->cursor, end.cursor);
    c->listed = core_listed(context->core);
    provider_list_close(c->reading);
    c->reading = NULL;
}

static void list_failed(struct cycles *c, struct str why)
{
    LOG_WARN(&c->shard->log, "reconcile failed", log_str("why", why));
}

static void list_note_failures(struct cycles *c)
{
    if (c->whole && c->failed)
        LOG_INFO(&c->shard->log, "provider answers again", log_u64("failed", c->failed),
                 log_f64("seconds", seconds_since(c, c->failing)));
    if (!c->whole && !c->failed) c->failing = c->list_began;
    c->failed = c->whole ? 0 : c->failed + 1;
}

static void list_over(struct cycles *c)
{
    c->listing = false;
    c->list_seconds = seconds_since(c, c->list_began);
    if (!c->shard->stopping) list_note_failures(c);
    shard_metrics_list(c->shard->metrics, c->whole, c->machines, c->list_seconds);
    if (is_observed(c)) shard_metrics_phase(c->shard->metrics, PHASE_RECONCILE, c->list_seconds);
    if (c->listed && !c->ready) {
        c->ready = true;
        if (c->shard->options.on_ready) c->shard->options.on_ready(c->shard->options.owner);
    }
    decision_begin(c, c->list_began);
}

static void list_ends_done(struct decide_job *job, enum err err)
{
    struct cycles *c = CONTAINER_OF(job, struct cycles, ends);

    if (err) return;
    if (c->why.text[0]) list_failed(c, str_from(c->why.text));
    c->why.text[0] = '\0';
    if (c->page.len)
        list_begin(c);
    else
        list_over(c);
}

static void list_end(struct cycles *c, bool arrived)
{
    c->arrived = arrived;
    c->ends = (struct decide_job){.run = list_ends_run, .done = list_ends_done};
    decide_thread_submit(c->shard->decide_thread, &c->ends);
}

static void on_list_end(void *context, const struct provider_answer *answer)
{
    struct cycles *c = context;
    bool arrived = answer->end == PROVIDER_DONE && !c->cut;

    c->fetch = NULL;
    if (!arrived && !c->shard->stopping) list_failed(c, answer->text);
    list_end(c, arrived);
}

static void list_begin(struct cycles *c)
{
    static const struct provider_fetch_events events = {.on_chunk = on_chunk,
                                                        .on_end = on_list_end};
    struct provider_fetch_request request = {.cursor = token_bytes(&c->cursor),
                                             .page_token = token_bytes(&c->page)};
    enum err err;

    if (c->shard->stopping) return;
    c->cut = false;
    if (!c->listing) {
        c->listing = true;
        c->delta = c->cursor.len > 0;
        c->list_began = clock_mono_ns(c->shard->io->clock);
    }
    c->begins = (struct decide_job){.run = list_begins_run};
    decide_thread_submit(c->shard->decide_thread, &c->begins);
    err = provider_fetch_start(c->shard->options.provider, &request, &events, c, &c->fetch);
    if (!err) return;
    list_failed(c, str_from(err_text(err)));
    list_end(c, false);
}

/* -- round trip 4 to the decide thread: the decision -- */

static void decision_mark(void *context, enum cycle_phase phase)
{
    struct cycles *c = context;
    mono_ns now = clock_mono_ns(c->shard->io->clock);

    c->decision.status.phases[phase] = (double)(now.ns - c->decision.last.ns) / 1e9;
    c->decision.last = now;
}

static void decision_run(struct decide_job *job, struct decide_context *context,
                         struct effects *out)
{
    struct decision_job *t = CONTAINER_OF(job, struct decision_job, job);
    struct cycles *c = CONTAINER_OF(t, struct cycles, decision);
    mono_ns began = clock_mono_ns(context->clock);

    t->last = began;
    t->err = core_cycle(context->core, context->now, context->wall, decision_mark, c, out);
    if (core_clusters(context->core, &t->arena, &t->clusters, &t->cluster_count))
        t->cluster_count = 0;
    t->status.counts = *core_counts(context->core);
    if (c->shard->options.on_rests)
        (void)rests_write(context->core, context->now, &t->arena, &t->rests);
    if (c->shard->options.on_pools && t->status.counts.pools_version != t->pools_version &&
        pools_file_write(context->core, context->now, context->wall, &t->arena, &t->pools))
        buf_clear(&t->pools);
    status_look(context, t->status_wanted, &t->arena, &t->status);
    t->seconds = seconds_since(c, began);
}

static void decision_report(struct cycles *c, struct decision_job *t)
{
    struct shard_metrics *metrics = c->shard->metrics;

    t->status.seconds = seconds_since(c, c->cycle_began);
    t->status.phases[PHASE_RECONCILE] = c->list_seconds;
    shard_metrics_cycle_end(metrics, &t->status.counts, t->clusters, t->cluster_count);
    if (is_observed(c)) {
        for (enum cycle_phase i = PHASE_SNAPREAD; i < PHASE_COUNT; i++)
            shard_metrics_phase(metrics, i, t->status.phases[i]);
        shard_metrics_observe(metrics, OBSERVE_CYCLE, t->status.seconds);
    }
    status_take(c->shard, &t->status);
    if (t->pools.len) {
        c->pools_version = t->status.counts.pools_version;
        c->shard->options.on_pools(c->shard->options.owner, buf_peek(&t->pools));
    }
    if (t->rests.len) c->shard->options.on_rests(c->shard->options.owner, buf_peek(&t->rests));
}

static void decision_done(struct decide_job *job, enum err err)
{
    struct decision_job *t = CONTAINER_OF(job, struct decision_job, job);
    struct cycles *c = CONTAINER_OF(t, struct cycles, decision);

    c->cycling = false;
    c->last_ms = (uint64_t)(t->seconds * 1000);
    if (!err && t->err) LOG_ERROR(&c->shard->log, "cycle failed", log_err("err", t->err));
    if (!err) decision_report(c, t);
    buf_deinit(&t->status.inventory);
    buf_deinit(&t->rests);
    buf_deinit(&t->pools);
    arena_deinit(&t->arena);
    if (c->again && !c->shard->stopping) {
        c->again = false;
        cycles_wake(c->shard);
    }
}

/* `since`: the start of the cycle, before its List. */
static void decision_begin(struct cycles *c, mono_ns since)
{
    if (c->shard->stopping) return;
    if (c->cycling) {
        c->again = true;
        return;
    }
    c->cycling = true;
    c->cycles++;
    c->cycle_began = since;
    timer_stop(&c->wake);
    c->decision = (struct decision_job){.job = {.run = decision_run, .done = decision_done},
                                        .pools_version = c->pools_version,
                                        .status_wanted = status_wanted(c->shard)};
    buf_init(&c->decision.pools, POOLS_FILE_MAX);
    arena_init(&c->decision.arena, CLUSTERS_ARENA_MAX);
    buf_init(&c->decision.rests, RESTS_BYTES_MAX);
    decide_thread_submit(c->shard->decide_thread, &c->decision.job);
}

/* -- round trip 5 to the decide thread: the answer to a provider call -- */

static_assert((int)CALL_UNSENT == (int)PROVIDER_UNSENT, "enum call_end is enum provider_end");

struct provider_call {
    struct decide_job job;
    struct shard *shard;
    uint64_t action;               /* 0: a Get */
    struct provider_answer answer; /* its texts point into `held` */
    char *held;
    size_t len;
    char machine[];
};

/* An unreadable answer has an unknown outcome. */
static void call_read_record(const struct provider_call *call, struct decide_context *context,
                             struct machine_record *record, struct call_answer *answer,
                             struct note *note)
{
    struct str operation;
    enum err err = call->action ? machine_read_ack(context->reader, call->answer.bytes, &operation,
                                                   record, note)
                                : machine_read(context->reader, call->answer.bytes, record, note);

    if (err) {
        note_prefix(note, "the answer cannot be read");
        answer->end = CALL_UNKNOWN;
        answer->text = str_from(note->text);
        return;
    }
    answer->machine = &record->machine;
    answer->metadata = record->metadata;
    answer->metadata_count = record->metadata_count;
}

static void call_answer_run(struct decide_job *job, struct decide_context *context,
                            struct effects *out)
{
    struct provider_call *call = CONTAINER_OF(job, struct provider_call, job);
    struct call_answer answer = {.end = (enum call_end)call->answer.end, .text = call->answer.text};
    struct machine_record record;
    struct note note = {""};

    answer.exhausted = answer.end == CALL_REFUSED && call->answer.status == GRPC_RESOURCE_EXHAUSTED;
    if (answer.end == CALL_DONE) call_read_record(call, context, &record, &answer, &note);
    if (call->action)
        core_answered(context->core, call->action, &answer, context->now, context->wall, out);
    else
        core_got(context->core, str_of(call->machine, call->len), &answer, context->now, out);
}

static void call_done(struct decide_job *job, enum err)
{
    struct provider_call *call = CONTAINER_OF(job, struct provider_call, job);

    free(call->held);
    free(call);
}

/* Copies the answer. If memory runs out, the outcome is unknown. */
static void call_keep_answer(struct provider_call *call, const struct provider_answer *answer)
{
    struct str text = utf8_clip(answer->text, TEXT_MAX);
    size_t len = text.len + answer->bytes.len;
    char *at;

    call->answer = *answer;
    call->answer.text = text;
    call->held = len ? malloc(len) : NULL;
    if (len && !call->held) {
        call->answer = (struct provider_answer){.end = PROVIDER_UNKNOWN,
                                                .text = STR("out of memory for the answer")};
        return;
    }
    if (len == 0) return;
    at = call->held;
    call->answer.text = text_put(&at, text);
    call->answer.bytes = text_put(&at, answer->bytes);
}

static void on_answer(void *context, const struct provider_answer *answer)
{
    struct provider_call *call = context;

    call->shard->calls.under_way--;
    if (answer->end == PROVIDER_FENCED) hold_fenced(call->shard, answer->text);
    call_keep_answer(call, answer);
    decide_thread_submit(call->shard->decide_thread, &call->job);
}

static struct provider_request request_of(struct shard *shard, const struct effect *effect)
{
    static const enum provider_verb verbs[] = {[EFFECT_CREATE] = PROVIDER_CREATE,
                                               [EFFECT_CONFIGURE] = PROVIDER_CONFIGURE,
                                               [EFFECT_DRAIN] = PROVIDER_DRAIN,
                                               [EFFECT_DELETE] = PROVIDER_DELETE,
                                               [EFFECT_GET] = PROVIDER_GET};
    struct provider_request request = {
        .verb = verbs[effect->kind], .machine = effect->machine, .timeout_ms = effect->timeout_ms};

    if (effect->kind == EFFECT_DRAIN) request.grace_seconds = effect->drain.grace_ms / 1000;
    if (effect->kind != EFFECT_CONFIGURE) return request;
    request.blob = blob_kept(shard, effect->action);
    request.cluster = effect->cluster;
    request.metadata = effect->configure.metadata;
    request.metadata_count = effect->configure.metadata_count;
    return request;
}

bool call_provider(struct shard *shard, const struct effect *effect)
{
    struct provider_call *call = calloc(1, sizeof *call + effect->machine.len);
    struct provider_request request;
    enum err err;

    if (!call) return false;
    call->job = (struct decide_job){.run = call_answer_run, .done = call_done};
    call->shard = shard;
    call->action = effect->kind == EFFECT_GET ? 0 : effect->action;
    call->len = effect->machine.len;
    put_text(call->machine, effect->machine);
    request = request_of(shard, effect);
    err = provider_call(shard->options.provider, &request, on_answer, call);
    if (err == ERR_FULL || err == ERR_NOMEM) {
        free(call);
        return false;
    }
    if (effect->kind == EFFECT_CONFIGURE) blob_drop(shard, effect->action);
    shard->calls.under_way++;
    if (err)
        on_answer(call, &(struct provider_answer){.end = PROVIDER_REFUSED,
                                                  .text = str_from(err_text(err))});
    return true;
}

/* -- open and close -- */

enum err cycles_open(struct shard *shard)
{
    struct cycles *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    shard->cycles = c;
    c->shard = shard;
    err = timer_init(&c->tick, shard->io->loop, on_tick);
    return err ? err : timer_init(&c->wake, shard->io->loop, on_wake);
}

void cycles_start(struct shard *shard)
{
    timer_start_in(&shard->cycles->tick, 0);
}

void cycles_stop(struct shard *shard)
{
    timer_stop(&shard->cycles->tick);
    timer_stop(&shard->cycles->wake);
    if (shard->cycles->fetch) provider_fetch_cancel(shard->cycles->fetch);
}

void cycles_close(struct shard *shard)
{
    if (!shard->cycles) return;
    assert(!shard->cycles->fetch); /* the provider's client must be closed first */
    timer_deinit(&shard->cycles->tick);
    timer_deinit(&shard->cycles->wake);
    provider_list_close(shard->cycles->reading);
    free(shard->cycles);
    shard->cycles = NULL;
}
