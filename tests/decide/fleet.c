/* SPDX-License-Identifier: Apache-2.0 */
#include "decide/fleet.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLEET_MACHINES = 512, FLEET_NEEDS = 256, HOUR_MS = 3600 * 1000 };
static const char gpu_type[] = "a3-highgpu-8g", cpu_type[] = "m5.large";
enum { DIM_CPU, DIM_MEMORY, DIM_GPU };

static void wrong(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    assert(!"what was seen is what was expected"); /* what scripts/coord-mutants looks for */
    abort();
}

static const char *full_key(const char *name)
{
    if (strcmp(name, "zone") == 0) return "topology.kubernetes.io/zone";
    if (strcmp(name, "type") == 0) return "node.kubernetes.io/instance-type";
    return name;
}

/* ---- reading ---- */

static const char *after(const char *word, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(word, prefix, length) == 0 ? word + length : NULL;
}

#define PUT(field, text) snprintf(field, sizeof(field), "%s", text)

static struct oracle_amounts amounts(const char *text)
{
    struct oracle_amounts out = {0};
    while (*text && *text != '-') {
        char *end, name[16] = "";
        size_t length = strcspn(text, ":");
        double value;
        int dim;
        snprintf(name, sizeof name, "%.*s", (int)length, text);
        dim = strcmp(name, "cpu") == 0      ? DIM_CPU
              : strcmp(name, "memory") == 0 ? DIM_MEMORY
                                            : DIM_GPU;
        if (text[length] != ':') wrong("amount without a colon: %s", text);
        value = strtod(text + length + 1, &end);
        if (after(end, "Gi")) {
            value *= 1024.0 * 1024 * 1024;
            end += 2;
        }
        out.of[dim] = (int64_t)(value * 1000);
        text = *end == ',' ? end + 1 : end;
    }
    return out;
}

static enum oracle_state state_of(const char *word)
{
    static const char *const names[] = {"",         "speculative", "creating",
                                        "idle",     "configuring", "configured",
                                        "draining", "deleting",    "failed"};
    for (int s = 1; s <= ORACLE_FAILED; s++)
        if (strcmp(word, names[s]) == 0) return (enum oracle_state)s;
    wrong("no such state: %s", word);
}

static void queue_action(struct oracle_machine *m, const char *word, struct oracle_fleet *fleet)
{
    static const char *const names[] = {
        "", "bootstrap:", "provision:", "preempt:", "reclaim:", "delete:"};
    for (int k = ORACLE_BOOTSTRAP; k <= ORACLE_DELETE; k++) {
        const char *need = after(word, names[k]);
        if (!need) continue;
        m->queued = (enum oracle_kind)k;
        if (*need && *need != '-') m->queued_stamp = oracle_stamp_of(&fleet->needs[atoi(need)]);
        return;
    }
    wrong("no such action: %s", word);
}

static void pool_sold_out(const struct oracle_machine *m, struct oracle_fleet *fleet)
{
    struct oracle_pool *pool = &fleet->sold_out[fleet->sold_out_count++];
    assert(fleet->sold_out_count <= ORACLE_POOLS);
    PUT(pool->type, m->type);
    PUT(pool->zone, m->zone);
    pool->capacity = m->capacity;
}

static void machine_option(struct oracle_machine *m, const char *word, struct oracle_fleet *fleet)
{
    const char *v;
    if ((v = after(word, "price=")))
        m->price = atof(v);
    else if ((v = after(word, "prob=")))
        m->probability = atof(v);
    else if ((v = after(word, "zone=")))
        PUT(m->zone, strcmp(v, "-") ? v : "");
    else if ((v = after(word, "type=")))
        PUT(m->type, v);
    else if ((v = after(word, "cluster=")))
        PUT(m->cluster, v);
    else if ((v = after(word, "prio=")))
        m->stamp.priority = atoi(v);
    else if ((v = after(word, "ip=")))
        m->stamp.interruption_dollars = atof(v);
    else if ((v = after(word, "rp=")))
        m->stamp.reclamation_dollars = atof(v);
    else if ((v = after(word, "alloc=")))
        m->alloc = amounts(v);
    else if ((v = after(word, "capacity=")))
        m->capacity = (enum oracle_capacity)atoi(v);
    else if ((v = after(word, "idle=")))
        m->idle_since_ms = strtoull(v, NULL, 10);
    else if ((v = after(word, "stamp=")))
        m->stamp = oracle_stamp_of(&fleet->needs[atoi(v)]);
    else if ((v = after(word, "for=")))
        m->drained_for = oracle_stamp_of(&fleet->needs[atoi(v)]);
    else if ((v = after(word, "runs=")))
        m->occupancy = (enum oracle_occupancy)strcspn("?-eh", v);
    else if ((v = after(word, "costs=")))
        m->disruption = (uint8_t)atoi(v);
    else if ((v = after(word, "queued=")))
        queue_action(m, v, fleet);
    else if (strcmp(word, "soldout") == 0)
        pool_sold_out(m, fleet);
    else if ((v = after(word, "cordon=")))
        m->cordon = atoi(v);
    else if ((v = after(word, "rack="))) {
        PUT(m->labels[0].key, "rack");
        PUT(m->labels[0].value, v);
    } else
        wrong("no such machine option: %s", word);
}

