/* SPDX-License-Identifier: Apache-2.0 */
/* When the shard looks, and when it decides.
 *
 *   tick  -> List -> its end -> cycle
 *   wake  ---------------------> cycle
 *
 * Every interval the provider is asked for its machines; when the answer is read, or has failed, a
 * cycle decides. An answer that takes longer than the interval is not waited for: the tick decides
 * over what is known. Demand that changed wakes a cycle of its own, which does not ask again.
 * Cycles never overlap, wakes that come meanwhile are one, and between woken cycles lies at least
 * as much time as the last one took, so that a storm of roll-ups takes half of the thread at most.
 *
 * The bytes of a List go to the decide thread piece by piece and are read there; when it is behind,
 * the provider is held. */
#include <stdlib.h>
#include <string.h>

#include "provider/list.h"
#include "shard/rests.h"
#include "shard/shard_internal.h"

enum {
    WAKE_GAP_MS = 20,  /* between woken cycles, at least */
    CURSOR_MAX = 4096, /* bytes of a revision or a page's name; longer ones are not used */
    PAGES_MAX = 16384, /* of one List; a provider that always has one more is not followed */
    CLUSTERS_ARENA_MAX = 64 << 20,
};

struct token { /* opaque bytes of the provider */
    size_t len;
    char bytes[CURSOR_MAX];
};

enum list_step { LIST_BEGINS, LIST_PIECE, LIST_ENDS };
struct list_job {
    struct decide_job job;
    struct cycles *cycles;
    enum list_step step;
    bool first;   /* LIST_BEGINS: the first page */
    bool arrived; /* LIST_ENDS: the provider has sent all of it */
    bool delta;
    /* what LIST_ENDS found out */
    bool whole, more, ready;
    uint64_t machines;
    struct token cursor;
    struct token page; /* that was asked for; then the next one */
    struct note why;
    struct provider_chunk *chunk; /* LIST_PIECE */
};

struct cycles {
    struct shard *shard;
    struct timer tick, wake;
    /* -- the List -- */
    struct provider_fetch *fetch;  /* NULL: none runs */
    struct provider_list *reading; /* the decide thread's, as the next two */
    struct decide_context *context;
    struct effects *out; /* of the job that runs */
    /* Of the page that is read: there is one at a time, and a List that found no memory for its end
     * would be the last one. */
    struct list_job begins, ends;
    bool given_up;     /* the rest of this List is not read */
    bool whole;        /* so were all its pages so far; the decide thread's, as the next one */
    uint32_t pages;    /* of this List */
    bool listing, cut; /* cut: a part of it was lost here */
    uint64_t machines;
    mono_ns list_began;
    double list_seconds; /* of the last one */
    struct token cursor, page;
    bool delta;
    uint64_t failed; /* Lists in a row that were not whole */
    mono_ns failing; /* since */
    /* -- the cycle -- */
    bool cycling, again;
    mono_ns cycle_began;
    uint64_t cycles, last_ms;
    bool ready;
};

static void begin_cycle(struct cycles *c, mono_ns since);
static void begin_list(struct cycles *c);

static double seconds_since(const struct cycles *c, mono_ns since)
{
    return (double)(clock_mono_ns(c->shard->io->clock).ns - since.ns) / 1e9;
}

/* Of the cycle that is to come, or runs. */
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

/* -- List, on the decide thread -- */

static enum err on_machine(void *context, const struct machine_record *record)
{
    const struct cycles *r = context;

    return core_list_machine(r->context->core, &record->machine, record->metadata,
                             record->metadata_count, r->context->now, r->out);
}

static void on_refused(void *context, struct str id, const char *why)
{
    const struct cycles *r = context;

    core_list_refused(r->context->core, id, why, r->out);
}

static void on_removed(void *context, struct str id)
{
    const struct cycles *r = context;

    core_list_gone(r->context->core, id, r->context->now, r->out);
}

