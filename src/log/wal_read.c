/* SPDX-License-Identifier: Apache-2.0 */
/* Reads old entries from any thread, concurrently with wal_append. A segment loses its name
 * before it is recycled, so a failed check means damage only if the name still exists. */
#include <stdlib.h>
#include <string.h>

#include "log/wal_internal.h"

enum { RUN_BYTES = 1 << 20 }; /* adjacent records are read together up to this size */

struct wal_read_reader {
    struct fs *fs;
    char dir[FS_PATH_CAP];
    struct note *note;
    struct fs_file *file;
    uint64_t sequence, salt;
    struct buf room;
};

/* A failed check is damage only if the segment still belongs to the log. */
static enum err wal_read_judge(struct wal_read_reader *reader, uint64_t sequence, uint64_t offset,
                               enum err err)
{
    char path[FS_PATH_CAP];
    struct fs_info info;
    wal_segment_path(reader->dir, sequence, path);
    if (err == ERR_CORRUPT && fs_stat(reader->fs, path, &info) == ERR_NOT_FOUND)
        err = ERR_NOT_FOUND;
    return note_fail(reader->note, err, "%s: offset %" PRIu64 ": %s", path, offset, err_text(err));
}

static enum err enter(struct wal_read_reader *reader, uint64_t sequence)
{
    char path[FS_PATH_CAP];
    struct segment_head head;
    if (reader->file && reader->sequence == sequence) return ERR_OK;
    fs_close(reader->fs, reader->file);
    reader->file = NULL;
    wal_segment_path(reader->dir, sequence, path);
    enum err err = fs_open(reader->fs, path, FS_READ, 0, &reader->file);
    if (!err) err = wal_read_head(reader->fs, reader->file, sequence, &head);
    if (err) return wal_read_judge(reader, sequence, 0, err);
    reader->sequence = sequence;
    reader->salt = head.salt;
    return ERR_OK;
}

/* Returns how many of the places are adjacent in one segment, and their total length. */
static size_t run_of(const struct wal_place *places, size_t count, size_t *ret_len)
{
    size_t n = 1;
    uint64_t end = (uint64_t)places[0].offset + places[0].size;
    while (n < count && places[n].sequence == places[0].sequence && places[n].offset >= end &&
           (uint64_t)places[n].offset + places[n].size - places[0].offset <= RUN_BYTES) {
        end = (uint64_t)places[n].offset + places[n].size;
        n++;
    }
    *ret_len = (size_t)(end - places[0].offset);
    return n;
}

static enum err wal_read_take(struct wal_read_reader *reader, struct str bytes, struct buf *into,
                              struct entry *ret_entry)
{
    struct log_record record;
    size_t size;
    enum err err = record_read(bytes, reader->salt, &record, &size);
    if (err || size != bytes.len || record.kind > RECORD_CHANGE) return ERR_CORRUPT;
    size_t at = into->len;
    err = buf_append(into, record.bytes);
    if (err) return err;
    *ret_entry = (struct entry){
        .index = record.index,
        .term = record.term,
        .kind = (enum entry_kind)record.kind,
        .bytes = {.at = NULL, .len = record.bytes.len},
    };
    /* The buffer may move: wal_read sets the addresses. */
    assert(into->len == at + record.bytes.len);
    return ERR_OK;
}

static enum err read_run(struct wal_read_reader *reader, const struct wal_place *places,
                         size_t count, size_t len, bool again, struct buf *into,
                         struct entry *entries)
{
    char *room;
    size_t got;
    enum err err = buf_reserve(&reader->room, len, &room);
    if (!err) err = fs_read_at(reader->fs, reader->file, places[0].offset, room, len, &got);
    if (err) return wal_read_judge(reader, places[0].sequence, places[0].offset, err);
    for (size_t i = 0; i < count; i++) {
        size_t from = places[i].offset - places[0].offset;
        struct str bytes =
            str_of(room + min_size(from, got), min_size(places[i].size, got - min_size(from, got)));
        err = wal_read_take(reader, bytes, into, &entries[i]);
        if (err == ERR_CORRUPT && !again) /* one read may have returned wrong bytes */
            return read_run(reader, places + i, count - i, len - from, true, into, entries + i);
        if (err == ERR_CORRUPT)
            return wal_read_judge(reader, places[i].sequence, places[i].offset, err);
        if (err) return note_fail(reader->note, err, "read %s: %s", reader->dir, err_text(err));
    }
    return ERR_OK;
}

enum err wal_read(struct fs *fs, const char *dir, const struct wal_place *places, size_t count,
                  struct buf *into, struct entry *entries, struct note *note)
{
    struct wal_read_reader reader = {.fs = fs, .note = note};
    size_t before = into->len;
    enum err err = fs_path(dir, "log", reader.dir, note);
    if (err) return err;
    buf_init(&reader.room, SIZE_MAX / 2);
    for (size_t i = 0; i < count && !err;) {
        size_t len, n = run_of(places + i, count - i, &len);
        err = enter(&reader, places[i].sequence);
        if (!err) err = read_run(&reader, places + i, n, len, false, into, entries + i);
        i += n;
    }
    fs_close(fs, reader.file);
    buf_deinit(&reader.room);
    if (err) {
        into->len = before; /* `into` is unchanged on error */
        return err;
    }
    size_t at = before;
    for (size_t i = 0; i < count; i++) {
        entries[i].bytes = str_of(into->data + at, entries[i].bytes.len);
        at += entries[i].bytes.len;
    }
    return ERR_OK;
}