/* The next item up to `;`, then its words one by one. */
static char *next_item(char **rest)
{
    char *item;
    do item = strsep(rest, ";");
    while (item && item[strspn(item, " ")] == '\0');
    return item;
}

static char *next_word(char **item)
{
    char *word;
    do word = strsep(item, " ");
    while (word && !*word);
    return word;
}

static void parse_machines(const char *text, struct oracle_fleet *fleet)
{
    char *copy = strdup(text), *rest = copy, *item;
    int drawn = 0;
    while ((item = next_item(&rest))) {
        struct oracle_machine m = {.price = 1, .capacity = ORACLE_RESERVED, .idle_since_ms = 1};
        char *who = next_word(&item), *shape = next_word(&item), *state = next_word(&item), *word;
        bool many = who[strspn(who, "0123456789")] == '\0';
        bool is_gpu = strcmp(shape, "gpu") == 0;
        PUT(m.type, is_gpu ? gpu_type : cpu_type);
        PUT(m.zone, "us-east-1a");
        m.alloc = amounts(is_gpu ? "gpu:8" : "cpu:4,memory:16Gi");
        m.state = state_of(state);
        while ((word = next_word(&item))) machine_option(&m, word, fleet);
        for (int n = many ? atoi(who) : 1; n > 0; n--) {
            assert(fleet->machine_count < FLEET_MACHINES);
            if (many)
                snprintf(m.id, sizeof m.id, "i%03d", drawn++);
            else
                PUT(m.id, who);
            fleet->machines[fleet->machine_count++] = m;
        }
    }
    free(copy);
}

static void add_requirement(struct oracle_profile *p, const char *key, enum oracle_operator op,
                            const char *value)
{
    int i = 0;
    while (p->requirements[i].key[0]) i++;
    assert(i < ORACLE_REQUIREMENTS);
    PUT(p->requirements[i].key, full_key(key));
    p->requirements[i].operator= op;
    PUT(p->requirements[i].values[0], value);
}

static void add_spread(struct oracle_profile *p, char *text)
{
    int i = 0;
    char *key = strsep(&text, ":"), *skew = strsep(&text, ":");
    while (p->spreads[i].key[0]) i++;
    PUT(p->spreads[i].key, full_key(key));
    p->spreads[i].skew = atoi(skew);
    p->spreads[i].when = strcmp(text, "hard") == 0 ? 1 : 2;
}

