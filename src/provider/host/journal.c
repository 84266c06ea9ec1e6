/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, appends and rewrites the state file. Each batch has a checksum, and states how much of the
 * file was durable, which distinguishes a torn tail from damage. Blocking: runs on the state worker
 * after journal_open(). */
#include "provider/host/journal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc32c.h"

enum {
    VERSION = 2,
    BATCH_MAGIC = 0x68637442, /* "Btch" */
    STATE_MODE = 0600,        /* the file contains bootstrap blobs */
    WINDOW = 1 << 20,         /* bytes of one read when searching behind a damaged batch */
    PAYLOAD_MAX = INT32_MAX,
};
static const char file_magic[16] = "muster provider\n";

struct source {
    struct fs *fs;
    struct fs_file *file;
    uint64_t size;
};
struct part {
    struct fs_file *file;
    uint64_t salt, at, synced;
    bool sealed; /* the last batch is a seal: everything before it is durable */
};
struct journal {
    struct fs *fs;
    char path[FS_PATH_CAP], next_path[FS_PATH_CAP];
    struct part now, next;
    enum err failed;
};

/* --- checksums --- */

static uint32_t checksum(uint64_t salt, const void *bytes, size_t len)
{
    char begin[8];

    store_le64(begin, salt);
    return crc32c(crc32c(0, begin, sizeof begin), bytes, len);
}

static enum err read_head(const char head[JOURNAL_HEAD], uint64_t *ret_salt)
{
    uint64_t salt = load_le64(head + 24);

    if (memcmp(head, file_magic, sizeof file_magic) != 0) return ERR_CORRUPT;
    if (load_le32(head + 20) != checksum(salt, head, 20)) return ERR_CORRUPT;
    if (load_le32(head + 16) != VERSION) return ERR_VERSION;
    *ret_salt = salt;
    return ERR_OK;
}

struct batch {
    uint64_t offset, synced;
    uint32_t len, payload_sum;
};

static bool read_batch(const char *head, uint64_t salt, uint64_t offset, struct batch *ret_batch)
{
    if (load_le32(head) != BATCH_MAGIC || load_le64(head + 8) != offset) return false;
    if (load_le32(head + 28) != checksum(salt, head, 28)) return false;
    *ret_batch =
        (struct batch){offset, load_le64(head + 16), load_le32(head + 4), load_le32(head + 24)};
    return true;
}

/* --- reading batches --- */

static enum err read_at(const struct source *source, uint64_t offset, void *into, size_t len)
{
    size_t got = 0;
    enum err err = fs_read_at(source->fs, source->file, offset, into, len, &got);

    if (err) return err;
    return got == len ? ERR_OK : ERR_CORRUPT;
}

/* Searches after offset `bad` for a batch that declares the bytes at `bad` durable. */
static enum err look_behind(const struct source *source, uint64_t salt, uint64_t bad,
                            bool *ret_found)
{
    char *window = malloc(WINDOW);
    uint64_t at = bad + 1;
    enum err err = window ? ERR_OK : ERR_NOMEM;

    *ret_found = false;
    while (!err && !*ret_found && at + JOURNAL_BATCH_HEAD <= source->size) {
        size_t len = (size_t)min_u64(WINDOW, source->size - at);

        err = read_at(source, at, window, len);
        for (size_t i = 0; !err && !*ret_found && i + JOURNAL_BATCH_HEAD <= len; i++) {
            struct batch batch;
            *ret_found = read_batch(window + i, salt, at + i, &batch) && batch.synced > bad;
        }
        at += len - JOURNAL_BATCH_HEAD + 1;
    }
    free(window);
    return err;
}

/* ERR_CORRUPT: no complete batch at `offset`. */
static enum err load_batch(const struct source *source, uint64_t salt, uint64_t offset,
                           struct buf *payload, struct batch *ret_batch)
{
    char head[JOURNAL_BATCH_HEAD], *room;
    enum err err;

    if (offset + JOURNAL_BATCH_HEAD > source->size) return ERR_CORRUPT;
    err = read_at(source, offset, head, sizeof head);
    if (err) return err;
    if (!read_batch(head, salt, offset, ret_batch)) return ERR_CORRUPT;
    if (ret_batch->len > source->size - offset - JOURNAL_BATCH_HEAD) return ERR_CORRUPT;
    buf_clear(payload);
    err = buf_reserve(payload, ret_batch->len, &room);
    if (!err && ret_batch->len > 0)
        err = read_at(source, offset + JOURNAL_BATCH_HEAD, room, ret_batch->len);
    if (err) return err;
    buf_commit(payload, ret_batch->len);
    return checksum(salt, payload->data, payload->len) == ret_batch->payload_sum ? ERR_OK
                                                                                 : ERR_CORRUPT;
}

