/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/snapshot_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/format/meta.h"
#include "fleet/format/tar.h"

enum { READ_BYTES = 256 << 10 };

struct snapshot_reader {
    struct fs *fs;
    struct fs_file *file; /* open */
    uint64_t size;        /* of it */
    struct fleet_state_reader *state;
    struct buf meta_json;
    struct fleet_meta meta;
    uint64_t state_bytes;
    bool has_meta, has_state;
    char part[READ_BYTES];
};

static enum err wrong(const char *what, struct note *note)
{
    note_set(note, "archive: %s", what);
    return ERR_PARSE;
}

/* -- bytes of the open file -- */

static enum err file_open(struct snapshot_reader *reader, const char *path, struct note *note)
{
    enum err err = fs_open(reader->fs, path, FS_READ, 0, &reader->file);

    if (!err) err = fs_file_size(reader->fs, reader->file, &reader->size);
    if (err) note_set(note, "open: %s", err_text(err));
    return err;
}

static void file_close(struct snapshot_reader *reader)
{
    fs_close(reader->fs, reader->file);
    reader->file = NULL;
}

/* All of it, into reader->part. */
static enum err part_read(struct snapshot_reader *reader, uint64_t offset, size_t len,
                          struct note *note)
{
    size_t got = 0;
    enum err err = fs_read_at(reader->fs, reader->file, offset, reader->part, len, &got);

    if (err)
        note_set(note, "read at %" PRIu64 ": %s", offset, err_text(err));
    else if (got < len)
        err = wrong("cut short", note);
    return err;
}

static enum err meta_take(struct snapshot_reader *reader, uint64_t offset, uint64_t size,
                          struct note *note)
{
    enum err err = ERR_OK;

    if (reader->has_meta) return wrong("meta.json twice", note);
    if (size > FLEET_META_BYTES_MAX) {
        wrong("meta.json is larger than the limit", note);
        return ERR_TOO_LARGE;
    }
    for (uint64_t len; !err && size > 0; offset += len, size -= len) {
        len = min_u64(size, READ_BYTES);
        err = part_read(reader, offset, len, note);
        if (!err) err = buf_append(&reader->meta_json, str_of(reader->part, len));
    }
    if (err) return err;
    err = fleet_meta_read(buf_peek(&reader->meta_json), &reader->meta, note);
    if (err) note_prefix(note, "archive");
    reader->has_meta = !err;
    return err;
}

static enum err state_take(struct snapshot_reader *reader, uint64_t offset, uint64_t size,
                           struct note *note)
{
    enum err err = ERR_OK;

    if (!reader->has_meta) return wrong("state before meta.json", note);
    if (reader->has_state) return wrong("state twice", note);
    reader->has_state = true;
    reader->state_bytes = size;
    for (uint64_t len; !err && size > 0; offset += len, size -= len) {
        len = min_u64(size, READ_BYTES);
        err = part_read(reader, offset, len, note);
        if (!err) err = fleet_state_read_next(reader->state, str_of(reader->part, len), note);
    }
    return err;
}

/* -- a tar -- */

static enum err entry_take(struct snapshot_reader *reader, const struct tar_entry *entry,
                           uint64_t offset, struct note *note)
{
    if (offset > reader->size || entry->size > reader->size - offset)
        return wrong("cut short", note);
    if (strcmp(entry->name, "meta.json") == 0) return meta_take(reader, offset, entry->size, note);
    if (strcmp(entry->name, "state") == 0) return state_take(reader, offset, entry->size, note);
    return ERR_OK;
}

static enum err tar_entries(struct snapshot_reader *reader, struct note *note)
{
    struct tar_entry entry = {.names_next = false};
    uint64_t offset = 0;
    unsigned zeros = 0; /* blocks in a row: two end it */
    enum err err = ERR_OK;

    while (!err && zeros < 2 && offset < reader->size) {
        bool renamed = entry.names_next;
        const char *why;

        err = part_read(reader, offset, TAR_BLOCK, note);
        if (err) break;
        if (tar_is_zero(reader->part)) {
            offset += TAR_BLOCK;
            zeros++;
            continue;
        }
        zeros = 0;
        why = tar_entry_read(reader->part, &entry);
        if (why) {
            note_set(note, "tar: header at offset %" PRIu64 ": %s", offset, why);
            return ERR_PARSE;
        }
        offset += TAR_BLOCK;
        if (entry.regular && !renamed) err = entry_take(reader, &entry, offset, note);
        offset += entry.size + tar_padding(entry.size);
    }
    return !err && offset > reader->size ? wrong("cut short", note) : err;
}

static enum err tar_read(struct snapshot_reader *reader, const char *path, struct note *note)
{
    enum err err = file_open(reader, path, note);

    if (!err) err = tar_entries(reader, note);
    file_close(reader);
    return err;
}

/* -- a directory -- */

static enum err directory_read(struct snapshot_reader *reader, const char *path, struct note *note)
{
    char name[FS_PATH_CAP + 16];
    enum err err;

    snprintf(name, sizeof name, "%s/meta.json", path);
    err = file_open(reader, name, note);
    if (!err) err = meta_take(reader, 0, reader->size, note);
    file_close(reader);
    if (!err) {
        snprintf(name, sizeof name, "%s/state", path);
        err = file_open(reader, name, note);
        if (!err) err = state_take(reader, 0, reader->size, note);
        file_close(reader);
    }
    if (err) note_prefix(note, "%s", strrchr(name, '/') + 1);
    return err;
}

/* -- the whole -- */

/* What the files say of themselves must be true. */
static enum err add_up(struct snapshot_reader *reader, const struct fleet *fleet,
                       struct snapshot_facts *ret_facts, struct note *note)
{
    const struct fleet_meta *meta = &reader->meta;
    struct snapshot_facts facts = {meta->index, meta->term, reader->state_bytes, .state = {{{0}}}};
    enum err err;

    if (!reader->has_meta) return wrong("it holds no meta.json", note);
    if (!reader->has_state) return wrong("it holds no state", note);
    if (meta->size != 0 && meta->size != facts.bytes) {
        note_set(note, "state has %" PRIu64 " bytes, meta.json says %" PRIu64, facts.bytes,
                 meta->size);
        return ERR_CORRUPT;
    }
    err = fleet_state_read_end(reader->state, &facts.state, note);
    if (err) return err;
    if (facts.state.sealed &&
        (facts.state.index != meta->index || (fleet && facts.state.hash != fleet_hash(fleet)))) {
        note_set(note, "state is sealed with another hash or index than it has");
        return ERR_CORRUPT;
    }
    *ret_facts = facts;
    return ERR_OK;
}

enum err snapshot_read(struct fs *fs, const char *path, bool is_directory, struct fleet *fleet,
                       struct snapshot_facts *ret_facts, struct note *note)
{
    struct fleet_state_options options = {.fleet = fleet};
    struct snapshot_reader *reader = calloc(1, sizeof *reader);
    enum err err = ERR_NOMEM;

    if (reader) {
        reader->fs = fs;
        buf_init(&reader->meta_json, FLEET_META_BYTES_MAX);
        err = fleet_state_read_begin(&options, &reader->state);
    }
    if (!err)
        err = is_directory ? directory_read(reader, path, note) : tar_read(reader, path, note);
    if (!err) err = add_up(reader, fleet, ret_facts, note);
    if (err) {
        if (note && !note->text[0]) note_set(note, "%s", err_text(err));
        note_prefix(note, "%s", path);
    }
    if (reader) {
        fleet_state_read_close(reader->state);
        buf_deinit(&reader->meta_json);
    }
    free(reader);
    return err;
}
