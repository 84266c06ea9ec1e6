/* SPDX-License-Identifier: Apache-2.0 */
#include "musterctl/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/tables.h"
#include "conf/nearest.h"
#include "conf/printable.h"
#include "conf/wrap.h"
#include "musterctl/commands.h"
#include "text/json.h"

enum { SAYS_MAX = 16 * 1024, LABEL_WIDTH = 9, JSON_MAX = 64 * 1024 };

/* -- sentences -- */

enum err explain_says(struct ctl *ctl, const char *label, const char *format, ...)
{
    struct wrap_options wrap = {.rest = "             ", .width = WRAP_WIDTH};
    char first[LABEL_WIDTH + 8];
    struct buf raw, shown;
    va_list args;
    enum err err;

    snprintf(first, sizeof first, "  %-*.*s  ", LABEL_WIDTH, LABEL_WIDTH, label);
    wrap.first = first;
    buf_init(&raw, SAYS_MAX);
    buf_init(&shown, SAYS_MAX * 4);
    va_start(args, format);
    err = buf_vappendf(&raw, format, args);
    va_end(args);
    if (!err) err = printable_append(buf_peek(&raw), &shown);
    if (!err) err = wrap_text(buf_peek(&shown), &wrap, &ctl->out);
    buf_deinit(&shown);
    buf_deinit(&raw);
    return err;
}

const char *explain_age(uint64_t ms, char text[EXPLAIN_AGE_CAP])
{
    const uint64_t second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;

    if (ms < second)
        snprintf(text, EXPLAIN_AGE_CAP, "%" PRIu64 " ms", ms);
    else if (ms < 2 * minute)
        snprintf(text, EXPLAIN_AGE_CAP, "%.1f s", (double)ms / (double)second);
    else if (ms < 2 * hour)
        snprintf(text, EXPLAIN_AGE_CAP, "%" PRIu64 " minutes", ms / minute);
    else if (ms < 2 * day)
        snprintf(text, EXPLAIN_AGE_CAP, "%" PRIu64 " hours", ms / hour);
    else
        snprintf(text, EXPLAIN_AGE_CAP, "%" PRIu64 " days", ms / day);
    return text;
}

/* -- names that are near -- */

void nearest_names_offer(struct nearest_names *names, const char *name)
{
    size_t bound = names->best[0] ? names->distance - 1 : NEAREST_KEYSTROKES_MAX, distance;

    if (names->best[0] && names->distance == 0) return;
    if (strlen(name) >= sizeof names->best) return;
    distance = nearest_distance(str_from(names->wanted), str_from(name), bound);
    if (distance > bound) return;
    names->distance = distance;
    memcpy(names->best, name, strlen(name) + 1);
}

const char *nearest_names_hint(const struct nearest_names *names, char text[EXPLAIN_HINT_CAP])
{
    text[0] = '\0';
    if (names->best[0]) snprintf(text, EXPLAIN_HINT_CAP, " (did you mean %s?)", names->best);
    return text;
}

/* -- the audit, in words -- */

static const char *reason_words(struct str reason)
{
    static const struct {
        const char *reason, *words;
    } known[] = {
        {"phase1.idle", "an idle machine of a fitting shape was free"},
        {"phase1.speculative", "no idle machine fitted, so one is bought"},
        {"phase2.inversion", "a more important Need lacks machines"},
        {"phase3.excess", "its cluster asks for fewer"},
        {"phase3.release", "it was idle for longer than it is kept"},
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_equal(reason, str_from(known[i].reason))) return known[i].words;
    return NULL;
}

struct action {
    struct str kind, machine, cluster, reason, outcome, error, time;
    uint64_t cycle;
};

static void read_action(const struct json *json, struct action *action)
{
    *action = (struct action){0};
    (void)json_get_string(json, "kind", &action->kind, NULL);
    (void)json_get_string(json, "machine", &action->machine, NULL);
    (void)json_get_string(json, "cluster", &action->cluster, NULL);
    (void)json_get_string(json, "reason", &action->reason, NULL);
    (void)json_get_string(json, "outcome", &action->outcome, NULL);
    (void)json_get_string(json, "error", &action->error, NULL);
    (void)json_get_string(json, "time", &action->time, NULL);
    (void)json_get_u64(json, "cycle", &action->cycle, NULL);
}

static bool is_of(struct str text, const char *wanted)
{
    return !wanted || str_equal(text, str_from(wanted));
}

static enum err say_action(struct ctl *ctl, const struct action *a)
{
    const char *words = reason_words(a->reason);

