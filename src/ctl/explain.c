/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all explanations: sentences, ages, similar names, a shard's audit log. One thread. */
#include "ctl/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/nearest.h"
#include "conf/printable.h"
#include "conf/writer.h"
#include "text/json.h"

enum { SAYS_MAX = 16 * 1024, LABEL_WIDTH = 9 };

/* -- sentences -- */

void explain_says(struct ctl *ctl, const char *label, const char *format, ...)
{
    struct wrap_options wrap = {.rest = "             ", .width = WRAP_WIDTH};
    char first[LABEL_WIDTH + 8];
    struct writer w = {.into = &ctl->out};
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
    if (!err) writer_wrap(&w, buf_peek(&shown), &wrap);
    if (!ctl->print_err) ctl->print_err = err ? err : w.err;
    buf_deinit(&shown);
    buf_deinit(&raw);
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

enum err explain_with_shards(struct ctl *ctl, explain_look_fn *look)
{
    static struct ctl_survey survey; /* it is large */
    enum err err = ctl_survey_open(&survey, ctl->conf, &ctl->note);

    if (!err) err = ctl_survey_ask_shards(&survey, &ctl->note);
    if (!err) err = look(ctl, &survey, conf_argument(ctl->conf, 0));
    ctl_survey_close(&survey);
    return err;
}

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

static const char *explain_reason(struct str reason)
{
    static const struct {
        const char *reason, *words;
    } known[] = {
        {"phase1.idle", "an idle machine of a fitting shape was free"},
        {"phase1.speculative", "no idle machine fitted, so one is bought"},
        {"phase2.inversion", "a more important Need lacks machines"},
        {"phase3.excess", "its cluster asks for fewer"},
        {"phase3.release", "it was idle for longer than it is kept"},
        {"maintenance", "an operator of the shard ordered it"},
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_equal(reason, str_from(known[i].reason))) return known[i].words;
    return NULL;
}

struct explain_action {
    struct str kind, machine, cluster, reason, outcome, error, time;
    uint64_t cycle;
};

static void explain_read_action(const struct json *json, struct explain_action *action)
{
    *action = (struct explain_action){0};
    (void)json_get_string(json, "kind", &action->kind, NULL);
    (void)json_get_string(json, "machine", &action->machine, NULL);
    (void)json_get_string(json, "cluster", &action->cluster, NULL);
    (void)json_get_string(json, "reason", &action->reason, NULL);
    (void)json_get_string(json, "outcome", &action->outcome, NULL);
    (void)json_get_string(json, "error", &action->error, NULL);
    (void)json_get_string(json, "time", &action->time, NULL);
    (void)json_get_u64(json, "cycle", &action->cycle, NULL);
}

static void explain_say_action(struct ctl *ctl, const struct explain_action *a)
{
    const char *words = explain_reason(a->reason);

    explain_says(ctl, "lately",
                 "%.*sZ, cycle %" PRIu64 ": %.*s of %.*s%s%.*s, because %.*s: %.*s%s%.*s",
                 (int)min_size(a->time.len, 19), a->time.at, a->cycle, STR_ARG(a->kind),
                 STR_ARG(a->machine), a->cluster.len ? " for " : "", STR_ARG(a->cluster),
                 words ? (int)strlen(words) : (int)a->reason.len, words ? words : a->reason.at,
                 STR_ARG(a->outcome), a->error.len ? ": " : "", STR_ARG(a->error));
}

void explain_audit(struct ctl *ctl, size_t count, char *const *lines, const char *cluster,
                   size_t most)
{
    size_t matching = 0;

    /* the first round counts the matching lines, the second prints */
    for (int round = 0; round < 2; round++) {
        size_t skip = matching > most ? matching - most : 0;
        if (cluster && matching) explain_says(ctl, "lately", "for all Needs of %s:", cluster);
        for (size_t i = 0; i < count; i++) {
            struct explain_action action;
            struct json *json;

            if (json_open(str_from(lines[i]), EXPLAIN_JSON_MAX, &json, NULL)) continue;
            explain_read_action(json, &action);
            if (!cluster || str_equal(action.cluster, str_from(cluster))) {
                if (round == 0)
                    matching++;
                else if (skip > 0)
                    skip--;
                else
                    explain_say_action(ctl, &action);
            }
            json_close(json);
        }
    }
}
