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

static void print(struct transcript *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void print(struct transcript *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!t->err) t->err = buf_vappendf(t->out, format, args);
    va_end(args);
}

static void print_text(struct transcript *t, struct str text)
{
    print(t, "\"");
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        print(t, c < 0x20 || c > 0x7E || c == '"' || c == '\\' ? "\\x%02x" : "%c", c);
    }
    print(t, "\"");
}

static void print_key(struct transcript *t, const struct need_key *key)
{
    print_text(t, key->cluster);
    print(t, " ");
    print_text(t, key->fingerprint);
    print(t, " ");
    print_text(t, key->group);
}

static void print_amounts(struct transcript *t, const char *name, const struct amounts *amounts)
{
    struct resource_sum sum;

    print(t, " %s=%s", name, amounts->mask ? "" : "-");
    amounts_sum(amounts, &sum);
    if (!t->err && amounts->mask) t->err = resource_sum_key(t->dimensions, &sum, t->out);
}

static void print_shortage(struct transcript *t, const struct shortage *s)
{
    print(t, " idle=%" PRIu32 " speculative=%" PRIu32 " configured=%" PRIu32 " domains=%s",
          s->idle_count, s->speculative_count, s->configured_count, s->domain_count ? "" : "-");
    for (uint32_t i = 0; i < s->domain_count; i++) {
        if (i) print(t, ",");
        print_text(t, s->domains[i].value);
        print(t, ":%" PRIu32, s->domains[i].per_mille);
    }
    print(t, " victims=%" PRIu32, s->victims);
    print_amounts(t, "freed", &s->freed);
    print_amounts(t, "unresolved", &s->unresolved);
    print(t, " reason=%s", verdict_reason_name(s->reason));
}

static void print_verdict(struct transcript *t, const struct need_verdict *v)
{
    static const struct amounts nothing;

    print(t, "need ");
    print_key(t, &v->need->key);
    print_amounts(t, "agg", &v->need->aggregate);
    print_amounts(t, "unit", v->need->min_unit);
    print(t, " arrival=%" PRId64 " parked=%d satisfied=%d", v->need->arrival_unix_ns, v->parked,
          v->satisfied);
    print_amounts(t, "deficit", v->shortage ? &v->shortage->deficit : &nothing);
    print(t,
          " claimed=%" PRIu32 " bootstraps=%" PRIu32 " provisions=%" PRIu32 " domain=", v->claimed,
          v->bootstraps, v->provisions);
    if (v->has_domain)
        print_text(t, v->domain);
    else
        print(t, "-");
    print(t, " satisfiable=%d", v->satisfiable);
    if (v->shortage) print_shortage(t, v->shortage);
    print(t, "\n");
}

static void print_action(struct transcript *t, const struct action *action)
{
    print(t, "%s ", action_kind_name(action->kind));
    print_text(t, action->machine);
    print(t, " ");
    print_text(t, action->cluster);
    print(t, " for ");
    if (action->key.cluster.len)
        print_key(t, &action->key);
    else
        print(t, "-");
    print(t, " prio=%" PRId32 " grace=%" PRIu64 " %s\n", action->priority, action->grace_ms,
          action_reason(action->kind));
}

enum err decision_print(const struct decision *decision, const struct dimensions *dimensions,
                        struct buf *out)
{
    struct transcript t = {.out = out, .dimensions = dimensions};

    for (size_t i = 0; !t.err && i < decision->verdict_count; i++) {
        print_verdict(&t, &decision->verdicts[i]);
    }
    for (size_t i = 0; !t.err && i < decision->action_count; i++) {
        print_action(&t, &decision->actions[i]);
    }
    return t.err;
}
