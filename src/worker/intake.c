/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one batch of a partition's input. A batch has lines of one file, so that records and offset
 * change together. Runs on the processing thread. */
#include "worker/intake.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static_assert(INTAKE_LINE_MAX < INTAKE_CHUNK, "a chunk that starts at a line holds the line");

/* -- the input files -- */

struct sources {
    char prefix[16];
    struct buf names;
    const char **each; /* sorted */
    size_t count;
    enum err err;
};

static void note_source(void *context, const char *name, enum fs_kind kind)
{
    struct sources *s = context;
    size_t len = strlen(s->prefix);

    if (s->err || kind != FS_REGULAR || strncmp(name, s->prefix, len) != 0) return;
    if (name[len] != '.' && name[len] != '-') return;
    s->err = s->count == TALLY_SOURCES_MAX ? ERR_FULL
                                           : buf_append(&s->names, str_of(name, strlen(name) + 1));
    s->count += !s->err;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void sources_deinit(struct sources *s)
{
    buf_deinit(&s->names);
    free(s->each);
}

static enum err find_sources(const struct intake_options *options, uint32_t partition,
                             struct sources *s, struct note *note)
{
    const char *at;
    enum err err;

    snprintf(s->prefix, sizeof s->prefix, "%08" PRIu32, partition);
    err = fs_list(options->fs, options->dir, note_source, s);
    if (!err) err = s->err;
    if (err) return note_fail(note, err, "%s: %s", options->dir, err_text(err));
    s->each = calloc(s->count + 1, sizeof(char *));
    if (!s->each) return ERR_NOMEM;
    at = s->names.data;
    for (size_t i = 0; i < s->count; i++, at += strlen(at) + 1) s->each[i] = at;
    if (s->count > 1) qsort(s->each, s->count, sizeof(char *), by_text);
    return ERR_OK;
}

/* -- one batch -- */

struct batch {
    const struct intake_options *options;
    struct tally_record *records;
    size_t count, max;
    size_t lines, rejected;
    char *chunk;
    struct buf mapped;
};

static enum err take_line(struct batch *b, struct str line, struct note *note)
{
    enum err err = ERR_OK;

    if (b->options->map) {
        buf_clear(&b->mapped);
        err = b->options->map(b->options->owner, line, &b->mapped, note);
        if (err && err != ERR_INVALID && err != ERR_PARSE) return err;
        line = buf_peek(&b->mapped);
    }
    if (!err) err = tally_parse(line, &b->records[b->count]);
    if (!err) b->count++;
    if (err && err != ERR_NOT_FOUND) b->rejected++;
    b->lines++;
    return ERR_OK;
}

/* Skips a line of more than INTAKE_LINE_MAX bytes. *ret_end is `offset` if the line has no end
 * yet. */
static enum err skip_line(struct batch *b, struct fs_file *file, uint64_t offset, uint64_t *ret_end)
{
    uint64_t at = offset;
    size_t got;

    *ret_end = offset;
    for (;;) {
        enum err err = fs_read_at(b->options->fs, file, at, b->chunk, INTAKE_CHUNK, &got);
        size_t end;
        if (err || got == 0) return err;
        end = str_find(str_of(b->chunk, got), '\n');
        at += end;
        if (end == got) continue;
        *ret_end = at + 1;
        b->rejected++;
        b->lines++;
        return ERR_OK;
    }
}

static enum err intake_read_chunk(struct batch *b, struct fs_file *file, uint64_t *offset,
                                  bool *ret_more, struct note *note)
{
    size_t got = 0, at = 0;
    enum err err = fs_read_at(b->options->fs, file, *offset, b->chunk, INTAKE_CHUNK, &got);

    *ret_more = false;
    while (!err && at < got && b->lines < b->max) {
        size_t len = str_find(str_of(b->chunk + at, got - at), '\n');
        if (len > INTAKE_LINE_MAX) {
            uint64_t end;
            err = skip_line(b, file, *offset + at, &end);
            *ret_more = end != *offset + at;
            *offset = end;
            return err;
        }
        if (at + len == got) break; /* the line continues after this chunk */
        err = take_line(b, str_of(b->chunk + at, len), note);
        if (!err) at += len + 1;
    }
    if (!err) *offset += at;
    *ret_more = at > 0 && got == INTAKE_CHUNK;
    return err;
}

static enum err intake_read_file(struct batch *b, const char *name, uint64_t *offset,
                                 struct note *note)
{
    struct fs *fs = b->options->fs;
    char path[FS_PATH_CAP];
    struct fs_file *file;
    uint64_t size = 0;
    bool more = true;
    enum err err;

    if (snprintf(path, sizeof path, "%s/%s", b->options->dir, name) >= FS_PATH_CAP)
        return ERR_INVALID;
    err = fs_open(fs, path, FS_READ, 0, &file);
    if (err) return note_fail(note, err, "%s: %s", path, err_text(err));
    err = fs_file_size(fs, file, &size);
    if (!err && size < *offset) {
        note_set(note, "%s has %" PRIu64 " bytes, and %" PRIu64 " were read of it", path, size,
                 *offset);
        err = ERR_CORRUPT;
    }
    while (!err && more && b->lines < b->max) err = intake_read_chunk(b, file, offset, &more, note);
    fs_close(fs, file);
    return err;
}

static enum err add_batch(struct batch *b, struct partition_tally *tally, const char *name,
                          uint64_t offset)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < b->count; i++) err = tally_add(tally, &b->records[i]);
    if (!err) err = tally_set_offset(tally, str_from(name), offset);
    if (!err) tally->rejected += b->rejected;
    return err;
}

enum err intake_batch(const struct intake_options *options, uint32_t partition,
                      struct partition_tally *tally, size_t records_max, size_t *ret_lines,
                      struct note *note)
{
    struct batch b = {.options = options, .max = min_size(records_max, INTAKE_BATCH)};
    struct sources sources = {.count = 0};
    enum err err;

    *ret_lines = 0;
    b.records = calloc(b.max + 1, sizeof *b.records);
    b.chunk = malloc(INTAKE_CHUNK);
    buf_init(&b.mapped, INTAKE_LINE_MAX);
    buf_init(&sources.names, TALLY_SOURCES_MAX * (FS_NAME_MAX + 1));
    err = b.records && b.chunk ? find_sources(options, partition, &sources, note) : ERR_NOMEM;
    /* Stops after the first file with lines, because records and offset must change together. */
    for (size_t i = 0; !err && b.lines == 0 && i < sources.count; i++) {
        uint64_t before = tally_offset(tally, str_from(sources.each[i])), after = before;
        err = intake_read_file(&b, sources.each[i], &after, note);
        if (!err && after != before) err = add_batch(&b, tally, sources.each[i], after);
    }
    if (!err) *ret_lines = b.lines;
    sources_deinit(&sources);
    buf_deinit(&b.mapped);
    free(b.records);
    free(b.chunk);
    return err;
}
