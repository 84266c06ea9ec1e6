/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated disk with a data directory, and the expected content of its log. The content of an
 * entry follows from its index and term, so numbers are enough to compare every byte. */
#ifndef TESTS_UNIT_LOG_DISK_RIG_H
#define TESTS_UNIT_LOG_DISK_RIG_H
#include "base/prng.h"
#include "io/clock.h"
#include "lib/test.h"
#include "log/wal.h"
#include "sim/sim_fs.h"

#define RIG_DIR "/data"
enum { RIG_SEGMENT = 64 << 10, RIG_ENTRIES_MAX = 4096, RIG_REPLICA = 77, RIG_CLUSTER = 99 };

struct rig_entropy {
    struct entropy base;
    struct prng prng;
};
void rig_entropy_init(struct rig_entropy *entropy, uint64_t seed);

/* The content of a log, as a state machine of its records computes it. */
struct rig_log {
    uint64_t base, base_term; /* of the last reset, or just before the first entry */
    uint64_t wrong;           /* index of an entry that was found with other bytes; 0 */
    size_t count;
    struct rig_entry {
        uint64_t index, term;
        size_t len;
        enum entry_kind kind;
        struct wal_place place;
    } at[RIG_ENTRIES_MAX];
};
void rig_log_put(struct rig_log *log, uint64_t index, uint64_t term, enum entry_kind kind,
                 size_t len);
void rig_log_reset(struct rig_log *log, uint64_t index, uint64_t term);
/* Equal up to the last entry; entries before `from` are not compared. */
bool rig_log_equal(const struct rig_log *a, const struct rig_log *b, uint64_t from);
uint64_t rig_log_last(const struct rig_log *log);
/* A wal_found_fn over a struct rig_log. */
enum err rig_log_found(void *log, const struct wal_found *found);
/* Fills `room` with the content of the entry. */
void rig_bytes(uint64_t index, uint64_t term, char *room, size_t len);

struct rig {
    struct sim_fs *disk;
    struct fs *fs;
    struct rig_entropy entropy;
    struct wal_options options;
};
/* RIG_DIR with an empty log/ and snap/, durable. */
void rig_open(struct rig *rig, const struct sim_fs_options *options, uint64_t seed);
void rig_close(struct rig *rig);

/* Appends `count` entries of `len` bytes from `index` on in one call, and records them in `log`. */
struct rig_append {
    uint64_t index, term;
    size_t count, len;
};
enum err rig_append(struct wal *wal, struct rig_append append, struct rig_log *log,
                    struct note *note);
#endif
