/* SPDX-License-Identifier: Apache-2.0 */
/* The transcript; its lines are described in decide.h. */
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

static enum err print_text(struct buf *out, struct str text)
{
    enum err err = buf_append_byte(out, '"');

    for (size_t i = 0; !err && i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c < 0x20 || c > 0x7E || c == '"' || c == '\\')
            err = buf_appendf(out, "\\x%02x", c);
        else
            err = buf_append_byte(out, (char)c);
    }
    if (!err) err = buf_append_byte(out, '"');
    return err;
}

static enum err print_key(struct buf *out, const struct need_key *key)
{
    enum err err = print_text(out, key->cluster);

    if (!err) err = buf_append_byte(out, ' ');
    if (!err) err = print_text(out, key->fingerprint);
    if (!err) err = buf_append_byte(out, ' ');
    if (!err) err = print_text(out, key->group);
    return err;
}

static enum err print_amounts(struct buf *out, const struct dimensions *dimensions,
                              const char *name, const struct amounts *amounts)
{
    struct resource_sum sum;
    enum err err = buf_appendf(out, " %s=", name);

    if (err) return err;
    amounts_sum(amounts, &sum);
    return amounts->mask ? resource_sum_key(dimensions, &sum, out) : buf_append_byte(out, '-');
}

static enum err print_shortage(struct buf *out, const struct dimensions *dimensions,
                               const struct shortage *s)
{
    enum err err = buf_appendf(
        out,
        " idle=%" PRIu32 " speculative=%" PRIu32 " configured=%" PRIu32 " domains=", s->idle_count,
        s->speculative_count, s->configured_count);

    for (uint32_t i = 0; !err && i < s->domain_count; i++) {
        if (i) err = buf_append_byte(out, ',');
        if (!err) err = print_text(out, s->domains[i].value);
        if (!err) err = buf_appendf(out, ":%" PRIu32, s->domains[i].per_mille);
    }
    if (!err && !s->domain_count) err = buf_append_byte(out, '-');
    if (!err) err = buf_appendf(out, " victims=%" PRIu32, s->victims);
    if (!err) err = print_amounts(out, dimensions, "freed", &s->freed);
    if (!err) err = print_amounts(out, dimensions, "unresolved", &s->unresolved);
    if (!err) err = buf_appendf(out, " reason=%s", verdict_reason_name(s->reason));
    return err;
}

static enum err print_verdict(struct buf *out, const struct dimensions *dimensions,
                              const struct need_verdict *v)
{
    static const struct amounts nothing;
    enum err err = buf_append_c(out, "need ");

    if (!err) err = print_key(out, &v->need->key);
    if (!err) err = print_amounts(out, dimensions, "agg", &v->need->aggregate);
    if (!err) err = print_amounts(out, dimensions, "unit", v->need->min_unit);
    if (!err) {
        err = buf_appendf(out, " arrival=%" PRId64 " parked=%d satisfied=%d",
                          v->need->arrival_unix_ns, v->parked, v->satisfied);
    }
    if (!err) {
        err = print_amounts(out, dimensions, "deficit",
                            v->shortage ? &v->shortage->deficit : &nothing);
    }
    if (!err) {
        err = buf_appendf(
            out, " claimed=%" PRIu32 " bootstraps=%" PRIu32 " provisions=%" PRIu32 " domain=",
            v->claimed, v->bootstraps, v->provisions);
    }
    if (!err) err = v->has_domain ? print_text(out, v->domain) : buf_append_byte(out, '-');
    if (!err) err = buf_appendf(out, " satisfiable=%d", v->satisfiable);
    if (!err && v->shortage) err = print_shortage(out, dimensions, v->shortage);
    if (!err) err = buf_append_byte(out, '\n');
    return err;
}

static enum err print_action(struct buf *out, const struct action *action)
{
    enum err err = buf_appendf(out, "%s ", action_kind_name(action->kind));

    if (!err) err = print_text(out, action->machine);
    if (!err) err = buf_append_byte(out, ' ');
    if (!err) err = print_text(out, action->cluster);
    if (!err) err = buf_append_c(out, " for ");
    if (!err) {
        err = action->key.cluster.len ? print_key(out, &action->key) : buf_append_byte(out, '-');
    }
    if (!err) {
        err = buf_appendf(out, " prio=%" PRId32 " grace=%" PRIu64 " %s\n", action->priority,
                          action->grace_ms, action_reason(action->kind));
    }
    return err;
}

enum err decision_print(const struct decision *decision, const struct dimensions *dimensions,
                        struct buf *out)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < decision->verdict_count; i++) {
        err = print_verdict(out, dimensions, &decision->verdicts[i]);
    }
    for (size_t i = 0; !err && i < decision->action_count; i++) {
        err = print_action(out, &decision->actions[i]);
    }
    return err;
}
