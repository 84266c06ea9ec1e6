/* SPDX-License-Identifier: Apache-2.0 */
/* Implements view.h: the shard's numbers for a report, its domains, and its term for operators.
 *
 * A domain is written to disk before the core receives it, so that an acknowledged domain survives
 * a crash. Removing a domain returns ERR_OK only when the core acts on no machine of the domain any
 * more, because the coordinator then gives the domain to another shard. */
#include <inttypes.h>
#include <stdlib.h>

#include "shard/need_wire.h"
#include "shard/shard_internal.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"

enum { REPORT_BYTES_MAX = 8 << 20 };

/* -- the report -- */

struct report_job {
    struct decide_job job;
    struct shard *shard;
    shard_report_fn *done;
    void *context;
    enum err err;
    bool scoped;       /* a domain was ever assigned to the shard */
    struct buf fields; /* encoded, the domains first */
};

static void report_pack_counts(struct pack *pack, uint32_t field,
                               const struct count_by_name *counts, size_t count,
                               struct buf *scratch)
{
    for (size_t i = 0; i < count; i++) {
        struct pack entry = pack_begin(scratch);

        pack_text(&entry, 1, counts[i].name);
        pack_u64(&entry, 2, counts[i].count);
        pack_row(pack, field, &entry);
    }
}

static void pack_summary(struct report_job *t, const struct core_summary *summary,
                         struct pack *fields, struct frame_writer *scratch)
{
    struct pack pack = pack_begin(&scratch->body);

    pack_u64(&pack, 1, summary->machines);
    pack_u64(&pack, 2, summary->free);
    report_pack_counts(&pack, 3, summary->types, summary->type_count, &scratch->part);
    report_pack_counts(&pack, 4, summary->zones, summary->zone_count, &scratch->part);
    pack_text(&pack, 7, str_from(t->shard->provider_address));
    pack_row(fields, 5, &pack);
}

static void pack_shortfall(const struct shortfall *shortfall, const struct dimensions *dimensions,
                           struct pack *fields, struct frame_writer *scratch)
{
    struct pack pack = pack_begin(&scratch->body);

    pack_requirements(&pack, 1, &shortfall->profile, &scratch->part);
    pack_resources(&pack, 2, &shortfall->lacking, dimensions, &scratch->part, &scratch->piece);
    pack_i64(&pack, 3, shortfall->profile.priority);
    pack_u64(&pack, 5, shortfall->age);
    pack_u64(&pack, 6, shortfall->profile.interruption_bucket);
    pack_row(fields, 6, &pack);
}

static void report_run(struct decide_job *job, struct decide_context *context, struct effects *)
{
    struct report_job *t = CONTAINER_OF(job, struct report_job, job);
    const struct dimensions *dimensions = core_dimensions(context->core);
    struct frame_writer *scratch = &context->frames;
    struct pack fields = {&t->fields, ERR_OK};
    struct core_summary summary;

    t->err = core_summary(context->core, &context->scratch, &summary);
    if (t->err) return;
    pack_summary(t, &summary, &fields, scratch);
    for (size_t i = 0; i < summary.shortfall_count; i++)
        pack_shortfall(summary.shortfalls[i], dimensions, &fields, scratch);
    pack_u64(&fields, 100,
             t->scoped ? BIGFLEET__V1ALPHA1__SHARD_REPORT__SCOPE__SCOPE_DOMAINS
                       : BIGFLEET__V1ALPHA1__SHARD_REPORT__SCOPE__SCOPE_EVERYTHING);
    t->err = fields.err;
}

static void report_done(struct decide_job *job, enum err err)
{
    struct report_job *t = CONTAINER_OF(job, struct report_job, job);

    t->done(t->context, err ? err : t->err, buf_peek(&t->fields));
    buf_deinit(&t->fields);
    free(t);
}

/* Packs as many domains as fit into one report, starting where the last report ended. */
static enum err report_pack_domains(struct shard *shard, struct buf *into, struct buf *scratch)
{
    size_t count;
    const struct label *each = domains_list(shard->options.domains, &count);
    struct pack pack = pack_begin(into);

    for (size_t i = 0; i < min_size(count, SHARD_VIEW_DOMAINS) && !pack.err; i++) {
        const struct label *domain = &each[shard->domain_next++ % count];
        struct pack row = pack_begin(scratch);

        pack_text(&row, 1, domain->key);
        pack_text(&row, 2, domain->value);
        pack_row(&pack, 102, &row);
    }
    return pack.err;
}

static void report_make(void *shard, shard_report_fn *done, void *context)
{
    struct report_job *t = calloc(1, sizeof *t);
    struct shard *s = shard;

    if (!t) {
        done(context, ERR_NOMEM, STR_EMPTY);
        return;
    }
    *t = (struct report_job){
        .job = {.run = report_run, .done = report_done},
        .shard = s,
        .done = done,
        .context = context,
        .scoped = domains_given(s->options.domains),
    };
    buf_init(&t->fields, REPORT_BYTES_MAX);
    if (report_pack_domains(s, &t->fields, &s->status.row))
        buf_clear(&t->fields); /* the domains are optional */
    decide_thread_submit(s->decide_thread, &t->job);
}