static void parse_needs(const char *text, struct oracle_fleet *fleet)
{
    char *copy = strdup(text), *rest = copy, *item;
    while ((item = next_item(&rest))) {
        struct oracle_need n = {0};
        int units = atoi(next_word(&item));
        char *word, *v;
        bool is_gpu, any = false;
        PUT(n.cluster, next_word(&item));
        is_gpu = strcmp(next_word(&item), "gpu") == 0;
        n.min_unit = amounts(is_gpu ? "gpu:8" : "cpu:4");
        n.profile.interruption_bucket = is_gpu ? 16 : 13; /* $8192, $1024 */
        n.profile.reclamation_bucket = is_gpu ? 27 : 3;   /* pinned, $1 */
        for (int d = 0; d < ORACLE_DIMS; d++) n.aggregate.of[d] = units * n.min_unit.of[d];
        while ((word = next_word(&item))) {
            if ((v = (char *)after(word, "p=")))
                n.profile.priority = atoi(v);
            else if ((v = (char *)after(word, "ib=")))
                n.profile.interruption_bucket = (uint8_t)atoi(v);
            else if ((v = (char *)after(word, "rb=")))
                n.profile.reclamation_bucket = (uint8_t)atoi(v);
            else if ((v = (char *)after(word, "same=")))
                add_requirement(&n.profile, v, ORACLE_SAME, "");
            else if ((v = (char *)after(word, "spread=")))
                add_spread(&n.profile, v);
            else if ((v = (char *)after(word, "group=")))
                PUT(n.group, v);
            else if ((v = (char *)after(word, "arrival=")))
                n.arrival = strtoull(v, NULL, 10);
            else if ((v = (char *)after(word, "agg=")))
                n.aggregate = amounts(v);
            else if ((v = (char *)after(word, "min=")))
                n.min_unit = amounts(v);
            else if ((v = (char *)after(word, "type="))) {
                any = true;
                add_requirement(&n.profile, "type", ORACLE_IN, v);
            } else if (strcmp(word, "parked") == 0)
                n.parked = true;
            else if (strcmp(word, "any") == 0)
                any = true;
            else
                wrong("no such need option: %s", word);
        }
        if (!any) add_requirement(&n.profile, "type", ORACLE_IN, is_gpu ? gpu_type : cpu_type);
        assert(fleet->need_count < FLEET_NEEDS);
        fleet->needs[fleet->need_count++] = n;
    }
    free(copy);
}

static void parse_ready(const char *expected, struct oracle_fleet *fleet)
{
    static const char *names[8];
    static char copy[256];
    const char *list = strstr(expected, "ready:");
    char *rest = copy, *word;
    if (!list) return;
    snprintf(copy, sizeof copy, "%.*s", (int)strcspn(list + 6, " "), list + 6);
    while ((word = strsep(&rest, "+"))) names[fleet->ready_count++] = word;
    fleet->ready = names;
}

void fleet_parse(const struct fleet_text *text, struct oracle_fleet *ret_fleet)
{
    struct oracle_fleet fleet = {.dimensions = {"cpu", "memory", "nvidia.com/gpu"},
                                 .now_ms = HOUR_MS};
    fleet.machines = calloc(FLEET_MACHINES, sizeof *fleet.machines);
    fleet.needs = calloc(FLEET_NEEDS, sizeof *fleet.needs);
    parse_needs(text->needs, &fleet);
    parse_machines(text->machines, &fleet);
    parse_ready(text->expected, &fleet);
    *ret_fleet = fleet;
}

void fleet_free(struct oracle_fleet *fleet)
{
    free(fleet->machines);
    free(fleet->needs);
}

void fleet_apply(struct oracle_fleet *fleet, const struct oracle_decision *decision)
{
    for (size_t a = 0; a < decision->action_count; a++) {
        const struct oracle_action *action = &decision->actions[a];
        struct oracle_machine *m = &fleet->machines[action->machine];
        switch (action->kind) {
        case ORACLE_BOOTSTRAP:
            m->state = ORACLE_CONFIGURED;
            PUT(m->cluster, action->cluster);
            m->stamp = action->for_whom;
            m->drained_for = (struct oracle_stamp){0};
            break;
        case ORACLE_PROVISION:
            m->state = ORACLE_IDLE;
            m->idle_since_ms = fleet->now_ms;
            break;
        case ORACLE_PREEMPT:
        case ORACLE_RECLAIM:
            m->state = ORACLE_IDLE;
            m->idle_since_ms = fleet->now_ms;
            m->cluster[0] = '\0';
            m->stamp = (struct oracle_stamp){0};
            m->drained_for = action->for_whom;
            break;
        case ORACLE_DELETE:
            m->state = ORACLE_SPECULATIVE;
            m->drained_for = (struct oracle_stamp){0};
            break;
        case ORACLE_NOTHING: break;
        }
    }
}

/* ---- judging ---- */

struct judge {
    const struct fleet_text *text;
    struct oracle_fleet *fleet;
    struct oracle_decision *decision;
};

static enum oracle_kind kind_of(char letter)
{
    const char *letters = " BPERD", *at = strchr(letters, letter);
    return at && letter != ' ' ? (enum oracle_kind)(at - letters) : ORACLE_NOTHING;
}

