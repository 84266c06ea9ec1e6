/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a snapshot. Every chunk is checked before it is returned, and the end mark must match.
 * Bytes are read once more before damage is reported. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "log/snapfile_internal.h"

struct snap_reader {
    struct fs *fs;
    struct fs_file *file;
    char path[FS_PATH_CAP];
    uint32_t head_crc, section;
    uint64_t at, size, chunks, bytes;
    struct buf room;
    bool ended;
};

static enum err bad(const struct snap_reader *reader, enum err err, const char *what,
                    struct note *note)
{
    return note_fail(note, err, "%s: offset %" PRIu64 ": %s: %s", reader->path, reader->at, what,
                     err_text(err));
}

/* `want` bytes, or fewer at the end of the file. */
static enum err fill(struct snap_reader *reader, size_t want, struct str *ret_bytes,
                     struct note *note)
{
    char *room;
    size_t got;
    buf_clear(&reader->room);
    want = (size_t)min_u64(want, reader->size - reader->at);
    enum err err = buf_reserve(&reader->room, max_size(want, 1), &room);
    if (!err) err = fs_read_at(reader->fs, reader->file, reader->at, room, want, &got);
    if (err) return bad(reader, err, "read", note);
    *ret_bytes = str_of(room, got);
    return ERR_OK;
}

static enum err read_head(struct snap_reader *reader, struct snap_head *ret_head, struct note *note)
{
    struct str bytes;
    size_t size = 0;
    enum err err = ERR_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        err = fill(reader, SNAP_HEAD_MAX, &bytes, note);
        if (err) return err;
        err = snap_head_read(bytes, ret_head, &size, &reader->head_crc);
        if (err == ERR_TOO_LARGE) err = ERR_CORRUPT; /* the file ends too early */
        if (err != ERR_CORRUPT) break;
    }
    if (err) return bad(reader, err, "head of a snapshot", note);
    reader->at = size;
    return ERR_OK;
}

enum err snap_open(struct fs *fs, const char *path, struct snap_reader **ret_reader,
                   struct snap_head *ret_head, struct note *note)
{
    struct snap_reader *reader = calloc(1, sizeof *reader);
    struct snap_head head;
    if (!reader) return note_fail(note, ERR_NOMEM, "open %s: %s", path, err_text(ERR_NOMEM));
    reader->fs = fs;
    buf_init(&reader->room, SNAP_CHUNK_MAX + SNAP_CHUNK_HEAD + SNAP_ALIGN);
    size_t len = strnlen(path, FS_PATH_CAP);
    enum err err = len < FS_PATH_CAP ? ERR_OK : ERR_INVALID;
    if (!err) memcpy(reader->path, path, len + 1);
    if (!err) err = fs_open(fs, path, FS_READ, 0, &reader->file);
    if (!err) err = fs_file_size(fs, reader->file, &reader->size);
    if (err)
        note_set(note, "open %s: %s", path, err_text(err));
    else
        err = read_head(reader, &head, note);
    if (err) {
        snap_close(reader);
        return err;
    }
    *ret_head = head;
    *ret_reader = reader;
    return ERR_OK;
}

/* Returns a view into the buffer. */
static enum err next_chunk(struct snap_reader *reader, struct snap_chunk *ret_chunk,
                           size_t *ret_size, struct note *note)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        struct str bytes;
        size_t size = 0, want = SNAP_CHUNK_HEAD;
        enum err err = ERR_TOO_LARGE;
        while (err == ERR_TOO_LARGE && want <= reader->size - reader->at) {
            err = fill(reader, want, &bytes, note);
            if (err) return err;
            err = snap_chunk_read(bytes, reader->head_crc, ret_chunk, &size);
            if (err == ERR_TOO_LARGE && size <= want) break; /* the file became shorter */
            want = size;
        }
        if (!err && ret_chunk->number == reader->chunks) {
            *ret_size = size;
            return ERR_OK;
        }
    }
    return bad(reader, ERR_CORRUPT, "chunk of a snapshot", note);
}

static enum err check_end(struct snap_reader *reader, const struct snap_chunk *end, size_t size,
                          struct note *note)
{
    if (end->bytes.len != SNAP_END_BYTES || load_le64(end->bytes.at) != reader->chunks ||
        load_le64(end->bytes.at + 8) != reader->bytes)
        return bad(reader, ERR_CORRUPT, "end of a snapshot", note);
    if (reader->at + size != reader->size)
        return bad(reader, ERR_CORRUPT, "bytes behind the end of a snapshot", note);
    reader->ended = true;
    return ERR_OK;
}

enum err snap_read(struct snap_reader *reader, struct buf *into, uint32_t *ret_section,
                   struct note *note)
{
    struct snap_chunk chunk = {.bytes = STR_EMPTY};
    size_t size = 0;
    enum err err = ERR_OK;
    buf_clear(into);
    if (!reader->ended) {
        err = next_chunk(reader, &chunk, &size, note);
        if (err) return err;
        if (chunk.section == SNAP_SECTION_END) err = check_end(reader, &chunk, size, note);
    }
    if (err) return err;
    if (reader->ended) {
        *ret_section = SNAP_SECTION_END;
        return ERR_OK;
    }
    if (chunk.section < reader->section)
        return bad(reader, ERR_CORRUPT, "section out of order", note);
    err = buf_append(into, chunk.bytes);
    if (err) return bad(reader, err, "chunk of a snapshot", note);
    reader->section = chunk.section;
    reader->at += size;
    reader->chunks++;
    reader->bytes += chunk.bytes.len;
    *ret_section = chunk.section;
    return ERR_OK;
}

void snap_close(struct snap_reader *reader)
{
    if (!reader) return;
    fs_close(reader->fs, reader->file);
    buf_deinit(&reader->room);
    free(reader);
}

enum err snap_verify(struct fs *fs, const char *path, struct snap_head *ret_head,
                     uint64_t *ret_bytes, struct note *note)
{
    struct snap_reader *reader;
    struct snap_head head;
    struct buf chunk;
    uint32_t section = 0;
    enum err err = snap_open(fs, path, &reader, &head, note);
    if (err) return err;
    buf_init(&chunk, SNAP_CHUNK_MAX);
    while (!err && section != SNAP_SECTION_END) err = snap_read(reader, &chunk, &section, note);
    if (!err) {
        *ret_head = head;
        *ret_bytes = reader->size;
    }
    buf_deinit(&chunk);
    snap_close(reader);
    return err;
}
