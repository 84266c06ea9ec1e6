/* SPDX-License-Identifier: Apache-2.0 */
/* A disk in memory behind the same struct fs as the kernel's: one per simulated host.
 *
 * It decides what a power cut leaves. Content that was synced always survives; a write that was not
 * is kept, lost or torn on its own, whatever is beside it. Names (create, rename, remove) are
 * kept in the order of the journal: a power cut keeps a beginning of what sync_dir had not yet
 * covered; with `reorder_names` each name goes its own way and only operations on the same name
 * stay in order. A rename is kept or lost whole. Syncing a file says nothing about its name, which
 * is harsher than most real file systems and what fs.h promises.
 *
 * Purely a function of the options, the generator given in, and the sequence of calls. A zeroed
 * options struct is a perfect disk: nothing fails, and a power cut keeps everything. One thread. */
#ifndef SIM_SIM_FS_H
#define SIM_SIM_FS_H
#include "base/buf.h"
#include "base/prng.h"
#include "io/clock.h"
#include "io/fs.h"

enum {
    SIM_FS_SECTOR = 512,              /* what a disk writes whole */
    SIM_FS_NODE_BYTES = 256,          /* what a file or directory costs besides its content */
    SIM_FS_DEPTH_MAX = 64,            /* parts of a path */
    SIM_FS_HANDLES_MAX = 4096,        /* open files; ERR_FULL */
    SIM_FS_NAMES_PENDING_MAX = 4096,  /* past these the oldest is written back, as a kernel does */
    SIM_FS_WRITES_PENDING_MAX = 1024, /* per file; likewise */
};
#define SIM_FS_CAPACITY_DEFAULT (1ull << 30)

/* Called with the cost of a call, in virtual time, before the call returns. */
typedef void sim_fs_cost_fn(void *context, uint64_t ns);

struct sim_fs_options {
    uint64_t capacity; /* bytes, and so the bound on memory; 0: the default */
    /* What a power cut does to each un-synced write; the rest is kept. Together at most
     * 1,000,000. */
    uint32_t write_lost_per_million;
    uint32_t write_torn_per_million; /* cut at a byte or a sector, or sector by sector */
    /* What it does to un-synced names: in order, the chance that the journal ends before the next
     * one; with reorder_names, the chance of each one. */
    uint32_t name_lost_per_million;
    bool reorder_names; /* also lets a write outlive the truncation before it */
    /* Failures, ERR_IO. A failed write leaves any beginning of it. */
    uint32_t read_fails_per_million;
    uint32_t write_fails_per_million; /* truncation too */
    uint32_t sync_fails_per_million;  /* of files and directories */
    /* For each un-synced write under a failed sync: dropped although reads still show it, as
     * kernels do. A later sync through another handle succeeds without it. */
    uint32_t failed_sync_drops_per_million;
    /* Damage in synced content, found by a read: a bit that stays flipped; another place's bytes,
     * once. */
    uint32_t read_flips_per_million;
    uint32_t read_misdirected_per_million;
    /* Virtual cost of each call: fixed, per KiB moved, and for a sync a draw between two ends; a
     * stall comes on top. Nothing is charged when cost is NULL. */
    sim_fs_cost_fn *cost;
    /* Asked before each call; false: nothing is done, and the call fails with ERR_IO. May be NULL. */
    bool (*admits)(void *context);
    void *context; /* of both */
    uint64_t call_ns, kib_ns, sync_ns_min, sync_ns_max;
    uint32_t stall_per_million;
    uint64_t stall_ns;
    struct clock *clock; /* dates files; NULL: they count calls instead */
    uint64_t pid;        /* written in LOCK files; 0: 1 */
};

struct sim_fs;
/* Forks `prng`, so that other consumers' draws do not shift the disk's. ERR_INVALID, ERR_NOMEM. */
enum err sim_fs_open(const struct sim_fs_options *options, struct prng *prng,
                     struct sim_fs **ret_disk);
/* Frees everything, handles and locks that are still open too. NULL is fine. */
void sim_fs_close(struct sim_fs *disk);
struct fs *sim_fs_fs(struct sim_fs *disk);
/* From now on: heal a disk, fill it up (a capacity below what is used), make it slow.
 * ERR_INVALID. */
enum err sim_fs_set_options(struct sim_fs *disk, const struct sim_fs_options *options);
struct sim_fs_options sim_fs_options(const struct sim_fs *disk);
/* Faults drawn anew for each seed, some of them off entirely; costs, clock and pid are
 * untouched. */
void sim_fs_draw_faults(struct prng *prng, struct sim_fs_options *options);

/* The power is cut and comes back. Handles and locks are dead: calls on them answer ERR_CLOSED, and
 * they must still be closed, or are freed with the disk. Never fails. */
void sim_fs_crash(struct sim_fs *disk);
/* The process died and the machine did not: handles and locks are dead, all written content
 * stays. */
void sim_fs_process_died(struct sim_fs *disk);
/* Frees dead handles and locks that nobody will close any more, because their owner is gone. */
void sim_fs_reclaim(struct sim_fs *disk);

/* The nth call of that kind from now fails, once, whatever the rates say; nth 0 disarms. */
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
    uint64_t writes_kept, writes_lost, writes_torn; /* by power cuts */
    uint64_t names_kept, names_lost;
    uint64_t writes_dropped, flips, misdirected, stalls;
};
struct sim_fs_stats sim_fs_stats(const struct sim_fs *disk);
#endif
