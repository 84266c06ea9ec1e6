/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/plan/words.h"

#include "model/fingerprint.h"
#include "model/penalty.h"

#define WORDS_BYTES_MAX ((size_t)16 << 20) /* of one profile */

/* The first failure stays; nothing is written after it. */
struct line {
    struct buf *out;
    enum err err;
};

static void say(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct line *line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!line->err) line->err = buf_vappendf(line->out, format, args);
    va_end(args);
}

static void say_amounts(struct line *line, const struct dimensions *dimensions,
                        const struct amounts *amounts)
{
    struct resource_sum sum;

    amounts_sum(amounts, &sum);
    if (!line->err) line->err = resource_sum_text(dimensions, &sum, line->out);
}

/* A group may hold any byte, and a terminal obeys some: those are spelt out. */
static void say_group(struct line *line, struct str group)
{
    if (!group.len) return;
    say(line, "gang ");
    for (size_t i = 0; i < group.len; i++) {
        unsigned char c = (unsigned char)group.at[i];
        say(line, c < 0x20 || c > 0x7E ? "\\x%02x" : "%c", c);
    }
    say(line, ", ");
}

/* --- a profile, in words --- */

static struct str short_key(struct str key)
{
    if (str_equal(key, LABEL_INSTANCE_TYPE)) return STR("instance-type");
    return str_equal(key, LABEL_ZONE) ? STR("zone") : key;
}

static void say_requirement(struct line *line, const struct requirement *r)
{
    static const char *const before[OPERATOR_COUNT] = {
        [OPERATOR_IN] = "",        [OPERATOR_NOT_IN] = "not ",        [OPERATOR_EXISTS] = "any ",
        [OPERATOR_SAME] = "same ", [OPERATOR_DOES_NOT_EXIST] = "no ",
    };
    struct str key = short_key(r->key);

    say(line, "; %s%.*s", before[r->op], STR_ARG(key));
    for (size_t i = 0; i < r->value_count; i++)
        say(line, "%s%.*s", i ? "," : " ", STR_ARG(r->values[i]));
}

static void say_spread(struct line *line, const struct spread *spread)
{
    struct str key = short_key(spread->key);

    say(line, "; spread over %.*s, skew %d%s", STR_ARG(key), spread->max_skew,
        spread->when == SPREAD_DO_NOT_SCHEDULE ? "" : " if possible");
}

static void say_penalty(struct line *line, const char *of, uint8_t bucket)
{
    if (bucket <= PENALTY_ZERO) return;
    say(line, "; %s %s%s", of, bucket == PENALTY_PINNED ? "" : "$", penalty_label(bucket));
}

static void say_profile(struct line *line, const struct profile *p)
{
    say(line, "priority %d", p->priority);
    for (size_t i = 0; i < p->requirement_count; i++) say_requirement(line, &p->requirements[i]);
    for (size_t i = 0; i < p->spread_count; i++) say_spread(line, &p->spreads[i]);
    say_penalty(line, "interruption", p->interruption_bucket);
    say_penalty(line, "reclamation", p->reclamation_bucket);
}

/* "web (gang g, priority 5; instance-type m5.large)". A stamp that another program wrote may be no
 * fingerprint: its text is printed unchanged. */
static void say_need(struct line *line, const struct need_key *key)
{
    struct profile profile;
    struct arena arena;
    enum err err;

    arena_init(&arena, WORDS_BYTES_MAX);
    err = fingerprint_read(&arena, key->fingerprint, &profile);
    say(line, "%.*s (", STR_ARG(key->cluster));
    say_group(line, key->group);
    if (err)
        say(line, "%.*s", STR_ARG(key->fingerprint));
    else
        say_profile(line, &profile);
    say(line, ")");
    if (err == ERR_NOMEM && !line->err) line->err = err;
    arena_deinit(&arena);
}

static void say_grace(struct line *line, uint64_t grace_ms)
{
    if (grace_ms >= 60 * MS_PER_SECOND)
        say(line, "%llu min", (unsigned long long)(grace_ms / 60000));
    else
        say(line, "%llu s", (unsigned long long)(grace_ms / 1000));
}

enum err words_action(const struct action *action, struct buf *out)
{
    struct line line = {.out = out};

