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
    uint64_t state_bytes;
    struct fleet_meta meta;
    /* while it is written */
    size_t machine;
    void *view;
    struct buf slice;
    uint32_t slice_section;
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

typedef enum err bytes_fn(struct archive *archive, void *reader, struct str bytes,
                          struct note *note);

static enum err each_step(struct archive *archive, const char *path, bytes_fn *each, void *reader,
                          struct note *note)
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
        else if (got > 0 && (err = each(archive, reader, str_of(room, got), note)))
            note_prefix(note, "%s", path);
        offset += got;
    }
    fs_close(archive->fs, file);
    free(room);
    return err;
}

/* -- the original's two files -- */

static enum err state_begin(struct archive *archive)
{
    struct fleet_state_options options = {.fleet = fleet_machine_fleet(archive->fleet)};

    return fleet_state_read_begin(&options, &archive->state);
}

static enum err state_bytes(void *owner, struct str bytes, struct note *note)
{
    struct archive *archive = owner;
    enum err err = fleet_state_read_next(archive->state, bytes, note);

    archive->state_bytes += bytes.len;
    return err;
}

static enum err state_step(struct archive *archive, void *reader, struct str bytes,
                           struct note *note)
{
    (void)reader;
    return state_bytes(archive, bytes, note);
}

/* What the files say of themselves must be true. */
static enum err state_end(struct archive *archive, struct note *note)
{
    const struct fleet_meta *meta = &archive->meta;
    struct fleet *fleet = fleet_machine_fleet(archive->fleet);
    struct fleet_state_summary summary;
    struct backup_head *head = &archive->facts.head;
    enum err err = fleet_state_read_end(archive->state, &summary, note);

    if (!err && meta->size != 0 && meta->size != archive->state_bytes) {
        note_set(note, "state has %" PRIu64 " bytes, meta.json says %" PRIu64, archive->state_bytes,
                 meta->size);
        err = ERR_CORRUPT;
    }
    if (!err && summary.sealed &&
        (summary.hash != fleet_hash(fleet) || summary.index != meta->index)) {
        note_set(note, "state is sealed with another hash or index than it has");
        err = ERR_CORRUPT;
    }
    if (err) {
        note_prefix(note, "%s", archive->path);
        return err;
    }
    archive->facts.dropped = summary.dropped;
    *head = (struct backup_head){.index = meta->index,
                                 .term = meta->term,
                                 .level = LEVEL_FIRST,
                                 .section_count = 1,
                                 .sections = {{.id = FLEET_MACHINE_ID,
                                               .version = FLEET_FIRST_VERSION,
                                               .name = "fleet",
                                               .hash = fleet_hash(fleet),
                                               .bytes = archive->state_bytes}}};
    err = check_head(head, note);
    if (err) note_prefix(note, "%s", archive->path);
    return err;
}

static enum err read_directory(struct archive *archive, struct note *note)
{
    char path[FS_PATH_CAP + 16];
    struct buf json;
    enum err err;

    archive->facts.kind = ARCHIVE_DIRECTORY;
    buf_init(&json, FLEET_META_BYTES_MAX);
    snprintf(path, sizeof path, "%s/meta.json", archive->path);
    err = fs_read_whole(archive->fs, path, FLEET_META_BYTES_MAX, &json);
    if (err)
        note_set(note, "read %s: %s", path, err_text(err));
    else if ((err = fleet_meta_read(buf_peek(&json), &archive->meta, note)))
        note_prefix(note, "%s", path);
    buf_deinit(&json);
    if (!err) err = state_begin(archive);
    snprintf(path, sizeof path, "%s/state", archive->path);
    if (!err) err = each_step(archive, path, state_step, NULL, note);
    return err ? err : state_end(archive, note);
}

static enum err tar_step(struct archive *archive, void *reader, struct str bytes, struct note *note)
{
    (void)archive;
    return fleet_archive_read(reader, bytes, note);
}

static enum err read_tar(struct archive *archive, struct note *note)
{
    struct fleet_archive_reader *reader;
    uint64_t size;
    enum err err = state_begin(archive);

    archive->facts.kind = ARCHIVE_TAR;
    if (!err) err = fleet_archive_open(state_bytes, archive, &reader);
    if (err) return err;
    err = each_step(archive, archive->path, tar_step, reader, note);
    if (!err && (err = fleet_archive_end(reader, &archive->meta, &size, note)))
        note_prefix(note, "%s", archive->path);
    fleet_archive_close(reader);
    return err ? err : state_end(archive, note);
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

static enum err backup_step(struct archive *archive, void *reader, struct str bytes,
                            struct note *note)
{
    (void)archive;
    return backup_read(reader, bytes, note);
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
    err = each_step(archive, archive->path, backup_step, reader, note);
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
    if (info.kind == FS_DIRECTORY) return read_directory(archive, note);
    err = first_bytes(archive, &is_backup, note);
    if (err) return err;
    return is_backup ? read_backup(archive, note) : read_tar(archive, note);
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

static void end_view(struct archive *archive)
{
    if (archive->view) archive->machines[archive->machine].ops->snapshot_end(archive->view);
    archive->view = NULL;
}

void archive_close(struct archive *archive)
{
    if (!archive) return;
    end_view(archive);
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

/* Fills `slice` from the machine whose turn it is; its end is found by an empty one. */
static enum err next_slice(struct archive *archive)
{
    enum err err = ERR_OK;

    while (!err && archive->slice.len == 0 && archive->machine < archive->machine_count) {
        const struct machine *machine = &archive->machines[archive->machine];
        bool is_last = is_left_out(machine);
        if (!is_last && !archive->view)
            err = machine->ops->snapshot_begin(machine->state, archive->facts.head.index,
                                               &archive->view);
        if (!is_last && !err)
            err = machine->ops->snapshot_next(archive->view, READ_BYTES, &archive->slice, &is_last);
        archive->slice_section = machine->id;
        if (err || !is_last) break;
        end_view(archive);
        archive->machine++;
    }
    return err;
}

static enum err next(void *owner, uint32_t *ret_section, struct buf *into, struct note *note)
{
    struct archive *archive = owner;
    size_t len;
    enum err err = next_slice(archive);

    if (err) {
        note_set(note, "section %s: %s", archive->machines[archive->machine].name, err_text(err));
        return err;
    }
    if (archive->slice.len == 0) {
        *ret_section = DATADIR_SECTIONS_END;
        return ERR_OK;
    }
    *ret_section = archive->slice_section;
    len = min_size(archive->slice.len, DATADIR_SECTION_BYTES_MAX);
    err = buf_append(into, str_of(archive->slice.data, len));
    if (err)
        note_set(note, "section %" PRIu32 ": %s", archive->slice_section, err_text(err));
    else
        buf_consume(&archive->slice, len);
    return err;
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
    enum err err;

    archive->machine = 0;
    buf_clear(&archive->slice);
    recover(archive, options);
    err = datadir_restore(&restore, ret_datadir, note);
    end_view(archive);
    return err;
}
