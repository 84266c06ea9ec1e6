/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/restore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/recovery.h"
#include "fleet/format/archive.h"
#include "fleet/format/state.h"
#include "fleet/machine.h"
#include "fleet/roster.h"
#include "log/sections.h"

enum {
    READ_BYTES = 256 << 10,
    SLICE_MAX = 64 << 20,               /* of one machine: a row and a slice */
    MACHINES_MAX = BACKUP_SECTIONS_MAX, /* in growing order of their ids */
};
enum { LEVEL_FIRST = 1 }; /* of archives that name none */

struct archive {
    struct archive_facts facts;
    struct fleet_machine *fleet;
    struct roster *roster;
    struct machine machines[MACHINES_MAX];
    bool begun[MACHINES_MAX]; /* restoring */
    size_t machine_count;
    /* while it is read */
    struct fs *fs;
    const char *path;
    struct fleet_state_reader *state;
    /* while it is written */
    struct sections sections;
    struct buf slice;
    size_t slice_machine;
};

const char *archive_kind_word(enum archive_kind kind)
{
    static const char *const words[] = {
        [ARCHIVE_DIRECTORY] = "export", [ARCHIVE_TAR] = "snapshot", [ARCHIVE_BACKUP] = "backup"};
    return words[kind];
}

/* Who was where in the old cluster; its replicas are told apart by identities that are gone. */
static bool is_left_out(const struct machine *machine)
{
    return machine->id == ROSTER_MACHINE_ID;
}

/* What no coordinator ever wrote, and no replica could begin from. */
static enum err check_head(const struct backup_head *head, struct note *note)
{
    if (head->index == 0 || head->term == 0) {
        note_set(note, "index %" PRIu64 ", term %" PRIu64 ": not a valid coordinator snapshot",
                 head->index, head->term);
        return ERR_INVALID;
    }
    if (head->level == 0 || head->level > CLUSTER_LEVEL) {
        note_set(note, "cluster level %" PRIu32 ": this program speaks %d", head->level,
                 CLUSTER_LEVEL);
        return ERR_VERSION;
    }
    return ERR_OK;
}

/* -- reading a file in steps -- */

static enum err each_step(struct archive *archive, const char *path,
                          enum err (*each)(void *reader, struct str bytes, struct note *note),
                          void *reader, struct note *note)
{
    struct fs_file *file;
    uint64_t offset = 0;
    size_t got = READ_BYTES;
    char *room = malloc(READ_BYTES);
    enum err err = room ? fs_open(archive->fs, path, FS_READ, 0, &file) : ERR_NOMEM;

    if (err) {
        free(room);
        note_set(note, "open %s: %s", path, err_text(err));
        return err;
    }
    while (!err && got == READ_BYTES) {
        err = fs_read_at(archive->fs, file, offset, room, READ_BYTES, &got);
        if (err)
            note_set(note, "read %s at %" PRIu64 ": %s", path, offset, err_text(err));
        else if (got > 0 && (err = each(reader, str_of(room, got), note)))
            note_prefix(note, "%s", path);
        offset += got;
    }
    fs_close(archive->fs, file);
    free(room);
    return err;
}

/* -- the original's two files -- */

/* What the files say of themselves must be true. */
static enum err pair_end(struct archive *archive, struct fleet_archive_reader *reader,
                         struct note *note)
{
    struct fleet *fleet = fleet_machine_fleet(archive->fleet);
    struct fleet_state_summary summary;
    struct fleet_meta meta;
    uint64_t size;
    enum err err = fleet_archive_end(reader, &meta, &size, note);

    if (!err) err = fleet_state_read_end(archive->state, &summary, note);
    if (!err && summary.sealed &&
        (summary.hash != fleet_hash(fleet) || summary.index != meta.index)) {
        note_set(note, "state is sealed with another hash or index than it has");
        err = ERR_CORRUPT;
    }
    if (err) return err;
    archive->facts.dropped = summary.dropped;
    archive->facts.head = (struct backup_head){.index = meta.index,
                                               .term = meta.term,
                                               .level = LEVEL_FIRST,
                                               .section_count = 1,
                                               .sections = {{.id = FLEET_MACHINE_ID,
                                                             .version = FLEET_FIRST_VERSION,
                                                             .name = "fleet",
                                                             .hash = fleet_hash(fleet),
                                                             .bytes = size}}};
    return check_head(&archive->facts.head, note);
}

static enum err directory_bytes(struct archive *archive, struct fleet_archive_reader *reader,
                                struct note *note)
{
    char path[FS_PATH_CAP + 16];
    struct buf json;
    enum err err;

