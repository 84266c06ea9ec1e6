/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of partitions: one current record per partition, replaced atomically and guarded by
 * the grant epoch, the token.
 *
 * A store only knows bytes and versions. It reads the content of a partition, and replaces the
 * content only if its version is still the one that the writer saw last. The protocol on top: a
 * worker that is granted a partition first CLAIMS it, by writing its token next to the newest
 * checkpoint. From then on a write of an older owner finds an unexpected version, reads the record,
 * sees the higher token and is refused, however late that owner resumes. Therefore a new owner that
 * has loaded a checkpoint knows that nobody else adds to it.
 *
 * A write can succeed, fail or have an unknown outcome. If the answer was lost, the record is read
 * back to find out.
 *
 * Calls block. Processing thread only. */
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

/* -- the interface of a store -- */
struct checkpoint_version {
    char text[CHECKPOINT_VERSION_CAP]; /* empty: there is no content */
};
struct checkpoint_store;
struct checkpoint_store_ops {
    /* Reads the newest complete content. ERR_NOT_FOUND: there is none, and *ret_version is the
     * version of no content. */
    enum err (*read)(struct checkpoint_store *store, uint32_t partition, struct buf *into,
                     struct checkpoint_version *ret_version, struct note *note);
    /* Replaces the content of version `expected`. ERR_CONFLICT: the store has a different version.
     * ERR_UNKNOWN: the write may have been applied. */
    enum err (*write)(struct checkpoint_store *store, uint32_t partition,
                      const struct checkpoint_version *expected, struct str content,
                      struct checkpoint_version *ret_version, struct note *note);
    void (*close)(struct checkpoint_store *store);
};
struct checkpoint_store { /* must be the first field of every store's struct */
    const struct checkpoint_store_ops *ops;
    char url[CHECKPOINT_REFERENCE_CAP];
};

/* Opens a store by its URL: "file:///dir" or "s3://bucket/prefix" (keys and endpoint from the
 * environment, see docs/workers.md). Does not access the store yet. ERR_INVALID with a note that
 * says what would be valid. */
enum err checkpoint_store_open(struct fs *fs, const char *url, struct checkpoint_store **ret_store,
                               struct note *note);
void checkpoint_store_close(struct checkpoint_store *store); /* NULL is fine */

/* -- a partition, as its owner sees it -- */
struct checkpoint {
    uint32_t partition;
    uint64_t token;             /* token of the owner; never decreases */
    uint64_t number;            /* checkpoints written for the partition so far, by all owners */
    char id[CHECKPOINT_ID_CAP]; /* "ckpt-<worker>-<n>"; empty: no checkpoint yet */
    struct checkpoint_version version;
};
/* Claims the partition under `token` and loads the newest checkpoint into `tally` (empty if there
 * is none). ERR_FENCED: the partition is claimed under a higher token. ERR_CORRUPT: the record is
 * unreadable. Other errors come from the store. */
enum err checkpoint_claim(struct checkpoint_store *store, uint32_t partition, uint64_t token,
                          const char *worker, wall_time now, struct partition_tally *tally,
                          struct checkpoint *ret_checkpoint, struct note *note);
/* Called just before sending, and before each retry. False aborts the write with ERR_FENCED. */
typedef bool checkpoint_may_fn(void *owner);
/* Writes the next checkpoint. ERR_FENCED: another worker has the partition, or may() returned
 * false; nothing was written, or the write does not count. ERR_UNKNOWN: the outcome could not be
 * read back; claim the partition again. */
enum err checkpoint_commit(struct checkpoint_store *store, struct checkpoint *checkpoint,
                           const char *worker, wall_time now, const struct partition_tally *tally,
                           checkpoint_may_fn *may, void *owner, struct note *note);
/* The reference sent to the service: "file:///dir/00000007#ckpt-<worker>-<n>". */
void checkpoint_reference(const struct checkpoint_store *store, const struct checkpoint *checkpoint,
                          char text[CHECKPOINT_REFERENCE_CAP]);

/* -- for the implementations of stores -- */
enum err checkpoint_file_open(struct fs *fs, const char *dir, struct checkpoint_store **ret_store,
                              struct note *note);
enum err checkpoint_s3_open(struct str bucket_and_prefix, struct checkpoint_store **ret_store,
                            struct note *note);
/* Checks a record and its checksum, two lines. False: cut off or damaged. */
bool checkpoint_complete(struct str content);
#endif
