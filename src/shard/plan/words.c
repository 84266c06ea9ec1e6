/* SPDX-License-Identifier: Apache-2.0 */
/* Prints actions and verdicts of a decision as English sentences. */
#include "shard/plan/words.h"

#include "model/fingerprint.h"
#include "model/penalty.h"

#define WORDS_BYTES_MAX ((size_t)16 << 20) /* of memory for one profile */

static void words_add_amounts(struct printed *line, const struct amounts *amounts)
{
    struct resource_sum sum;

    amounts_sum(amounts, &sum);
    if (!line->err) line->err = resource_sum_text(line->dimensions, &sum, line->out);
}

/* Escapes the group, which may contain any byte. */
static void words_add_group(struct printed *line, struct str group)
{
    if (!group.len) return;
    printed_add(line, "gang ");
    printed_text(line, group, "");
    printed_add(line, ", ");
}

/* --- a profile in words --- */

static struct str words_short_key(struct str key)
{
    if (str_equal(key, LABEL_INSTANCE_TYPE)) return STR("instance-type");
    return str_equal(key, LABEL_ZONE) ? STR("zone") : key;
}

static void words_add_requirement(struct printed *line, const struct requirement *r)
{
    static const char *const before[OPERATOR_COUNT] = {
        [OPERATOR_IN] = "",        [OPERATOR_NOT_IN] = "not ",        [OPERATOR_EXISTS] = "any ",
        [OPERATOR_SAME] = "same ", [OPERATOR_DOES_NOT_EXIST] = "no ",
    };
    struct str key = words_short_key(r->key);

    printed_add(line, "; %s%.*s", before[r->op], STR_ARG(key));
    for (size_t i = 0; i < r->value_count; i++)
        printed_add(line, "%s%.*s", i ? "," : " ", STR_ARG(r->values[i]));
}

static void words_add_spread(struct printed *line, const struct spread *spread)
{
    struct str key = words_short_key(spread->key);

    printed_add(line, "; spread over %.*s, skew %d%s", STR_ARG(key), spread->max_skew,
                spread->when == SPREAD_DO_NOT_SCHEDULE ? "" : " if possible");
}

static void words_add_penalty(struct printed *line, const char *of, uint8_t bucket)
{
    if (bucket <= PENALTY_ZERO) return;
    printed_add(line, "; %s %s%s", of, bucket == PENALTY_PINNED ? "" : "$", penalty_label(bucket));
}

static void words_add_profile(struct printed *line, const struct profile *p)
{
    printed_add(line, "priority %d", p->priority);
    for (size_t i = 0; i < p->requirement_count; i++)
        words_add_requirement(line, &p->requirements[i]);
    for (size_t i = 0; i < p->spread_count; i++) words_add_spread(line, &p->spreads[i]);
    words_add_penalty(line, "interruption", p->interruption_bucket);
    words_add_penalty(line, "reclamation", p->reclamation_bucket);
}

/* Prints "web (gang g, priority 5; instance-type m5.large)". A stamp that is not a fingerprint is
 * printed unchanged. */
static void words_add_need(struct printed *line, const struct need_key *key)
{
    struct profile profile;
    struct arena arena;
    enum err err;

    arena_init(&arena, WORDS_BYTES_MAX);
    err = fingerprint_read(&arena, key->fingerprint, &profile);
    printed_add(line, "%.*s (", STR_ARG(key->cluster));
    words_add_group(line, key->group);
    if (err)
        printed_add(line, "%.*s", STR_ARG(key->fingerprint));
    else
        words_add_profile(line, &profile);
    printed_add(line, ")");
    if (err == ERR_NOMEM && !line->err) line->err = err;
    arena_deinit(&arena);
}

static void words_add_grace(struct printed *line, uint64_t grace_ms)
{
    if (grace_ms >= 60 * MS_PER_SECOND)
        printed_add(line, "%llu min", (unsigned long long)(grace_ms / 60000));
    else
        printed_add(line, "%llu s", (unsigned long long)(grace_ms / 1000));
}

enum err words_action(const struct action *action, struct buf *out)
{
    struct printed line = {.out = out};

