/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of partitions: one current record for each, replaced in one step, and guarded by
 * the grant epoch, the token.
 *
 * A store knows bytes and versions and nothing else: it reads what a partition has, and
 * replaces it only if it is still what the writer last saw. On top of that: who is granted a
 * partition first CLAIMS it, which writes its token beside the newest checkpoint; from then on
 * every write of an older owner finds another version than it expects, looks, sees the higher
 * token and is refused, however late it wakes. So a successor that has loaded a checkpoint knows
 * that nobody adds to it.
 *
 * Done, not done, don't know: a write whose answer was lost is looked up before it counts as
 * either.
 *
 * Calls block: for the processing thread only. */
#ifndef WORKER_CHECKPOINT_H
#define WORKER_CHECKPOINT_H
#include "base/buf.h"
#include "base/note.h"
#include "base/time.h"
#include "io/fs.h"
#include "worker/tally.h"

enum {
    CHECKPOINT_BYTES_MAX = 64 << 20,
    CHECKPOINT_ID_CAP = 160,
    CHECKPOINT_REFERENCE_CAP = 512,
    CHECKPOINT_VERSION_CAP = 128,
};

/* -- what a store is -- */
struct checkpoint_version {
    char text[CHECKPOINT_VERSION_CAP]; /* empty: there is nothing */
};
struct checkpoint_store;
struct checkpoint_store_ops {
    /* The newest complete content. ERR_NOT_FOUND: there is none, and *ret_version says so. */
    enum err (*read)(struct checkpoint_store *store, uint32_t partition, struct buf *into,
                     struct checkpoint_version *ret_version, struct note *note);
    /* Replaces the content that `expected` names. ERR_CONFLICT: something else is there now;
     * ERR_UNKNOWN: may have been done. */
    enum err (*write)(struct checkpoint_store *store, uint32_t partition,
                      const struct checkpoint_version *expected, struct str content,
                      struct checkpoint_version *ret_version, struct note *note);
    void (*close)(struct checkpoint_store *store);
};
struct checkpoint_store { /* first in every store's own */
    const struct checkpoint_store_ops *ops;
    char url[CHECKPOINT_REFERENCE_CAP];
};

/* By the address: "file:///dir" or "s3://bucket/prefix" (keys and endpoint from the environment,
 * see docs/workers.md). Nothing is reached for yet. ERR_INVALID with a note that says what would
 * do. */
enum err checkpoint_store_open(struct fs *fs, const char *url, struct checkpoint_store **ret_store,
                               struct note *note);
void checkpoint_store_close(struct checkpoint_store *store); /* NULL is fine */

/* -- a partition as its owner has it -- */
struct checkpoint {
    uint32_t partition;
    uint64_t token;             /* of the owner; never falls */
    uint64_t number;            /* of checkpoints written for the partition so far, by whomever */
    char id[CHECKPOINT_ID_CAP]; /* "ckpt-<worker>-<n>"; empty: none was written yet */
    struct checkpoint_version version;
};
/* Takes the partition under `token` and loads the newest checkpoint into `tally` (empty when there
 * is none). ERR_FENCED: it was claimed under a higher one; ERR_CORRUPT: what is there cannot be
 * read; else what the store answers. */
enum err checkpoint_claim(struct checkpoint_store *store, uint32_t partition, uint64_t token,
                          const char *worker, wall_time now, struct partition_tally *tally,
                          struct checkpoint *ret_checkpoint, struct note *note);
/* Asked just before the bytes go out, and again before each further try: false ends it with
 * ERR_FENCED. */
typedef bool checkpoint_may_fn(void *owner);
/* The next checkpoint. ERR_FENCED: somebody else has the partition, or may() said no; nothing was
 * written, or it does not count. ERR_UNKNOWN: not even looking helped; claim again. */
enum err checkpoint_commit(struct checkpoint_store *store, struct checkpoint *checkpoint,
                           const char *worker, wall_time now, const struct partition_tally *tally,
                           checkpoint_may_fn *may, void *owner, struct note *note);
/* What the service is sent: "file:///dir/00000007#ckpt-<worker>-<n>". */
void checkpoint_reference(const struct checkpoint_store *store, const struct checkpoint *checkpoint,
                          char text[CHECKPOINT_REFERENCE_CAP]);

/* -- for the stores -- */
enum err checkpoint_file_open(struct fs *fs, const char *dir, struct checkpoint_store **ret_store,
                              struct note *note);
enum err checkpoint_s3_open(struct str bucket_and_prefix, struct checkpoint_store **ret_store,
                            struct note *note);
/* A record and its checksum, two lines; false: cut short or damaged. */
bool checkpoint_complete(struct str content);
#endif