static enum err refuse_at(uint64_t offset, struct note *note)
{
    if (note->text[0])
        note_prefix(note, "damaged at offset %llu", (unsigned long long)offset);
    else
        note_set(note, "damaged at offset %llu", (unsigned long long)offset);
    return ERR_CORRUPT;
}

/* *part then describes the end of the last batch. */
static enum err read_all(const struct source *source, journal_batch_fn *each, void *context,
                         struct part *part, struct journal_report *report, struct note *note)
{
    char head[JOURNAL_HEAD];
    struct buf payload;
    struct batch batch;
    bool found = false;
    enum err err;

    if (source->size < JOURNAL_HEAD || read_at(source, 0, head, sizeof head))
        return note_fail(note, ERR_CORRUPT, "not the state of a provider: shorter than its head");
    err = read_head(head, &part->salt);
    if (err)
        return note_fail(note, err, "not the state of a provider%s",
                         err == ERR_VERSION ? " we know" : "");
    buf_init(&payload, PAYLOAD_MAX);
    part->at = JOURNAL_HEAD;
    while (part->at < source->size) {
        err = load_batch(source, part->salt, part->at, &payload, &batch);
        if (err) break;
        err = each(context, buf_peek(&payload), note);
        if (err == ERR_CORRUPT) (void)refuse_at(part->at, note);
        if (err) goto out;
        part->sealed = batch.len == 0;
        part->at += JOURNAL_BATCH_HEAD + batch.len;
    }
    if (err == ERR_CORRUPT) err = look_behind(source, part->salt, part->at, &found);
    if (found) err = refuse_at(part->at, note);
    if (!err) report->torn_bytes = source->size - part->at;
out:
    buf_deinit(&payload);
    return err;
}

/* --- opening the file --- */

static enum err sync_dir_of(struct journal *j)
{
    char dir[FS_PATH_CAP], temp[FS_PATH_CAP];
    enum err err = fs_temp_for(j->path, 0, dir, temp);

    return err ? err : fs_sync_dir(j->fs, dir);
}

/* Reads the file and syncs it, because the previous process may have been killed before its
 * sync. */
static enum err load(struct journal *j, journal_batch_fn *each, void *context,
                     struct journal_report *report, struct note *note)
{
    struct source source = {.fs = j->fs, .file = j->now.file};
    enum err err = fs_file_size(j->fs, j->now.file, &source.size);

    if (!err) err = read_all(&source, each, context, &j->now, report, note);
    if (!err && source.size > j->now.at) err = fs_truncate(j->fs, j->now.file, j->now.at);
    if (!err) err = fs_sync(j->fs, j->now.file);
    if (!err) err = sync_dir_of(j);
    j->now.synced = j->now.at;
    return err;
}

enum err journal_open(const struct journal_options *options, journal_batch_fn *each, void *context,
                      struct journal **ret_journal, struct journal_report *ret_report,
                      struct note *note)
{
    struct journal *j = calloc(1, sizeof *j);
    struct journal_report report = {0};
    struct fs_info info;
    enum err err;

    if (!j) return ERR_NOMEM;
    note->text[0] = '\0';
    j->fs = options->fs;
    if (snprintf(j->path, sizeof j->path, "%s", options->path) >= (int)sizeof j->path ||
        snprintf(j->next_path, sizeof j->next_path, "%s.next", options->path) >=
            (int)sizeof j->next_path)
        err = ERR_INVALID;
    else
        err = fs_stat(j->fs, j->path, &info);
    if (err == ERR_NOT_FOUND) {
        report.made = true;
        err = journal_rewrite(j, options->salt | 1, STR_EMPTY, true, note);
    } else if (!err) {
        err = fs_open(j->fs, j->path, FS_READ | FS_WRITE, 0, &j->now.file);
        if (!err) err = load(j, each, context, &report, note);
    }
    if (!err) {
        err = fs_remove(j->fs, j->next_path); /* left by a process that died while writing */
        if (err == ERR_NOT_FOUND) err = ERR_OK;
    }
    if (err) {
        if (note->text[0])
            note_prefix(note, "%s", options->path);
        else
            note_set(note, "%s: %s", options->path, err_text(err));
        j->failed = err;
        journal_close(j);
        return err;
    }
    *ret_journal = j;
    *ret_report = report;
    return ERR_OK;
}