    buf_init(&json, FLEET_META_BYTES_MAX);
    snprintf(path, sizeof path, "%s/meta.json", archive->path);
    err = fs_read_whole(archive->fs, path, FLEET_META_BYTES_MAX, &json);
    if (err)
        note_set(note, "read %s: %s", path, err_text(err));
    else if ((err = fleet_archive_meta(reader, buf_peek(&json), note)))
        note_prefix(note, "%s", path);
    buf_deinit(&json);
    snprintf(path, sizeof path, "%s/state", archive->path);
    return err ? err : each_step(archive, path, fleet_archive_state, reader, note);
}

static enum err read_pair(struct archive *archive, enum archive_kind kind, struct note *note)
{
    struct fleet_state_options options = {.fleet = fleet_machine_fleet(archive->fleet)};
    struct fleet_archive_reader *reader = NULL;
    enum err err = fleet_state_read_begin(&options, &archive->state);

    archive->facts.kind = kind;
    if (!err) err = fleet_archive_open(fleet_state_read_next, archive->state, &reader);
    if (!err)
        err = kind == ARCHIVE_DIRECTORY
                  ? directory_bytes(archive, reader, note)
                  : each_step(archive, archive->path, fleet_archive_read, reader, note);
    if (!err && (err = pair_end(archive, reader, note))) note_prefix(note, "%s", archive->path);
    fleet_archive_close(reader);
    return err;
}

/* -- a backup -- */

static struct machine *machine_of(struct archive *archive, uint32_t id)
{
    for (size_t i = 0; i < archive->machine_count; i++)
        if (archive->machines[i].id == id) return &archive->machines[i];
    return NULL;
}

static enum err on_head(void *owner, const struct backup_head *head, struct note *note)
{
    struct archive *archive = owner;
    enum err err = check_head(head, note);

    for (size_t i = 0; !err && i < head->section_count; i++) {
        const struct backup_section *section = &head->sections[i];
        struct machine *machine = machine_of(archive, section->id);
        if (!machine || section->version > machine->version) {
            note_set(note, "section %s, version %" PRIu32 ": not known to this program",
                     section->name, section->version);
            return ERR_VERSION;
        }
        err = machine->ops->restore_begin(machine->state, head->index, note);
        archive->begun[machine - archive->machines] = !err;
    }
    return err;
}

static enum err on_piece(void *owner, const struct backup_section *section, struct str bytes,
                         struct note *note)
{
    struct machine *machine = machine_of(owner, section->id);
    enum err err;

    assert(machine); /* or on_head had refused it */
    err = machine->ops->restore_next(machine->state, bytes, note);
    if (err) note_prefix(note, "section %s", section->name);
    return err;
}

/* Each machine must have become what was written. */
static enum err end_machines(struct archive *archive, struct note *note)
{
    const struct backup_head *head = &archive->facts.head;
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < head->section_count; i++) {
        const struct backup_section *section = &head->sections[i];
        struct machine *machine = machine_of(archive, section->id);
        assert(machine);
        archive->begun[machine - archive->machines] = false;
        err = machine->ops->restore_end(machine->state, note);
        if (!err && machine->ops->hash(machine->state) != section->hash) {
            note_set(note, "its state has another hash than was written");
            err = ERR_CORRUPT;
        }
        if (err) note_prefix(note, "section %s", section->name);
    }
    return err;
}

static enum err read_backup(struct archive *archive, struct note *note)
{
    struct backup_events events = {.on_head = on_head, .on_piece = on_piece, .owner = archive};
    struct backup_reader *reader;
    enum err err = backup_read_open(&events, &reader);

    archive->facts.kind = ARCHIVE_BACKUP;
    if (err) return err;
    err = each_step(archive, archive->path, backup_read, reader, note);
    if (!err) {
        err = backup_read_end(reader, &archive->facts.head, note);
        if (!err) err = end_machines(archive, note);
        if (err) note_prefix(note, "%s", archive->path);
    }
    backup_read_close(reader);
    return err;
}

/* -- what it is -- */

static enum err first_bytes(struct archive *archive, bool *ret_is_backup, struct note *note)
{
    char bytes[BACKUP_MAGIC_BYTES];
    struct fs_file *file;
    size_t got = 0;
    enum err err = fs_open(archive->fs, archive->path, FS_READ, 0, &file);

    if (!err) {
        err = fs_read_at(archive->fs, file, 0, bytes, sizeof bytes, &got);
        fs_close(archive->fs, file);
    }
    if (err)
        note_set(note, "read %s: %s", archive->path, err_text(err));
    else
        *ret_is_backup = backup_is(str_of(bytes, got));
    return err;
}

static enum err read_any(struct archive *archive, struct note *note)
{
    struct fs_info info;
    bool is_backup = false;
    enum err err = fs_stat(archive->fs, archive->path, &info);

