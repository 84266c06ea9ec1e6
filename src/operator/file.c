/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the demand file. An edit is accepted as a whole or not at all, and the last good content is
 * stored. Runs on the loop's thread; other threads do the I/O. */
#include "operator/file.h"

#include <stdlib.h>

#include "operator/demand_file.h"
#include "operator/file_internal.h"

enum { LAST_GOOD_MODE = 0600 };

/* -- edits -- */

static enum err file_check_rows(struct file_source *f, const struct demand_file *file,
                                struct note *note)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < file->count && !err; i++) {
        struct capacity_request request = file->rows[i].request;
        /* A row with count 0 is no demand, but must be valid. */
        if (request.count == 0) request.count = 1;
        err = demand_check(f->around->demand, &request, note);
        if (err) demand_file_where(&file->rows[i], i, err, note);
    }
    return err;
}

static enum err file_put_rows(struct file_source *f, const struct demand_file *file,
                              struct note *note)
{
    enum err err = ERR_OK;

    demand_list_begin(f->around->demand);
    for (size_t i = 0; i < file->count && !err; i++) {
        if (file->rows[i].request.count == 0) continue;
        err = demand_put(f->around->demand, file->rows[i].name, &file->rows[i].request, NULL, note);
        if (err) demand_file_where(&file->rows[i], i, err, note);
    }
    if (err)
        demand_list_give_up(f->around->demand);
    else
        demand_list_end(f->around->demand);
    return err;
}

static enum err file_read_machines(struct arena *arena, struct dimensions *dimensions,
                                   const struct demand_file *file, struct occupancy_row *rows,
                                   struct note *note)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < file->machine_count && !err; i++) {
        const struct demand_file_machine *m = &file->machines[i];
        const struct {
            const char *field;
            const struct file_amounts *amounts;
            struct resources *into;
        } vectors[] = {{"free", &m->free, &rows[i].free},
                       {"requested", &m->requested, &rows[i].requested},
                       {"largest", &m->largest, &rows[i].largest}};

        rows[i].machine = str_of(arena_dup(arena, m->name), m->name.len);
        rows[i].evictable = m->evictable;
        rows[i].held = m->held;
        rows[i].disruption = m->disruption.dollars;
        if (!rows[i].machine.at) err = ERR_NOMEM;
        for (size_t k = 0; k < ARRAY_LEN(vectors) && !err; k++)
            err = resources_parse(dimensions, vectors[k].field, vectors[k].amounts->pairs,
                                  vectors[k].amounts->count, vectors[k].into, note);
        if (err) note_prefix(note, "machines[%zu]", i);
    }
    return err;
}

static enum err file_take_machines(struct file_source *f, const struct demand_file *file,
                                   struct note *note)
{
    struct dimensions dimensions;
    struct occupancy_row *rows;
    struct arena arena;
    enum err err;

    arena_init(&arena, DEMAND_FILE_MEMORY_MAX);
    dimensions_init(&dimensions);
    rows = arena_calloc(&arena, file->machine_count, sizeof *rows);
    err = rows ? file_read_machines(&arena, &dimensions, file, rows, note) : ERR_NOMEM;
    if (err) {
        dimensions_deinit(&dimensions);
        arena_deinit(&arena);
        return err;
    }
    dimensions_deinit(&f->dimensions);
    arena_deinit(&f->stated);
    f->stated = arena;
    f->dimensions = dimensions;
    f->occupancy = (struct occupancy_rows){rows, file->machine_count, &f->dimensions};
    f->occupancy_change++;
    return ERR_OK;
}

/* Accepts the whole file or changes nothing. Exception: rows that were put before ERR_FULL
 * (resource names) stay. */
static enum err file_take(struct file_source *f, struct str text, struct note *note)
{
    struct demand_file file;
    struct arena arena;
    enum err err;

    arena_init(&arena, DEMAND_FILE_MEMORY_MAX);
    err = demand_file_read(text, &arena, &file, note);
    if (!err) err = file_check_rows(f, &file, note);
    if (!err) err = file_take_machines(f, &file, note);
    if (!err) err = file_put_rows(f, &file, note);
    if (!err)
        LOG_INFO(f->around->log, "demand file loaded", log_text("file", f->demand_path),
                 log_u64("requests", file.count));
    arena_deinit(&arena);
    if (err && !note->text[0]) note_set(note, "%s", err_text(err));
    return err;
}

static void file_set_bad(struct file_source *f, const char *why)
{
    note_set(&f->bad, "%s", why);
    if (f->edit_errors) counter_inc(f->edit_errors);
    if (f->edit_bad) gauge_set(f->edit_bad, 1);
    LOG_ERROR(f->around->log, "demand file is invalid: the last valid demand stays in force",
              log_text("file", f->demand_path), log_text("why", why));
}

static void file_set_good(struct file_source *f, struct str text)
{
    f->bad.text[0] = '\0';
    if (f->edit_bad) gauge_set(f->edit_bad, 0);
    if (!buf_append(side_file_room(f->last_good), text)) side_file_write(f->last_good, 0);
}

