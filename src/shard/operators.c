/* What operators say, as thoughts: a session that came or went, a roll-up, a blob. */
#include <stdlib.h>
#include <string.h>

#include "shard/need_wire.h"
#include "shard/shard_internal.h"

/* -- what concerns a cluster: its session came or went, its roll-up was refused unread -- */

struct cluster_thought {
    struct thought thought;
    struct shard *shard;
    const char *refused; /* static: why; NULL: it is about the session */
    bool open;
    size_t len;
    char cluster[];
};

static struct str cluster_of(const struct cluster_thought *t)
{
    return str_of(t->cluster, t->len);
}

/* What finds no memory here is not lost: the operator's roll-ups and the next changes are heard all
 * the same, and a cluster the core does not know as connected gets no hints. */
static void think_cluster(struct thought *thought, struct mind *mind, struct effects *out)
{
    struct cluster_thought *t = CONTAINER_OF(thought, struct cluster_thought, thought);

    if (t->refused)
        core_rollup_refused(mind->core, cluster_of(t), t->refused, out);
    else
        (void)core_session(mind->core, cluster_of(t), t->open, mind->now, out);
}

static void cluster_thought_done(struct thought *thought, enum err err)
{
    struct cluster_thought *t = CONTAINER_OF(thought, struct cluster_thought, thought);

    if (!err && t->open) sessions_resynced(t->shard->sessions, cluster_of(t));
    free(t);
}

static void tell(struct shard *shard, struct str cluster, bool open, const char *refused)
{
    struct cluster_thought *t = malloc(sizeof *t + cluster.len);

    if (!t) {
        LOG_ERROR(&shard->log, "out of memory for what an operator said",
                  log_str("cluster", cluster));
        return;
    }
    t->thought = (struct thought){.think = think_cluster, .done = cluster_thought_done};
    t->shard = shard;
    t->refused = refused;
    t->open = open;
    t->len = cluster.len;
    put_text(t->cluster, cluster);
    thinker_submit(shard->thinker, &t->thought);
}

static void on_open(void *owner, struct str cluster)
{
    tell(owner, cluster, true, NULL);
}

static void on_close(void *owner, struct str cluster)
{
    tell(owner, cluster, false, NULL);
}

static void on_rollup_refused(void *owner, struct str cluster, const char *why)
{
    tell(owner, cluster, false, why);
}

/* -- roll-ups -- */

struct rollup_thought {
    struct thought thought;
    struct shard *shard;
    struct rollup *rollup;
    enum rollup_end end;
    bool applied;
    size_t contradictions;
    struct note contradiction; /* the first */
};

static void think_rollup(struct thought *thought, struct mind *mind, struct effects *out)
{
    struct rollup_thought *t = CONTAINER_OF(thought, struct rollup_thought, thought);
    enum rollup_verdict verdict = ROLLUP_HELD;
    struct rollup_rows rows = {0};
    enum err err = rollup_apply(mind->core, t->rollup->cluster, t->rollup->bytes, &mind->scratch,
                                mind->now, &verdict, &rows, out);

    t->contradictions = rows.contradictions;
    t->contradiction = rows.contradiction;
    t->end = err ? ROLLUP_REFUSED : ROLLUP_ACKNOWLEDGED;
    t->applied = !err && verdict == ROLLUP_APPLIED;
}

static void rollup_thought_done(struct thought *thought, enum err err)
{
    struct rollup_thought *t = CONTAINER_OF(thought, struct rollup_thought, thought);

    if (t->contradictions)
        LOG_WARN(&t->shard->log, "rows of a roll-up that no machine can satisfy were left out",
                 log_str("cluster", t->rollup->cluster), log_u64("rows", t->contradictions),
                 log_text("first", t->contradiction.text));
    if (t->applied) cycles_wake(t->shard);
    sessions_rollup_done(t->shard->sessions, t->rollup, err ? ROLLUP_REFUSED : t->end);
    free(t);
}

static void on_rollup(void *owner, struct rollup *rollup)
{
    struct shard *shard = owner;
    struct rollup_thought *t = calloc(1, sizeof *t);

    if (!t) { /* not acknowledged: it comes again */
        sessions_rollup_done(shard->sessions, rollup, ROLLUP_REFUSED);
        return;
    }
    t->thought = (struct thought){.think = think_rollup, .done = rollup_thought_done};
    t->shard = shard;
    t->rollup = rollup;
    thinker_submit(shard->thinker, &t->thought);
}

static void on_blob(void *owner, uint64_t action, enum blob_end end, struct str content)
{
    errands_blob(owner, action, end, content);
}

const struct sessions_events operators_events = {
    .on_open = on_open,
    .on_close = on_close,
    .on_rollup = on_rollup,
    .on_rollup_refused = on_rollup_refused,
    .on_blob = on_blob,
};
