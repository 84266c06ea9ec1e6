/* SPDX-License-Identifier: Apache-2.0 */
/* Segment files: created under a temporary name, zeroed in slices, given a head, synced and
 * renamed. Released segments are recycled or removed. All but wal_ensure_spare is upkeep between
 * appends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "log/wal_internal.h"

/* -- names -- */

void wal_segment_path(const char *dir, uint64_t sequence, char path[FS_PATH_CAP])
{
    snprintf(path, FS_PATH_CAP, "%s/%016" PRIx64 ".seg", dir, sequence);
}

uint64_t wal_segment_parse(struct str name)
{
    uint64_t sequence = 0;
    bool is = name.len == 16 + 4 && str_ends(name, STR(".seg")) &&
              hex_read(str_of(name.at, 16), &sequence);
    return is ? sequence : 0;
}

enum err wal_open_segment(struct wal *wal, const struct wal_segment *segment, uint32_t flags,
                          struct fs_file **ret_file, struct note *note)
{
    char path[FS_PATH_CAP];
    wal_segment_path(wal->dir, segment->sequence, path);
    return fs_noted(fs_open(wal->fs, path, flags, 0, ret_file), "open", path, note);
}

enum err wal_read_head(struct fs *fs, struct fs_file *file, uint64_t sequence,
                       struct segment_head *ret_head)
{
    char bytes[SEGMENT_HEAD];
    struct segment_head head;
    enum err err = ERR_OK;
    /* Reads twice before reporting damage, because a single read may return wrong bytes. */
    for (int attempt = 0; attempt < 2; attempt++) {
        size_t got;
        err = fs_read_at(fs, file, 0, bytes, sizeof bytes, &got);
        if (err) break;
        err = segment_head_read(str_of(bytes, got), &head);
        if (!err && head.sequence != sequence) err = ERR_CORRUPT;
        if (err != ERR_CORRUPT) break;
    }
    if (!err) *ret_head = head;
    return err;
}

enum err wal_use(struct wal *wal, const struct wal_segment *segment)
{
    if (wal->used_count == wal->used_cap) {
        size_t cap = max_size(16, wal->used_cap * 2);
        struct wal_segment *used = realloc(wal->used, cap * sizeof *used);
        if (!used) return ERR_NOMEM;
        wal->used = used;
        wal->used_cap = cap;
    }
    wal->used[wal->used_count++] = *segment;
    return ERR_OK;
}

/* -- spares -- */

static void temp_path(struct wal *wal, char path[FS_PATH_CAP])
{
    /* Named like fs_publish's files, so that fs_sweep_temps removes the file after a crash. */
    snprintf(path, FS_PATH_CAP, "%s/.spare.%08" PRIx32 ".tmp", wal->dir,
             (uint32_t)entropy_u64(wal->entropy));
}

/* Makes the temporary file the next spare. A failure before the rename removes the file. If the
 * new name may not be durable, the log fails. */
static enum err spare_finish(struct wal *wal, struct fs_file *own_file, const char *temp,
                             uint64_t size, struct note *note)
{
    char path[FS_PATH_CAP], bytes[SEGMENT_HEAD];
    struct segment_head head = {
        .sequence = wal->last_sequence + 1,
        .salt = entropy_u64(wal->entropy),
        .cluster_id = wal->cluster_id,
        .replica_id = wal->replica_id,
    };
    assert(wal->spare_count < WAL_SPARES_MAX);
    segment_head_write(&head, bytes);
    wal_segment_path(wal->dir, head.sequence, path);
    enum err err = fs_write_at(wal->fs, own_file, 0, str_of(bytes, sizeof bytes));
    if (!err) err = fs_sync(wal->fs, own_file);
    fs_close(wal->fs, own_file);
    if (!err) err = fs_rename(wal->fs, temp, path);
    if (err) {
        fs_remove(wal->fs, temp); /* if this fails, the next start removes the file */
        return fs_noted(err, "make", path, note);
    }
    err = fs_noted(fs_sync_dir(wal->fs, wal->dir), "name", path, note);
    if (err) return wal_fail(wal, err);
    wal->last_sequence = head.sequence;
    wal->spares[wal->spare_count++] = (struct wal_segment){
        .sequence = head.sequence, .salt = head.salt, .size = max_u64(size, SEGMENT_HEAD)};
    return ERR_OK;
}

static enum err spare_begin(struct wal *wal, struct note *note)
{
    temp_path(wal, wal->making_path);
    wal->made = 0;
    enum err err = fs_open(wal->fs, wal->making_path, FS_READ | FS_WRITE | FS_CREATE | FS_EXCLUSIVE,
                           0600, &wal->making);
    return fs_noted(err, "make a segment in", wal->dir, note);
}

void wal_drop_making(struct wal *wal)
{
    if (!wal->making) return;
    fs_close(wal->fs, wal->making);
    wal->making = NULL;
    fs_remove(wal->fs, wal->making_path); /* if this fails, the next start removes the file */
}

