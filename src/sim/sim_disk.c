/* SPDX-License-Identifier: Apache-2.0 */
/* Connects a process to its disk: charges calls to the turn or job, ignores calls of a dead
 * process, and executes a planned power cut. */
#include "sim/world.h"

#define CALL_NS_DEFAULT     3000ull
#define KIB_NS_DEFAULT      1000ull
#define SYNC_NS_MIN_DEFAULT 50000ull
#define SYNC_NS_MAX_DEFAULT 500000ull

/* False: the process is dead, and its call has no effect. */
static bool disk_admits(void *context)
{
    struct sim_host *host = context;

    if (sim_host_heard(host) && host->disk_calls_left && --host->disk_calls_left == 0) {
        sim_host_die(host, host->disk_death);
    }
    return sim_host_heard(host);
}

static void disk_charge(void *context, uint64_t ns)
{
    struct sim_host *host = context;
    if (host->turning || host->in_job) host->spent_ns += ns; /* else nothing waits for the disk */
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
    options->admits = disk_admits;
    options->cost = disk_charge;
    options->context = host;
    options->clock = &host->clock.base;
    return sim_fs_open(options, &host->sim->host_prng, &host->disk);
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
