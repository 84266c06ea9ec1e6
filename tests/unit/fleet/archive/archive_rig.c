/* SPDX-License-Identifier: Apache-2.0 */
#include "archive_rig.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "fleet/format/state.h"
#include "fleet/machine.h"
#include "fleet/roster.h"
#include "log/snapfile.h"

static void fill(struct entropy *entropy, void *out, size_t len)
{
    struct sample_entropy *own = (struct sample_entropy *)entropy;
    unsigned char *at = out;

    for (size_t i = 0; i < len; i++) at[i] = (unsigned char)prng_u64(&own->prng);
}

void sample_entropy_init(struct sample_entropy *entropy, uint64_t seed)
{
    entropy->base.fill = fill;
    prng_seed(&entropy->prng, seed);
}

static void put(struct fleet *fleet, struct fleet_command command)
{
    CHECK("a row of the sample", fleet_apply(fleet, &command).status == FLEET_DONE);
}

static void fill_fleet(struct fleet *fleet, uint64_t index)
{
    for (uint64_t i = 0; i < index; i++) {
        char id[32], rack[32], cluster[32];
        int len = snprintf(id, sizeof id, "shard-%d", (int)i);
        struct str shard = str_of(id, (size_t)len);
        snprintf(rack, sizeof rack, "r-%d", (int)i);
        snprintf(cluster, sizeof cluster, "cluster-%d", (int)i);
        put(fleet, (struct fleet_command){
                       .kind = FLEET_ADD_SHARD,
                       .add_shard = {.id = shard,
                                     .address = STR("host:1"),
                                     .registered_at = {.seconds = FLEET_TIME_UNIX + 1000}}});
        put(fleet,
            (struct fleet_command){
                .kind = FLEET_ASSIGN_DOMAIN,
                .assign_domain = {.key = STR("rack"), .value = str_from(rack), .shard = shard}});
        put(fleet, (struct fleet_command){.kind = FLEET_BIND_CLUSTER,
                                          .bind_cluster = {str_from(cluster), shard}});
    }
    put(fleet, (struct fleet_command){
                   .kind = FLEET_UPSERT_PROVIDER,
                   .upsert_provider = {STR("aws"), STR("provider:7770"), STR("eu-west-1")}});
}

struct fleet *sample_fleet(uint64_t index)
{
    struct fleet *fleet;

    CHECK_OK("a fleet", fleet_open(&fleet));
    fill_fleet(fleet, index);
    return fleet;
}

uint64_t sample_hash(uint64_t index)
{
    struct fleet *fleet = sample_fleet(index);
    uint64_t hash = fleet_hash(fleet);

    fleet_close(fleet);
    return hash;
}

void sample_state(uint64_t index, struct buf *into)
{
    struct fleet *fleet = sample_fleet(index);
    struct fleet_state_style style = {.sealed = true, .index = index};
    struct fleet_state_writer *writer;
    bool done = false;

    CHECK_OK("a writer", fleet_state_write_open(fleet, style, &writer));
    while (!done) CHECK_OK("state", fleet_state_write_next(writer, 1000, into, &done));
    fleet_state_write_close(writer);
    fleet_close(fleet);
}

struct fleet_meta sample_meta(uint64_t index)
{
    struct fleet_meta meta = {.index = index,
                              .term = SAMPLE_TERM,
                              .configuration_index = 1,
                              .created_ms = 1794764400000 + index};
    struct buf state;

    buf_init(&state, 1 << 20);
    sample_state(index, &state);
    meta.size = state.len;
    buf_deinit(&state);
    return meta;
}

/* -- a backup -- */

static void put_machine(const struct state_machine *machine, uint64_t index,
                        struct snap_stream *stream, struct buf *into)
{
    void *view;
    bool done = false;
    struct buf slice;

    buf_init(&slice, 1 << 20);
    CHECK_OK("view", machine->ops->snapshot_begin(machine->state, index, &view));
    while (!done) {
        buf_clear(&slice);
        CHECK_OK("slice", machine->ops->snapshot_next(view, 300, &slice, &done));
        if (slice.len > 0)
            CHECK_OK("chunk", snap_stream_chunk(stream, machine->id, buf_peek(&slice), into));
    }
    machine->ops->snapshot_end(view);
    buf_deinit(&slice);
}

static void fill_roster(struct state_machine *machine)
{
    struct roster_command command = {
        .op = ROSTER_PUT,
        .entry = {.id = 5, .name = "node-0", .grpc = "127.0.0.1:7790", .http = ""}};
    struct buf bytes, reply;
    struct machine_entry entry = {.index = 1, .term = 1, .version = 1, .level = 1};

    buf_init(&bytes, ROSTER_COMMAND_MAX);
    buf_init(&reply, 64);
    CHECK_OK("roster", roster_encode(&command, &bytes));
    entry.command = buf_peek(&bytes);
    CHECK_OK("known", machine->ops->apply(machine->state, &entry, &reply, NULL));
    CHECK_OK("taken", roster_reply(buf_peek(&reply)));
    buf_deinit(&bytes);
    buf_deinit(&reply);
}