/* -- domains -- */

struct scope_job {
    struct decide_job job;
    struct shard *shard;
    shard_domain_fn *done;
    void *context;
    enum err written; /* result of writing the file: ERR_OK or ERR_UNKNOWN */
    enum err err;
    struct arena arena;
    bool given;
    struct label *domains;
    size_t count;
    struct label *left; /* a removed domain; empty key: none */
    uint32_t serving;   /* machines of `left` that the core still acts on */
    bool more;          /* `serving` is a lower bound */
};

static void scope_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    struct scope_job *t = CONTAINER_OF(job, struct scope_job, job);

    t->err = core_scope(context->core, t->given, t->domains, t->count, context->now, out);
    if (!t->err && t->left->key.len)
        t->err = core_serving(context->core, t->left, &t->serving, &t->more);
}

static void scope_busy(const struct scope_job *t)
{
    struct note why;

    note_set(&why, "%s%" PRIu32 " machine%s of %.*s=%.*s still serve%s", t->more ? "at least " : "",
             t->serving, t->serving == 1 ? "" : "s", STR_ARG(t->left->key), STR_ARG(t->left->value),
             t->serving == 1 ? "s" : "");
    t->done(t->context, ERR_BUSY, str_from(why.text));
}

static void scope_done(struct decide_job *job, enum err err)
{
    struct scope_job *t = CONTAINER_OF(job, struct scope_job, job);

    /* The start's job must not fail, because the core would then own all machines. */
    assert(t->done || !t->err);
    if (!err && t->err) t->shard->scope_owed = true;
    if (!err) err = t->err ? t->err : t->written;
    if (t->done && !err && t->serving)
        scope_busy(t);
    else if (t->done)
        t->done(t->context, err, STR_EMPTY);
    arena_deinit(&t->arena);
    free(t);
}

enum err report_scope(struct shard *shard, enum err written, const struct label *left,
                      shard_domain_fn *done, void *context)
{
    struct scope_job *t = calloc(1, sizeof *t);
    const struct label *domains;
    enum err err;

    if (!t) return ERR_NOMEM;
    *t = (struct scope_job){
        .job = {.run = scope_run, .done = scope_done},
        .shard = shard,
        .done = done,
        .context = context,
        .written = written,
        .given = domains_given(shard->options.domains),
    };
    arena_init(&t->arena, SIZE_MAX);
    domains = domains_list(shard->options.domains, &t->count);
    err = labels_copy(&t->arena, domains, t->count, &t->domains);
    if (!err) err = labels_copy(&t->arena, left, 1, &t->left);
    if (err) {
        arena_deinit(&t->arena);
        free(t);
        return err;
    }
    decide_thread_submit(shard->decide_thread, &t->job);
    return ERR_OK;
}

static void on_scope_retried(void *, enum err, struct str) {}

/* Passes the domains to the core again after memory ran out. */
void report_scope_owed(struct shard *shard)
{
    const struct label none = {STR_EMPTY, STR_EMPTY};

    if (!shard->scope_owed || shard->stopping) return;
    shard->scope_owed = report_scope(shard, ERR_OK, &none, on_scope_retried, NULL) != ERR_OK;
}

static void domain_assign(void *shard, struct str key, struct str value, bool assigned,
                          shard_domain_fn *done, void *context)
{
    struct shard *s = shard;
    struct note note = {""};
    struct label left =
        assigned ? (struct label){STR_EMPTY, STR_EMPTY} : (struct label){key, value};
    size_t before, after;
    enum err err;

    (void)domains_list(s->options.domains, &before);
    err = domains_set(s->options.domains, key, value, assigned, entropy_u64(s->io->entropy), &note);
    (void)domains_list(s->options.domains, &after);
    if (!err || err == ERR_UNKNOWN) {
        if (before != after)
            LOG_INFO(&s->log, "the coordinator changed a domain of this shard",
                     log_bool("ours", assigned), log_str("key", key), log_str("value", value),
                     log_bool("durable", !err));
        err = report_scope(s, err, &left, done, context);
        if (!err) return;
        s->scope_owed = true;
    }
    LOG_WARN(&s->log, "a domain of this shard could not be changed", log_bool("ours", assigned),
             log_str("key", key), log_str("value", value), log_err("err", err),
             log_text("why", note.text));
    done(context, err, str_from(note.text));
}

static void term_set(void *shard, int64_t term)
{
    struct shard *s = shard;

    sessions_set_term(s->sessions, term);
}

struct shard_view shard_view(struct shard *shard)
{
    return (struct shard_view){
        .shard = shard, .report = report_make, .assign = domain_assign, .term = term_set};
}
