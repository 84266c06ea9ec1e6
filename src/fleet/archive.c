/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an archive into separate state machines and writes a data directory from them. Blocking. */
#include "fleet/archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/recovery.h"
#include "fleet/machine.h"
#include "fleet/roster.h"
#include "fleet/snapshot_read.h"
#include "log/sections.h"
#include "log/snapfile.h"

enum {
    ARCHIVE_SLICE_BYTES = 256 << 10,
    MACHINES_MAX = ARCHIVE_SECTIONS_MAX, /* in ascending order of their ids */
    LEVEL_FIRST = 1,                     /* cluster level of an archive that stores none */
};

struct archive {
    struct fs *fs;
    struct archive_facts facts;
    struct fleet_machine *fleet;
    struct roster *roster;
    struct state_machine machines[MACHINES_MAX];
    size_t machine_count;
    bool begun[MACHINES_MAX]; /* by state machine: its section is being read */
    bool has[MACHINES_MAX];   /* by state machine: its section was read */
    uint64_t bytes[MACHINES_MAX];
    /* for writing */
    struct sections sections;
    struct buf slice;
    size_t slice_machine;
};

const char *archive_kind_word(enum archive_kind kind)
{
    static const char *const words[] = {
        [ARCHIVE_EXPORT] = "export", [ARCHIVE_SNAPSHOT] = "snapshot", [ARCHIVE_BACKUP] = "backup"};
    return words[kind];
}

/* Refuses values that no coordinator writes and no replica could start from. */
static enum err check_facts(const struct archive_facts *facts, struct note *note)
{
    if (facts->index == 0 || facts->term == 0)
        return note_fail(note, ERR_INVALID,
                         "index %" PRIu64 ", term %" PRIu64 ": not a valid coordinator snapshot",
                         facts->index, facts->term);
    if (facts->level == 0 || facts->level > CLUSTER_LEVEL)
        return note_fail(note, ERR_VERSION, "cluster level %" PRIu32 ": this program speaks %d",
                         facts->level, CLUSTER_LEVEL);
    return ERR_OK;
}

static void archive_add_section(struct archive *archive, size_t place)
{
    const struct state_machine *machine = &archive->machines[place];

    archive->has[place] = true;
    archive->facts.sections[archive->facts.section_count++] = (struct archive_section){
        machine->name, archive->bytes[place], machine->ops->hash(machine->state)};
}

/* -- archives in the format of the original program -- */

static enum err read_snapshot(struct archive *archive, const char *path, bool is_directory,
                              struct note *note)
{
    struct fleet *fleet = fleet_machine_fleet(archive->fleet);
    struct snapshot_facts facts;
    enum err err = snapshot_read(archive->fs, path, is_directory, fleet, &facts, note);

    if (err) return err;
    archive->facts.kind = is_directory ? ARCHIVE_EXPORT : ARCHIVE_SNAPSHOT;
    archive->facts.index = facts.index;
    archive->facts.term = facts.term;
    archive->facts.level = LEVEL_FIRST;
    archive->facts.dropped = facts.state.dropped;
    archive->bytes[0] = facts.bytes;
    archive_add_section(archive, 0);
    err = check_facts(&archive->facts, note);
    if (err) note_prefix(note, "%s", path);
    return err;
}

/* -- backups -- */

static enum err take_chunk(struct archive *archive, uint32_t section, struct str bytes,
                           struct note *note)
{
    size_t place = 0;
    const struct state_machine *machine;
    enum err err = ERR_OK;

    if (section == BACKUP_SECTION_MADE) {
        if (bytes.len == BACKUP_MADE_BYTES) archive->facts.created_ms = load_le64(bytes.at);
        return ERR_OK;
    }
    while (place < archive->machine_count && archive->machines[place].id != section) place++;
    if (place == archive->machine_count)
        return note_fail(note, ERR_VERSION, "section %" PRIu32 ": not known to this program",
                         section);
    machine = &archive->machines[place];
    if (!archive->begun[place]) {
        err = machine->ops->restore_begin(machine->state, archive->facts.index, note);
        archive->begun[place] = !err;
    }
    if (!err) err = machine->ops->restore_next(machine->state, bytes, note);
    archive->bytes[place] += bytes.len;
    if (err) note_prefix(note, "section %s", machine->name);
    return err;
}

