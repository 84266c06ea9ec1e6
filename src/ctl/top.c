/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the screen, each from one part of a survey. A part without an answer shows why.
 * One thread; on a terminal it runs in the frame process. */
#include "ctl/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "conf/printable.h"
#include "ctl/screen.h"
#include "io/clock.h"
#include "text/rfc3339.h"

enum {
    LINE_CAP = 1024,
    TIME_OF_DAY = 11,
    TIME_OF_DAY_LEN = 8,
    ROOM_QUARTERS = 3, /* one part may use 3/4 of the free space */
};

/* -- lines -- */

__attribute__((format(printf, 2, 3))) static enum err top_line(struct buf *into, const char *format,
                                                               ...)
{
    char text[LINE_CAP];
    va_list args;
    enum err err;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err = printable_append(str_from(text), into);
    return err ? err : buf_append_byte(into, '\n');
}

/* Prints a short age: 850ms, 12.0s, 5m, 3h or 2d. */
static void top_age_cell(struct text_table *table, uint64_t ms)
{
    if (ms < 1000)
        table_format(table, "%" PRIu64 "ms", ms);
    else if (ms < 100 * 1000)
        table_format(table, "%.1fs", (double)ms / 1000);
    else if (ms < 100 * 60 * 1000)
        table_format(table, "%" PRIu64 "m", ms / (60 * 1000));
    else if (ms < (uint64_t)48 * 3600 * 1000)
        table_format(table, "%" PRIu64 "h", ms / (3600 * 1000));
    else
        table_format(table, "%" PRIu64 "d", ms / ((uint64_t)24 * 3600 * 1000));
}

/* Appends the rows that fit. Their number is in the title, because a small screen may cut off a
 * last line. */
static enum err top_rows(struct buf *into, const char *title, const struct text_table *table)
{
    size_t rows = table->cells / table->column_count, shown = 0, end = 0;
    struct buf text;
    enum err err;

    buf_init(&text, (SCREEN_FRAME_MAX - into->len) / 4 * ROOM_QUARTERS);
    err = table_print(table, 0, &text);
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\n') {
            end = i + 1;
            shown++;
        }
    shown -= shown > 0; /* the heading */
    if (err == ERR_FULL)
        err = buf_appendf(into, "%c%s, the first %zu of %zu\n", SCREEN_SECTION, title, shown, rows);
    else if (!err)
        err = buf_appendf(into, "%c%s\n", SCREEN_SECTION, title);
    if (!err) err = buf_append(into, str_of(text.data, end));
    buf_deinit(&text);
    return err;
}

/* -- sections -- */

static void top_replicas(struct ctl_survey *survey, struct text_table *table)
{
    const Muster__V1__ListReplicasResponse *list = survey->replicas;

    for (size_t i = 0; i < list->n_replicas; i++) {
        const Muster__V1__Replica *replica = list->replicas[i];
        table_text(table, replica->name);
        table_text(table, replica->leader ? "leader" : replica->voter ? "voter" : "learner");
        if (replica->leader && list->term)
            table_number(table, (int64_t)list->term);
        else
            table_text(table, TABLE_DASH);
        table_number(table, (int64_t)ctl_survey_lag(list, replica));
        if (replica->leader)
            table_text(table, TABLE_DASH);
        else if (replica->silent_ms < 0)
            table_text(table, "never heard");
        else
            top_age_cell(table, (uint64_t)replica->silent_ms);
        table_text(table, replica->grpc_address);
    }
}

static uint64_t top_in_state(const Muster__V1__ShardStatusResponse *s, const char *state)
{
    return ctl_survey_count(s->n_states, s->states, state);
}

/* The most important state of a shard that answers, such as a safety limit. */
static void top_rails_cell(struct text_table *table, const Muster__V1__ShardStatusResponse *s)
{
    if (s->cycle == 0)
        table_text(table, "no cycle yet");
    else
        table_format(table, "%s%s%s%s%s", s->fenced ? "fenced " : "", s->paused ? "paused " : "",
                     s->dry_run ? "dry-run " : "", s->in_doubt ? "calls in doubt " : "",
                     s->capped ? "reclaims held back" : "");
}

