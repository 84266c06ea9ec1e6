/* SPDX-License-Identifier: Apache-2.0 */
/* The view of the shard: its numbers for a report, its domains, the term that operators are told.
 *
 * Numbers are encoded where the resource names are, on the decide thread. A domain is on disk
 * before the core hears of it, so that what was acknowledged is still so after a crash; when the
 * core has no memory for it that is answered, and tried until it has. */
#include <stdlib.h>

#include "shard/need_wire.h"
#include "shard/shard_internal.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"

enum {
    REPORT_BYTES_MAX = 8 << 20,
    PART_BYTES_MAX = 1 << 20,
    /* of ShardReport */
    FIELD_SUMMARY = 5,
    FIELD_SHORTFALLS = 6,
    FIELD_SCOPE = 100,
    /* of ShardSummary */
    FIELD_TOTAL = 1,
    FIELD_FREE = 2,
    FIELD_TYPES = 3,
    FIELD_ZONES = 4,
    FIELD_PROVIDER = 7,
    /* of Shortfall */
    FIELD_REQUIREMENTS = 1,
    FIELD_DEFICIT = 2,
    FIELD_PRIORITY = 3,
    FIELD_AGE = 5,
    FIELD_BUCKET = 6,
    /* of an entry of a map */
    FIELD_KEY = 1,
    FIELD_VALUE = 2,
};

/* -- the report -- */

struct report_thought {
    struct thought thought;
    struct shard *shard;
    shard_report_fn *done;
    void *context;
    enum err err;
    bool scoped; /* a domain was given to the shard, at any time */
    struct buf fields, message, part, piece;
};

static void pack_counts(struct pack *pack, uint32_t field, const struct count_by_name *counts,
                        size_t count, struct buf *scratch)
{
    for (size_t i = 0; i < count; i++) {
        struct pack entry = pack_begin(scratch);

        pack_text(&entry, FIELD_KEY, counts[i].name);
        pack_u64(&entry, FIELD_VALUE, counts[i].count);
        pack_row(pack, field, &entry);
    }
}

static void pack_summary(struct report_thought *t, const struct core_summary *summary,
                         struct pack *fields)
{
    struct pack pack = pack_begin(&t->message);

    pack_u64(&pack, FIELD_TOTAL, summary->machines);
    pack_u64(&pack, FIELD_FREE, summary->free);
    pack_counts(&pack, FIELD_TYPES, summary->types, summary->type_count, &t->part);
    pack_counts(&pack, FIELD_ZONES, summary->zones, summary->zone_count, &t->part);
    pack_text(&pack, FIELD_PROVIDER, str_from(t->shard->provider_address));
    pack_row(fields, FIELD_SUMMARY, &pack);
}

static void pack_shortfall(struct report_thought *t, const struct shortfall *shortfall,
                           const struct dimensions *dimensions, struct pack *fields)
{
    struct pack pack = pack_begin(&t->message);

    pack_requirements(&pack, FIELD_REQUIREMENTS, &shortfall->profile, &t->part);
    pack_resources(&pack, FIELD_DEFICIT, &shortfall->lacking, dimensions, &t->part, &t->piece);
    pack_i64(&pack, FIELD_PRIORITY, shortfall->profile.priority);
    pack_u64(&pack, FIELD_AGE, shortfall->age);
    pack_u64(&pack, FIELD_BUCKET, shortfall->profile.interruption_bucket);
    pack_row(fields, FIELD_SHORTFALLS, &pack);
}

static void think_report(struct thought *thought, struct mind *mind, struct effects *out)
{
    struct report_thought *t = CONTAINER_OF(thought, struct report_thought, thought);
    const struct dimensions *dimensions = core_dimensions(mind->core);
    struct pack fields = pack_begin(&t->fields);
    struct core_summary summary;

    (void)out;
    t->err = core_summary(mind->core, &mind->scratch, &summary);
    if (t->err) return;
    pack_summary(t, &summary, &fields);
    for (size_t i = 0; i < summary.shortfall_count; i++)
        pack_shortfall(t, summary.shortfalls[i], dimensions, &fields);
    pack_u64(&fields, FIELD_SCOPE,
             t->scoped ? BIGFLEET__V1ALPHA1__SHARD_REPORT__SCOPE__SCOPE_DOMAINS
                       : BIGFLEET__V1ALPHA1__SHARD_REPORT__SCOPE__SCOPE_EVERYTHING);
    t->err = fields.err;
}

static void report_done(struct thought *thought, enum err err)
{
    struct report_thought *t = CONTAINER_OF(thought, struct report_thought, thought);

    t->done(t->context, err ? err : t->err, buf_peek(&t->fields));
    buf_deinit(&t->fields);
    buf_deinit(&t->message);
    buf_deinit(&t->part);
    buf_deinit(&t->piece);
    free(t);
}

