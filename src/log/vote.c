/* SPDX-License-Identifier: Apache-2.0 */
/* Term and vote: log/VOTE contains the same record in two slots, 4 KiB apart. docs/formats/log.md
 * has the bytes.
 *
 * Each write goes to one slot and is synced, then to the other slot and is synced. So the valid
 * slot with the higher serial always has the last promised vote, and damage to one slot loses no
 * vote. With one slot per write, damage would bring back an older vote, and this replica might
 * vote twice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "log/wal.h"

/* Offsets and sizes. */
enum {
    VOTE_AT_CRC = 44,
    SLOT_BYTES = 48,
    SLOT_STEP = 4096, /* no sector contains both slots */
    VOTE_FORMAT = 1,
};
static const char vote_magic[8] = {'m', 'u', 's', 't', 'e', 'r', 'v', 't'};

struct vote_file {
    struct fs *fs;
    struct fs_file *file;
    char path[FS_PATH_CAP];
    struct vote vote;
    uint64_t serial;
    enum err failed;
};
struct slot {
    uint64_t serial;
    struct vote vote;
};

static void slot_write(const struct slot *slot, char room[SLOT_BYTES])
{
    memset(room, 0, SLOT_BYTES);
    memcpy(room, vote_magic, sizeof vote_magic);
    store_le32(room + 8, VOTE_FORMAT);
    store_le64(room + 16, slot->serial);
    store_le64(room + 24, slot->vote.term);
    store_le64(room + 32, slot->vote.candidate);
    store_le32(room + VOTE_AT_CRC, crc32c(0, room, VOTE_AT_CRC));
}

static enum err slot_read(const char *at, struct slot *ret_slot)
{
    if (memcmp(at, vote_magic, sizeof vote_magic) != 0) return ERR_CORRUPT;
    if (load_le32(at + VOTE_AT_CRC) != crc32c(0, at, VOTE_AT_CRC)) return ERR_CORRUPT;
    if (load_le32(at + 8) != VOTE_FORMAT) return ERR_VERSION;
    *ret_slot = (struct slot){
        .serial = load_le64(at + 16),
        .vote = {.term = load_le64(at + 24), .candidate = load_le64(at + 32)},
    };
    return ERR_OK;
}

enum err vote_decode(struct str bytes, struct vote *ret_vote, uint64_t *ret_serial, int *ret_slot)
{
    struct slot newest = {0};
    int found = -1;
    for (int i = 0; i < 2; i++) {
        struct slot slot;
        if (bytes.len < (size_t)i * SLOT_STEP + SLOT_BYTES) break;
        enum err err = slot_read(bytes.at + (size_t)i * SLOT_STEP, &slot);
        if (err == ERR_VERSION) return err;
        if (err || (found >= 0 && slot.serial <= newest.serial)) continue;
        newest = slot;
        found = i;
    }
    if (found < 0) return ERR_CORRUPT;
    *ret_vote = newest.vote;
    *ret_serial = newest.serial;
    *ret_slot = found;
    return ERR_OK;
}

static enum err vote_fail(struct vote_file *file, enum err err, const char *what, struct note *note)
{
    note_set(note, "%s %s: %s", what, file->path, err_text(err));
    if (!file->failed) file->failed = err;
    return err;
}

static enum err slot_put(struct vote_file *file, int slot, struct note *note)
{
    char bytes[SLOT_BYTES];
    slot_write(&(struct slot){.serial = file->serial, .vote = file->vote}, bytes);
    enum err err =
        fs_write_at(file->fs, file->file, (uint64_t)slot * SLOT_STEP, str_of(bytes, sizeof bytes));
    if (err) return vote_fail(file, err, "write", note);
    err = fs_sync(file->fs, file->file);
    return err ? vote_fail(file, err, "sync", note) : ERR_OK;
}

/* Renames a finished file, so that a valid slot always exists. */
static enum err vote_create(struct fs *fs, const char *path, struct note *note)
{
    char bytes[SLOT_STEP + SLOT_BYTES], temp[FS_PATH_CAP + 32];
    memset(bytes, 0, sizeof bytes);
    slot_write(&(struct slot){.serial = 1}, bytes);
    slot_write(&(struct slot){.serial = 1}, bytes + SLOT_STEP);
    /* Removes the file of a process that died here. Other temporary files may be in use. */
    const char *slash = strrchr(path, '/');
    snprintf(temp, sizeof temp, "%.*s/.VOTE.00000000.tmp", (int)(slash - path), path);
    enum err err = fs_remove(fs, temp);
    if (!err || err == ERR_NOT_FOUND)
        err = fs_publish(fs, path, str_of(bytes, sizeof bytes), 0600, 0);
    return fs_noted(err, "make", path, note);
}

struct vote_load {
    struct vote_file *file;
    int slot; /* the slot with the vote */
};

static enum err vote_judge(struct str bytes, void *context)
{
    struct vote_load *load = context;
    return vote_decode(bytes, &load->file->vote, &load->file->serial, &load->slot);
}

enum err vote_open(struct fs *fs, const char *dir, bool read_only, struct vote_file **ret_file,
                   struct vote *ret_vote, struct note *note)
{
    struct fs_info info;
    struct vote_file *file = calloc(1, sizeof *file);
    struct vote_load load = {.file = file};
    if (!file) return note_fail(note, ERR_NOMEM, "open %s/log/VOTE: %s", dir, err_text(ERR_NOMEM));
    file->fs = fs;
    enum err err = fs_path(dir, "log/VOTE", file->path, note);
    if (!err) err = fs_stat(fs, file->path, &info);
    if (err == ERR_NOT_FOUND && !read_only) {
        err = vote_create(fs, file->path, note);
        if (err) goto fail;
    }
    if (!err)
        err = fs_open(fs, file->path, read_only ? FS_READ : FS_READ | FS_WRITE, 0, &file->file);
    if (err) {
        note_set(note, "open %s/log/VOTE: %s", dir, err_text(err));
        goto fail;
    }
    err = fs_read_judged(fs, file->path, 2 * SLOT_STEP, vote_judge, &load);
    if (err) note_set(note, "%s: offset 0: term and vote: %s", file->path, err_text(err));
    /* The content just read may not be durable. Rewrites the newest slot first, in place, so that
     * the other slot stays until the newest slot is durable. */
    if (!err && !read_only) err = slot_put(file, load.slot, note);
    if (!err && !read_only) err = slot_put(file, 1 - load.slot, note);
    if (err) goto fail;
    *ret_vote = file->vote;
    *ret_file = file;
    return ERR_OK;

fail:
    vote_close(file);
    return err;
}

enum err vote_write(struct vote_file *file, struct vote vote, struct note *note)
{
    if (file->failed) {
        note_set(note, "%s: failed before: %s", file->path, err_text(file->failed));
        return file->failed;
    }
    assert(vote.term >= file->vote.term);
    file->vote = vote;
    file->serial++;
    enum err err = slot_put(file, 0, note);
    return err ? err : slot_put(file, 1, note);
}

void vote_close(struct vote_file *file)
{
    if (!file) return;
    fs_close(file->fs, file->file);
    free(file);
}
