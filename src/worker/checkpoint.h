/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of partitions. Each partition has one current record with the owner's token (the
 * grant epoch). Calls block, on the processing thread.
 *
 * A store replaces a record only if its version is still the expected one. A worker that is granted
 * a partition first claims the partition: the worker writes its token next to the newest
 * checkpoint. A late write of an older owner then finds another version, reads the higher token and
 * fails. So only one worker can write after a claim.
 *
 * If the store's answer to a write was lost, the record is read back. */
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

/* -- the interface that every store implements -- */
struct checkpoint_version {
    char text[CHECKPOINT_VERSION_CAP];
};
struct checkpoint_store;
struct checkpoint_store_ops {
    /* Reads the newest complete content. ERR_NOT_FOUND: no content; *ret_version is the version to
     * expect in the first write. */
    enum err (*read)(struct checkpoint_store *store, uint32_t partition, struct buf *into,
                     struct checkpoint_version *ret_version, struct note *note);
    /* Replaces the content if its version is `expected`. ERR_CONFLICT: another version.
     * ERR_UNKNOWN: the content may have been replaced. */
    enum err (*write)(struct checkpoint_store *store, uint32_t partition,
                      const struct checkpoint_version *expected, struct str content,
                      struct checkpoint_version *ret_version, struct note *note);
    void (*close)(struct checkpoint_store *store);
};
struct checkpoint_store { /* the first field in the struct of every store */
    const struct checkpoint_store_ops *ops;
    char url[CHECKPOINT_REFERENCE_CAP];
};

/* Opens a store: "file:///dir" or "s3://bucket/prefix", with keys and endpoint from the environment
 * (docs/workers.md). Does not access the store yet. ERR_INVALID with a note. */
enum err checkpoint_store_open(struct fs *fs, const char *url, struct checkpoint_store **ret_store,
                               struct note *note);
void checkpoint_store_close(struct checkpoint_store *store); /* NULL is fine */

/* -- the checkpoint of a partition, for its owner -- */
struct checkpoint {
    uint32_t partition;
    uint64_t token;             /* the owner's token; never decreases */
    uint64_t number;            /* checkpoints of the partition so far, by all owners */
    char id[CHECKPOINT_ID_CAP]; /* "ckpt-<worker>-<n>"; empty: no checkpoint yet */
    struct checkpoint_version version;
};
/* Claims the partition under `token` and loads the newest checkpoint, if any, into `tally`. Also
 * returns errors of the store.
 *   ERR_FENCED    the partition is claimed under a higher token
 *   ERR_CORRUPT   the record is unreadable */
enum err checkpoint_claim(struct checkpoint_store *store, uint32_t partition, uint64_t token,
                          const char *worker, wall_time now, struct partition_tally *tally,
                          struct checkpoint *ret_checkpoint, struct note *note);
/* Called before each attempt to write. False: the write ends with ERR_FENCED. */
typedef bool checkpoint_may_fn(void *owner);
/* Writes the next checkpoint.
 *   ERR_FENCED    another worker has the partition, or may() was false; nothing was written
 *   ERR_UNKNOWN   the outcome could not be read back: claim the partition again */
enum err checkpoint_commit(struct checkpoint_store *store, struct checkpoint *checkpoint,
                           const char *worker, wall_time now, const struct partition_tally *tally,
                           checkpoint_may_fn *may, void *owner, struct note *note);
/* The reference for the coordinator: "file:///dir/00000007#ckpt-<worker>-<n>". */
void checkpoint_reference(const struct checkpoint_store *store, const struct checkpoint *checkpoint,
                          char text[CHECKPOINT_REFERENCE_CAP]);

/* -- constructors of the two kinds of store -- */
enum err checkpoint_file_open(struct fs *fs, const char *dir, struct checkpoint_store **ret_store,
                              struct note *note);
enum err checkpoint_s3_open(struct str bucket_and_prefix, struct checkpoint_store **ret_store,
                            struct note *note);
/* True if the content is a complete record: two lines, the second with the checksum. */
bool checkpoint_complete(struct str content);
#endif
