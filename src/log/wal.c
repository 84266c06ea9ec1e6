/* SPDX-License-Identifier: Apache-2.0 */
/* Appends to the log: records are gathered in memory, written with one call and synced with
 * another. A full segment ends with a seal that names the next segment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/wal_internal.h"

static_assert((int)WAL_BATCH_MAX > (int)ENTRY_BYTES_MAX + 2 * RECORD_HEAD + RECORD_ALIGN,
              "the largest record and a seal fit in one write");

/* -- failures -- */

enum err wal_fail(struct wal *wal, enum err err)
{
    assert(err);
    if (!wal->failed) wal->failed = err;
    return err;
}

/* Adds the place in the current segment to `note`. */
static enum err fail_here(struct wal *wal, enum err err, const char *what, struct note *note)
{
    note_set(note, "%s %s/%016" PRIx64 ".seg at %" PRIu64 ": %s", what, wal->dir,
             wal_in_use(wal)->sequence, wal->offset - wal->batch.len, err_text(err));
    return wal_fail(wal, err);
}

enum err wal_check(const struct wal *wal, struct note *note)
{
    assert(!wal->read_only);
    if (wal->failed) note_set(note, "%s: failed before: %s", wal->dir, err_text(wal->failed));
    return wal->failed;
}

/* -- gathering and writing -- */

/* Writes the gathered records, without sync. */
static enum err batch_write(struct wal *wal, struct note *note)
{
    struct wal_segment *segment = wal_in_use(wal);
    if (wal->batch.len == 0) return ERR_OK;
    uint64_t at = wal->offset - wal->batch.len;
    enum err err = fs_write_at(wal->fs, wal->file, at, buf_peek(&wal->batch));
    if (err) return fail_here(wal, err, "write", note);
    wal->bytes += wal->batch.len;
    buf_clear(&wal->batch);
    segment->size = max_u64(segment->size, wal->offset);
    return ERR_OK;
}

/* A failed sync is final: the disk's content is unknown, and a second sync could wrongly
 * succeed. */
enum err wal_sync(struct wal *wal, struct note *note)
{
    enum err err = batch_write(wal, note);
    if (err) return err;
    err = fs_sync(wal->fs, wal->file);
    if (err) return fail_here(wal, err, "sync", note);
    wal->syncs++;
    wal->synced = wal->serial;
    return ERR_OK;
}

static enum err wal_gather(struct wal *wal, struct log_record record, struct note *note)
{
    size_t size = record_size(record.bytes.len);
    char *room;
    enum err err = wal->batch.len + size > WAL_BATCH_MAX ? batch_write(wal, note) : ERR_OK;
    if (err) return err;
    err = buf_reserve(&wal->batch, size, &room);
    if (err) return fail_here(wal, err, "append to", note);
    record.serial = ++wal->serial;
    record.synced = wal->synced;
    record_write(&record, wal_in_use(wal)->salt, room);
    buf_commit(&wal->batch, size);
    wal->offset += size;
    wal->sealed = record.kind == RECORD_SEAL && wal->synced + 1 == wal->serial;
    return ERR_OK;
}

/* True: there is room for the record and a seal. A record that fits in no segment gets a segment
 * that grows. */
static bool fits(const struct wal *wal, size_t size)
{
    return wal->offset + size + RECORD_HEAD <= wal->segment_bytes || wal->offset == SEGMENT_HEAD;
}

/* Ends the current segment durably and continues in the next one. */
static enum err roll(struct wal *wal, struct note *note)
{
    struct fs_file *file;
    enum err err = wal_ensure_spare(wal, note);
    if (err) return err;
    struct wal_segment next = wal->spares[0];
    err = wal_gather(wal, (struct log_record){.kind = RECORD_SEAL, .index = next.sequence}, note);
    if (!err) err = wal_sync(wal, note);
    if (err) return err;
    err = wal_open_segment(wal, &next, FS_READ | FS_WRITE, &file, note);
    if (!err && (err = wal_use(wal, &next))) fs_close(wal->fs, file);
    if (err) return fail_here(wal, err, "go on from", note);
    wal->spare_count--;
    memmove(wal->spares, wal->spares + 1, wal->spare_count * sizeof wal->spares[0]);
    fs_close(wal->fs, wal->file);
    wal->file = file;
    wal->offset = SEGMENT_HEAD;
    wal->no_space = false;
    return ERR_OK;
}

static enum err append_record(struct wal *wal, struct log_record record,
                              struct wal_place *ret_place, struct note *note)
{
    size_t size = record_size(record.bytes.len);
    enum err err = fits(wal, size) ? ERR_OK : roll(wal, note);
    if (err) return err;
    struct wal_place place = {
        .sequence = wal_in_use(wal)->sequence,
        .offset = (uint32_t)wal->offset,
        .size = (uint32_t)size,
    };
    err = wal_gather(wal, record, note);
    if (!err && ret_place) *ret_place = place;
    return err;
}

/* -- public functions -- */

enum err wal_append(struct wal *wal, const struct entry *entries, size_t count,
                    struct wal_place *places, struct note *note)
{
    enum err err = wal_check(wal, note);
    if (err || count == 0) return err;
    for (size_t i = 0; i < count && !err; i++) {
        const struct entry *entry = &entries[i];
        assert(entry->index > 0 && entry->bytes.len <= ENTRY_BYTES_MAX);
        assert(wal->next_index == 0 || entry->index <= wal->next_index); /* the log has no gaps */
        err = append_record(wal,
                            (struct log_record){
                                .kind = (enum record_kind)entry->kind,
                                .index = entry->index,
                                .term = entry->term,
                                .bytes = entry->bytes,
                            },
                            &places[i], note);
        wal->next_index = entry->index + 1;
    }
    if (!err) err = wal_sync(wal, note);
    if (err) return err;
    wal->appends++;
    assert(wal->batch.len == 0);
    if (wal->batch.cap > WAL_BATCH_KEEP) buf_deinit(&wal->batch);
    return ERR_OK;
}

