/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files meta.json and state, from a directory or a tar, into the fleet's tables. Both
 * files are required, in this order, and must match. Calls block. */
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
    struct fs_file *file;
    uint64_t size;       /* size of the open file */
    struct fleet *fleet; /* NULL: only checks the text */
    struct buf meta_json;
    struct fleet_meta meta;
    struct fleet_state_summary state;
    uint64_t state_bytes;
    bool has_meta, has_state;
    char part[READ_BYTES];
};

static enum err wrong(const char *what, struct note *note)
{
    return note_fail(note, ERR_PARSE, "archive: %s", what);
}

/* -- reading the archive's open file -- */

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

/* `only`: see fleet_state_options. */
static enum err state_read(struct snapshot_reader *reader, uint64_t offset, uint64_t size,
                           uint32_t only, struct fleet_state_summary *ret_summary,
                           struct note *note)
{
    struct fleet_state_options options = {.fleet = reader->fleet, .only = only};
    struct fleet_state_reader *state = NULL;
    enum err err = fleet_state_read_begin(&options, &state);

    for (uint64_t len; !err && size > 0; offset += len, size -= len) {
        len = min_u64(size, READ_BYTES);
        err = part_read(reader, offset, len, note);
        if (!err) err = fleet_state_read_next(state, str_of(reader->part, len), note);
    }
    if (!err) err = fleet_state_read_end(state, ret_summary, note);
    fleet_state_read_close(state);
    return err;
}

static enum err state_take(struct snapshot_reader *reader, uint64_t offset, uint64_t size,
                           struct note *note)
{
    struct fleet_state_summary *first = &reader->state, second = {.again = 0};
    enum err err;

    if (!reader->has_meta) return wrong("state before meta.json", note);
    if (reader->has_state) return wrong("state twice", note);
    reader->has_state = true;
    reader->state_bytes = size;
    err = state_read(reader, offset, size, 0, first, note);
    if (err || !first->again) return err;
    err = state_read(reader, offset, size, first->again, &second, note);
    for (size_t t = 0; t < FLEET_TABLES; t++) {
        first->taken.of[t] += second.taken.of[t];
        first->dropped.of[t] += second.dropped.of[t];
    }
    return err;
}

static const struct {
    const char *name;
    enum err (*take)(struct snapshot_reader *reader, uint64_t offset, uint64_t size,
                     struct note *note);
} snapshot_parts[] = {{"meta.json", meta_take}, {"state", state_take}};

/* -- tar -- */

static enum err entry_take(struct snapshot_reader *reader, const struct tar_entry *entry,
                           uint64_t offset, struct note *note)
{
    if (offset > reader->size || entry->size > reader->size - offset)
        return wrong("cut short", note);
    for (size_t i = 0; i < ARRAY_LEN(snapshot_parts); i++)
        if (strcmp(entry->name, snapshot_parts[i].name) == 0)
            return snapshot_parts[i].take(reader, offset, entry->size, note);
    return ERR_OK;
}

static enum err tar_entries(struct snapshot_reader *reader, struct note *note)
{
    struct tar_entry entry = {.names_next = false};
    uint64_t offset = 0;
    unsigned zeros = 0; /* zero blocks in a row; two end the tar */
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
        if (why)
            return note_fail(note, ERR_PARSE, "tar: header at offset %" PRIu64 ": %s", offset, why);
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

/* -- directory -- */

static enum err directory_read(struct snapshot_reader *reader, const char *path, struct note *note)
{
    char name[FS_PATH_CAP + 16];
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(snapshot_parts); i++) {
        snprintf(name, sizeof name, "%s/%s", path, snapshot_parts[i].name);
        err = file_open(reader, name, note);
        if (!err) err = snapshot_parts[i].take(reader, 0, reader->size, note);
        file_close(reader);
        if (err) note_prefix(note, "%s", snapshot_parts[i].name);
    }
    return err;
}

/* -- consistency -- */

/* Checks size, index and hash. */
static enum err add_up(const struct snapshot_reader *reader, struct note *note)
{
    const struct fleet_meta *meta = &reader->meta;
    const struct fleet_state_summary *state = &reader->state;

    if (!reader->has_meta) return wrong("it holds no meta.json", note);
    if (!reader->has_state) return wrong("it holds no state", note);
    if (meta->size != 0 && meta->size != reader->state_bytes)
        return note_fail(note, ERR_CORRUPT, "state has %" PRIu64 " bytes, meta.json says %" PRIu64,
                         reader->state_bytes, meta->size);
    if (state->sealed && (state->index != meta->index ||
                          (reader->fleet && state->hash != fleet_hash(reader->fleet))))
        return note_fail(note, ERR_CORRUPT,
                         "state is sealed with another hash or index than it has");
    return ERR_OK;
}

enum err snapshot_read(struct fs *fs, const char *path, bool is_directory, struct fleet *fleet,
                       struct snapshot_facts *ret_facts, struct note *note)
{
    struct snapshot_reader *reader = calloc(1, sizeof *reader);
    struct note why = {""};
    enum err err = ERR_NOMEM;

    if (reader) {
        reader->fs = fs;
        reader->fleet = fleet;
        buf_init(&reader->meta_json, FLEET_META_BYTES_MAX);
        err = is_directory ? directory_read(reader, path, &why) : tar_read(reader, path, &why);
        if (!err) err = add_up(reader, &why);
        if (!err)
            *ret_facts = (struct snapshot_facts){reader->meta.index, reader->meta.term,
                                                 reader->state_bytes, reader->state};
        buf_deinit(&reader->meta_json);
    }
    if (err) note_set(note, "%s: %s", path, why.text[0] ? why.text : err_text(err));
    free(reader);
    return err;
}