    return explain_says(
        ctl, "lately", "%.*sZ, cycle %" PRIu64 ": %.*s of %.*s%s%.*s, because %.*s: %.*s%s%.*s",
        (int)min_size(a->time.len, 19), a->time.at, a->cycle, STR_ARG(a->kind), STR_ARG(a->machine),
        a->cluster.len ? " for " : "", STR_ARG(a->cluster),
        words ? (int)strlen(words) : (int)a->reason.len, words ? words : a->reason.at,
        STR_ARG(a->outcome), a->error.len ? ": " : "", STR_ARG(a->error));
}

enum err explain_audit(struct ctl *ctl, size_t count, char *const *lines, const char *machine,
                       const char *cluster, size_t most)
{
    size_t matching = 0, skip;

    /* Twice: first how many there are, then the newest of them. */
    for (int round = 0; round < 2; round++) {
        skip = matching > most ? matching - most : 0;
        for (size_t i = 0; i < count; i++) {
            struct json *json;
            struct action action;
            bool ours;
            enum err err = ERR_OK;

            if (json_open(str_from(lines[i]), JSON_MAX, &json, NULL)) continue;
            read_action(json, &action);
            ours = is_of(action.machine, machine) && is_of(action.cluster, cluster);
            if (ours && round == 0) matching++;
            if (ours && round == 1 && skip == 0) err = say_action(ctl, &action);
            if (ours && round == 1 && skip > 0) skip--;
            json_close(json);
            if (err) return err;
        }
    }
    return ERR_OK;
}

enum err explain_silent_shards(struct ctl *ctl, const struct survey *survey)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < survey->shard_count && !err; i++)
        if (!survey->shards[i].said)
            err = explain_says(ctl, "missing", "shard %s does not answer, and may know more: %s",
                               survey->shards[i].id, survey->shards[i].why.text);
    return err;
}

/* -- the commands -- */

static int run_need(void *context, const struct command_call *call)
{
    return ctl_run_offline(context, call, explain_need);
}

static const struct command_example need_examples[] = {
    {"musterctl explain need cluster-a", "every Need of the cluster"},
    {"musterctl explain need cluster-a/2000", "the one of that priority; or of a group, or with "
                                              "these words in its fingerprint"},
    {NULL, NULL},
};
static const struct command need_command = {
    .name = "need",
    .summary = "what a Need asks for, got and lacks, why, and what would change it",
    .about =
        "Asks the shards what their last cycle decided for the Needs of a cluster, and says it "
        "in words: what it asks for, what it has, what is coming, what it lacks and why, what "
        "would change that, and what was done for the cluster lately.",
    .options = &explain_table,
    .arguments = "CLUSTER[/WHICH]",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = need_examples,
    .exits = CTL_EXITS | BIT(5),
    .run = run_need,
};

static int run_machine(void *context, const struct command_call *call)
{
    return ctl_run_offline(context, call, explain_machine);
}

static const struct command_example machine_examples[] = {
    {"musterctl explain machine m-17", "what it is, for whom, and why it is not used"},
    {NULL, NULL},
};
static const struct command machine_command = {
    .name = "machine",
    .summary = "what a machine is, whom it serves, why nobody acts on it",
    .about =
        "Asks the shards for the machine, and says in words what state it is in, what it was "
        "bought for, what is planned, why it rests and for how long, and what was done with it "
        "lately.",
    .options = &explain_table,
    .arguments = "MACHINE",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = machine_examples,
    .exits = CTL_EXITS | BIT(5),
    .run = run_machine,
};

static int run_worker(void *context, const struct command_call *call)
{
    return ctl_run(context, call, explain_worker);
}

static const struct command_example worker_examples[] = {
    {"musterctl explain worker 01JFEAVS7C5DE5XEAEAB91EBT6", "how it stands, what it has, and why"},
    {NULL, NULL},
};
static const struct command worker_command = {
    .name = "worker",
    .summary = "how a worker stands, which partitions it has, and why",
    .about = "Says in words how a worker stands and since when, what it has, what it is to give up "
             "or waits for, why it gets no partitions, and what would change that.",
    .options = &explain_table,
    .arguments = "WORKER",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = worker_examples,
    .exits = CTL_EXITS | BIT(5),
    .run = run_worker,
};

static const struct command *const children[] = {&need_command, &machine_command, &worker_command,
                                                 NULL};
const struct command explain_command = {
    .name = "explain",
    .summary = "why is it so? A Need, a machine or a worker, in words",
    .about = "The chain of decisions behind one thing, in words, from what the parts of the fleet "
             "say of it now.",
    .children = children,
};