enum err wal_reset(struct wal *wal, uint64_t index, uint64_t term, struct note *note)
{
    enum err err = wal_check(wal, note);
    if (err) return err;
    struct log_record record = {.kind = RECORD_RESET, .index = index, .term = term};
    err = append_record(wal, record, NULL, note);
    if (!err) err = wal_sync(wal, note);
    if (!err) wal->next_index = index + 1;
    return err;
}

enum err wal_seal(struct wal *wal, struct note *note)
{
    enum err err = wal_check(wal, note);
    if (err || wal->sealed || wal->serial == 0) return err;
    assert(wal->synced == wal->serial && wal->batch.len == 0);
    /* A segment without room is ended, which also writes a seal. */
    if (!fits(wal, RECORD_HEAD)) return roll(wal, note);
    err = wal_gather(wal, (struct log_record){.kind = RECORD_SEAL}, note);
    return err ? err : wal_sync(wal, note);
}

enum err wal_publish(struct wal *wal, struct note *note)
{
    char path[FS_PATH_CAP], bytes[RECORD_HEAD];
    struct log_record record = {.kind = RECORD_SEAL, .serial = wal->synced};
    enum err err = wal_check(wal, note);
    if (!err) err = fs_path(wal->dir, WAL_DURABLE, path, note);
    if (err || wal->published == wal->synced) return err;
    record_write(&record, wal->replica_id, bytes);
    err = fs_publish(wal->fs, path, str_of(bytes, sizeof bytes), 0600, entropy_u64(wal->entropy));
    if (err == ERR_NO_SPACE) return ERR_OK;
    if (err == ERR_UNKNOWN) err = ERR_IO; /* the directory's sync failed */
    if (err) return wal_fail(wal, fs_noted(err, "write", path, note));
    wal->published = wal->synced;
    return ERR_OK;
}

struct wal_stats wal_stats(const struct wal *wal)
{
    struct wal_stats stats = {
        .appends = wal->appends,
        .syncs = wal->syncs,
        .bytes = wal->bytes,
        .segments = wal->used_count,
        .spares = wal->spare_count,
        .disk_bytes = wal->making ? wal->made : 0,
        .last_sequence = wal->used_count > 0 ? wal_in_use(wal)->sequence : 0,
    };
    for (size_t i = 0; i < wal->used_count; i++) stats.disk_bytes += wal->used[i].size;
    for (size_t i = 0; i < wal->spare_count; i++) stats.disk_bytes += wal->spares[i].size;
    return stats;
}

/* -- opening and closing -- */

static enum err options_check(const struct wal_options *options, struct note *note)
{
    uint64_t bytes = options->segment_bytes;
    assert(options->fs && options->dir);
    if (bytes != 0 && (bytes < WAL_SEGMENT_MIN || bytes > WAL_SEGMENT_MAX))
        return note_fail(note, ERR_INVALID, "segments of %" PRIu64 " bytes: 64 KiB to 1 GiB",
                         bytes);
    if (options->spares > WAL_SPARES_MAX)
        return note_fail(note, ERR_INVALID, "%" PRIu32 " spare segments: at most %d",
                         options->spares, WAL_SPARES_MAX);
    if (strlen(options->dir) > FS_PATH_CAP - WAL_NAME_CAP - sizeof "/log")
        return note_fail(note, ERR_INVALID, "%.100s...: path too long", options->dir);
    return ERR_OK;
}

static void wal_free(struct wal *wal)
{
    fs_close(wal->fs, wal->file);
    wal_drop_making(wal);
    buf_deinit(&wal->batch);
    free(wal->used);
    free(wal);
}

enum err wal_open(const struct wal_options *options, bool read_only, wal_found_fn *each,
                  void *context, struct wal **ret_wal, struct wal_report *ret_report,
                  struct note *note)
{
    struct wal_report report = {0};
    enum err err = options_check(options, note);
    if (err) return err;
    assert(options->entropy || read_only);
    struct wal *wal = calloc(1, sizeof *wal);
    if (!wal) return note_fail(note, ERR_NOMEM, "%s/log: %s", options->dir, err_text(ERR_NOMEM));
    snprintf(wal->dir, sizeof wal->dir, "%s/log", options->dir);
    buf_init(&wal->batch, 2 * WAL_BATCH_MAX);
    wal->fs = options->fs;
    wal->entropy = options->entropy;
    wal->cluster_id = options->cluster_id;
    wal->replica_id = options->replica_id;
    wal->segment_bytes = options->segment_bytes ? options->segment_bytes : WAL_SEGMENT_DEFAULT;
    wal->spares_max = options->spares ? options->spares : 2;
    wal->read_only = read_only;
    err = wal_recover(wal, options->create, each, context, &report, note);
    if (err) {
        wal_free(wal);
        return err;
    }
    if (ret_report) *ret_report = report;
    *ret_wal = wal;
    return ERR_OK;
}

void wal_close(struct wal *wal)
{
    if (!wal) return;
    /* Tries to seal, because without a seal no record covers the last append (invariant 4). */
    if (!wal->read_only && !wal_seal(wal, NULL)) (void)wal_publish(wal, NULL);
    wal_free(wal);
}