static const struct provider_list_events list_events = {
    .on_machine = on_machine, .on_refused = on_refused, .on_removed = on_removed};

static void list_give_up(struct cycles *c, struct list_job *t, const struct note *note)
{
    c->given_up = true;
    t->why = *note;
}

static void list_begins(struct list_job *t, struct decide_context *context)
{
    struct cycles *c = t->cycles;
    struct note note = {"out of memory"};

    if (t->first) {
        c->given_up = false;
        c->whole = true;
        c->pages = 0;
        core_list_begin(context->core, t->delta ? LIST_DELTA : LIST_FULL);
    }
    provider_list_close(c->reading);
    c->reading = NULL;
    if (provider_list_open(context->reader, &list_events, c, &c->reading))
        list_give_up(c, t, &note);
}

/* `page` is the name of the one that was read. Why no other can follow it; NULL: it can. */
static const char *lost_after(const struct cycles *c, const struct token *page, struct str next)
{
    if (next.len > CURSOR_MAX) return "next_page: too long";
    if (str_equal(next, token_bytes(page))) return "next_page: the one that was asked for";
    return c->pages >= PAGES_MAX ? "more pages than anybody needs" : NULL;
}

static void list_ends(struct list_job *t, struct decide_context *context, struct effects *out)
{
    struct cycles *c = t->cycles;
    struct provider_list_end end = {0};
    struct note note = {""};
    const char *lost;

    if (t->arrived && !c->given_up && provider_list_finish(c->reading, &end, &note))
        list_give_up(c, t, &note);
    c->whole = c->whole && end.whole;
    c->pages++;
    lost = end.more ? lost_after(c, &t->page, end.next_page) : NULL;
    if (lost) {
        note_set(&note, "%s", lost);
        list_give_up(c, t, &note);
    }
    t->page.len = 0;
    t->machines = end.machines;
    t->more = t->arrived && !c->given_up && end.more;
    if (t->more) {
        token_keep(&t->page, end.next_page);
        return;
    }
    t->whole = t->arrived && !c->given_up && c->whole;
    core_list_end(context->core, t->whole, context->now, out);
    if (!core_wants_full_list(context->core)) token_keep(&t->cursor, end.cursor);
    t->ready = core_listed(context->core);
    provider_list_close(c->reading);
    c->reading = NULL;
}

static void list_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    struct list_job *t = CONTAINER_OF(job, struct list_job, job);
    struct cycles *c = t->cycles;
    struct note note = {""};

    c->context = context;
    c->out = out;
    switch (t->step) {
    case LIST_BEGINS: list_begins(t, context); break;
    case LIST_PIECE:
        if (!c->given_up && provider_list_feed(c->reading, t->chunk->bytes, &note))
            list_give_up(c, t, &note);
        break;
    case LIST_ENDS: list_ends(t, context, out); break;
    }
}

/* -- List, on the loop -- */

static void list_failed(struct cycles *c, const char *why)
{
    LOG_WARN(&c->shard->log, "reconcile failed", log_text("why", why));
}

/* Whoever reads of the failures wants to read that they are over. */
static void list_note_failures(struct cycles *c, bool whole)
{
    if (whole && c->failed)
        LOG_INFO(&c->shard->log, "provider answers again", log_u64("failed", c->failed),
                 log_f64("seconds", seconds_since(c, c->failing)));
    if (!whole && !c->failed) c->failing = c->list_began;
    c->failed = whole ? 0 : c->failed + 1;
}

static void list_over(struct cycles *c, const struct list_job *t)
{
    double seconds = seconds_since(c, c->list_began);

    c->listing = false;
    c->list_seconds = seconds;
    if (!c->shard->stopping) list_note_failures(c, t->whole);
    shard_metrics_list(c->shard->metrics, t->whole, c->machines, seconds);
    if (is_observed(c)) shard_metrics_phase(c->shard->metrics, PHASE_RECONCILE, seconds);
    c->cursor = t->whole && c->shard->options.incremental ? t->cursor : (struct token){0};
    if (t->ready && !c->ready) {
        c->ready = true;
        if (c->shard->options.on_ready) c->shard->options.on_ready(c->shard->options.owner);
    }
    begin_cycle(c, c->list_began);
}