    printed_add(&line, "%-9s %.*s", action_kind_name(action->kind), STR_ARG(action->machine));
    switch (action->kind) {
    case ACTION_BOOTSTRAP:
    case ACTION_PROVISION:
        printed_add(&line, ": %s, for ",
                    action->kind == ACTION_BOOTSTRAP ? "idle" : "buy it from quota");
        words_add_need(&line, &action->key);
        break;
    case ACTION_PREEMPT:
        printed_add(&line, ": taken from %.*s for the more important ", STR_ARG(action->cluster));
        words_add_need(&line, &action->key);
        printed_add(&line, ", ");
        words_add_grace(&line, action->grace_ms);
        printed_add(&line, " to leave");
        break;
    case ACTION_RECLAIM:
        printed_add(&line, ": %.*s does not ask for it any more, ", STR_ARG(action->cluster));
        words_add_grace(&line, action->grace_ms);
        printed_add(&line, " to leave");
        if (action->key.cluster.len) {
            printed_add(&line, "; then for ");
            words_add_need(&line, &action->key);
        }
        break;
    case ACTION_DELETE: printed_add(&line, ": idle for longer than its kind is held"); break;
    }
    return line.err;
}

static void words_add_domains(struct printed *line, const struct shortage *shortage)
{
    for (uint32_t i = 0; i < shortage->domain_count; i++)
        printed_add(line, "%s %.*s covers %u.%u %%", i ? "," : ": best",
                    STR_ARG(shortage->domains[i].value), shortage->domains[i].per_mille / 10,
                    shortage->domains[i].per_mille % 10);
}

static void words_add_topology(struct printed *line, const struct need_verdict *verdict)
{
    const struct requirement *same = profile_same(verdict->need->profile);

    if (verdict->parked)
        printed_add(line, "parked: it asked in vain for a while and keeps what it has");
    else
        printed_add(line, "no %.*s can hold it", STR_ARG(same ? same->key : STR("domain")));
    words_add_domains(line, verdict->shortage);
}

static void words_add_count(struct printed *line, uint32_t count, const char *of)
{
    printed_add(line, "%u%s%s", count, count == VERDICT_COUNT_MOST ? " or more" : "", of);
}

static bool words_has_all(const struct need_verdict *v)
{
    const struct shortage *s = v->shortage;

    if (s->idle_count == VERDICT_COUNT_MOST || s->speculative_count == VERDICT_COUNT_MOST)
        return false; /* there may be more */
    return v->bootstraps == s->idle_count && v->provisions == s->speculative_count &&
           v->claimed - v->bootstraps - v->provisions >= s->configured_count;
}

static void words_add_shortage(struct printed *line, const struct need_verdict *verdict)
{
    const struct shortage *s = verdict->shortage;

    printed_add(line, "lacks ");
    words_add_amounts(line, &s->deficit);
    printed_add(line, " (%s): ", verdict_reason_name(s->reason));
    switch (s->reason) {
    case REASON_TOPOLOGY_UNSATISFIABLE: words_add_topology(line, verdict); break;
    case REASON_SOLD_OUT: printed_add(line, "the pools that could serve it are sold out"); break;
    case REASON_NO_MATCHING_SUPPLY:
        printed_add(line, "no machine matches and is large enough");
        break;
    case REASON_PREEMPTION_EXHAUSTED:
        printed_add(line, s->victims == 1 ? "%u victim frees " : "%u victims free ", s->victims);
        words_add_amounts(line, &s->freed);
        printed_add(line, ", there are no more; ");
        words_add_amounts(line, &s->unresolved);
        printed_add(line, " stays open");
        break;
    default:
        words_add_count(line, s->idle_count, " idle, ");
        words_add_count(line, s->speculative_count, " of quota and ");
        words_add_count(line, s->configured_count, " configured match, its own included; ");
        printed_add(line, "%s",
                    !s->unresolved.mask
                        ? "none is free now, but what is drained for it will serve it"
                    : words_has_all(verdict) ? "it has them all, there are no more"
                                             : "what others leave of them does not suffice");
        break;
    }
}

enum err words_verdict(const struct need_verdict *verdict, const struct dimensions *dimensions,
                       struct buf *out)
{
    struct printed line = {.out = out, .dimensions = dimensions};

    words_add_need(&line, &verdict->need->key);
    printed_add(&line, ": wants ");
    words_add_amounts(&line, &verdict->need->aggregate);
    printed_add(&line, "; ");
    if (verdict->satisfied)
        printed_add(&line, "served by %u", verdict->claimed);
    else {
        words_add_shortage(&line, verdict);
        printed_add(&line, "; has %u", verdict->claimed);
    }
    if (verdict->bootstraps)
        printed_add(&line, ", %u of them bootstrapped now", verdict->bootstraps);
    if (verdict->provisions) printed_add(&line, ", %u bought now", verdict->provisions);
    if (verdict->has_domain) printed_add(&line, ", in %.*s", STR_ARG(verdict->domain));
    return line.err;
}
