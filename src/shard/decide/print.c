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

void printed_add(struct printed *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!p->err) p->err = buf_vappendf(p->out, format, args);
    va_end(args);
}

void printed_text(struct printed *p, struct str text, const char *escaped)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool plain = c >= 0x20 && c <= 0x7E && !str_has(str_from(escaped), (char)c);
        printed_add(p, plain ? "%c" : "\\x%02x", c);
    }
}

static void transcript_text(struct printed *p, struct str text)
{
    printed_add(p, "\"");
    printed_text(p, text, "\"\\");
    printed_add(p, "\"");
}

static void transcript_key(struct printed *t, const struct need_key *key)
{
    transcript_text(t, key->cluster);
    printed_add(t, " ");
    transcript_text(t, key->fingerprint);
    printed_add(t, " ");
    transcript_text(t, key->group);
}

static void transcript_amounts(struct printed *t, const char *name, const struct amounts *amounts)
{
    struct resource_sum sum;

    printed_add(t, " %s=%s", name, amounts->mask ? "" : "-");
    amounts_sum(amounts, &sum);
    if (!t->err && amounts->mask) t->err = resource_sum_key(t->dimensions, &sum, t->out);
}

static void transcript_shortage(struct printed *t, const struct shortage *s)
{
    printed_add(t,
                " idle=%" PRIu32 " speculative=%" PRIu32 " soldout=%" PRIu32 " configured=%" PRIu32
                " domains=%s",
                s->idle_count, s->speculative_count, s->sold_out_count, s->configured_count,
                s->domain_count ? "" : "-");
    for (uint32_t i = 0; i < s->domain_count; i++) {
        if (i) printed_add(t, ",");
        transcript_text(t, s->domains[i].value);
        printed_add(t, ":%" PRIu32, s->domains[i].per_mille);
    }
    printed_add(t, " victims=%" PRIu32, s->victims);
    transcript_amounts(t, "freed", &s->freed);
    transcript_amounts(t, "unresolved", &s->unresolved);
    printed_add(t, " reason=%s", verdict_reason_name(s->reason));
}

static void transcript_verdict(struct printed *t, const struct need_verdict *v)
{
    static const struct amounts nothing;

    printed_add(t, "need ");
    transcript_key(t, &v->need->key);
    transcript_amounts(t, "agg", &v->need->aggregate);
    transcript_amounts(t, "unit", v->need->min_unit);
    printed_add(t, " arrival=%" PRId64 " parked=%d satisfied=%d", v->need->arrival_unix_ns,
                v->parked, v->satisfied);
    transcript_amounts(t, "deficit", v->shortage ? &v->shortage->deficit : &nothing);
    printed_add(t, " claimed=%" PRIu32 " bootstraps=%" PRIu32 " provisions=%" PRIu32 " domain=",
                v->claimed, v->bootstraps, v->provisions);
    if (v->has_domain)
        transcript_text(t, v->domain);
    else
        printed_add(t, "-");
    printed_add(t, " satisfiable=%d", v->satisfiable);
    if (v->shortage) transcript_shortage(t, v->shortage);
    printed_add(t, "\n");
}

static void transcript_action(struct printed *t, const struct action *action)
{
    printed_add(t, "%s ", action_kind_name(action->kind));
    transcript_text(t, action->machine);
    printed_add(t, " ");
    transcript_text(t, action->cluster);
    printed_add(t, " for ");
    if (action->key.cluster.len)
        transcript_key(t, &action->key);
    else
        printed_add(t, "-");
    printed_add(t, " prio=%" PRId32 " grace=%" PRIu64 " %s\n", action->priority, action->grace_ms,
                action_reason(action->kind));
}

enum err decision_print(const struct decision *decision, const struct dimensions *dimensions,
                        struct buf *out)
{
    struct printed t = {.out = out, .dimensions = dimensions};

    for (size_t i = 0; !t.err && i < decision->verdict_count; i++) {
        transcript_verdict(&t, &decision->verdicts[i]);
    }
    for (size_t i = 0; !t.err && i < decision->action_count; i++) {
        transcript_action(&t, &decision->actions[i]);
    }
    return t.err;
}
