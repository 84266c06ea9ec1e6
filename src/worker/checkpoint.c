/* SPDX-License-Identifier: Apache-2.0 */
/* Claims and commits of checkpoints, for any store. Every record has a checksum and the owner's
 * token. After a conflict or a lost answer the record is read back. */
#include "worker/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/hex.h"
#include "text/ndjson.h"

enum {
    TRIES_MAX = 8,
    CLAIMS_MAX = 64, /* retries while another owner keeps writing */
    CHECKSUM_LINE = 9,
};

enum err checkpoint_store_open(struct fs *fs, const char *url, struct checkpoint_store **ret_store,
                               struct note *note)
{
    struct str text = str_from(url);
    enum err err;

    if (str_starts(text, STR("file:///")))
        err = checkpoint_file_open(fs, url + sizeof "file://" - 1, ret_store, note);
    else if (str_starts(text, STR("s3://")))
        err = checkpoint_s3_open(str_tail(text, sizeof "s3://" - 1), ret_store, note);
    else {
        return note_fail(note, ERR_INVALID,
                         "checkpoint store '%s' is none: file:///dir or s3://bucket/prefix", url);
    }
    if (err) {
        note_prefix(note, "checkpoint store %s", url);
        return err;
    }
    if (snprintf((*ret_store)->url, CHECKPOINT_REFERENCE_CAP, "%s", url) >=
        CHECKPOINT_REFERENCE_CAP / 2) {
        checkpoint_store_close(*ret_store);
        return note_fail(note, ERR_INVALID, "checkpoint store: the address is too long");
    }
    return ERR_OK;
}

void checkpoint_store_close(struct checkpoint_store *store)
{
    if (store) store->ops->close(store);
}

void checkpoint_reference(const struct checkpoint_store *store, const struct checkpoint *checkpoint,
                          char text[CHECKPOINT_REFERENCE_CAP])
{
    text[0] = '\0';
    if (checkpoint->id[0])
        snprintf(text, CHECKPOINT_REFERENCE_CAP, "%.*s/%08" PRIu32 "#%s",
                 CHECKPOINT_REFERENCE_CAP / 2, store->url, checkpoint->partition, checkpoint->id);
}

/* -- the record -- */

bool checkpoint_complete(struct str content)
{
    uint64_t sum;

    if (content.len <= CHECKSUM_LINE || content.at[content.len - 1] != '\n') return false;
    content.len -= CHECKSUM_LINE;
    return hex_read(str_of(content.at + content.len, 8), &sum) &&
           sum == crc32c(0, content.at, content.len);
}

static enum err write_record(const struct checkpoint *checkpoint, const char *worker, wall_time now,
                             const struct partition_tally *tally, struct buf *into)
{
    struct ndjson line;
    enum err err, ended;

    buf_clear(into);
    ndjson_begin(&line, into, NDJSON_LINE);
    ndjson_c_string(&line, STR("checkpoint_id"), checkpoint->id);
    ndjson_c_string(&line, STR("worker_id"), worker);
    ndjson_u64(&line, STR("partition_id"), checkpoint->partition);
    ndjson_u64(&line, STR("timestamp_ns"), now.ms * NS_PER_MS);
    ndjson_u64(&line, STR("epoch"), checkpoint->token);
    ndjson_u64(&line, STR("number"), checkpoint->number);
    err = tally_write(tally, &line);
    ndjson_u64(&line, STR("node_count"), 1);
    ended = ndjson_end(&line);
    if (!err) err = ended;
    if (!err) err = buf_appendf(into, "%08" PRIx32 "\n", crc32c(0, into->data, into->len));
    return err;
}

static enum err read_facts(const struct json *json, struct checkpoint *checkpoint,
                           struct note *note)
{
    struct str id;
    enum err err = json_get_u64(json, "epoch", &checkpoint->token, note);

    if (!err) err = json_get_u64(json, "number", &checkpoint->number, note);
    if (!err) err = json_get_string(json, "checkpoint_id", &id, note);
    if (!err && id.len >= CHECKPOINT_ID_CAP) err = ERR_TOO_LARGE;
    if (!err) snprintf(checkpoint->id, sizeof checkpoint->id, "%.*s", STR_ARG(id));
    return err;
}

static enum err read_record(struct str content, struct checkpoint *checkpoint,
                            struct partition_tally *tally, struct note *note)
{
    struct json *json = NULL;
    enum err err;

    if (!checkpoint_complete(content))
        return note_fail(note, ERR_CORRUPT, "its checksum does not match");
    err = json_open(str_of(content.at, content.len - CHECKSUM_LINE), CHECKPOINT_BYTES_MAX, &json,
                    note);
    if (!err) err = read_facts(json, checkpoint, note);
    if (!err && tally) err = tally_read(tally, json, note);
    json_close(json);
    return !err || err == ERR_NOMEM ? err : ERR_CORRUPT;
}

