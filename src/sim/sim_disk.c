/* SPDX-License-Identifier: Apache-2.0 */
/* The gate between a process and its disk: calls of a dead process do nothing, calls of a live one
 * are charged to the turn or the job that made them, and the power may be planned to fail at one of
 * them. */
#include "sim/world.h"

#define CALL_NS_DEFAULT     3000ull
#define KIB_NS_DEFAULT      1000ull
#define SYNC_NS_MIN_DEFAULT 50000ull
#define SYNC_NS_MAX_DEFAULT 500000ull

/* False: nothing may be done any more. */
static bool pass(struct fs *gate)
{
    struct sim_host *host = CONTAINER_OF(gate, struct sim_host, gate);

    if (sim_host_heard(host) && host->disk_calls_left && --host->disk_calls_left == 0) {
        sim_host_die(host, host->disk_death);
    }
    return sim_host_heard(host);
}

static struct fs *inner(struct fs *gate)
{
    return sim_fs_fs(CONTAINER_OF(gate, struct sim_host, gate)->disk);
}

static enum err gate_open(struct fs *gate, const char *path, uint32_t flags, uint32_t mode,
                          struct fs_file **ret_file)
{
    return pass(gate) ? fs_open(inner(gate), path, flags, mode, ret_file) : ERR_IO;
}

static void gate_close(struct fs *gate, struct fs_file *file)
{
    fs_close(inner(gate), file); /* gives back memory; a dead process may */
}

static enum err gate_read_at(struct fs *gate, struct fs_file *file, uint64_t offset, void *into,
                             size_t len, size_t *ret_got)
{
    return pass(gate) ? fs_read_at(inner(gate), file, offset, into, len, ret_got) : ERR_IO;
}

static enum err gate_write_at(struct fs *gate, struct fs_file *file, uint64_t offset,
                              struct str bytes)
{
    return pass(gate) ? fs_write_at(inner(gate), file, offset, bytes) : ERR_IO;
}

static enum err gate_sync(struct fs *gate, struct fs_file *file)
{
    return pass(gate) ? fs_sync(inner(gate), file) : ERR_IO;
}

static enum err gate_truncate(struct fs *gate, struct fs_file *file, uint64_t size)
{
    return pass(gate) ? fs_truncate(inner(gate), file, size) : ERR_IO;
}

static enum err gate_file_size(struct fs *gate, struct fs_file *file, uint64_t *ret_size)
{
    return pass(gate) ? fs_file_size(inner(gate), file, ret_size) : ERR_IO;
}

static enum err gate_stat(struct fs *gate, const char *path, struct fs_info *ret_info)
{
    return pass(gate) ? fs_stat(inner(gate), path, ret_info) : ERR_IO;
}

static enum err gate_rename(struct fs *gate, const char *from, const char *to)
{
    return pass(gate) ? fs_rename(inner(gate), from, to) : ERR_IO;
}

static enum err gate_remove(struct fs *gate, const char *path)
{
    return pass(gate) ? fs_remove(inner(gate), path) : ERR_IO;
}

static enum err gate_make_dir(struct fs *gate, const char *path, uint32_t mode)
{
    return pass(gate) ? fs_make_dir(inner(gate), path, mode) : ERR_IO;
}

static enum err gate_make_link(struct fs *gate, const char *target, const char *path)
{
    return pass(gate) ? fs_make_link(inner(gate), target, path) : ERR_IO;
}

static enum err gate_list(struct fs *gate, const char *path, fs_list_fn *each, void *context)
{
    return pass(gate) ? fs_list(inner(gate), path, each, context) : ERR_IO;
}

static enum err gate_sync_dir(struct fs *gate, const char *path)
{
    return pass(gate) ? fs_sync_dir(inner(gate), path) : ERR_IO;
}

static enum err gate_free_bytes(struct fs *gate, const char *path, uint64_t *ret_bytes)
{
    return pass(gate) ? fs_free_bytes(inner(gate), path, ret_bytes) : ERR_IO;
}

static enum err gate_lock_dir(struct fs *gate, const char *path, struct fs_lock **ret_lock,
                              struct note *note)
{
    return pass(gate) ? fs_lock_dir(inner(gate), path, ret_lock, note) : ERR_IO;
}

static void gate_unlock(struct fs *gate, struct fs_lock *lock)
{
    fs_unlock(inner(gate), lock);
}

static void charge(void *context, uint64_t ns)
{
    struct sim_host *host = context;
    if (host->turning || host->in_job) host->spent_ns += ns; /* elsewhere nobody waits for it */
}

enum err sim_disk_open(struct sim_host *host)
{
    struct sim_fs_options *options = &host->options.disk;

    if (!options->call_ns && !options->kib_ns && !options->sync_ns_max) {
        options->call_ns = CALL_NS_DEFAULT;
        options->kib_ns = KIB_NS_DEFAULT;
        options->sync_ns_min = SYNC_NS_MIN_DEFAULT;
        options->sync_ns_max = SYNC_NS_MAX_DEFAULT;
    }
    options->cost = charge;
    options->cost_context = host;
    options->clock = &host->clock.base;
    host->gate = (struct fs){
        .open = gate_open,
        .close = gate_close,
        .read_at = gate_read_at,
        .write_at = gate_write_at,
        .sync = gate_sync,
        .truncate = gate_truncate,
        .file_size = gate_file_size,
        .stat = gate_stat,
        .rename = gate_rename,
        .remove = gate_remove,
        .make_dir = gate_make_dir,
        .make_link = gate_make_link,
        .list = gate_list,
        .sync_dir = gate_sync_dir,
        .free_bytes = gate_free_bytes,
        .lock_dir = gate_lock_dir,
        .unlock = gate_unlock,
    };
    return sim_fs_open(options, &host->sim->host_prng, &host->disk);
}

void sim_disk_close(struct sim_host *host)
{
    sim_fs_close(host->disk);
}

void sim_disk_death(struct sim_host *host, enum sim_death death)
{
    host->disk_calls_left = 0;
    if (death == SIM_POWER_CUT)
        sim_fs_crash(host->disk);
    else
        sim_fs_process_died(host->disk);
}

void sim_host_die_at_disk_call(struct sim_host *host, uint64_t nth, enum sim_death death)
{
    host->disk_calls_left = nth;
    host->disk_death = death;
}