static void list_job_done(struct decide_job *job, enum err err)
{
    struct list_job *t = CONTAINER_OF(job, struct list_job, job);
    struct cycles *c = t->cycles;

    if (t->why.text[0]) list_failed(c, t->why.text);
    if (t->chunk) provider_chunk_done(t->chunk);
    if (!err && t->step == LIST_ENDS) {
        c->machines += t->machines;
        c->page = t->page;
        if (t->more)
            begin_list(c);
        else
            list_over(c, t);
    }
    if (t->step == LIST_PIECE) free(t);
}

static void list_job_make(struct list_job *t, struct cycles *c, enum list_step step)
{
    *t = (struct list_job){.job = {.run = list_run, .done = list_job_done},
                           .cycles = c,
                           .step = step,
                           .delta = c->delta};
}

static void on_chunk(void *context, struct provider_chunk *own_chunk)
{
    struct cycles *c = context;
    struct list_job *t = malloc(sizeof *t);

    if (!t) { /* the rest makes no sense without it */
        c->cut = true;
        provider_chunk_done(own_chunk);
        provider_fetch_cancel(c->fetch);
        return;
    }
    list_job_make(t, c, LIST_PIECE);
    t->chunk = own_chunk;
    decide_thread_submit(c->shard->decide_thread, &t->job);
}

static void end_list(struct cycles *c, bool arrived)
{
    list_job_make(&c->ends, c, LIST_ENDS);
    c->ends.arrived = arrived;
    c->ends.page = c->page;
    decide_thread_submit(c->shard->decide_thread, &c->ends.job);
}

static void on_list_end(void *context, const struct provider_answer *answer)
{
    struct cycles *c = context;
    bool arrived = answer->end == PROVIDER_DONE && !c->cut;

    c->fetch = NULL;
    if (!arrived && !c->shard->stopping)
        LOG_WARN(&c->shard->log, "reconcile failed", log_str("why", answer->text));
    end_list(c, arrived);
}

static const struct provider_fetch_events fetch_events = {.on_chunk = on_chunk,
                                                          .on_end = on_list_end};

static void begin_list(struct cycles *c)
{
    struct provider_fetch_request request = {.cursor = token_bytes(&c->cursor),
                                             .page_token = token_bytes(&c->page)};
    bool first = c->page.len == 0;
    enum err err;

    if (c->shard->stopping) return;
    c->cut = false;
    if (first) {
        c->listing = true;
        c->machines = 0;
        c->delta = c->cursor.len > 0;
        c->list_began = clock_mono_ns(c->shard->io->clock);
    }
    list_job_make(&c->begins, c, LIST_BEGINS);
    c->begins.first = first;
    decide_thread_submit(c->shard->decide_thread, &c->begins.job);
    err = provider_fetch_start(c->shard->options.provider, &request, &fetch_events, c, &c->fetch);
    if (!err) return;
    list_failed(c, err_text(err));
    end_list(c, false);
}

/* -- the cycle -- */

struct cycle_job {
    struct decide_job job;
    struct cycles *cycles;
    struct clock *clock;
    mono_ns last;
    double job_seconds;
    enum err err;
    struct arena arena;
    struct cluster_counts *clusters;
    size_t cluster_count;
    struct buf rests; /* empty: not wanted, or no memory */
    struct status_cycle status;
    bool status_wanted;
};

static void cycle_mark(void *context, enum cycle_phase phase)
{
    struct cycle_job *t = context;
    mono_ns now = clock_mono_ns(t->clock);

    t->status.phases[phase] = (double)(now.ns - t->last.ns) / 1e9;
    t->last = now;
}

