/* SPDX-License-Identifier: Apache-2.0 */
/* Restores a snapshot into the machines: at start from the newest file, later from a received
 * file. A machine without a section becomes empty. A section of a machine that this program
 * lacks stops the replica, because ignoring it would lose state. */
#include <string.h>

#include "log/replica_internal.h"

enum err replica_restore_begin(struct replica *replica, const struct snap_head *head,
                               struct note *note)
{
    if (head->level > replica->speaks)
        return note_fail(note, ERR_VERSION,
                         "the snapshot at %llu is of cluster level %u, this program speaks %u",
                         (unsigned long long)head->mark.index, head->level, replica->speaks);
    for (uint32_t id = 1; id <= REPLICA_MACHINES_MAX; id++) {
        const struct state_machine *machine = &replica->machines[id];
        enum err err;

        if (!machine->ops) continue;
        err = machine->ops->restore_begin(machine->state, head->mark.index, note);
        if (err) return err;
    }
    return ERR_OK;
}

enum err replica_restore_chunk(struct replica *replica, uint32_t section, struct str bytes,
                               struct note *note)
{
    const struct state_machine *machine;
    enum err err;

    if (section == 0 || section > REPLICA_MACHINES_MAX || !replica->machines[section].ops)
        return note_fail(note, ERR_VERSION,
                         "the snapshot has a section %u, which this program does not know",
                         section);
    machine = &replica->machines[section];
    err = machine->ops->restore_next(machine->state, bytes, note);
    if (err) note_prefix(note, "restore %s", machine->name);
    return err;
}

enum err replica_restore_end(struct replica *replica, const struct snap_head *head,
                             struct note *note)
{
    for (uint32_t id = 1; id <= REPLICA_MACHINES_MAX; id++) {
        const struct state_machine *machine = &replica->machines[id];
        enum err err;

        if (!machine->ops) continue;
        err = machine->ops->restore_end(machine->state, note);
        if (err) {
            note_prefix(note, "restore %s", machine->name);
            return err;
        }
    }
    replica->meta.clock_ns = head->clock_ns;
    replica->meta.level = head->level;
    return ERR_OK;
}

enum err replica_snapshot_path(const struct replica *replica, const struct snapshot_mark *mark,
                               char path[FS_PATH_CAP], struct note *note)
{
    char below[sizeof "snap/" + SNAP_NAME_CAP] = "snap/";

    snap_name(mark, below + strlen(below));
    return fs_path(replica->dir, below, path, note);
}

static enum err load_file(struct replica *replica, const char *path, struct note *note)
{
    struct snap_reader *reader;
    struct snap_head head;
    uint32_t section = 0;
    struct buf chunk;
    enum err err = snap_open(replica->io->fs, path, &reader, &head, note);

    if (err) return err;
    buf_init(&chunk, SNAP_CHUNK_MAX);
    err = replica_restore_begin(replica, &head, note);
    while (!err) {
        err = snap_read(reader, &chunk, &section, note);
        if (err || section == UINT32_MAX) break;
        err = replica_restore_chunk(replica, section, buf_peek(&chunk), note);
    }
    if (!err) err = replica_restore_end(replica, &head, note);
    buf_deinit(&chunk);
    snap_close(reader);
    return err;
}

static enum err empty_machines(struct replica *replica, struct note *note)
{
    struct snap_head nothing = {.level = 1};
    enum err err = replica_restore_begin(replica, &nothing, note);

    if (!err) err = replica_restore_end(replica, &nothing, note);
    if (err) return err;
    for (uint32_t id = 1; id <= REPLICA_MACHINES_MAX; id++) {
        const struct state_machine *machine = &replica->machines[id];
        if (machine->ops) replica->empty_hash[id] = machine->ops->hash(machine->state);
    }
    return ERR_OK;
}

enum err replica_snapshot_load(struct replica *replica, struct snap_head *ret_head,
                               struct note *note)
{
    struct fs *fs = replica->io->fs;
    struct snap_head head;
    struct fs_info info = {.size = 0};
    char name[SNAP_NAME_CAP], path[FS_PATH_CAP];
    enum err err = empty_machines(replica, note);

    if (err) return err;
    err = snap_newest(fs, replica->dir, name, &head, note);
    if (err == ERR_NOT_FOUND) {
        head = (struct snap_head){.level = 1};
        err = ERR_OK;
    } else if (!err) {
        err = replica_snapshot_path(replica, &head.mark, path, note);
        if (!err) err = load_file(replica, path, note);
        if (!err) err = fs_noted(fs_stat(fs, path, &info), "look at", path, note);
    }
    /* Removes old files last, because the newest snapshot must be valid before. */
    if (!err) err = snap_sweep(fs, replica->dir, note);
    if (err) return err;
    replica->snapshot = head.mark;
    replica->snapshot_bytes = info.size;
    replica->applied = head.mark.index;
    replica->applied_term = head.mark.term;
    *ret_head = head;
    return ERR_OK;
}