void sample_backup(uint64_t index, struct buf *into)
{
    struct fleet_machine_options options = {0};
    struct fleet_machine *fleet;
    struct roster *roster;
    struct state_machine machines[2];
    struct snap_stream stream;
    struct snap_head head = {.mark = {.index = index, .term = SAMPLE_TERM},
                             .cluster_id = 0xc1,
                             .clock_ns = UINT64_MAX - 3,
                             .level = 1};
    char made[BACKUP_MADE_BYTES];

    CHECK_OK("fleet", fleet_machine_open(&options, &fleet));
    CHECK_OK("roster", roster_open(&roster));
    machines[0] = fleet_machine_registration(fleet);
    machines[1] = roster_registration(roster);
    fill_fleet(fleet_machine_fleet(fleet), index);
    fill_roster(&machines[1]);
    store_le64(made, 1794764400000);
    CHECK_OK("head", snap_stream_begin(&stream, &head, into));
    CHECK_OK("made",
             snap_stream_chunk(&stream, BACKUP_SECTION_MADE, str_of(made, sizeof made), into));
    for (size_t i = 0; i < 2; i++) put_machine(&machines[i], index, &stream, into);
    CHECK_OK("end", snap_stream_end(&stream, into));
    roster_close(roster);
    fleet_machine_close(fleet);
}

/* -- files -- */

/* The name of an export, from the time of sample_export. */
void sample_export_name(uint64_t index, char name[EXPORT_NAME_CAP])
{
    CHECK("one digit", index < 10);
    snprintf(name, EXPORT_NAME_CAP, "20261115-17400%d-%d-%d-%llu", (int)index, SAMPLE_TERM,
             (int)index, 1794764400000ull + index);
}

enum err sample_export(struct fs *fs, const char *dir, uint64_t index, struct note *note)
{
    struct fleet_meta meta = sample_meta(index);
    struct export_file *file;
    struct buf state;
    struct str rest;
    char name[EXPORT_NAME_CAP];
    enum err err =
        export_create(fs, dir, &meta, (wall_time){1794764400000 + index * 1000}, &file, note);

    if (err) return err;
    buf_init(&state, 1 << 20);
    sample_state(index, &state);
    for (rest = buf_peek(&state); !err && rest.len > 0;) {
        struct str piece = str_of(rest.at, min_size(rest.len, 700));
        err = export_write(file, piece, note);
        rest = str_tail(rest, piece.len);
    }
    buf_deinit(&state);
    if (err) {
        export_abandon(file);
        return err;
    }
    err = export_finish(file, name, note);
    if (!err) {
        char want[EXPORT_NAME_CAP];
        sample_export_name(index, want);
        CHECK_TEXT("its name", name, want);
    }
    return err;
}

enum err sample_save(struct fs *fs, const char *path, enum save_kind kind, uint64_t index,
                     struct note *note)
{
    struct fleet_meta meta = sample_meta(index);
    struct save_facts facts;
    struct save_file *file;
    struct buf bytes, json;
    enum err err = save_open(fs, path, kind, index, &file, note);

    if (err) return err;
    buf_init(&bytes, 1 << 20);
    buf_init(&json, 1 << 16);
    CHECK_OK("meta", fleet_meta_write(&meta, false, &json));
    if (kind == SAVE_SNAPSHOT)
        sample_state(index, &bytes);
    else
        sample_backup(index, &bytes);
    err = save_meta(file, buf_peek(&json), note);
    for (struct str rest = buf_peek(&bytes); !err && rest.len > 0;) {
        struct str piece = str_of(rest.at, min_size(rest.len, 900));
        err = save_data(file, piece, note);
        rest = str_tail(rest, piece.len);
    }
    buf_deinit(&bytes);
    buf_deinit(&json);
    if (err) {
        save_abandon(file);
        return err;
    }
    err = save_finish(file, &facts, note);
    if (!err) CHECK_U64("index", facts.index, index);
    return err;
}

void sample_put(struct fs *fs, const char *path, struct str bytes)
{
    static uint64_t unique;

    CHECK_OK(path, fs_publish(fs, path, bytes, 0644, ++unique));
}

uint64_t sample_index_of(struct fs *fs, const char *path, struct note *note)
{
    struct archive *archive;
    uint64_t index, hash;

    if (archive_open(fs, path, NULL, &archive, note)) return 0;
    index = archive_facts(archive)->index;
    hash = archive_facts(archive)->sections[0].hash;
    archive_close(archive);
    if (hash == sample_hash(index)) return index;
    note_set(note, "%s: whole, but not what was written", path);
    return 0;
}