    say(&line, "%-9s %.*s", action_kind_name(action->kind), STR_ARG(action->machine));
    switch (action->kind) {
    case ACTION_BOOTSTRAP:
    case ACTION_PROVISION:
        say(&line, ": %s, for ", action->kind == ACTION_BOOTSTRAP ? "idle" : "buy it from quota");
        say_need(&line, &action->key);
        break;
    case ACTION_PREEMPT:
        say(&line, ": taken from %.*s for the more important ", STR_ARG(action->cluster));
        say_need(&line, &action->key);
        say(&line, ", ");
        say_grace(&line, action->grace_ms);
        say(&line, " to leave");
        break;
    case ACTION_RECLAIM:
        say(&line, ": %.*s does not ask for it any more, ", STR_ARG(action->cluster));
        say_grace(&line, action->grace_ms);
        say(&line, " to leave");
        if (action->key.cluster.len) {
            say(&line, "; then for ");
            say_need(&line, &action->key);
        }
        break;
    case ACTION_DELETE: say(&line, ": idle for longer than its kind is held"); break;
    }
    return line.err;
}

static void say_domains(struct line *line, const struct shortage *shortage)
{
    for (uint32_t i = 0; i < shortage->domain_count; i++)
        say(line, "%s %.*s covers %u.%u %%", i ? "," : ": best",
            STR_ARG(shortage->domains[i].value), shortage->domains[i].per_mille / 10,
            shortage->domains[i].per_mille % 10);
}

static void say_topology(struct line *line, const struct need_verdict *verdict)
{
    const struct requirement *same = profile_same(verdict->need->profile);

    if (verdict->parked)
        say(line, "parked: it asked in vain for a while and keeps what it has");
    else
        say(line, "no %.*s can hold it", STR_ARG(same ? same->key : STR("domain")));
    say_domains(line, verdict->shortage);
}

static void say_count(struct line *line, uint32_t count, const char *of)
{
    say(line, "%u%s%s", count, count == VERDICT_COUNT_MOST ? " or more" : "", of);
}

static bool has_them_all(const struct need_verdict *v)
{
    const struct shortage *s = v->shortage;

    if (s->idle_count == VERDICT_COUNT_MOST || s->speculative_count == VERDICT_COUNT_MOST)
        return false; /* or more */
    return v->bootstraps == s->idle_count && v->provisions == s->speculative_count &&
           v->claimed - v->bootstraps - v->provisions >= s->configured_count;
}

static void say_shortage(struct line *line, const struct need_verdict *verdict,
                         const struct dimensions *dimensions)
{
    const struct shortage *s = verdict->shortage;

    say(line, "lacks ");
    say_amounts(line, dimensions, &s->deficit);
    say(line, " (%s): ", verdict_reason_name(s->reason));
    switch (s->reason) {
    case REASON_TOPOLOGY_UNSATISFIABLE: say_topology(line, verdict); break;
    case REASON_NO_MATCHING_SUPPLY: say(line, "no machine matches and is large enough"); break;
    case REASON_PREEMPTION_EXHAUSTED:
        say(line, s->victims == 1 ? "%u victim frees " : "%u victims free ", s->victims);
        say_amounts(line, dimensions, &s->freed);
        say(line, ", there are no more; ");
        say_amounts(line, dimensions, &s->unresolved);
        say(line, " stays open");
        break;
    default:
        say_count(line, s->idle_count, " idle, ");
        say_count(line, s->speculative_count, " of quota and ");
        say_count(line, s->configured_count, " configured match, its own included; ");
        say(line, "%s",
            !s->unresolved.mask     ? "none is free now, but what is drained for it will serve it"
            : has_them_all(verdict) ? "it has them all, there are no more"
                                    : "what others leave of them does not suffice");
        break;
    }
}

enum err words_verdict(const struct need_verdict *verdict, const struct dimensions *dimensions,
                       struct buf *out)
{
    struct line line = {.out = out};

    say_need(&line, &verdict->need->key);
    say(&line, ": wants ");
    say_amounts(&line, dimensions, &verdict->need->aggregate);
    say(&line, "; ");
    if (verdict->satisfied)
        say(&line, "served by %u", verdict->claimed);
    else {
        say_shortage(&line, verdict, dimensions);
        say(&line, "; has %u", verdict->claimed);
    }
    if (verdict->bootstraps) say(&line, ", %u of them bootstrapped now", verdict->bootstraps);
    if (verdict->provisions) say(&line, ", %u bought now", verdict->provisions);
    if (verdict->has_domain) say(&line, ", in %.*s", STR_ARG(verdict->domain));
    return line.err;
}