static void top_shard_row(struct text_table *table, const struct survey_shard *shard)
{
    const Muster__V1__ShardStatusResponse *s = shard->said;

    table_text(table, shard->id);
    if (!s) {
        for (size_t i = 2; i < table->column_count; i++) table_text(table, TABLE_DASH);
        table_format(table, "no answer: %s", shard->why.text);
        return;
    }
    table_number(table, (int64_t)s->cycle);
    table_format(table, "%.1f", s->cycle_ms);
    table_number(table, s->machines);
    table_number(table, (int64_t)top_in_state(s, "Configured"));
    table_number(table, (int64_t)top_in_state(s, "Idle"));
    table_number(table, (int64_t)(top_in_state(s, "Creating") + top_in_state(s, "Configuring") +
                                  top_in_state(s, "Draining") + top_in_state(s, "Deleting")));
    table_number(table, (int64_t)top_in_state(s, "Failed"));
    table_number(table, (int64_t)top_in_state(s, "Speculative"));
    table_number(table, s->shortfalls);
    table_format(table, "%" PRIu32 "+%" PRIu32, s->inflight, s->queued);
    top_rails_cell(table, s);
}

static void top_shards(struct ctl_survey *survey, struct text_table *table)
{
    for (size_t i = 0; i < survey->shard_count; i++) top_shard_row(table, &survey->shards[i]);
}

static bool top_is_well(const Muster__V1__Worker *worker)
{
    return worker->standing == MUSTER__V1__STANDING__STANDING_ACTIVE && !worker->draining;
}

/* Workers with a problem first, then by load. */
static int top_by_trouble(const void *a, const void *b)
{
    const Muster__V1__Worker *left = *(Muster__V1__Worker *const *)a;
    const Muster__V1__Worker *right = *(Muster__V1__Worker *const *)b;

    if (top_is_well(left) != top_is_well(right)) return top_is_well(left) ? 1 : -1;
    if (left->load < right->load || left->load > right->load)
        return left->load > right->load ? -1 : 1;
    return strcmp(left->worker_id, right->worker_id);
}

static void top_worker_row(struct text_table *table, const Muster__V1__Worker *worker)
{
    static const char *const standings[] = {"?", "active", "suspected", "dead", "removed"};
    static const char *const phases[] = {TABLE_DASH, "init", "ready", "running", "draining"};
    uint32_t standing = (uint32_t)worker->standing;

    table_text(table, worker->worker_id);
    table_text(table, standing < ARRAY_LEN(standings) ? standings[standing] : "?");
    table_text(table, worker->draining                    ? "draining"
                      : worker->phase < ARRAY_LEN(phases) ? phases[worker->phase]
                                                          : "?");
    table_number(table, worker->partitions);
    table_format(table, "%.2f", worker->load);
    if (worker->received_at_ms)
        top_age_cell(table, worker->silent_ms);
    else
        table_text(table, TABLE_DASH);
    table_text(table, worker->reason);
}

static void top_workers(struct ctl_survey *survey, struct text_table *table)
{
    const Muster__V1__ListWorkersResponse *list = survey->workers;

    if (list->n_workers > 1)
        qsort(list->workers, list->n_workers, sizeof *list->workers, top_by_trouble);
    for (size_t i = 0; i < list->n_workers; i++) top_worker_row(table, list->workers[i]);
}

static void top_claims(struct ctl_survey *survey, struct text_table *table)
{
    const Muster__V1__RangeResponse *range = survey->claims;

    for (size_t i = 0; i < range->n_entries; i++) {
        const Muster__V1__Entry *e = range->entries[i];
        struct str key = str_tail(str_of(e->key.data, e->key.len), sizeof SURVEY_CLAIMS_PREFIX - 1);
        table_format(table, "%.*s", (int)min_size(key.len, 256), key.at);
        table_text(table, e->owner[0] ? e->owner : TABLE_DASH);
        table_number(table, (int64_t)e->token);
        if (e->ttl_ms > 0)
            top_age_cell(table, e->remaining_ms > 0 ? (uint64_t)e->remaining_ms : 0);
        else
            table_text(table, TABLE_DASH);
    }
}

static const struct top_section {
    const char *title;
    enum survey_part part;
    const char *const *columns;
    void (*fill)(struct ctl_survey *survey, struct text_table *table);
} sections[] = {
    {"REPLICAS", SURVEY_REPLICAS, TABLE_COLUMNS("NAME", "ROLE", "TERM", "LAG", "SILENT", "ADDRESS"),
     top_replicas},
    {"SHARDS", SURVEY_SHARDS,
     TABLE_COLUMNS("SHARD", "CYCLE", "MS", "MACHINES", "CONFIGURED", "IDLE", "MOVING", "FAILED",
                   "SPECULATIVE", "UNMET", "CALLS", "NOTE"),
     top_shards},
    {"WORKERS", SURVEY_WORKERS,
     TABLE_COLUMNS("WORKER", "STANDING", "PHASE", "PARTITIONS", "LOAD", "SILENT", "REASON"),
     top_workers},
    {"CLAIMS", SURVEY_CLAIMS, TABLE_COLUMNS("CLAIM", "OWNER", "TOKEN", "LEFT"), top_claims},
};

