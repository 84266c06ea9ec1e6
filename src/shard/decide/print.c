/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a decision as the transcript that decide.h describes. */
#include <inttypes.h>

#include "shard/decide/decide.h"

static const struct {
    const char *name, *reason;
} kinds[] = {
    [ACTION_BOOTSTRAP] = {"bootstrap", "phase1.idle"},
    [ACTION_PROVISION] = {"provision", "phase1.speculative"},
    [ACTION_PREEMPT] = {"preempt", "phase2.inversion"},
    [ACTION_RECLAIM] = {"reclaim", "phase3.excess"},
    [ACTION_DELETE] = {"delete", "phase3.release"},
};

const char *action_kind_name(enum action_kind kind)
{
    return kinds[kind].name;
}

const char *action_reason(enum action_kind kind)
{
    return kinds[kind].reason;
}

/* The first failure stays; nothing is written after it. */
struct transcript {
    struct buf *out;
    const struct dimensions *dimensions;
    enum err err;
};

static void transcript_add(struct transcript *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void transcript_add(struct transcript *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!t->err) t->err = buf_vappendf(t->out, format, args);
    va_end(args);
}

static void transcript_text(struct transcript *t, struct str text)
{
    transcript_add(t, "\"");
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        transcript_add(t, c < 0x20 || c > 0x7E || c == '"' || c == '\\' ? "\\x%02x" : "%c", c);
    }
    transcript_add(t, "\"");
}

static void transcript_key(struct transcript *t, const struct need_key *key)
{
    transcript_text(t, key->cluster);
    transcript_add(t, " ");
    transcript_text(t, key->fingerprint);
    transcript_add(t, " ");
    transcript_text(t, key->group);
}

static void transcript_amounts(struct transcript *t, const char *name,
                               const struct amounts *amounts)
{
    struct resource_sum sum;

    transcript_add(t, " %s=%s", name, amounts->mask ? "" : "-");
    amounts_sum(amounts, &sum);
    if (!t->err && amounts->mask) t->err = resource_sum_key(t->dimensions, &sum, t->out);
}

static void transcript_shortage(struct transcript *t, const struct shortage *s)
{
    transcript_add(t, " idle=%" PRIu32 " speculative=%" PRIu32 " configured=%" PRIu32 " domains=%s",
                   s->idle_count, s->speculative_count, s->configured_count,
                   s->domain_count ? "" : "-");
    for (uint32_t i = 0; i < s->domain_count; i++) {
        if (i) transcript_add(t, ",");
        transcript_text(t, s->domains[i].value);
        transcript_add(t, ":%" PRIu32, s->domains[i].per_mille);
    }
    transcript_add(t, " victims=%" PRIu32, s->victims);
    transcript_amounts(t, "freed", &s->freed);
    transcript_amounts(t, "unresolved", &s->unresolved);
    transcript_add(t, " reason=%s", verdict_reason_name(s->reason));
}

static void transcript_verdict(struct transcript *t, const struct need_verdict *v)
{
    static const struct amounts nothing;

    transcript_add(t, "need ");
    transcript_key(t, &v->need->key);
    transcript_amounts(t, "agg", &v->need->aggregate);
    transcript_amounts(t, "unit", v->need->min_unit);
    transcript_add(t, " arrival=%" PRId64 " parked=%d satisfied=%d", v->need->arrival_unix_ns,
                   v->parked, v->satisfied);
    transcript_amounts(t, "deficit", v->shortage ? &v->shortage->deficit : &nothing);
    transcript_add(t, " claimed=%" PRIu32 " bootstraps=%" PRIu32 " provisions=%" PRIu32 " domain=",
                   v->claimed, v->bootstraps, v->provisions);
    if (v->has_domain)
        transcript_text(t, v->domain);
    else
        transcript_add(t, "-");
    transcript_add(t, " satisfiable=%d", v->satisfiable);
    if (v->shortage) transcript_shortage(t, v->shortage);
    transcript_add(t, "\n");
}

static void transcript_action(struct transcript *t, const struct action *action)
{
    transcript_add(t, "%s ", action_kind_name(action->kind));
    transcript_text(t, action->machine);
    transcript_add(t, " ");
    transcript_text(t, action->cluster);
    transcript_add(t, " for ");
    if (action->key.cluster.len)
        transcript_key(t, &action->key);
    else
        transcript_add(t, "-");
    transcript_add(t, " prio=%" PRId32 " grace=%" PRIu64 " %s\n", action->priority,
                   action->grace_ms, action_reason(action->kind));
}

enum err decision_print(const struct decision *decision, const struct dimensions *dimensions,
                        struct buf *out)
{
    struct transcript t = {.out = out, .dimensions = dimensions};

    for (size_t i = 0; !t.err && i < decision->verdict_count; i++) {
        transcript_verdict(&t, &decision->verdicts[i]);
    }
    for (size_t i = 0; !t.err && i < decision->action_count; i++) {
        transcript_action(&t, &decision->actions[i]);
    }
    return t.err;
}
