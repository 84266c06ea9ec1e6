/* SPDX-License-Identifier: Apache-2.0 */
#include "judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "linear.h"
#include "models.h"
#include "prim/names.h"

static const char *const rule_names[] = {"grants", "early",   "check", "keys",
                                         "slots",  "watches", "stale"};
static_assert(ARRAY_LEN(rule_names) == JUDGE_RULE_COUNT, "one name each");

const char *judge_rule_name(enum judge_rule rule)
{
    return rule < JUDGE_RULE_COUNT ? rule_names[rule] : "?";
}

void judge_bad(struct judge_result *result, const char *format, ...)
{
    char text[NOTE_CAP];
    va_list args;

    if (result->verdict == JUDGE_BAD) return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    result->verdict = JUDGE_BAD;
    note_set(&result->why, "%s", text);
}

/* -- results of calls without an answer, from other calls and watches -- */

static void learn(struct hist *h, uint64_t id, uint64_t revision, uint64_t token, uint32_t slot)
{
    const struct hist_call *known = hist_call(h, id);
    struct hist_call *call;

    if (!known || !hist_in_doubt(known)) return;
    call = &h->calls[known - h->calls];
    if (call->op == HIST_ACQUIRE) {
        if (slot == COORD_NO_SLOT) return;
        call->slot = slot;
        call->seen = true;
        if (!call->token) call->token = token;
    } else if (!call->revision) {
        call->revision = revision;
    }
}

static uint32_t slot_of_key(const char *key)
{
    uint32_t slot;

    return claim_slot_number(prim_leaf_of(str_from(key)), &slot) ? slot : COORD_NO_SLOT;
}

void judge_learn(struct hist *h)
{
    for (size_t i = 0; i < h->event_count; i++) {
        const struct hist_event *event = &h->events[i];
        if ((event->type == COORD_PUT || event->type == COORD_ENTRY) && event->value)
            learn(h, event->value, event->revision, event->token, slot_of_key(h->keys[event->key]));
    }
    for (size_t i = 0; i < h->call_count; i++) {
        const struct hist_call *call = &h->calls[i], *lease = hist_call(h, call->lease);
        if (lease) h->calls[lease - h->calls].named = true;
        if (call->found) learn(h, call->found, call->revision, 0, COORD_NO_SLOT);
        for (uint32_t slot = 0; slot < HIST_SLOTS_MAX; slot++)
            if (call->holders[slot]) learn(h, call->holders[slot], 0, 0, slot);
    }
}

/* -- orders -- */

struct part { /* the calls on one key or group */
    struct model_call *what;
    struct linear_call *calls;
    size_t count, cap;
    int64_t watched_ns;
    uint64_t *gone; /* revisions of the answered deletions, sorted */
    size_t gone_count;
    uint32_t twin, after;   /* of the call that is being added */
    uint32_t twins, unseen; /* numbers so far; the last one that no read or watch saw */
};

static void add(struct part *part, const struct hist_call *call, uint32_t slot, bool doubt)
{
    if (part->count == part->cap) {
        part->cap = part->cap ? part->cap * 2 : 64;
        part->what = realloc(part->what, part->cap * sizeof *part->what);
        part->calls = realloc(part->calls, part->cap * sizeof *part->calls);
        if (!part->what || !part->calls) abort();
    }
    part->what[part->count] = (struct model_call){call, slot, doubt};
    part->calls[part->count++] = (struct linear_call){
        call->called_ns, doubt ? INT64_MAX : call->ended_ns, NULL, part->twin, part->after};
}

/* The time from which on a watch reported the bucket without a gap, to the end of the history: what
 * it did not report after that did not happen. */
static int64_t watched_since(const struct hist *h, struct str bucket)
{
    int64_t since_ns = INT64_MAX, best_ns = INT64_MAX;

    for (size_t i = 0; i < h->event_count; i++) {
        const struct hist_event *event = &h->events[i];
        if (event->type == COORD_SNAPSHOT_BEGIN)
            since_ns = str_equal(str_from(h->keys[event->key]), bucket) ? event->at_ns : INT64_MAX;
        if (str_ends(str_from(h->keys[event->key]), STR("/end")) && since_ns < best_ns)
            best_ns = since_ns;
    }
    return best_ns;
}