static void next_drop(struct journal *j)
{
    if (!j->next.file) return;
    fs_close(j->fs, j->next.file);
    j->next = (struct part){0};
    (void)fs_remove(j->fs, j->next_path);
}

void journal_close(struct journal *j)
{
    struct note note;

    if (!j) return;
    if (!j->failed) (void)journal_seal(j, &note);
    next_drop(j);
    fs_close(j->fs, j->now.file);
    free(j);
}

uint64_t journal_size(const struct journal *j)
{
    return j->now.at;
}

bool journal_failed(const struct journal *j)
{
    return j->failed != ERR_OK;
}

/* --- appending batches --- */

static enum err write_part(struct journal *j, struct part *part, struct str payload)
{
    char head[JOURNAL_BATCH_HEAD];
    enum err err;

    if (payload.len > PAYLOAD_MAX) return ERR_TOO_LARGE;
    store_le32(head, BATCH_MAGIC);
    store_le32(head + 4, (uint32_t)payload.len);
    store_le64(head + 8, part->at);
    store_le64(head + 16, part->synced);
    store_le32(head + 24, checksum(part->salt, payload.at, payload.len));
    store_le32(head + 28, checksum(part->salt, head, 28));
    /* The order does not matter: a batch with only one of its parts is torn. */
    err = fs_write_at(j->fs, part->file, part->at, str_of(head, sizeof head));
    if (!err && payload.len > 0)
        err = fs_write_at(j->fs, part->file, part->at + sizeof head, payload);
    if (!err) part->at += sizeof head + payload.len;
    return err;
}

enum err journal_append(struct journal *j, struct str payload, struct note *note)
{
    enum err err = j->failed;

    if (!err) err = write_part(j, &j->now, payload);
    if (!err) err = fs_sync(j->fs, j->now.file);
    j->failed = err;
    if (err) return note_fail(note, err, "%s: %s", j->path, err_text(err));
    j->now.synced = j->now.at;
    j->now.sealed = payload.len == 0;
    return ERR_OK;
}

enum err journal_seal(struct journal *j, struct note *note)
{
    if (j->now.sealed || j->now.at == JOURNAL_HEAD) return j->failed;
    return journal_append(j, STR_EMPTY, note);
}

/* --- the next file (compaction) --- */

static enum err next_begin(struct journal *j, uint64_t salt)
{
    char head[JOURNAL_HEAD];
    enum err err;

    next_drop(j); /* left by an earlier try that ran out of memory */
    err = fs_open(j->fs, j->next_path, FS_READ | FS_WRITE | FS_CREATE | FS_TRUNCATE, STATE_MODE,
                  &j->next.file);
    if (err) return err;
    memcpy(head, file_magic, sizeof file_magic);
    store_le32(head + 16, VERSION);
    store_le64(head + 24, salt);
    store_le32(head + 20, checksum(salt, head, 20));
    j->next.salt = salt;
    j->next.at = JOURNAL_HEAD;
    return fs_write_at(j->fs, j->next.file, 0, str_of(head, sizeof head));
}

/* Seals the next file, so that damage in it is never taken for a torn tail. */
static enum err next_publish(struct journal *j)
{
    enum err err;

    j->next.synced = j->next.at;
    err = write_part(j, &j->next, STR_EMPTY);
    if (!err) err = fs_sync(j->fs, j->next.file);
    if (err) return err;
    j->next.sealed = true;
    err = fs_rename(j->fs, j->next_path, j->path);
    if (!err) {
        fs_close(j->fs, j->now.file);
        j->now = j->next;
        j->next = (struct part){0};
        j->now.synced = j->now.at;
        err = sync_dir_of(j);
    }
    /* The rename may not be durable, so it is unknown which file the next start finds. */
    return j->failed = err;
}

/* A next file that cannot be written only wastes disk space, and the journal has not failed. */
enum err journal_rewrite(struct journal *j, uint64_t salt, struct str payload, bool last,
                         struct note *note)
{
    enum err err = j->failed;

    if (!err && salt) err = next_begin(j, salt);
    assert(err || j->next.file);
    if (!err && payload.len > 0) err = write_part(j, &j->next, payload);
    if (!err && last) err = next_publish(j);
    if (!err) return ERR_OK;
    next_drop(j);
    return note_fail(note, err, "%s: %s", j->failed ? j->path : j->next_path, err_text(err));
}
