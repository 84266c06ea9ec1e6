/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl top: a fleet on one screen, drawn anew while it is looked at. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "common/program.h"
#include "common/tables.h"
#include "conf/printable.h"
#include "io/clock.h"
#include "musterctl/commands.h"
#include "musterctl/ctl.h"
#include "musterctl/screen.h"
#include "musterctl/survey.h"

static const char dash[] = "\xe2\x80\x94";
enum {
    LINE_CAP = 1024,
    TIME_OF_DAY = 11,
    TIME_OF_DAY_LEN = 8,
    ROOM_QUARTERS = 3, /* of what is free that one part may take; the rest is for those after it */
};

/* -- lines -- */

__attribute__((format(printf, 2, 3))) static enum err line(struct buf *into, const char *format,
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

/* 850ms, 12.0s, 5m, 3h, 2d: as much as one wants to know at a glance. */
static void age_cell(struct table *table, uint64_t ms)
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

/* As many whole rows as there is room for, the first ones; the title says it when some are left
 * out, where no screen is too small to show it. */
static enum err rows_section(struct buf *into, const char *title, const struct table *table)
{
    size_t rows = table->cells / table->column_count, shown = 0, end = 0;
    struct buf text;
    enum err err;

    buf_init(&text, (SCREEN_FRAME_MAX - into->len) / 4 * ROOM_QUARTERS);
    err = table_print(table, &text);
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

/* A section whose part did not answer says why in the place of its rows. */
static enum err section(struct buf *into, const char *title, const struct table *table,
                        const struct note *why)
{
    enum err err;

    if (table) return rows_section(into, title, table);
    err = buf_appendf(into, "%c%s\n", SCREEN_SECTION, title);
    return err ? err : line(into, "no answer: %s", why->text);
}

/* -- sections -- */

static enum err replicas_section(struct survey *survey, struct buf *into)
{
    static const char *const columns[] = {"NAME", "ROLE", "TERM", "LAG", "SILENT", "ADDRESS", NULL};
    const Muster__V1__ListReplicasResponse *list = survey_replicas(survey);
    struct table table;

    if (!list) return section(into, "REPLICAS", NULL, &survey->why[SURVEY_REPLICAS]);
    table_init(&table, columns, &survey->memory);
    for (size_t i = 0; i < list->n_replicas; i++) {
        const Muster__V1__Replica *replica = list->replicas[i];
        table_text(&table, replica->name);
        table_text(&table, replica->leader ? "leader" : replica->voter ? "voter" : "learner");
        if (replica->leader && list->term)
            table_number(&table, (int64_t)list->term);
        else
            table_text(&table, dash);
        table_number(&table, (int64_t)survey_lag(list, replica));
        if (replica->leader)
            table_text(&table, dash);
        else if (replica->silent_ms < 0)
            table_text(&table, "never heard");
        else
            age_cell(&table, (uint64_t)replica->silent_ms);
        table_text(&table, replica->grpc_address);
    }
    return section(into, "REPLICAS", &table, NULL);
}

static uint64_t in_state(const Muster__V1__ShardStatusResponse *s, const char *state)
{
    return survey_count(s->n_states, s->states, state);
}

/* What a person should know first of a shard that answers. */
static void rails_cell(struct table *table, const Muster__V1__ShardStatusResponse *s)
{
    if (s->cycle == 0)
        table_text(table, "no cycle yet");
    else
        table_format(table, "%s%s%s%s%s", s->fenced ? "fenced " : "", s->paused ? "paused " : "",
                     s->dry_run ? "dry-run " : "", s->in_doubt ? "calls in doubt " : "",
                     s->capped ? "reclaims held back" : "");
}

static void shard_row(struct table *table, const struct survey_shard *shard)
{
    const Muster__V1__ShardStatusResponse *s = shard->said;

    table_text(table, shard->id);
    if (!s) {
        for (size_t i = 2; i < table->column_count; i++) table_text(table, dash);
        table_format(table, "no answer: %s", shard->why.text);
        return;
    }
    table_number(table, (int64_t)s->cycle);
    table_format(table, "%.1f", s->cycle_ms);
    table_number(table, s->machines);
    table_number(table, (int64_t)in_state(s, "Configured"));
    table_number(table, (int64_t)in_state(s, "Idle"));
    table_number(table, (int64_t)(in_state(s, "Creating") + in_state(s, "Configuring") +
                                  in_state(s, "Draining") + in_state(s, "Deleting")));
    table_number(table, (int64_t)in_state(s, "Failed"));
    table_number(table, (int64_t)in_state(s, "Speculative"));
    table_number(table, s->shortfalls);
    table_format(table, "%" PRIu32 "+%" PRIu32, s->inflight, s->queued);
    rails_cell(table, s);
}

static enum err shards_section(struct survey *survey, struct buf *into)
{
    static const char *const columns[] = {"SHARD", "CYCLE",  "MS",     "MACHINES",    "CONFIGURED",
                                          "IDLE",  "MOVING", "FAILED", "SPECULATIVE", "UNMET",
                                          "CALLS", "NOTE",   NULL};
    struct table table;
    enum err err;

    if (!survey_shards(survey) && survey->shard_count == 0)
        return section(into, "SHARDS", NULL, &survey->why[SURVEY_SHARDS]);
    table_init(&table, columns, &survey->memory);
    for (size_t i = 0; i < survey->shard_count; i++) shard_row(&table, &survey->shards[i]);
    err = section(into, "SHARDS", &table, NULL);
    if (!err && survey->shards_left_out)
        err = line(into, "%zu more are not asked here; musterctl list-shards lists them",
                   survey->shards_left_out);
    return err;
}

static bool is_well(const Muster__V1__Worker *worker)
{
    return worker->standing == MUSTER__V1__STANDING__STANDING_ACTIVE && !worker->draining;
}

/* Who needs a look stands above, then by load. */
static int by_trouble(const void *a, const void *b)
{
    const Muster__V1__Worker *left = *(Muster__V1__Worker *const *)a;
    const Muster__V1__Worker *right = *(Muster__V1__Worker *const *)b;

    if (is_well(left) != is_well(right)) return is_well(left) ? 1 : -1;
    if (left->load < right->load || left->load > right->load)
        return left->load > right->load ? -1 : 1;
    return strcmp(left->worker_id, right->worker_id);
}

static void worker_row(struct table *table, const Muster__V1__Worker *worker)
{
    static const char *const standings[] = {"?", "active", "suspected", "dead", "removed"};
    static const char *const phases[] = {dash, "init", "ready", "running", "draining"};
    uint32_t standing = (uint32_t)worker->standing;

    table_text(table, worker->worker_id);
    table_text(table, standing < ARRAY_LEN(standings) ? standings[standing] : "?");
    table_text(table, worker->draining                    ? "draining"
                      : worker->phase < ARRAY_LEN(phases) ? phases[worker->phase]
                                                          : "?");
    table_number(table, worker->partitions);
    table_format(table, "%.2f", worker->load);
    if (worker->received_at_ms)
        age_cell(table, worker->silent_ms);
    else
        table_text(table, dash);
    table_text(table, worker->reason);
}

static enum err workers_section(struct survey *survey, struct buf *into)
{
    static const char *const columns[] = {"WORKER", "STANDING", "PHASE",  "PARTITIONS",
                                          "LOAD",   "SILENT",   "REASON", NULL};
    const Muster__V1__ListWorkersResponse *list = survey_workers(survey);
    struct table table;

    if (!list) return section(into, "WORKERS", NULL, &survey->why[SURVEY_WORKERS]);
    if (list->n_workers > 1)
        qsort(list->workers, list->n_workers, sizeof *list->workers, by_trouble);
    table_init(&table, columns, &survey->memory);
    for (size_t i = 0; i < list->n_workers; i++) worker_row(&table, list->workers[i]);
    return section(into, "WORKERS", &table, NULL);
}

static enum err claims_section(struct survey *survey, struct buf *into)
{
    static const char *const columns[] = {"CLAIM", "OWNER", "TOKEN", "LEFT", NULL};
    const Muster__V1__RangeResponse *range = survey_claims(survey);
    struct table table;

    if (!range) return section(into, "CLAIMS", NULL, &survey->why[SURVEY_CLAIMS]);
    table_init(&table, columns, &survey->memory);
    for (size_t i = 0; i < range->n_entries; i++) {
        const Muster__V1__Entry *e = range->entries[i];
        struct str key = str_tail(str_of(e->key.data, e->key.len), sizeof SURVEY_CLAIMS_PREFIX - 1);
        table_format(&table, "%.*s", (int)min_size(key.len, 256), key.at);
        table_text(&table, e->owner[0] ? e->owner : dash);
        table_number(&table, (int64_t)e->token);
        if (e->ttl_ms > 0)
            age_cell(&table, e->remaining_ms > 0 ? (uint64_t)e->remaining_ms : 0);
        else
            table_text(&table, dash);
    }
    return section(into, "CLAIMS", &table, NULL);
}

/* -- the frame -- */

static enum err summary_of_shards(const struct survey *survey, struct buf *into)
{
    uint64_t machines = 0, configured = 0, unmet = 0, silent = 0;

    for (size_t i = 0; i < survey->shard_count; i++) {
        const Muster__V1__ShardStatusResponse *s = survey->shards[i].said;
        if (!s) {
            silent++;
            continue;
        }
        machines += s->machines;
        configured += in_state(s, "Configured");
        unmet += s->shortfalls;
    }
    return buf_appendf(
        into,
        "   shards %zu%s   machines %" PRIu64 ", %" PRIu64 " configured   needs unmet %" PRIu64,
        survey->shard_count, silent ? " (some away)" : "", machines, configured, unmet);
}

static enum err summary(const struct survey *survey, struct buf *into)
{
    const Muster__V1__ListReplicasResponse *replicas = survey_replicas(survey);
    const Muster__V1__ClusterStatusResponse *members = survey_members(survey);
    const Muster__V1__StatusResponse *store = survey_store(survey);
    char now[WALL_TEXT_CAP];
    struct buf text;
    enum err err;

    wall_text(clock_wall(clock_real()), now);
    buf_init(&text, LINE_CAP);
    err = buf_appendf(&text, "%.*s UTC", TIME_OF_DAY_LEN, now + TIME_OF_DAY);
    if (!err && replicas && survey_leader(replicas))
        err = buf_appendf(&text, "   leader %.64s", survey_leader(replicas)->name);
    if (!err && !replicas) err = buf_append_c(&text, "   no coordinator answers");
    if (!err) err = summary_of_shards(survey, &text);
    if (!err && members)
        err = buf_appendf(&text, "   workers %" PRIu64 " of %" PRIu64 "%s", members->active,
                          members->known, members->hold ? ", failures held back" : "");
    if (!err && store) err = buf_appendf(&text, "   keys %" PRIu64, store->keys);
    if (!err) err = line(into, "%.*s", STR_ARG(buf_peek(&text)));
    buf_deinit(&text);
    return err;
}

static enum err make_frame(void *owner, struct buf *into)
{
    struct survey *survey = owner;
    enum err err;

    survey_ask(survey);
    err = summary(survey, into);
    if (!err) err = replicas_section(survey, into);
    if (!err) err = shards_section(survey, into);
    if (!err) err = workers_section(survey, into);
    return err ? err : claims_section(survey, into);
}

/* -- the command -- */

static enum err top_once(struct ctl *ctl, struct survey *survey)
{
    struct buf frame;
    enum err err;

    buf_init(&frame, SCREEN_FRAME_MAX);
    err = make_frame(survey, &frame);
    if (!err) err = screen_plain(buf_peek(&frame), &ctl->out);
    buf_deinit(&frame);
    if (err || survey_replicas(survey)) return err;
    ctl->note = survey->why[SURVEY_REPLICAS];
    return ERR_UNAVAILABLE;
}

static enum err top(struct ctl *ctl)
{
    struct survey survey;
    enum err err = survey_open(&survey, ctl->conf, &ctl->note);

    if (!err && (conf_bool(ctl->conf, "once") || !isatty(STDOUT_FILENO)))
        err = top_once(ctl, &survey);
    else if (!err)
        err = screen_run(make_frame, &survey, conf_number(ctl->conf, "every"), &ctl->note);
    survey_close(&survey);
    return err;
}

static int run_top(void *context, const struct command_call *call)
{
    return ctl_run_offline(context, call, top);
}

static const struct command_example examples[] = {
    {"musterctl top", "the fleet as it is now, and on; q leaves"},
    {"musterctl top --every 5s --coordinator c1:7790,c2:7790,c3:7790",
     "less often, from elsewhere"},
    {"musterctl top --once", "one picture, whole, for a script or a ticket"},
    {NULL, NULL},
};
const struct command top_command = {
    .name = "top",
    .summary = "the fleet on one screen, live: replicas, shards, workers, claims",
    .about =
        "Shows who leads and who is behind, each shard with its machines, its last cycle and what "
        "it could not meet, the workers with those that need a look first, and who holds which "
        "claim. Whoever does not answer is shown with the reason, the others go on; shards are "
        "asked at their own addresses, also while no coordinator answers. q leaves; the screen is "
        "given back as it was.\n"
        "MOVING counts machines that are being created, configured, drained or deleted; CALLS are "
        "those under way and those that wait. LAG is how many entries a replica's log is behind.\n"
        "With --once, or where standard output is no terminal, it prints one picture with all rows "
        "and ends: with 6 when no coordinator answered.",
    .options = &top_table,
    .examples = examples,
    .exits = BIT(1) | BIT(2) | BIT(6),
    .run = run_top,
};
