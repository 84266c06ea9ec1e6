/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl snapshot, backup and restore: save the coordinators' state as files and restore it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/help.h"
#include "common/program.h"
#include "common/restore_archive.h"
#include "common/tables.h"
#include "fleet/save_file.h"
#include "io/clock.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"

enum { PROGRESS_MS = 500 };

/* -- saving -- */

struct saving {
    struct save_file *file;
    uint64_t bytes, shown_ms;
};

/* Twice a second, on a terminal. The command's last line overwrites it. */
static void snapshot_show_progress(struct saving *saving, size_t bytes)
{
    uint64_t now = clock_mono(clock_real()).ms;

    saving->bytes += bytes;
    if (now - saving->shown_ms < PROGRESS_MS || !isatty(STDERR_FILENO)) return;
    saving->shown_ms = now;
    fprintf(stderr, "\r%" PRIu64 " KiB received\r", saving->bytes / 1024);
}

/* Chunks of backups and of snapshots have the same wire format. */
static enum err snapshot_on_chunk(void *owner, const ProtobufCMessage *message, struct note *note)
{
    const Bigfleet__V1alpha1__SnapshotSaveChunk *chunk = (const void *)message;
    struct saving *saving = owner;

    snapshot_show_progress(saving, chunk->payload_case ==
                                           BIGFLEET__V1ALPHA1__SNAPSHOT_SAVE_CHUNK__PAYLOAD_DATA
                                       ? chunk->data.len
                                       : 0);
    if (chunk->payload_case == BIGFLEET__V1ALPHA1__SNAPSHOT_SAVE_CHUNK__PAYLOAD_META_JSON)
        return save_meta(saving->file, ctl_view(chunk->meta_json), note);
    if (chunk->payload_case == BIGFLEET__V1ALPHA1__SNAPSHOT_SAVE_CHUNK__PAYLOAD_DATA)
        return save_data(saving->file, ctl_view(chunk->data), note);
    return save_data(saving->file, STR_EMPTY, note);
}

static void snapshot_print_saved(struct ctl *ctl, const char *what, const char *path,
                                 const struct save_facts *facts)
{
    if (!ctl->json) {
        ctl_line(ctl, "saved %s index=%" PRIu64 " term=%" PRIu64 " to %s", what, facts->index,
                 facts->term, path);
        return;
    }
    struct ndjson *json = ctl_json_begin(ctl);
    ndjson_c_string(json, STR("result"), "saved");
    ndjson_c_string(json, STR("kind"), what);
    ndjson_u64(json, STR("index"), facts->index);
    ndjson_u64(json, STR("term"), facts->term);
    ndjson_u64(json, STR("bytes"), facts->bytes);
    ndjson_c_string(json, STR("file"), path);
    ctl_json_end(ctl);
}

static enum err snapshot_save_as(struct ctl *ctl, enum save_kind kind, const char *path)
{
    static const struct remote_method methods[] = {
        [SAVE_SNAPSHOT] = {COORDINATOR_PATH "SnapshotSave",
                           &bigfleet__v1alpha1__snapshot_save_chunk__descriptor, REMOTE_READ, NULL},
        [SAVE_BACKUP] = {FLEET_PATH "Backup", &bigfleet__v1alpha1__snapshot_save_chunk__descriptor,
                         REMOTE_READ, NULL},
    };
    struct save_facts facts;
    struct saving saving = {.file = NULL};
    enum err err =
        save_open(fs_real(), path, kind, entropy_u64(entropy_real()), &saving.file, &ctl->note);

    if (err) return err;
    err = remote_stream(ctl->remote, &methods[kind], NULL, snapshot_on_chunk, &saving, &ctl->note);
    if (err) {
        save_abandon(saving.file);
        return err;
    }
    err = save_finish(saving.file, &facts, &ctl->note);
    if (!err)
        snapshot_print_saved(ctl, kind == SAVE_SNAPSHOT ? "snapshot" : "backup", path, &facts);
    return err;
}

static enum err snapshot_save(struct ctl *ctl)
{
    return snapshot_save_as(ctl, SAVE_SNAPSHOT, conf_argument(ctl->conf, 0));
}

/* -- restoring -- */

/* Replaces the contents of the data directory without asking, as BigFleet's command does. */
static enum err snapshot_restore(struct ctl *ctl)
{
    return restore_archive(ctl->conf, conf_text(ctl->conf, "node-id"), true, ctl->json, &ctl->out,
                           &ctl->note);
}

const struct command snapshot_command =
    COMMAND_TREE(HELP_MUSTERCTL_SNAPSHOT,
                 COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_SNAPSHOT_SAVE, ctl, "FILE", 1, 1),
                         CTL_ACT(BIT(5), snapshot_save)),
                 COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_SNAPSHOT_RESTORE, snapshot_restore,
                                          "FILE-OR-DIR", 1, 1),
                         CTL_OFFLINE(BIT(4) | BIT(5), snapshot_restore)));

/* -- backup -- */

static bool snapshot_wants_verify(const struct conf *conf)
{
    return strcmp(conf_argument(conf, 0), "verify") == 0;
}

enum err backup_act(struct ctl *ctl)
{
    size_t count = conf_argument_count(ctl->conf);

    if (snapshot_wants_verify(ctl->conf) && count == 2)
        return verify_archive(conf_argument(ctl->conf, 1), ctl->json, &ctl->out, &ctl->note);
    if (count == 1 && !snapshot_wants_verify(ctl->conf))
        return snapshot_save_as(ctl, SAVE_BACKUP, conf_argument(ctl->conf, 0));
    return ctl_fail(ctl, ERR_INVALID, "say `backup FILE` or `backup verify FILE`");
}
