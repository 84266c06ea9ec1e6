/* SPDX-License-Identifier: Apache-2.0 */
/* Notes for readers of the dashboard: the lines of a file, one JSON object each. When the file has
 * changed, a worker thread reads its end. Invalid lines are skipped. */
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "io/fs.h"
#include "io/worker.h"
#include "text/json.h"

enum {
    NOTES_SHOWN = 50,
    TAIL_MAX = 64 << 10, /* bytes read from the end of the file */
    TEXT_MAX = 500,
    FROM_MAX = 60,
    LINES_MAX = 4096,
};

struct notes {
    struct dash *dash;
    char path[FS_PATH_CAP];
    struct loop_worker *worker;
    /* used by the worker thread while the job runs */
    struct job job;
    struct fs_info seen;
    struct buf tail;
    bool changed;
    enum err err;
    /* used by the loop */
    bool busy;
    enum err trouble; /* the last error on the page */
    struct buf json;  /* items of a JSON array, newest first; empty: no notes */
};

/* -- on the worker -- */

static enum err notes_read_tail(struct notes *n, uint64_t size)
{
    struct fs *fs = n->dash->io->fs;
    uint64_t from = size > TAIL_MAX ? size - TAIL_MAX : 0;
    struct fs_file *file;
    size_t got = 0;
    char *room;
    enum err err = fs_open(fs, n->path, FS_READ, 0, &file);

    if (err) return err;
    room = malloc(TAIL_MAX);
    err = room ? fs_read_at(fs, file, from, room, TAIL_MAX, &got) : ERR_NOMEM;
    buf_clear(&n->tail);
    if (!err) err = buf_append(&n->tail, str_of(room, got));
    free(room);
    fs_close(fs, file);
    return err;
}

static void notes_look(struct job *job)
{
    struct notes *n = CONTAINER_OF(job, struct notes, job);
    struct fs_info info;

    n->changed = false;
    n->err = fs_stat(n->dash->io->fs, n->path, &info);
    if (n->err == ERR_NOT_FOUND) { /* the file does not exist */
        n->err = ERR_OK;
        n->changed = n->tail.len > 0;
        buf_clear(&n->tail);
        n->seen = (struct fs_info){0};
        return;
    }
    if (n->err || fs_same(&info, &n->seen)) return;
    n->err = notes_read_tail(n, info.size);
    if (n->err) return;
    n->seen = info;
    n->changed = true;
}

/* -- on the loop -- */

static bool notes_write_one(struct ndjson *json, struct str line)
{
    struct note note = {""};
    struct json *object = NULL;
    struct str text, from;
    uint64_t at = 0;
    bool good = !json_open(line, TAIL_MAX, &object, &note) &&
                !json_get_string(object, "text", &text, &note) && text.len > 0;

    if (good) {
        if (json_get_u64(object, "at_ms", &at, &note)) at = 0;
        if (json_get_string(object, "from", &from, &note)) from = STR_EMPTY;
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_u64(json, STR("at_ms"), at);
        ndjson_string(json, STR("from"), str_of(from.at, min_size(from.len, FROM_MAX)));
        ndjson_string(json, STR("text"), str_of(text.at, min_size(text.len, TEXT_MAX)));
        ndjson_close_object(json);
    }
    json_close(object);
    return good;
}

/* Removes the last line of *rest and returns it. */
static struct str notes_last_line(struct str *rest)
{
    size_t from;
    struct str line;

    while (rest->len > 0 && rest->at[rest->len - 1] == '\n') rest->len--;
    from = rest->len;
    while (from > 0 && rest->at[from - 1] != '\n') from--;
    line = str_tail(*rest, from);
    rest->len = from;
    return line;
}

static void notes_take(struct notes *n)
{
    struct str rest = buf_peek(&n->tail);
    struct ndjson json;
    size_t shown = 0;

    buf_clear(&n->json);
    ndjson_begin_value(&json, &n->json, NDJSON_LINE);
    ndjson_open_array(&json, NDJSON_ITEM);
    for (size_t i = 0; i < LINES_MAX && rest.len > 0 && shown < NOTES_SHOWN; i++)
        if (notes_write_one(&json, notes_last_line(&rest))) shown++;
    ndjson_close_array(&json);
    if (ndjson_end(&json)) buf_clear(&n->json);
    n->dash->dirty[TOPIC_NOTES] = true;
}

static void notes_looked(struct job *job, enum err err)
{
    struct notes *n = CONTAINER_OF(job, struct notes, job);

    n->busy = false;
    if (err || n->dash->closing) return;
    if (n->err != n->trouble) n->dash->dirty[TOPIC_NOTES] = true;
    n->trouble = n->err;
    if (!n->err && n->changed) notes_take(n);
}

void notes_ask(struct dash *dash)
{
    struct notes *n = dash->notes;

    if (!n || n->busy) return;
    n->busy = worker_submit(n->worker, &n->job) == ERR_OK;
}

void notes_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    const struct notes *n = dash->notes;

    if (topic != TOPIC_NOTES) return;
    if (n && n->json.len > 0) ndjson_raw(json, STR("notes"), json_line(&n->json));
    if (n && n->trouble) ndjson_c_string(json, STR("why"), err_text(n->trouble));
}

/* -- life -- */

enum err notes_open(struct dash *dash, const char *path)
{
    static const struct worker_options options = {.name = "dash-notes", .jobs_max = 1};
    struct notes *n;

    dash->dirty[TOPIC_NOTES] = true; /* publish once, even without notes */
    if (!path) return ERR_OK;
    n = dash->notes = calloc(1, sizeof *n);
    if (!n) return ERR_NOMEM;
    n->dash = dash;
    buf_init(&n->tail, TAIL_MAX);
    buf_init(&n->json, PART_MAX);
    job_init(&n->job, notes_look, notes_looked);
    if (snprintf(n->path, sizeof n->path, "%s", path) >= (int)sizeof n->path) return ERR_TOO_LARGE;
    return worker_open(dash->io->loop, &options, &n->worker);
}

void notes_close(struct dash *dash)
{
    struct notes *n = dash->notes;

    if (!n) return;
    worker_close(n->worker);
    buf_deinit(&n->tail);
    buf_deinit(&n->json);
    free(n);
}