    if (err) {
        note_set(note, "open %s: %s", archive->path, err_text(err));
        return err;
    }
    if (info.kind == FS_DIRECTORY) return read_pair(archive, ARCHIVE_DIRECTORY, note);
    err = first_bytes(archive, &is_backup, note);
    if (err) return err;
    return is_backup ? read_backup(archive, note) : read_pair(archive, ARCHIVE_TAR, note);
}

static void find_lacks(struct archive *archive)
{
    struct archive_facts *facts = &archive->facts;

    for (size_t i = 0; i < archive->machine_count; i++) {
        bool has = false;
        for (size_t s = 0; s < facts->head.section_count; s++)
            has = has || facts->head.sections[s].id == archive->machines[i].id;
        if (!has) facts->lacks[facts->lacks_count++] = archive->machines[i].name;
    }
}

static enum err open_machines(struct archive *archive, const struct machine *more)
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

enum err archive_open(struct fs *fs, const char *path, const struct machine *more,
                      struct archive **ret_archive, struct note *note)
{
    struct archive *archive = calloc(1, sizeof *archive);
    enum err err = ERR_NOMEM;

    if (archive) {
        archive->fs = fs;
        archive->path = path;
        buf_init(&archive->slice, SLICE_MAX);
        err = open_machines(archive, more);
    }
    if (err) {
        note_set(note, "open %s: %s", path, err_text(err));
        archive_close(archive);
        return err;
    }
    err = read_any(archive, note);
    fleet_state_read_close(archive->state);
    archive->state = NULL;
    if (err) {
        if (note && !note->text[0]) note_set(note, "read %s: %s", path, err_text(err));
        archive_close(archive);
        return err;
    }
    archive->facts.rows = fleet_counts(fleet_machine_fleet(archive->fleet));
    find_lacks(archive);
    *ret_archive = archive;
    return ERR_OK;
}

void archive_close(struct archive *archive)
{
    if (!archive) return;
    sections_end(&archive->sections);
    /* A reader that is half-way holds memory that only its end gives back. */
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

/* -- out again -- */

static enum err next(void *owner, uint32_t *ret_section, struct buf *into, struct note *note)
{
    struct archive *archive = owner;
    struct str slice;
    size_t len;
    enum err err = ERR_OK;

    if (archive->slice.len == 0)
        err =
            sections_next(&archive->sections, READ_BYTES, &archive->slice, &archive->slice_machine);
    slice = buf_peek(&archive->slice);
    len = min_size(slice.len, DATADIR_SECTION_BYTES_MAX);
    if (!err) err = buf_append(into, str_of(slice.at, len));
    if (err) {
        note_set(note, "section %s: %s", archive->machines[archive->slice_machine].name,
                 err_text(err));
        return err;
    }
    buf_consume(&archive->slice, len);
    *ret_section = len ? archive->machines[archive->slice_machine].id : DATADIR_SECTIONS_END;
    return ERR_OK;
}

static void recover(struct archive *archive, const struct archive_restore_options *options)
{
    const struct backup_head *head = &archive->facts.head;
    struct machine_recovery recovery = {.index = head->index,
                                        .clock_ns = head->clock_ns,
                                        .floor = recovery_floor(options->wall_ms)};

    entropy_fill(options->entropy, recovery.identity, sizeof recovery.identity);
    for (size_t i = 0; i < archive->machine_count; i++) {
        const struct machine *machine = &archive->machines[i];
        if (machine->ops->recover) machine->ops->recover(machine->state, &recovery);
    }
}

enum err archive_restore(struct archive *archive, const struct archive_restore_options *options,
                         struct datadir *ret_datadir, struct note *note)
{
    const struct backup_head *head = &archive->facts.head;
    struct datadir_restore restore = {
        .fs = options->fs,
        .entropy = options->entropy,
        .dir = options->dir,
        .address = options->address,
        .index = head->index,
        /* Shards ignore instructions of a lower term than they have seen. */
        .term = recovery_above(head->term, recovery_floor(options->wall_ms)),
        .clock_ns = head->clock_ns,
        .level = head->level,
        .next = next,
        .owner = archive,
    };
    enum err err = ERR_OK;

    buf_clear(&archive->slice);
    recover(archive, options);
    archive->sections =
        (struct sections){.machines = archive->machines, .count = archive->machine_count};
    for (size_t i = 0; !err && i < archive->machine_count; i++)
        if (!is_left_out(&archive->machines[i]))
            err = sections_add(&archive->sections, i, head->index);
    if (err)
        note_set(note, "read the archive: %s", err_text(err));
    else
        err = datadir_restore(&restore, ret_datadir, note);
    sections_end(&archive->sections);
    return err;
}