static enum err making_finish(struct wal *wal, struct note *note)
{
    struct fs_file *file = wal->making;
    wal->making = NULL;
    return spare_finish(wal, file, wal->making_path, wal->made, note);
}

enum err wal_ensure_spare(struct wal *wal, struct note *note)
{
    if (wal->spare_count > 0) return ERR_OK;
    enum err err = wal->making ? ERR_OK : spare_begin(wal, note);
    if (!err) err = making_finish(wal, note);
    return err ? wal_fail(wal, err) : ERR_OK;
}

/* -- upkeep in slices -- */

/* Syncs the zeros. Otherwise the sync of the next append would have to write them. */
static enum err zero_slice(struct wal *wal, struct fs_file *file, uint64_t from, uint64_t *ret_to,
                           bool *ret_written)
{
    uint64_t to = min_u64(from + WAL_SLICE, wal->segment_bytes);
    enum err err = fs_allocate_zeroed(wal->fs, file, from, to - from);
    *ret_written = !err;
    if (!err) err = fs_sync(wal->fs, file);
    if (!err) *ret_to = to;
    return err;
}

static enum err grow_in_use(struct wal *wal, struct note *note)
{
    struct wal_segment *segment = wal_in_use(wal);
    bool written;
    enum err err = zero_slice(wal, wal->file, segment->size, &segment->size, &written);
    if (!err) return ERR_OK;
    note_set(note, "zero %s/%016" PRIx64 ".seg: %s", wal->dir, segment->sequence, err_text(err));
    if (written) return wal_fail(wal, err); /* the sync failed, so the handle accepts no append */
    return err;
}

static enum err make_spare(struct wal *wal, struct note *note)
{
    bool written;
    enum err err = wal->making ? ERR_OK : spare_begin(wal, note);
    if (err) return err;
    err = zero_slice(wal, wal->making, wal->made, &wal->made, &written);
    if (err) {
        wal_drop_making(wal);
        return fs_noted(err, "zero a segment in", wal->dir, note);
    }
    return wal->made < wal->segment_bytes ? ERR_OK : making_finish(wal, note);
}

/* Removes the oldest segment's name durably, before the file or the next segment is changed
 * (invariant 3). The new salt of a recycled file makes its old records invalid. */
static enum err retire(struct wal *wal, struct note *note)
{
    struct wal_segment segment = wal->used[0];
    char path[FS_PATH_CAP], temp[FS_PATH_CAP];
    struct fs_file *file = NULL;
    bool recycle = wal->spare_count < wal->spares_max && segment.size <= wal->segment_bytes &&
                   segment.size >= wal->segment_bytes / 2;
    enum err err = ERR_OK;
    wal_segment_path(wal->dir, segment.sequence, path);
    temp_path(wal, temp);
    if (recycle) err = wal_open_segment(wal, &segment, FS_READ | FS_WRITE, &file, note);
    if (!err) err = recycle ? fs_rename(wal->fs, path, temp) : fs_remove(wal->fs, path);
    if (!err) err = fs_sync_dir(wal->fs, wal->dir);
    if (err) {
        fs_close(wal->fs, file);
        return wal_fail(wal, fs_noted(err, "release", path, note));
    }
    wal->used_count--;
    memmove(wal->used, wal->used + 1, wal->used_count * sizeof wal->used[0]);
    wal->no_space = false;
    return recycle ? spare_finish(wal, file, temp, segment.size, note) : ERR_OK;
}

static bool may_retire(const struct wal *wal)
{
    size_t kept = wal->offset == SEGMENT_HEAD ? 2 : 1; /* or the last record is lost */
    return wal->used_count > kept && wal->used[0].sequence < wal->release_before;
}

enum err wal_release(struct wal *wal, uint64_t sequence, struct note *note)
{
    enum err err = wal_check(wal, note);
    if (err) return err;
    wal->release_before = max_u64(wal->release_before, sequence);
    return ERR_OK;
}

bool wal_wants_spare(const struct wal *wal)
{
    if (wal->read_only || wal->failed) return false;
    if (may_retire(wal)) return true;
    if (wal->no_space || wal->scarce) return false;
    return wal_in_use(wal)->size < wal->segment_bytes || wal->spare_count < wal->spares_max;
}

void wal_save_space(struct wal *wal, bool scarce)
{
    wal->scarce = scarce;
}

enum err wal_prepare(struct wal *wal, struct note *note)
{
    enum err err = wal_check(wal, note);
    if (err) return err;
    assert(wal->batch.len == 0);
    if (may_retire(wal))
        err = retire(wal, note);
    else if (wal->scarce)
        return ERR_OK;
    else if (wal->no_space)
        return ERR_NO_SPACE;
    else if (wal_in_use(wal)->size < wal->segment_bytes)
        err = grow_in_use(wal, note);
    else if (wal->spare_count < wal->spares_max)
        err = make_spare(wal, note);
    if (err == ERR_NO_SPACE && !wal->failed) {
        wal->no_space = true;
        return err;
    }
    return err ? wal_fail(wal, err) : ERR_OK;
}