static void show(const struct judge *j)
{
    for (size_t a = 0; a < j->decision->action_count; a++) {
        const struct oracle_action *action = &j->decision->actions[a];
        fprintf(stderr, "  %c %s cluster %s grace %llu for %s\n", " BPERD"[action->kind],
                j -> fleet -> machines[action->machine].id, action->cluster,
                (unsigned long long)action->grace_ms, action->for_whom.cluster);
    }
    for (size_t r = 0; r < j->decision->row_count; r++) {
        const struct oracle_row *row = &j->decision->rows[r];
        fprintf(stderr, "  row %zu %s %s group '%s' domain '%s' satisfied %d claimed %zu %s", r,
                row->cluster, row->fingerprint, row->group, row->domain, row->satisfied,
                row->claimed, row->reason);
        for (int d = 0; d < 3; d++)
            fprintf(stderr, " rem %.3f open %.3f", (double)row->rem.of[d] / 1000,
                    (double)row->unresolved.of[d] / 1000);
        fputc('\n', stderr);
    }
}

static void expect(const struct judge *j, bool held, const char *word)
{
    if (held) return;
    show(j);
    wrong("vector \"%s\": expected %s", j->text->name, word);
}

static bool same_sum(const struct oracle_sum *sum, const char *text)
{
    struct oracle_amounts want = amounts(text);
    for (int d = 0; d < ORACLE_DIMS; d++)
        if (sum->of[d] != want.of[d]) return false;
    return true;
}

static bool in_list(const char *list, const char *id)
{
    size_t length = strlen(id);
    for (const char *at = list; (at = strstr(at, id)); at++)
        if ((at == list || at[-1] == '+') && (at[length] == '+' || !at[length])) return true;
    return false;
}

static size_t items(const char *list)
{
    size_t count = *list ? 1 : 0;
    for (; *list; list++) count += *list == '+';
    return count;
}

/* B=3 how many Bootstraps (B bootstrap, P provision, E preempt, R reclaim, D delete);
 * B:a+b exactly these machines; B@c=2 for cluster c; B~zone-a=2 in that zone or rack; B/zones=1 in
 * so many different zones. */
static bool expect_kind(const struct judge *j, const char *word)
{
    enum oracle_kind kind = kind_of(word[0]);
    size_t count = 0, zones = 0, wanted;
    const char *name = word + 2, *equals = strchr(word, '=');
    char filter[ORACLE_TEXT] = "", seen[512] = "";
    if (word[1] == '@' || word[1] == '~')
        snprintf(filter, sizeof filter, "%.*s", (int)(equals - name), name);
    for (size_t a = 0; a < j->decision->action_count; a++) {
        const struct oracle_action *action = &j->decision->actions[a];
        const struct oracle_machine *m = &j->fleet->machines[action->machine];
        if (action->kind != kind) continue;
        if (word[1] == '@' && strcmp(action->cluster, filter) != 0) continue;
        if (word[1] == '~' && strcmp(m->zone, filter) != 0 &&
            strcmp(m->labels[0].value, filter) != 0)
            continue;
        if (word[1] == ':' && !in_list(name, m->id)) return false;
        if (!strstr(seen, m->zone)) {
            zones++;
            strncat(seen, m->zone, sizeof seen - strlen(seen) - 1);
        }
        count++;
    }
    if (word[1] == ':') return count == items(name);
    wanted = strtoul(equals + 1, NULL, 10);
    return (word[1] == '/' ? zones : count) == wanted;
}

/* "rack-2:800+rack-3:600": these and no others, best first. */
static bool same_candidates(const struct oracle_row *row, const char *list)
{
    char text[ORACLE_CANDIDATES * (ORACLE_TEXT + 8)] = "";
    size_t at = 0;
    for (size_t i = 0; i < row->candidate_count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s:%d", i ? "+" : "",
                               row->candidates[i].value, row->candidates[i].per_mille);
    return strcmp(text, list) == 0;
}