static enum err end_machines(struct archive *archive, struct note *note)
{
    for (size_t i = 0; i < archive->machine_count; i++) {
        const struct state_machine *machine = &archive->machines[i];
        enum err err;

        if (!archive->begun[i]) continue;
        archive->begun[i] = false;
        err = machine->ops->restore_end(machine->state, note);
        if (err) {
            note_prefix(note, "section %s", machine->name);
            return err;
        }
        archive_add_section(archive, i);
    }
    return ERR_OK;
}

static enum err read_chunks(struct archive *archive, struct snap_reader *reader, struct note *note)
{
    uint32_t section = 0;
    struct buf chunk;
    enum err err = check_facts(&archive->facts, note);

    buf_init(&chunk, SNAP_CHUNK_MAX);
    while (!err) {
        err = snap_read(reader, &chunk, &section, note);
        if (err || section == UINT32_MAX) break;
        err = take_chunk(archive, section, buf_peek(&chunk), note);
    }
    buf_deinit(&chunk);
    return err ? err : end_machines(archive, note);
}

static enum err read_backup(struct archive *archive, const char *path, struct note *note)
{
    struct archive_facts *facts = &archive->facts;
    struct snap_reader *reader;
    struct snap_head head;
    enum err err = snap_open(archive->fs, path, &reader, &head, note);

    if (err) return err;
    facts->kind = ARCHIVE_BACKUP;
    facts->index = head.mark.index;
    facts->term = head.mark.term;
    facts->cluster_id = head.cluster_id;
    facts->clock_ns = head.clock_ns;
    facts->level = head.level;
    err = read_chunks(archive, reader, note);
    if (err && !strstr(note->text, path)) note_prefix(note, "%s", path);
    snap_close(reader);
    return err;
}

/* -- detecting the kind -- */

static enum err is_backup(struct fs *fs, const char *path, bool *ret_is, struct note *note)
{
    char bytes[SNAP_MAGIC_BYTES];
    struct fs_file *file;
    size_t got = 0;
    enum err err = fs_open(fs, path, FS_READ, 0, &file);

    if (!err) {
        err = fs_read_at(fs, file, 0, bytes, sizeof bytes, &got);
        fs_close(fs, file);
    }
    if (err)
        note_set(note, "read %s: %s", path, err_text(err));
    else
        *ret_is = snap_is(str_of(bytes, got));
    return err;
}

static enum err read_any(struct archive *archive, const char *path, struct note *note)
{
    struct fs_info info;
    bool backup = false;
    enum err err = fs_stat(archive->fs, path, &info);

    if (err) return note_fail(note, err, "open %s: %s", path, err_text(err));
    if (info.kind != FS_DIRECTORY) err = is_backup(archive->fs, path, &backup, note);
    if (err) return err;
    return backup ? read_backup(archive, path, note)
                  : read_snapshot(archive, path, info.kind == FS_DIRECTORY, note);
}

static enum err open_machines(struct archive *archive, const struct state_machine *more)
{
    struct fleet_machine_options options = {0};
    enum err err = fleet_machine_open(&options, &archive->fleet);

    if (!err) err = roster_open(&archive->roster);
    if (err) return err;
    static_assert((int)FLEET_MACHINE_ID < (int)ROSTER_MACHINE_ID, "sections are written by id");
    archive->machines[0] = fleet_machine_registration(archive->fleet);
    archive->machines[1] = roster_registration(archive->roster);
    archive->machine_count = 2;
    for (; more && more->id; more++) {
        assert(more->id > archive->machines[archive->machine_count - 1].id);
        assert(archive->machine_count < MACHINES_MAX);
        archive->machines[archive->machine_count++] = *more;
    }
    return ERR_OK;
}

enum err archive_open(struct fs *fs, const char *path, const struct state_machine *more,
                      struct archive **ret_archive, struct note *note)
{
    struct archive *archive = calloc(1, sizeof *archive);
    struct note why = {""};
    enum err err = ERR_NOMEM;

