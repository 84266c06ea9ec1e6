/* SPDX-License-Identifier: Apache-2.0 */
/* Turns sessions, roll-ups, blobs and drain reports of operators into decide thread jobs. */
#include <stdlib.h>
#include <string.h>

#include "shard/need_wire.h"
#include "shard/shard_internal.h"
#include "text/utf8.h"

/* -- sessions -- */

struct cluster_job {
    struct decide_job job;
    struct shard *shard;
    enum operator_link link;
    size_t len;
    char cluster[];
};

static struct str cluster_of(const struct cluster_job *t)
{
    return str_of(t->cluster, t->len);
}

/* Reports a cluster's connection to the core. If memory runs out, the cluster only gets no
 * hints. */
static void cluster_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    struct cluster_job *t = CONTAINER_OF(job, struct cluster_job, job);

    (void)core_session(context->core, cluster_of(t), t->link, context->now, out);
}

static void cluster_job_done(struct decide_job *job, enum err err)
{
    struct cluster_job *t = CONTAINER_OF(job, struct cluster_job, job);

    if (!err && t->link != OPERATOR_AWAY) sessions_resynced(t->shard->sessions, cluster_of(t));
    free(t);
}

static void submit_link(struct shard *shard, struct str cluster, enum operator_link link)
{
    struct cluster_job *t = malloc(sizeof *t + cluster.len);

    if (!t) {
        LOG_ERROR(&shard->log, "out of memory while opening or closing an operator's session",
                  log_str("cluster", cluster));
        return;
    }
    t->job = (struct decide_job){.run = cluster_run, .done = cluster_job_done};
    t->shard = shard;
    t->link = link;
    t->len = cluster.len;
    put_text(t->cluster, cluster);
    decide_thread_submit(shard->decide_thread, &t->job);
}

static void on_open(void *owner, struct str cluster, enum operator_link link)
{
    struct shard *shard = owner;

    submit_link(shard, cluster, link);
    if (link < OPERATOR_REPORTS_DRAINS || shard->options.core.operators_reported) return;
    shard->options.core.operators_reported = true; /* the core has a copy of this option */
    if (shard->options.on_reports_drains) shard->options.on_reports_drains(shard->options.owner);
}

static void on_close(void *owner, struct str cluster)
{
    submit_link(owner, cluster, OPERATOR_AWAY);
}

/* -- roll-ups -- */

struct rollup_job {
    struct decide_job job;
    struct shard *shard;
    struct rollup *rollup;
    enum rollup_end end;
    bool applied;
    struct rollup_rows rows;
};

static void rollup_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    struct rollup_job *t = CONTAINER_OF(job, struct rollup_job, job);
    enum rollup_verdict verdict = ROLLUP_HELD;
    enum err err = rollup_apply(context->core, t->rollup->cluster, t->rollup->bytes,
                                &context->scratch, context->now, &verdict, &t->rows, out);

    t->end = err ? ROLLUP_REFUSED : ROLLUP_ACKNOWLEDGED;
    t->applied = !err && verdict == ROLLUP_APPLIED;
}

static void rollup_job_done(struct decide_job *job, enum err err)
{
    struct rollup_job *t = CONTAINER_OF(job, struct rollup_job, job);

    if (t->rows.contradictions)
        LOG_WARN(&t->shard->log, "ignored rows of a roll-up that no machine can satisfy",
                 log_str("cluster", t->rollup->cluster), log_u64("rows", t->rows.contradictions),
                 log_text("first", t->rows.contradiction.text));
    if (t->applied) cycles_wake(t->shard);
    sessions_rollup_done(t->shard->sessions, t->rollup, err ? ROLLUP_REFUSED : t->end);
    free(t);
}

static void on_rollup(void *owner, struct rollup *rollup)
{
    struct shard *shard = owner;
    struct rollup_job *t = calloc(1, sizeof *t);

    if (!t) { /* the operator sends a roll-up again that is not acknowledged */
        sessions_rollup_done(shard->sessions, rollup, ROLLUP_REFUSED);
        return;
    }
    t->job = (struct decide_job){.run = rollup_run, .done = rollup_job_done};
    t->shard = shard;
    t->rollup = rollup;
    decide_thread_submit(shard->decide_thread, &t->job);
}

/* -- drains -- */

/* Bound of the drain reports that wait for the decide thread. Further reports are dropped, because
 * operators repeat them. */
enum { DRAIN_REPORTS_MAX = 16384, DRAIN_ERROR_MAX = 512 };

struct drain_job {
    struct decide_job job;
    struct shard *shard;
    struct drain_report report; /* its texts point into `texts` */
    char texts[];
};

static void drain_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    const struct drain_job *t = CONTAINER_OF(job, struct drain_job, job);

    core_drain_report(context->core, &t->report, context->now, context->wall, out);
}

static void drain_job_done(struct decide_job *job, enum err)
{
    struct drain_job *t = CONTAINER_OF(job, struct drain_job, job);

    t->shard->drain_reports--;
    free(t);
}

static void operators_on_drain_report(void *owner, const struct drain_report *report)
{
    struct shard *shard = owner;
    struct str error = utf8_clip(report->error, DRAIN_ERROR_MAX);
    struct drain_job *t = NULL;
    char *at;

    if (shard->drain_reports < DRAIN_REPORTS_MAX)
        t = malloc(sizeof *t + report->cluster.len + report->machine.len + error.len);
    if (!t) {
        LOG_WARN(&shard->log, "drain report dropped: too many are waiting; the operator repeats it",
                 log_str("cluster", report->cluster), log_str("machine", report->machine));
        return;
    }
    t->job = (struct decide_job){.run = drain_run, .done = drain_job_done};
    t->shard = shard;
    t->report = *report;
    at = t->texts;
    t->report.cluster = text_put(&at, report->cluster);
    t->report.machine = text_put(&at, report->machine);
    t->report.error = text_put(&at, error);
    shard->drain_reports++;
    decide_thread_submit(shard->decide_thread, &t->job);
}

const struct sessions_events operators_events = {
    .on_open = on_open,
    .on_close = on_close,
    .on_rollup = on_rollup,
    .on_blob = blob_answered,
    .on_drain_report = operators_on_drain_report,
};
