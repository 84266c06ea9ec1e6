/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated disk in memory behind struct fs. Each simulated host has one disk.
 *
 * The disk decides what a power cut leaves. Synced content always survives. An unsynced write is
 * kept, lost or torn, independently of its neighbours. Names (create, rename, remove) are
 * journaled: a power cut keeps the operations up to some point after the last sync_dir. With
 * `reorder_names` each name operation is kept or lost on its own, and only operations on the same
 * name stay in order. A rename is kept or lost as a whole. Syncing a file does not sync its name.
 * This is harsher than most real file systems, and is what fs.h promises.
 *
 * The disk depends only on the options, the given generator and the sequence of calls. With zeroed
 * options no call fails, and a power cut keeps everything. One thread. */
#ifndef SIM_SIM_FS_H
#define SIM_SIM_FS_H
#include "base/buf.h"
#include "base/prng.h"
#include "io/clock.h"
#include "io/fs.h"

enum {
    SIM_FS_SECTOR = 512,              /* a disk writes a sector as a whole */
    SIM_FS_NODE_BYTES = 256,          /* cost of a file or directory in addition to its content */
    SIM_FS_DEPTH_MAX = 64,            /* components of a path */
    SIM_FS_HANDLES_MAX = 4096,        /* open files; further opens fail with ERR_FULL */
    SIM_FS_NAMES_PENDING_MAX = 4096,  /* unsynced name changes; one more syncs the oldest */
    SIM_FS_WRITES_PENDING_MAX = 1024, /* unsynced writes per file; one more syncs the oldest */
};
#define SIM_FS_CAPACITY_DEFAULT (1ull << 30)

/* Called before each disk call returns, with the call's cost in virtual time. */
typedef void sim_fs_cost_fn(void *context, uint64_t ns);

struct sim_fs_options {
    uint64_t capacity; /* size of the disk in bytes, which also bounds its memory; 0: default */
    /* Chances that a power cut loses or tears an unsynced write. The sum is at most 1,000,000. */
    uint32_t write_lost_per_million;
    uint32_t write_torn_per_million; /* torn at a byte, at a sector, or sector by sector */
    /* Effect of a power cut on unsynced names: the chance that the journal ends before the next
     * operation or, with reorder_names, the chance that each operation is lost. */
    uint32_t name_lost_per_million;
    bool reorder_names; /* a write can then survive an earlier truncation that is lost */
    /* Chances that a call fails with ERR_IO. A failed write leaves some prefix of the data. */
    uint32_t read_fails_per_million;
    uint32_t write_fails_per_million; /* includes truncations */
    uint32_t sync_fails_per_million;  /* syncs of files and directories */
    /* Chance that a failed sync drops an unsynced write, although reads still show it, as in
     * kernels. A later sync through another handle succeeds without the write. */
    uint32_t failed_sync_drops_per_million;
    /* Chances that a read finds damage in synced content. A flipped bit stays flipped. A
     * misdirected read returns the bytes of another place once. */
    uint32_t read_flips_per_million;
    uint32_t read_misdirected_per_million;
    /* Virtual cost of each call: a fixed part, a part per KiB, and for a sync a random value
     * between two bounds. A stall is added. No cost is charged if `cost` is NULL. */
    sim_fs_cost_fn *cost;
    /* Called before each disk call, if set. If false, the call fails with ERR_IO without effect. */
    bool (*admits)(void *context);
    void *context; /* passed to both callbacks */
    uint64_t call_ns, kib_ns, sync_ns_min, sync_ns_max;
    uint32_t stall_per_million;
    uint64_t stall_ns;
    struct clock *clock; /* used for file dates; NULL: dates count calls instead */
    uint64_t pid;        /* process id written to LOCK files; 0 means 1 */
};

struct sim_fs;
/* Forks `prng`, so that other users of the generator do not change the disk's random values.
 * ERR_INVALID, ERR_NOMEM. */
enum err sim_fs_open(const struct sim_fs_options *options, struct prng *prng,
                     struct sim_fs **ret_disk);
/* Frees everything, including open handles and locks. Accepts NULL. */
void sim_fs_close(struct sim_fs *disk);
struct fs *sim_fs_fs(struct sim_fs *disk);
/* Changes the options from now on, to repair a disk, to fill it (a capacity below the used bytes),
 * or to slow it. ERR_INVALID. */
enum err sim_fs_set_options(struct sim_fs *disk, const struct sim_fs_options *options);
struct sim_fs_options sim_fs_options(const struct sim_fs *disk);
/* Draws random fault options and disables some of them. Costs, clock and pid are unchanged. */
void sim_fs_draw_faults(struct prng *prng, struct sim_fs_options *options);

/* Simulates a power cut. Open handles and locks become invalid: calls on them return ERR_CLOSED.
 * A handle is freed when it is closed, or together with the disk. Never fails. */
void sim_fs_crash(struct sim_fs *disk);
/* Ends a process without a power cut: handles and locks become invalid, written content stays. */
void sim_fs_process_died(struct sim_fs *disk);
/* Frees invalid handles and locks whose owner is gone and will not close them. */
void sim_fs_reclaim(struct sim_fs *disk);

/* Plans a fault: the nth call of a kind from now fails once, whatever the rates. 0 cancels it. */
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
    uint64_t names_lost; /* counted at power cuts */
    uint64_t writes_dropped, flips, misdirected, stalls;
};
struct sim_fs_stats sim_fs_stats(const struct sim_fs *disk);
#endif