static void report(void *shard, shard_report_fn *done, void *context)
{
    struct report_thought *t = calloc(1, sizeof *t);
    struct shard *s = shard;

    if (!t) {
        done(context, ERR_NOMEM, STR_EMPTY);
        return;
    }
    *t = (struct report_thought){
        .thought = {.think = think_report, .done = report_done},
        .shard = s,
        .done = done,
        .context = context,
        .scoped = domains_given(s->options.domains),
    };
    buf_init(&t->fields, REPORT_BYTES_MAX);
    buf_init(&t->message, PART_BYTES_MAX);
    buf_init(&t->part, PART_BYTES_MAX);
    buf_init(&t->piece, PART_BYTES_MAX);
    thinker_submit(s->thinker, &t->thought);
}

/* -- domains -- */

struct scope_thought {
    struct thought thought;
    struct shard *shard;
    shard_domain_fn *done;
    void *context;
    enum err written; /* of the file: ERR_OK or ERR_UNKNOWN */
    enum err err;
    struct arena arena;
    bool given;
    struct domain *domains;
    size_t count;
};

static void think_scope(struct thought *thought, struct mind *mind, struct effects *out)
{
    struct scope_thought *t = CONTAINER_OF(thought, struct scope_thought, thought);

    t->err = core_scope(mind->core, t->given, t->domains, t->count, mind->now, out);
}

static void scope_done(struct thought *thought, enum err err)
{
    struct scope_thought *t = CONTAINER_OF(thought, struct scope_thought, thought);

    /* Nobody asked: these are the domains of the start. Without them everything would be ours. */
    assert(t->done || !t->err);
    if (!err && t->err) t->shard->scope_owed = true;
    if (!err) err = t->err ? t->err : t->written;
    if (t->done) t->done(t->context, err);
    arena_deinit(&t->arena);
    free(t);
}

static enum err copy_domains(struct scope_thought *t, const struct domains *from)
{
    const struct label *each = domains_list(from, &t->count);

    t->given = domains_given(from);
    t->domains = arena_calloc(&t->arena, t->count, sizeof *t->domains);
    if (!t->domains) return ERR_NOMEM;
    for (size_t i = 0; i < t->count; i++) {
        const char *key = arena_dup(&t->arena, each[i].key);
        const char *value = arena_dup(&t->arena, each[i].value);

        if (!key || !value) return ERR_NOMEM;
        t->domains[i] =
            (struct domain){str_of(key, each[i].key.len), str_of(value, each[i].value.len)};
    }
    return ERR_OK;
}

enum err report_scope(struct shard *shard, enum err written, shard_domain_fn *done, void *context)
{
    struct scope_thought *t = calloc(1, sizeof *t);
    enum err err;

    if (!t) return ERR_NOMEM;
    *t = (struct scope_thought){
        .thought = {.think = think_scope, .done = scope_done},
        .shard = shard,
        .done = done,
        .context = context,
        .written = written,
    };
    arena_init(&t->arena, SIZE_MAX);
    err = copy_domains(t, shard->options.domains);
    if (err) {
        arena_deinit(&t->arena);
        free(t);
        return err;
    }
    thinker_submit(shard->thinker, &t->thought);
    return ERR_OK;
}

static void on_paid(void *context, enum err err)
{
    (void)context;
    (void)err; /* owed still, or not any more */
}

/* What is on disk is what a restart would find: the core is told until it has heard it. */
void report_scope_owed(struct shard *shard)
{
    if (!shard->scope_owed || shard->stopping) return;
    shard->scope_owed = report_scope(shard, ERR_OK, on_paid, NULL) != ERR_OK;
}

static void assign(void *shard, struct str key, struct str value, bool assigned,
                   shard_domain_fn *done, void *context)
{
    struct shard *s = shard;
    struct note note = {""};
    enum err err =
        domains_set(s->options.domains, key, value, assigned, entropy_u64(s->io->entropy), &note);

    if (!err || err == ERR_UNKNOWN) {
        LOG_INFO(&s->log, "domain", log_bool("ours", assigned), log_str("key", key),
                 log_str("value", value), log_bool("durable", !err));
        err = report_scope(s, err, done, context);
        if (!err) return;
        s->scope_owed = true;
    }
    LOG_WARN(&s->log, "domain not changed", log_str("key", key), log_str("value", value),
             log_err("err", err), log_text("why", note.text));
    done(context, err);
}

static void set_term(void *shard, int64_t term)
{
    struct shard *s = shard;

    sessions_set_term(s->sessions, term);
}

struct shard_view shard_view(struct shard *shard)
{
    return (struct shard_view){
        .shard = shard, .report = report, .assign = assign, .term = set_term};
}
