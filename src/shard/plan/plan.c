/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a fleet from text or generates one, decides once, and prints the decision. */
#include "shard/plan/plan.h"

#include <stdlib.h>

#include "shard/plan/document.h"
#include "shard/plan/words.h"

/* Fleets from a file are decided at this time. Idle times count back from it. */
#define PLAN_NOW ((mono_time){UINT64_C(1) << 40})

struct planner {
    struct dimensions dimensions;
    struct inventory *inventory;
    struct needs *needs;
    struct decider *engine;
    const struct decision *decision; /* NULL before planner_decide() */
};

#define PLAN_RECORD_MAX ((size_t)256 << 20) /* arena limit for one machine or roll-up */

enum err planner_open(struct planner **ret_planner)
{
    struct inventory_options inventory = {.machines_max = PLAN_MACHINES_MOST, .seed = 1};
    struct needs_options needs = {.rows_max = PLAN_ROWS_MOST, .seed = 1};
    struct decider_options engine = {.scratch_max = PLAN_SCRATCH_MAX};
    struct planner *planner = calloc(1, sizeof *planner);
    enum err err;

    if (!planner) return ERR_NOMEM;
    dimensions_init(&planner->dimensions);
    needs.dimensions = engine.dimensions = &planner->dimensions;
    err = inventory_open(&inventory, &planner->inventory);
    if (!err) err = needs_open(&needs, &planner->needs);
    engine.inventory = planner->inventory;
    engine.needs = planner->needs;
    if (!err) err = decider_open(&engine, &planner->engine);
    if (err) {
        planner_close(planner);
        return err;
    }
    *ret_planner = planner;
    return ERR_OK;
}

void planner_close(struct planner *planner)
{
    if (!planner) return;
    decider_close(planner->engine);
    needs_close(planner->needs);
    inventory_close(planner->inventory);
    dimensions_deinit(&planner->dimensions);
    free(planner);
}

/* ---- reading ---- */

/* The arena is reset before each record. */
typedef enum err take_fn(struct planner *planner, const struct json *object, struct arena *arena,
                         struct note *note);

static enum err plan_take_machine(struct planner *planner, const struct json *object,
                                  struct arena *arena, struct note *note)
{
    struct document_machine read;
    mono_time since = PLAN_NOW;
    enum err err = document_read_machine(object, arena, &planner->dimensions, &read, note);

    if (err) return err;
    since.ms -= min_u64(read.idle_ms, since.ms);
    err = inventory_insert(planner->inventory, &read.machine, since, note);
    if (err == ERR_EXISTS) note_set(note, "there is one with this id already");
    return err;
}

static enum err plan_take_cluster(struct planner *planner, const struct json *object,
                                  struct arena *arena, struct note *note)
{
    struct document_cluster read;
    enum err err = document_read_cluster(object, arena, &planner->dimensions, &read, note);

    if (err) return err;
    if (needs_reported(planner->needs, read.cluster))
        return note_fail(note, ERR_INVALID, "cluster '%.*s' is given twice",
                         (int)min_size(read.cluster.len, 64), read.cluster.at);
    return needs_replace(planner->needs, read.cluster, read.needs, read.need_count, note);
}

/* A document contains one list only, so any other name is an error. */
static enum err plan_refuse_others(const struct json *document, const char *name, struct note *note)
{
    void *cursor = NULL;
    struct str key;
    const struct json *value;

    while (json_next(document, &cursor, &key, &value)) {
        if (str_equal(key, str_from(name))) continue;
        return note_fail(note, ERR_INVALID, "unknown field '%.*s'", (int)min_size(key.len, 64),
                         key.at);
    }
    return ERR_OK;
}

static enum err plan_take_document(struct planner *planner, struct str text, const char *name,
                                   take_fn *take, struct note *note)
{
    struct json *json;
    const struct json *array;
    struct arena arena;
    enum err err = json_open(text, PLAN_DOCUMENT_MAX, &json, note);

    if (err) return err;
    arena_init(&arena, PLAN_RECORD_MAX);
    err = json_get_array(json, name, &array, note);
    if (!err) err = plan_refuse_others(json, name, note);
    for (size_t i = 0; !err && i < json_count(array); i++) {
        arena_reset(&arena);
        err = take(planner, json_item(array, i), &arena, note);
        if (err) note_prefix(note, "%s[%zu]", name, i);
    }
    arena_deinit(&arena);
    json_close(json);
    return err;
}

static enum err plan_take_lines(struct planner *planner, struct str text, take_fn *take,
                                struct note *note)
{
    struct arena arena;
    struct str line;
    size_t number = 0;
    enum err err = ERR_OK;

    arena_init(&arena, PLAN_RECORD_MAX);
    while (!err && str_split(&text, '\n', &line)) {
        struct json *json;

        number++;
        if (str_trim(line).len == 0) continue;
        arena_reset(&arena);
        err = json_open(line, PLAN_DOCUMENT_MAX, &json, note);
        if (!err) {
            err = take(planner, json, &arena, note);
            json_close(json);
        }
        if (err) note_prefix(note, "line %zu", number);
    }
    arena_deinit(&arena);
    return err;
}

enum err planner_add_machines(struct planner *planner, struct str text, enum plan_form form,
                              struct note *note)
{
    return form == PLAN_LINES
               ? plan_take_lines(planner, text, plan_take_machine, note)
               : plan_take_document(planner, text, "machines", plan_take_machine, note);
}