/* Reads the partition's record. No record: ERR_OK and an empty version. */
static enum err checkpoint_look(struct checkpoint_store *store, uint32_t partition,
                                struct buf *content, struct checkpoint *ret_now,
                                struct partition_tally *tally, struct note *note)
{
    struct checkpoint now = {.partition = partition};
    enum err err;

    buf_clear(content);
    err = store->ops->read(store, partition, content, &now.version, note);
    if (!err) {
        err = read_record(buf_peek(content), &now, tally, note);
    } else if (err == ERR_NOT_FOUND) {
        err = ERR_OK;
    }
    if (!err) *ret_now = now;
    return err;
}

static enum err checkpoint_fenced(const struct checkpoint *now, uint64_t token, struct note *note)
{
    return note_fail(note, ERR_FENCED,
                     "partition %" PRIu32 " was claimed under epoch %" PRIu64 ", ours is %" PRIu64,
                     now->partition, now->token, token);
}

static enum err checkpoint_claim_once(struct checkpoint_store *store, uint32_t partition,
                                      uint64_t token, const char *worker, wall_time time,
                                      struct partition_tally *tally,
                                      struct checkpoint *ret_checkpoint, struct buf *content,
                                      struct note *note)
{
    struct checkpoint now;
    enum err err = checkpoint_look(store, partition, content, &now, tally, note);

    if (err) return err;
    if (now.token > token) return checkpoint_fenced(&now, token, note);
    now.token = token;
    err = write_record(&now, worker, time, tally, content);
    if (!err)
        err = store->ops->write(store, partition, &now.version, buf_peek(content), &now.version,
                                note);
    if (!err) *ret_checkpoint = now;
    return err;
}

enum err checkpoint_claim(struct checkpoint_store *store, uint32_t partition, uint64_t token,
                          const char *worker, wall_time now, struct partition_tally *tally,
                          struct checkpoint *ret_checkpoint, struct note *note)
{
    struct buf content;
    enum err err = ERR_CONFLICT;

    buf_init(&content, CHECKPOINT_BYTES_MAX + 1);
    /* A second claim is harmless, so claim again after an unknown outcome, too. */
    for (int i = 0; i < CLAIMS_MAX && (err == ERR_CONFLICT || err == ERR_UNKNOWN); i++)
        err = checkpoint_claim_once(store, partition, token, worker, now, tally, ret_checkpoint,
                                    &content, note);
    buf_deinit(&content);
    if (err && err != ERR_FENCED) note_prefix(note, "claim partition %" PRIu32, partition);
    return err;
}

/* Reads the record back after a conflict or an unknown outcome. ERR_OK: the record was written.
 * ERR_CONFLICT: it was not written, so the caller must retry. */
static enum err checkpoint_settle(struct checkpoint_store *store, struct checkpoint *next,
                                  struct buf *seen, struct str written, struct note *note)
{
    struct checkpoint now = {.partition = next->partition};
    enum err err = checkpoint_look(store, next->partition, seen, &now, NULL, note);

    if (err) return err == ERR_NOMEM ? err : ERR_UNKNOWN;
    if (str_equal(buf_peek(seen), written)) {
        next->version = now.version;
        return ERR_OK;
    }
    if (strcmp(now.version.text, next->version.text) == 0) return ERR_CONFLICT;
    return checkpoint_fenced(&now, next->token, note);
}

enum err checkpoint_commit(struct checkpoint_store *store, struct checkpoint *checkpoint,
                           const char *worker, wall_time now, const struct partition_tally *tally,
                           checkpoint_may_fn *may, void *owner, struct note *note)
{
    struct checkpoint next = *checkpoint;
    struct buf content, seen;
    enum err err;

    next.number++;
    if ((size_t)snprintf(next.id, sizeof next.id, "ckpt-%s-%" PRIu64, worker, next.number) >=
        sizeof next.id)
        return ERR_INVALID;
    buf_init(&content, CHECKPOINT_BYTES_MAX);
    buf_init(&seen, CHECKPOINT_BYTES_MAX + 1);
    err = write_record(&next, worker, now, tally, &content);
    for (int i = 0; !err; i++) {
        if (!may(owner)) {
            note_set(note, "fenced by our own clock");
            err = ERR_FENCED;
            break;
        }
        err = store->ops->write(store, next.partition, &next.version, buf_peek(&content),
                                &next.version, note);
        if (err != ERR_CONFLICT && err != ERR_UNKNOWN) break;
        err = checkpoint_settle(store, &next, &seen, buf_peek(&content), note);
        if (err != ERR_CONFLICT || i + 1 == TRIES_MAX) break;
        err = ERR_OK;
    }
    buf_deinit(&content);
    buf_deinit(&seen);
    if (err == ERR_CONFLICT) err = ERR_UNKNOWN;
    if (!err) *checkpoint = next;
    return err;
}
