/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/plan/words.h"

#include "model/penalty.h"

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

/* --- a fingerprint, in words; the text is that of model/profile.h --- */

static struct str short_key(struct str key)
{
    if (str_equal(key, LABEL_INSTANCE_TYPE)) return STR("instance-type");
    return str_equal(key, LABEL_ZONE) ? STR("zone") : key;
}

static bool next_number(struct str *rest, char separator, int64_t *ret_number)
{
    struct str part;

    return str_split(rest, separator, &part) && !str_to_i64(part, ret_number);
}

/* "key:operator:a,b" */
static bool say_requirement(struct line *line, struct str rest)
{
    static const char *const before[OPERATOR_COUNT] = {
        [OPERATOR_UNSPECIFIED] = "impossible ",
        [OPERATOR_IN] = "",
        [OPERATOR_NOT_IN] = "not ",
        [OPERATOR_EXISTS] = "any ",
        [OPERATOR_DOES_NOT_EXIST] = "no ",
        [OPERATOR_SAME] = "same ",
    };
    struct str key;
    int64_t op;

    if (!str_split(&rest, ':', &key) || !next_number(&rest, ':', &op)) return false;
    if (op < 0 || op >= OPERATOR_COUNT) return false;
    key = short_key(key);
    say(line, "; %s%.*s%s%.*s", before[op], STR_ARG(key), rest.len ? " " : "", STR_ARG(rest));
    return true;
}

/* "key:skew:when" */
static bool say_spread(struct line *line, struct str rest)
{
    struct str key;
    int64_t skew, when;

    if (!str_split(&rest, ':', &key) || !next_number(&rest, ':', &skew)) return false;
    if (!next_number(&rest, ':', &when)) return false;
    key = short_key(key);
    say(line, "; spread over %.*s, skew %lld%s", STR_ARG(key), (long long)skew,
        when == SPREAD_DO_NOT_SCHEDULE ? "" : " if possible");
    return true;
}

typedef bool say_item(struct line *line, struct str item);

static bool say_list(struct line *line, struct str list, say_item *item)
{
    struct str one;

    while (list.len && str_split(&list, ';', &one)) {
        if (one.len && !item(line, one)) return false;
    }
    return true;
}

static void say_penalty(struct line *line, const char *of, int64_t bucket)
{
    if (bucket <= PENALTY_ZERO || bucket >= PENALTY_BUCKET_COUNT) return;
    say(line, "; %s %s%s", of, bucket == PENALTY_PINNED ? "" : "$", penalty_label((uint8_t)bucket));
}

/* Takes "name=..." off the front, up to the next '|'. */
static bool take_part(struct str *rest, const char *name, struct str *ret_part)
{
    if (!str_split(rest, '|', ret_part) || !str_starts(*ret_part, str_from(name))) return false;
    *ret_part = str_tail(*ret_part, strlen(name));
    return true;
}

static bool say_fingerprint(struct line *line, struct str text)
{
    struct str priority, interruption, reclamation, requirements, spread;
    int64_t numbers[3];

    if (!take_part(&text, "p=", &priority) || !take_part(&text, "ipb=", &interruption) ||
        !take_part(&text, "rpb=", &reclamation) || !take_part(&text, "reqs=", &requirements) ||
        !take_part(&text, "spr=", &spread))
        return false;
    if (str_to_i64(priority, &numbers[0]) || str_to_i64(interruption, &numbers[1]) ||
        str_to_i64(reclamation, &numbers[2]))
        return false;
    say(line, "priority %lld", (long long)numbers[0]);
    if (!say_list(line, requirements, say_requirement) || !say_list(line, spread, say_spread))
        return false;
    say_penalty(line, "interruption", numbers[1]);
    say_penalty(line, "reclamation", numbers[2]);
    return true;
}

/* "web (gang g, priority 5; instance-type m5.large)". A stamp that somebody else wrote may be no
 * fingerprint: it is told as it is. */
static void say_need(struct line *line, const struct need_key *key)
{
    size_t start;

    say(line, "%.*s (", STR_ARG(key->cluster));
    say_group(line, key->group);
    start = line->out->len;
    if (!say_fingerprint(line, key->fingerprint)) {
        line->out->len = start;
        say(line, "%.*s", STR_ARG(key->fingerprint));
    }
    say(line, ")");
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