static void cycle_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    struct cycle_job *t = CONTAINER_OF(job, struct cycle_job, job);
    mono_ns began = clock_mono_ns(t->clock);

    t->last = began;
    t->err = core_cycle(context->core, context->now, context->wall, cycle_mark, t, out);
    if (core_clusters(context->core, &t->arena, &t->clusters, &t->cluster_count))
        t->cluster_count = 0;
    t->status.counts = *core_counts(context->core);
    if (t->cycles->shard->options.on_rests)
        (void)rests_write(context->core, context->now, &t->arena, &t->rests);
    status_look(context->core, t->status_wanted, &t->arena, &t->status);
    t->job_seconds = (double)(clock_mono_ns(t->clock).ns - began.ns) / 1e9;
}

static void cycle_report(struct cycles *c, struct cycle_job *t)
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
}

static void cycle_done(struct decide_job *job, enum err err)
{
    struct cycle_job *t = CONTAINER_OF(job, struct cycle_job, job);
    struct cycles *c = t->cycles;

    c->cycling = false;
    c->last_ms = (uint64_t)(t->job_seconds * 1000);
    if (!err && t->err) LOG_ERROR(&c->shard->log, "cycle failed", log_err("err", t->err));
    if (!err) cycle_report(c, t);
    buf_deinit(&t->status.inventory);
    if (!err && t->rests.len)
        c->shard->options.on_rests(c->shard->options.owner, buf_peek(&t->rests));
    buf_deinit(&t->rests);
    arena_deinit(&t->arena);
    free(t);
    if (c->again && !c->shard->stopping) {
        c->again = false;
        cycles_wake(c->shard);
    }
}

/* `since`: when it began, its List counted. */
static void begin_cycle(struct cycles *c, mono_ns since)
{
    struct cycle_job *t;

    if (c->shard->stopping) return;
    if (c->cycling) {
        c->again = true;
        return;
    }
    t = calloc(1, sizeof *t);
    if (!t) return; /* the next tick tries again */
    c->cycling = true;
    c->cycles++;
    c->cycle_began = since;
    timer_stop(&c->wake);
    t->job = (struct decide_job){.run = cycle_run, .done = cycle_done};
    t->cycles = c;
    t->clock = c->shard->io->clock;
    t->status_wanted = status_wanted(c->shard);
    arena_init(&t->arena, CLUSTERS_ARENA_MAX);
    buf_init(&t->rests, RESTS_BYTES_MAX);
    decide_thread_submit(c->shard->decide_thread, &t->job);
}

void cycles_wake(struct shard *shard)
{
    struct cycles *c = shard->cycles;
    uint64_t gap = c->last_ms > WAKE_GAP_MS ? c->last_ms : WAKE_GAP_MS;

    /* Before the first List there is nothing to decide over, and its end decides anyway. */
    if (shard->stopping || !shard->started || c->cycles == 0) return;
    if (c->cycling)
        c->again = true;
    else if (!timer_running(&c->wake))
        timer_start_in(&c->wake, gap);
}

static void on_wake(struct timer *timer)
{
    struct cycles *c = CONTAINER_OF(timer, struct cycles, wake);

    begin_cycle(c, clock_mono_ns(c->shard->io->clock));
}

static void on_tick(struct timer *timer)
{
    struct cycles *c = CONTAINER_OF(timer, struct cycles, tick);

    timer_start_in(&c->tick, c->shard->options.cycle_ms);
    if (!c->listing) {
        c->page.len = 0;
        begin_list(c);
    } else if (c->cycles) {
        begin_cycle(c, clock_mono_ns(c->shard->io->clock));
    }
}

/* -- life -- */

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
    assert(!shard->cycles->fetch); /* the provider's client is closed first */
    timer_deinit(&shard->cycles->tick);
    timer_deinit(&shard->cycles->wake);
    provider_list_close(shard->cycles->reading);
    free(shard->cycles);
    shard->cycles = NULL;
}