    if (archive) {
        archive->fs = fs;
        buf_init(&archive->slice, STATE_SLICE_MAX);
        err = open_machines(archive, more);
    }
    if (!err) err = read_any(archive, path, &why);
    if (err) {
        if (!why.text[0]) note_set(&why, "open %s: %s", path, err_text(err));
        note_set(note, "%s", why.text);
        archive_close(archive);
        return err;
    }
    archive->facts.rows = fleet_counts(fleet_machine_fleet(archive->fleet));
    for (size_t i = 0; i < archive->machine_count; i++)
        if (!archive->has[i])
            archive->facts.lacks[archive->facts.lacks_count++] = archive->machines[i].name;
    *ret_archive = archive;
    return ERR_OK;
}

void archive_close(struct archive *archive)
{
    if (!archive) return;
    sections_end(&archive->sections);
    /* restore_end also frees an unfinished restore. */
    for (size_t i = 0; i < archive->machine_count; i++)
        if (archive->begun[i])
            (void)archive->machines[i].ops->restore_end(archive->machines[i].state, NULL);
    buf_deinit(&archive->slice);
    roster_close(archive->roster);
    fleet_machine_close(archive->fleet);
    free(archive);
}

const struct archive_facts *archive_facts(const struct archive *archive)
{
    return &archive->facts;
}

/* -- writing -- */

static enum err archive_next(void *owner, uint32_t *ret_section, struct buf *into,
                             struct note *note)
{
    struct archive *archive = owner;
    struct str slice;
    size_t len;
    enum err err = ERR_OK;

    if (archive->slice.len == 0)
        err = sections_next(&archive->sections, ARCHIVE_SLICE_BYTES, &archive->slice,
                            &archive->slice_machine);
    slice = buf_peek(&archive->slice);
    len = min_size(slice.len, DATADIR_SECTION_BYTES_MAX);
    if (!err) err = buf_append(into, str_of(slice.at, len));
    if (err)
        return note_fail(note, err, "section %s: %s",
                         archive->machines[archive->slice_machine].name, err_text(err));
    buf_consume(&archive->slice, len);
    *ret_section = len ? archive->machines[archive->slice_machine].id : DATADIR_SECTIONS_END;
    return ERR_OK;
}

static void archive_recover(struct archive *archive, const struct archive_restore_options *options)
{
    const struct archive_facts *facts = &archive->facts;
    struct machine_recovery recovery = {.index = facts->index,
                                        .clock_ns = facts->clock_ns,
                                        .floor = recovery_floor(options->wall_ms)};

    entropy_fill(options->entropy, recovery.identity, sizeof recovery.identity);
    for (size_t i = 0; i < archive->machine_count; i++) {
        const struct state_machine *machine = &archive->machines[i];
        if (machine->ops->recover) machine->ops->recover(machine->state, &recovery);
    }
}

enum err archive_restore(struct archive *archive, const struct archive_restore_options *options,
                         struct datadir *ret_datadir, struct note *note)
{
    const struct archive_facts *facts = &archive->facts;
    struct datadir_restore restore = {
        .fs = options->fs,
        .entropy = options->entropy,
        .dir = options->dir,
        .address = options->address,
        .index = facts->index,
        /* Higher than the old term: shards ignore instructions with a lower term. */
        .term = recovery_above(facts->term, recovery_floor(options->wall_ms)),
        .clock_ns = facts->clock_ns,
        .level = facts->level,
        .next = archive_next,
        .owner = archive,
    };
    enum err err = ERR_OK;

    buf_clear(&archive->slice);
    archive_recover(archive, options);
    archive->sections =
        (struct sections){.machines = archive->machines, .count = archive->machine_count};
    for (size_t i = 0; !err && i < archive->machine_count; i++)
        if (archive->machines[i].id != ROSTER_MACHINE_ID) /* the roster's identities are obsolete */
            err = sections_add(&archive->sections, i, facts->index);
    if (err)
        note_set(note, "read the archive: %s", err_text(err));
    else
        err = datadir_restore(&restore, ret_datadir, note);
    sections_end(&archive->sections);
    return err;
}