/* Shows a section, or the reason if its part did not answer. The shards may be known from an
 * earlier round. */
static enum err top_put_section(struct ctl_survey *survey, const struct top_section *section,
                                struct buf *into)
{
    bool shards = section->part == SURVEY_SHARDS;
    struct text_table table;
    enum err err;

    if (!survey->said[section->part] && !(shards && survey->shard_count > 0)) {
        err = buf_appendf(into, "%c%s\n", SCREEN_SECTION, section->title);
        return err ? err : top_line(into, "no answer: %s", survey->why[section->part].text);
    }
    table_init(&table, section->columns, &survey->memory);
    section->fill(survey, &table);
    err = top_rows(into, section->title, &table);
    if (!err && shards && survey->shards_left_out)
        err = top_line(into, "%zu more are not asked here; musterctl shard list lists them",
                       survey->shards_left_out);
    return err;
}

/* -- the frame -- */

static enum err top_summary_of_shards(const struct ctl_survey *survey, struct buf *into)
{
    uint64_t machines = 0, configured = 0, unmet = 0, silent = 0;

    for (size_t i = 0; i < survey->shard_count; i++) {
        const Muster__V1__ShardStatusResponse *s = survey->shards[i].said;
        if (!s) {
            silent++;
            continue;
        }
        machines += s->machines;
        configured += top_in_state(s, "Configured");
        unmet += s->shortfalls;
    }
    return buf_appendf(
        into,
        "   shards %zu%s   machines %" PRIu64 ", %" PRIu64 " configured   needs unmet %" PRIu64,
        survey->shard_count, silent ? " (some away)" : "", machines, configured, unmet);
}

static enum err top_summary(const struct ctl_survey *survey, wall_time time, struct buf *into)
{
    const Muster__V1__ListReplicasResponse *replicas = survey->replicas;
    const Muster__V1__ClusterStatusResponse *members = survey->members;
    const Muster__V1__StatusResponse *store = survey->store;
    char now[RFC3339_CAP];
    struct buf text;
    enum err err;

    wall_text(time, now);
    buf_init(&text, LINE_CAP);
    err = buf_appendf(&text, "%.*s UTC", TIME_OF_DAY_LEN, now + TIME_OF_DAY);
    if (!err && replicas && ctl_survey_leader(replicas))
        err = buf_appendf(&text, "   leader %.64s", ctl_survey_leader(replicas)->name);
    if (!err && !replicas) err = buf_append_c(&text, "   no coordinator answers");
    if (!err) err = top_summary_of_shards(survey, &text);
    if (!err && members)
        err = buf_appendf(&text, "   workers %" PRIu64 " of %" PRIu64 "%s", members->active,
                          members->known, members->hold ? ", failures held back" : "");
    if (!err && store) err = buf_appendf(&text, "   keys %" PRIu64, store->keys);
    if (!err) err = top_line(into, "%.*s", STR_ARG(buf_peek(&text)));
    buf_deinit(&text);
    return err;
}

enum err top_frame(struct ctl_survey *survey, wall_time now, struct buf *into)
{
    enum err err = top_summary(survey, now, into);

    for (size_t i = 0; i < ARRAY_LEN(sections) && !err; i++)
        err = top_put_section(survey, &sections[i], into);
    return err;
}

static enum err top_make(void *owner, struct buf *into)
{
    struct ctl_survey *survey = owner;

    ctl_survey_ask(survey);
    return top_frame(survey, clock_wall(clock_real()), into);
}

static enum err top_once(struct ctl *ctl, struct ctl_survey *survey)
{
    struct buf frame;
    enum err err;

    buf_init(&frame, SCREEN_FRAME_MAX);
    err = top_make(survey, &frame);
    if (!err) err = screen_plain(buf_peek(&frame), &ctl->out);
    buf_deinit(&frame);
    if (err || survey->replicas) return err;
    ctl->note = survey->why[SURVEY_REPLICAS];
    return ERR_UNAVAILABLE;
}

enum err top_act(struct ctl *ctl)
{
    static struct ctl_survey survey; /* it is large */
    enum err err = ctl_survey_open(&survey, ctl->conf, &ctl->note);

    if (!err && (conf_bool(ctl->conf, "once") || !isatty(STDOUT_FILENO)))
        err = top_once(ctl, &survey);
    else if (!err)
        err = screen_run(top_make, &survey, conf_number(ctl->conf, "every"), &ctl->note);
    ctl_survey_close(&survey);
    return err;
}