static int by_number(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Whether a watch reported a deletion after that time that belongs to no answered call. */
static bool was_deleted(const struct hist *h, const struct part *part, uint32_t key, int64_t at_ns)
{
    for (size_t i = 0; i < h->event_count; i++) {
        const struct hist_event *event = &h->events[i];
        if (event->key != key || event->type != COORD_DELETE || event->at_ns < at_ns) continue;
        if (!part->gone_count ||
            !bsearch(&event->revision, part->gone, part->gone_count, sizeof *part->gone, by_number))
            return true;
    }
    return false;
}

/* A call in doubt: false when it was certainly never done. */
static bool may_have_been(const struct hist *h, const struct part *part,
                          const struct hist_call *call)
{
    if (call->called_ns <= part->watched_ns) return true;
    switch (call->op) {
    case HIST_ACQUIRE: return call->seen || call->named;
    case HIST_CREATE:
    case HIST_CAS: return call->revision != 0;
    case HIST_DELETE: return was_deleted(h, part, call->key, call->called_ns);
    default: return true;
    }
}

static void add_call(const struct hist *h, struct part *part, bool group,
                     const struct hist_call *call)
{
    bool open = call->ended_ns == HIST_OPEN;

    if (!(group ? group_model_knows(call) : key_model_knows(call))) return;
    if (!open || (call->op != HIST_ACQUIRE && may_have_been(h, part, call)))
        add(part, call, call->slot, open);
    if (call->op != HIST_ACQUIRE || !hist_in_doubt(call) || !may_have_been(h, part, call)) return;
    /* If nothing saw it, it may be in any slot. */
    part->twin = ++part->twins;
    if (!call->seen && !call->named) { /* such calls are interchangeable: take the earliest first */
        part->after = part->unseen;
        part->unseen = part->twin;
    }
    for (uint32_t slot = 0; slot < call->slots; slot++)
        if (!call->seen || slot == call->slot) add(part, call, slot, true);
    part->twin = part->after = 0;
}

static void check_part(const struct hist *h, const char *key, struct part *part, bool group,
                       uint64_t steps_max, struct judge_result *result)
{
    struct linear_result linear;
    struct note stuck = {""};

    for (size_t i = 0; i < part->count; i++) part->calls[i].what = &part->what[i];
    linear_check(group ? &group_model : &key_model, part->calls, part->count, steps_max, &linear);
    result->steps += linear.steps;
    result->looked_at += part->count;
    if (linear.verdict == LINEAR_BAD) {
        if (linear.stuck) hist_describe(h, ((const struct model_call *)linear.stuck)->call, &stuck);
        judge_bad(result, "%s: no order of its %zu calls; after %zu of them: %s", key, part->count,
                  linear.explained, stuck.text);
    } else if (linear.verdict == LINEAR_GAVE_UP && result->verdict == JUDGE_GOOD) {
        result->verdict = JUDGE_GAVE_UP;
        note_set(&result->why, "%s: gave up after %" PRIu64 " steps, %zu of its %zu calls in order",
                 key, linear.steps, linear.explained, part->count);
    }
}

static void gather_gone(const struct hist *h, struct part *parts)
{
    for (size_t i = 0; i < h->call_count; i++) {
        const struct hist_call *call = &h->calls[i];
        struct part *part = &parts[call->key];
        if (call->op != HIST_DELETE || call->ended_ns == HIST_OPEN || call->code != COORD_OK)
            continue;
        part->gone = realloc(part->gone, (part->gone_count + 1) * sizeof *part->gone);
        if (!part->gone) abort();
        part->gone[part->gone_count++] = call->revision;
    }
    for (size_t i = 0; i < h->key_count; i++)
        if (parts[i].gone_count)
            qsort(parts[i].gone, parts[i].gone_count, sizeof *parts[i].gone, by_number);
}

void judge_orders(const struct hist *h, bool groups, uint64_t steps_max,
                  struct judge_result *result)
{
    struct part *parts = calloc(h->key_count + 1, sizeof *parts);
    bool *is_group = calloc(h->key_count + 1, sizeof *is_group);

    if (!parts || !is_group) abort();
    for (size_t i = 0; i < h->call_count; i++)
        if (h->calls[i].op == HIST_ACQUIRE) is_group[h->calls[i].key] = true;
    for (size_t i = 0; i < h->key_count; i++) {
        struct str key = str_from(h->keys[i]);
        parts[i].watched_ns = watched_since(h, is_group[i] ? key : prim_bucket_of(key));
    }
    gather_gone(h, parts);
    for (size_t i = 0; i < h->call_count; i++)
        if (is_group[h->calls[i].key] == groups)
            add_call(h, &parts[h->calls[i].key], groups, &h->calls[i]);
    for (size_t i = 0; i < h->key_count; i++) {
        if (parts[i].count) check_part(h, h->keys[i], &parts[i], groups, steps_max, result);
        free(parts[i].what);
        free(parts[i].calls);
        free(parts[i].gone);
    }
    free(parts);
    free(is_group);
}

void judge_run(const struct hist *h, enum judge_rule rule, uint64_t steps_max,
               struct judge_result *ret_result)
{
    struct judge_result result = {.verdict = JUDGE_GOOD};

    switch (rule) {
    case JUDGE_GRANTS: judge_grants(h, &result); break;
    case JUDGE_EARLY: judge_early(h, &result); break;
    case JUDGE_CHECK: judge_check(h, &result); break;
    case JUDGE_KEYS: judge_orders(h, false, steps_max, &result); break;
    case JUDGE_SLOTS: judge_orders(h, true, steps_max, &result); break;
    case JUDGE_WATCHES: judge_watches(h, &result); break;
    case JUDGE_STALE: judge_stale(h, &result); break;
    case JUDGE_RULE_COUNT: break;
    }
    *ret_result = result;
}