static void file_on_edited(void *owner, struct str text)
{
    struct file_source *f = owner;
    struct note note = {""};

    if (file_take(f, text, &note))
        file_set_bad(f, note.text);
    else
        file_set_good(f, text);
}

static void on_read_trouble(void *owner, enum err, const char *why)
{
    file_set_bad(owner, why);
}

static void on_keep_trouble(void *owner, enum err err, const char *why)
{
    struct file_source *f = owner;

    LOG_ERROR(f->around->log, "last valid demand could not be saved: after a restart it is unknown",
              log_err("err", err), log_text("why", why));
}

/* -- start -- */

static enum err file_first_demand(struct file_source *f, struct note *note)
{
    struct note lost = {""};
    struct str text;
    enum err err = side_file_read(f->watch, &text, note);

    if (!err) err = file_take(f, text, note);
    if (!err) {
        file_set_good(f, text);
        return ERR_OK;
    }
    note_prefix(note, "%s", f->demand_path);
    if (side_file_read(f->last_good, &text, &lost) || file_take(f, text, &lost)) return err;
    file_set_bad(f, note->text);
    return ERR_OK;
}

static enum err file_open_files(struct file_source *f, struct note *note)
{
    struct side_file_options watch = {
        .io = f->io,
        .thread = "demand",
        .path = f->demand_path,
        .bytes_max = DEMAND_FILE_BYTES_MAX,
        .on_content = file_on_edited,
        .on_trouble = on_read_trouble,
        .owner = f,
    };
    struct side_file_options last_good = {
        .io = f->io,
        .thread = "last-good",
        .directory = f->around->state_dir,
        .path = "demand.last-good",
        .bytes_max = DEMAND_FILE_BYTES_MAX,
        .mode = LAST_GOOD_MODE,
        .on_trouble = on_keep_trouble,
        .owner = f,
    };
    enum err err = side_file_open(&watch, &f->watch, note);

    if (!err) err = side_file_open(&last_good, &f->last_good, note);
    return err ? err : file_nodes_open(f, note);
}

static enum err file_add_metrics(struct file_source *f, struct note *note)
{
    struct metrics *metrics = f->around->metrics;
    enum err err;

    if (!metrics) return ERR_OK;
    err =
        metrics_add_counter(metrics, "muster_operator_demand_file_errors_total",
                            "Changes of the demand file that were invalid.", &f->edit_errors, note);
    return err ? err
               : metrics_add_gauge(
                     metrics, "muster_operator_demand_file_bad",
                     "1 while the demand file is invalid and the previous demand stays in force.",
                     &f->edit_bad, note);
}

static enum err file_start(struct demand_source *source, const struct operator_around *around,
                           struct note *note)
{
    struct file_source *f = CONTAINER_OF(source, struct file_source, source);
    enum err err;

    f->around = around;
    f->io = around->io;
    err = file_add_metrics(f, note);
    if (!err) err = file_open_files(f, note);
    return err ? err : file_first_demand(f, note);
}

static bool file_occupancy(struct demand_source *source, struct occupancy_rows *ret_rows)
{
    *ret_rows = CONTAINER_OF(source, struct file_source, source)->occupancy;
    return true;
}

static uint64_t file_occupancy_change(struct demand_source *source)
{
    return CONTAINER_OF(source, struct file_source, source)->occupancy_change;
}

static bool file_ready(struct demand_source *source, struct note *reason)
{
    struct file_source *f = CONTAINER_OF(source, struct file_source, source);

    if (!f->bad.text[0]) return true;
    note_set(reason, "demand file: %s", f->bad.text);
    return false;
}

/* -- close -- */

static void file_close(struct demand_source *source)
{
    struct file_source *f = CONTAINER_OF(source, struct file_source, source);

    side_file_close(f->watch);
    side_file_close(f->last_good);
    file_nodes_close(f);
    file_drains_close(f);
    dimensions_deinit(&f->dimensions);
    arena_deinit(&f->stated);
    free(f);
}

enum err file_source_open(const struct file_source_options *options,
                          struct demand_source **ret_source)
{
    static const struct source_ops ops = {
        .name = "file",
        .start = file_start,
        .node_changed = file_node_changed,
        .nodes_whole = file_nodes_whole,
        .available = file_available,
        .taken = file_taken,
        .reclaim = file_reclaim,
        .reclaim_over = file_reclaim_over,
        .occupancy = file_occupancy,
        .occupancy_change = file_occupancy_change,
        .ready = file_ready,
        .close = file_close,
    };
    struct file_source *f = calloc(1, sizeof *f);

    if (!f) return ERR_NOMEM;
    f->source.ops = &ops;
    map_init(&f->hints, HINTS_MAX, 0);
    arena_init(&f->stated, 0);
    dimensions_init(&f->dimensions);
    file_drains_open(f);
    f->demand_path = options->demand;
    f->drain_command = options->drain_command;
    *ret_source = &f->source;
    return ERR_OK;
}
