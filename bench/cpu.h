/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of processes, all threads, for the programs that make load: the steadiest figure there
 * is on a shared machine. 0 where it cannot be read. */
#ifndef BENCH_CPU_H
#define BENCH_CPU_H
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

static inline uint64_t cpu_of_thread_ns(const char *path)
{
    uint64_t ns = 0;
    FILE *file = fopen(path, "r");

    if (!file) return 0;
    if (fscanf(file, "%" SCNu64, &ns) != 1) ns = 0;
    fclose(file);
    return ns;
}

static inline uint64_t cpu_of_process_ns(pid_t pid)
{
    char path[300];
    uint64_t total = 0;
    DIR *tasks;
    const struct dirent *entry;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    if (!tasks) return 0;
    while ((entry = readdir(tasks)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)pid, entry->d_name);
        total += cpu_of_thread_ns(path);
    }
    closedir(tasks);
    return total;
}

static inline uint64_t cpu_own_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* The CPU time of the servers and of this process from begin to end. */
enum { CPU_SERVERS_MAX = 16 };
struct cpu_meter {
    pid_t pids[CPU_SERVERS_MAX];
    size_t count;
    uint64_t before_ns[CPU_SERVERS_MAX], spent_ns[CPU_SERVERS_MAX]; /* of a server that ended: 0 */
    uint64_t own_before_ns, own_ns;
};

static inline bool cpu_meter_add(struct cpu_meter *m, const char *pid)
{
    if (m->count == CPU_SERVERS_MAX) return false;
    m->pids[m->count++] = (pid_t)strtol(pid, NULL, 10);
    return true;
}

static inline void cpu_meter_begin(struct cpu_meter *m)
{
    for (size_t i = 0; i < m->count; i++) m->before_ns[i] = cpu_of_process_ns(m->pids[i]);
    m->own_before_ns = cpu_own_ns();
}

static inline void cpu_meter_end(struct cpu_meter *m)
{
    m->own_ns = cpu_own_ns() - m->own_before_ns;
    for (size_t i = 0; i < m->count; i++) {
        uint64_t now = cpu_of_process_ns(m->pids[i]);
        m->spent_ns[i] = now > m->before_ns[i] ? now - m->before_ns[i] : 0;
    }
}

static inline uint64_t cpu_meter_servers_ns(const struct cpu_meter *m)
{
    uint64_t total = 0;

    for (size_t i = 0; i < m->count; i++) total += m->spent_ns[i];
    return total;
}
#endif