enum err planner_add_needs(struct planner *planner, struct str text, enum plan_form form,
                           struct note *note)
{
    return form == PLAN_LINES
               ? plan_take_lines(planner, text, plan_take_cluster, note)
               : plan_take_document(planner, text, "clusters", plan_take_cluster, note);
}

/* ---- generating ---- */

enum err planner_generate(struct planner *planner, const struct generate_options *options,
                          struct note *note)
{
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, PLAN_RECORD_MAX);
    for (uint32_t c = 0; !err && c < options->clusters; c++) {
        struct document_cluster made;

        arena_reset(&arena);
        err = generate_needs(options, c, &arena, &planner->dimensions, &made.cluster, &made.needs,
                             &made.need_count);
        if (!err)
            err = needs_replace(planner->needs, made.cluster, made.needs, made.need_count, note);
    }
    for (uint32_t i = 0; !err && i < options->machines; i++) {
        struct machine machine;

        arena_reset(&arena);
        err = generate_machine(options, i, &arena, &planner->dimensions, &machine);
        if (!err) err = inventory_insert(planner->inventory, &machine, PLAN_NOW, note);
    }
    arena_deinit(&arena);
    return err;
}

enum { LINE_MAX = 64 << 20 };
typedef enum err line_fn(const struct generate_options *options, uint32_t number,
                         struct arena *arena, struct dimensions *dimensions, struct buf *line);

static enum err plan_machine_line(const struct generate_options *options, uint32_t number,
                                  struct arena *arena, struct dimensions *dimensions,
                                  struct buf *line)
{
    struct document_machine made = {0};
    enum err err = generate_machine(options, number, arena, dimensions, &made.machine);

    return err ? err : document_write_machine(&made, arena, dimensions, line);
}

static enum err plan_cluster_line(const struct generate_options *options, uint32_t number,
                                  struct arena *arena, struct dimensions *dimensions,
                                  struct buf *line)
{
    struct document_cluster made;
    enum err err = generate_needs(options, number, arena, dimensions, &made.cluster, &made.needs,
                                  &made.need_count);

    return err ? err : document_write_cluster(&made, dimensions, line);
}

static enum err plan_dump(const struct generate_options *options, uint32_t count, line_fn *make,
                          plan_write_fn *write, void *context)
{
    struct dimensions dimensions;
    struct arena arena;
    struct buf line;
    enum err err = ERR_OK;

    dimensions_init(&dimensions);
    arena_init(&arena, PLAN_RECORD_MAX);
    buf_init(&line, LINE_MAX);
    for (uint32_t i = 0; !err && i < count; i++) {
        arena_reset(&arena);
        buf_clear(&line);
        err = make(options, i, &arena, &dimensions, &line);
        if (!err) err = write(context, buf_peek(&line));
    }
    buf_deinit(&line);
    arena_deinit(&arena);
    dimensions_deinit(&dimensions);
    return err;
}

enum err planner_dump_machines(const struct generate_options *options, plan_write_fn *write,
                               void *context)
{
    return plan_dump(options, options->machines, plan_machine_line, write, context);
}

enum err planner_dump_needs(const struct generate_options *options, plan_write_fn *write,
                            void *context)
{
    return plan_dump(options, options->clusters, plan_cluster_line, write, context);
}

/* ---- deciding and printing ---- */

enum err planner_decide(struct planner *planner)
{
    struct decide_input input;

    decide_input_init(&input, PLAN_NOW);
    return decide(planner->engine, &input, &planner->decision);
}

struct planner_totals planner_totals(const struct planner *planner)
{
    const struct decision *decision = planner->decision;
    struct planner_totals totals = {
        .machines = inventory_counts(planner->inventory).machines,
        .clusters = needs_stats(planner->needs).clusters,
        .needs = (uint32_t)decision->verdict_count,
    };

    for (size_t i = 0; i < decision->verdict_count; i++)
        totals.served += decision->verdicts[i].satisfied;
    for (size_t i = 0; i < decision->action_count; i++) totals.actions[decision->actions[i].kind]++;
    return totals;
}

enum err planner_print_actions(const struct planner *planner, size_t from, size_t count,
                               struct buf *out, size_t *ret_count)
{
    const struct decision *decision = planner->decision;
    size_t written = 0;
    enum err err = ERR_OK;

    for (size_t i = from; !err && i < decision->action_count && written < count; i++, written++) {
        err = words_action(&decision->actions[i], out);
        if (!err) err = buf_append_byte(out, '\n');
    }
    *ret_count = written;
    return err;
}

enum err planner_print_needs(const struct planner *planner, bool all, size_t from, size_t count,
                             struct buf *out, size_t *ret_count)
{
    const struct decision *decision = planner->decision;
    size_t written = 0, seen = 0;
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < decision->verdict_count && written < count; i++) {
        if (decision->verdicts[i].satisfied && !all) continue;
        if (seen++ < from) continue;
        err = words_verdict(&decision->verdicts[i], &planner->dimensions, out);
        if (!err) err = buf_append_byte(out, '\n');
        written++;
    }
    *ret_count = written;
    return err;
}

enum err planner_transcript(const struct planner *planner, struct buf *out)
{
    return decision_print(planner->decision, &planner->dimensions, out);
}
