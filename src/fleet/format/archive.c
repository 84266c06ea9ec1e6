/* SPDX-License-Identifier: Apache-2.0 */
/* The archive: a tar of the pair, or the pair itself. */
#include "fleet/format/archive.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define META_NAME  "meta.json"
#define STATE_NAME "state"

enum entry { ENTRY_OTHER, ENTRY_META, ENTRY_STATE };
struct fleet_archive_reader {
    fleet_archive_state_fn *state;
    void *owner;
    struct tar_reader tar;
    bool is_tar;
    enum entry entry; /* being read */
    struct buf meta_json;
    struct fleet_meta meta;
    bool has_meta, has_state;
    uint64_t state_size;
    enum err failed;
};

/* -- writing -- */
static enum err zeros_put(struct buf *into, size_t len)
{
    char *room;
    enum err err = buf_reserve(into, len, &room);

    if (err || len == 0) return err;
    memset(room, 0, len);
    buf_commit(into, len);
    return ERR_OK;
}

static enum err header_put(struct buf *into, const char *name, uint64_t size)
{
    char block[TAR_BLOCK];
    enum err err = tar_header(name, size, block);

    return err ? err : buf_append(into, str_of(block, sizeof block));
}

enum err fleet_archive_head(struct str meta_json, uint64_t state_size, struct buf *into)
{
    size_t start = into->len;
    enum err err = header_put(into, META_NAME, meta_json.len);

    if (!err) err = buf_append(into, meta_json);
    if (!err) err = zeros_put(into, tar_padding(meta_json.len));
    if (!err) err = header_put(into, STATE_NAME, state_size);
    if (err) into->len = start;
    return err;
}

enum err fleet_archive_tail(uint64_t state_size, struct buf *into)
{
    return zeros_put(into, tar_padding(state_size) + TAR_END_BYTES);
}

/* -- reading -- */
enum err fleet_archive_open(fleet_archive_state_fn *state, void *owner,
                            struct fleet_archive_reader **ret_reader)
{
    struct fleet_archive_reader *reader = calloc(1, sizeof *reader);

    if (!reader) return ERR_NOMEM;
    reader->state = state;
    reader->owner = owner;
    tar_read_begin(&reader->tar);
    buf_init(&reader->meta_json, FLEET_META_BYTES_MAX);
    *ret_reader = reader;
    return ERR_OK;
}

void fleet_archive_close(struct fleet_archive_reader *reader)
{
    if (!reader) return;
    buf_deinit(&reader->meta_json);
    free(reader);
}

static enum err wrong(const char *what, struct note *note)
{
    note_set(note, "archive: %s", what);
    return ERR_PARSE;
}

static enum err entry_begin(struct fleet_archive_reader *reader, struct note *note)
{
    const struct tar_reader *tar = &reader->tar;

    reader->entry = ENTRY_OTHER;
    if (!tar->regular) return ERR_OK;
    if (strcmp(tar->name, META_NAME) == 0) {
        if (reader->has_meta) return wrong("meta.json twice", note);
        if (tar->size > FLEET_META_BYTES_MAX) {
            wrong("meta.json is larger than the limit", note);
            return ERR_TOO_LARGE;
        }
        reader->entry = ENTRY_META;
    } else if (strcmp(tar->name, STATE_NAME) == 0) {
        if (!reader->has_meta) return wrong("state before meta.json", note);
        if (reader->has_state) return wrong("state twice", note);
        reader->entry = ENTRY_STATE;
    }
    return ERR_OK;
}

enum err fleet_archive_meta(struct fleet_archive_reader *reader, struct str json, struct note *note)
{
    enum err err = fleet_meta_read(json, &reader->meta, note);

    reader->has_meta = !err;
    return err;
}

enum err fleet_archive_state(void *opaque, struct str bytes, struct note *note)
{
    struct fleet_archive_reader *reader = opaque;

    reader->has_state = true;
    reader->state_size += bytes.len;
    return reader->state ? reader->state(reader->owner, bytes, note) : ERR_OK;
}

static enum err entry_data(struct fleet_archive_reader *reader, struct note *note)
{
    struct str data = reader->tar.data;

    if (reader->entry == ENTRY_META) return buf_append(&reader->meta_json, data);
    return reader->entry == ENTRY_STATE ? fleet_archive_state(reader, data, note) : ERR_OK;
}

static enum err entry_end(struct fleet_archive_reader *reader, struct note *note)
{
    enum err err = ERR_OK;

    if (reader->entry == ENTRY_META)
        err = fleet_archive_meta(reader, buf_peek(&reader->meta_json), note);
    else if (reader->entry == ENTRY_STATE)
        reader->has_state = true; /* of no bytes at all */
    if (err) note_prefix(note, "archive");
    return err;
}

enum err fleet_archive_read(void *opaque, struct str bytes, struct note *note)
{
    struct fleet_archive_reader *reader = opaque;
    enum tar_event event = TAR_NEED;
    enum err err = reader->failed;

    if (err) return err;
    reader->is_tar = true;
    do {
        err = tar_read(&reader->tar, &bytes, &event, note);
        if (err) break;
        if (event == TAR_ENTRY) err = entry_begin(reader, note);
        if (event == TAR_DATA) err = entry_data(reader, note);
        if (event == TAR_CLOSE) err = entry_end(reader, note);
    } while (!err && event != TAR_NEED);
    reader->failed = err;
    return err;
}

enum err fleet_archive_end(struct fleet_archive_reader *reader, struct fleet_meta *ret_meta,
                           uint64_t *ret_state_size, struct note *note)
{
    const struct fleet_meta *meta = &reader->meta;
    enum err err = reader->failed;

    if (!err && reader->is_tar && !tar_read_whole(&reader->tar)) err = wrong("cut short", note);
    if (!err && !reader->has_meta) err = wrong("it holds no meta.json", note);
    if (!err && !reader->has_state) err = wrong("it holds no state", note);
    if (!err && meta->size != 0 && meta->size != reader->state_size) {
        note_set(note, "state has %" PRIu64 " bytes, meta.json says %" PRIu64, reader->state_size,
                 meta->size);
        err = ERR_CORRUPT;
    }
    reader->failed = err;
    if (err) return err;
    *ret_meta = *meta;
    *ret_state_size = reader->state_size;
    return ERR_OK;
}
