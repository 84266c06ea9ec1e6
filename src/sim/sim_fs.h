/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated disk in memory behind struct fs. Each simulated host has one disk. One thread.
 *
 * The disk decides what a power cut leaves, which is what fs.h promises:
 *   - Synced content survives. Syncing a file does not sync its name.
 *   - An unsynced write is kept, lost or torn, independently of its neighbours.
 *   - Name operations (create, rename, remove) are kept up to some point after the last sync_dir.
 *     With `reorder_names` each operation is kept or lost on its own; only those on one name stay
 *     in order.
 *
 * The disk depends only on the options, the given generator and the sequence of calls. With zeroed
 * options no call fails, and a power cut keeps everything. */
#ifndef SIM_SIM_FS_H
#define SIM_SIM_FS_H
#include "base/buf.h"
#include "base/prng.h"
#include "io/clock.h"
#include "io/fs.h"

enum {
    SIM_FS_SECTOR = 512,     /* written as a whole */
    SIM_FS_NODE_BYTES = 256, /* bytes that a file or directory uses without its content */
    SIM_FS_DEPTH_MAX = 64,
    SIM_FS_HANDLES_MAX = 4096,        /* open files; further opens return ERR_FULL */
    SIM_FS_NAMES_PENDING_MAX = 4096,  /* unsynced name changes; one more syncs the oldest */
    SIM_FS_WRITES_PENDING_MAX = 1024, /* unsynced writes per file; one more syncs the oldest */
};
#define SIM_FS_CAPACITY_DEFAULT (1ull << 30)

/* Called before each disk call returns, with its cost in virtual time. */
typedef void sim_fs_cost_fn(void *context, uint64_t ns);

struct sim_fs_options {
    uint64_t capacity; /* bytes; also bounds the disk's memory; 0: default */
    /* Chances that a power cut loses or tears an unsynced write; together at most 1,000,000. */
    uint32_t write_lost_per_million;
    uint32_t write_torn_per_million; /* torn at a byte, at a sector, or sector by sector */
    /* Chance that the journal of names ends before an operation. With reorder_names: chance that
     * one operation is lost. */
    uint32_t name_lost_per_million;
    bool reorder_names; /* then a write can survive although an earlier truncation is lost */
    /* Chances of ERR_IO. A failed write leaves some prefix of the data. */
    uint32_t read_fails_per_million;
    uint32_t write_fails_per_million; /* includes truncations */
    uint32_t sync_fails_per_million;
    /* Chance that a failed sync drops an unsynced write, although reads still show the write, as in
     * kernels. */
    uint32_t failed_sync_drops_per_million;
    /* Chances that a read finds damage in synced content. A flip is permanent. A misdirected read
     * returns the bytes of another place once. */
    uint32_t read_flips_per_million;
    uint32_t read_misdirected_per_million;
    /* The virtual cost of a call: fixed, per KiB, random for a sync, plus stalls. NULL: no cost. */
    sim_fs_cost_fn *cost;
    /* Called before each disk call. False: the call fails with ERR_IO without effect. May be
     * NULL. */
    bool (*admits)(void *context);
    void *context;
    uint64_t call_ns, kib_ns, sync_ns_min, sync_ns_max;
    uint32_t stall_per_million;
    uint64_t stall_ns;
    struct clock *clock; /* for file dates; NULL: dates count calls */
    uint64_t pid;        /* in LOCK files; 0: 1 */
};

struct sim_fs;
/* Forks `prng`, so that the disk's random values do not depend on other users of `prng`.
 * ERR_INVALID, ERR_NOMEM. */
enum err sim_fs_open(const struct sim_fs_options *options, struct prng *prng,
                     struct sim_fs **ret_disk);
/* Frees everything, including open handles and locks. Accepts NULL. */
void sim_fs_close(struct sim_fs *disk);
struct fs *sim_fs_fs(struct sim_fs *disk);
/* Changes the options from now on, for example to repair, fill or slow a disk. ERR_INVALID. */
enum err sim_fs_set_options(struct sim_fs *disk, const struct sim_fs_options *options);
struct sim_fs_options sim_fs_options(const struct sim_fs *disk);
/* Draws random fault options and disables some. Costs, clock and pid stay. */
void sim_fs_draw_faults(struct prng *prng, struct sim_fs_options *options);

/* A power cut. Open handles and locks become invalid: calls return ERR_CLOSED. A handle is freed
 * when it is closed, or with the disk. */
void sim_fs_crash(struct sim_fs *disk);
/* Ends a process: handles and locks become invalid, written content stays. */
void sim_fs_process_died(struct sim_fs *disk);
/* Frees invalid handles and locks that nobody will close. */
void sim_fs_reclaim(struct sim_fs *disk);

/* Plans a fault: the nth call of a kind from now fails once. 0 cancels it. */
enum sim_fs_call {
    SIM_FS_OPEN,
    SIM_FS_READ,
    SIM_FS_WRITE,
    SIM_FS_SYNC,
    SIM_FS_NAME,
    SIM_FS_CALL_COUNT
};
void sim_fs_fail_once(struct sim_fs *disk, enum sim_fs_call call, uint64_t nth, enum err err);

struct sim_fs_stats {
    uint64_t calls, failures, crashes;
    uint64_t names_lost;
    uint64_t writes_dropped, flips, misdirected, stalls;
};
struct sim_fs_stats sim_fs_stats(const struct sim_fs *disk);
#endif