static bool expect_row(const struct judge *j, const char *name, size_t r, const char *value)
{
    const struct oracle_row *row = &j->decision->rows[r];
    if (r >= j->decision->row_count) return false;
    if (strcmp(name, "d") == 0) return same_sum(&row->rem, value);
    if (strcmp(name, "x") == 0) return same_sum(&row->unresolved, value);
    if (strcmp(name, "agg") == 0) return same_sum(&row->aggregate, value);
    if (strcmp(name, "min") == 0) return same_sum(&row->min_unit, value);
    if (strcmp(name, "freed") == 0) return same_sum(&row->freed, value);
    if (strcmp(name, "dom") == 0) return strcmp(row->domain, value) == 0;
    if (strcmp(name, "cl") == 0) return row->claimed == strtoul(value, NULL, 10);
    if (strcmp(name, "vic") == 0) return row->victims == strtoul(value, NULL, 10);
    if (strcmp(name, "arr") == 0) return row->arrival == strtoull(value, NULL, 10);
    if (strcmp(name, "row") == 0) return strcmp(row->cluster, value) == 0;
    if (strcmp(name, "gang") == 0) return row->gang == (atoi(value) != 0);
    if (strcmp(name, "fp") == 0) return strcmp(row->fingerprint, value) == 0;
    if (strcmp(name, "cand") == 0) return same_candidates(row, value);
    if (strcmp(name, "idle") == 0) return row->idle_matching == atoi(value);
    if (strcmp(name, "spec") == 0) return row->speculative_matching == atoi(value);
    if (strcmp(name, "sold") == 0) return row->sold_out_matching == atoi(value);
    if (strcmp(name, "conf") == 0) return row->configured_matching == atoi(value);
    if (strcmp(name, "why") == 0) return strcmp(row->reason, value) == 0;
    wrong("no such expectation: %s", name);
}

static bool expect_claims(const struct judge *j, const char *list)
{
    size_t count = 0;
    if (!j->decision->claimed_by) return true; /* the engine reports how many, not which */
    for (size_t m = 0; m < j->fleet->machine_count; m++) {
        if (j->decision->claimed_by[m] < 0) continue;
        if (!in_list(list, j->fleet->machines[m].id)) return false;
        count++;
    }
    return count == items(list);
}

static bool expect_word(const struct judge *j, const char *word)
{
    const char *v;
    char name[8];
    int taken = 0;
    unsigned row;
    size_t count = 0;
    if (kind_of(word[0]) && strchr("=:@~/", word[1])) return expect_kind(j, word);
    if ((v = after(word, "rows="))) return j->decision->row_count == strtoul(v, NULL, 10);
    if ((v = after(word, "claims:"))) return expect_claims(j, v);
    if ((v = after(word, "U="))) {
        for (size_t r = 0; r < j->decision->row_count; r++)
            count += !j->decision->rows[r].satisfied;
        return count == strtoul(v, NULL, 10);
    }
    if ((v = after(word, "X="))) {
        for (size_t r = 0; r < j->decision->row_count; r++) count += !j->decision->rows[r].resolved;
        return count == strtoul(v, NULL, 10);
    }
    if ((v = after(word, "grace="))) {
        for (size_t a = 0; a < j->decision->action_count; a++)
            if ((j->decision->actions[a].kind == ORACLE_PREEMPT ||
                 j->decision->actions[a].kind == ORACLE_RECLAIM) &&
                j->decision->actions[a].grace_ms != 1000 * strtoull(v, NULL, 10))
                return false;
        return true;
    }
    if ((v = after(word, "preemptor="))) {
        for (size_t a = 0; a < j->decision->action_count; a++)
            if (j->decision->actions[a].preemptor != atoi(v)) return false;
        return true;
    }
    if (sscanf(word, "%7[a-z]%u=%n", name, &row, &taken) == 2 && taken)
        return expect_row(j, name, row, word + taken);
    wrong("no such expectation: %s", word);
}

void fleet_check(const struct fleet_text *text, decider *decide)
{
    struct oracle_fleet fleet;
    struct oracle_decision decision;
    struct judge judge = {text, &fleet, &decision};
    char *copy = strdup(text->expected), *rest = copy, *word;
    fleet_parse(text, &fleet);
    decide(&fleet, &decision);
    while ((word = next_word(&rest))) {
        if (strcmp(word, "then") == 0) { /* the next cycle, all carried out */
            fleet_apply(&fleet, &decision);
            oracle_decision_free(&decision);
            decide(&fleet, &decision);
        } else if (after(word, "ready:")) {
            continue;
        } else if (strcmp(word, "quiet") == 0) {
            expect(&judge, decision.action_count == 0, "no action");
        } else {
            expect(&judge, expect_word(&judge, word), word);
        }
    }
    oracle_decision_free(&decision);
    fleet_free(&fleet);
    free(copy);
}
