/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of this host (store.h), from /proc, kill(2) and pidfds. Any thread, no state. "Dead"
 * needs proof; an unreadable process counts as alive. */
#include "prim/file/store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct stat_line {
    char state;
    uint64_t threads, start_ticks;
};

/* Reads fields 3, 20 and 22. Field 2, the name, may contain any byte, so the last ')' ends it. */
static bool read_stat(const char *path, struct stat_line *ret_line)
{
    char text[1024] = "";
    size_t got;
    struct stat_line line = {0};
    if (sys_read_file(AT_FDCWD, path, text, sizeof text - 1, &got) != 0) return false;
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ') return false;
    struct str rest = str_from(at + 2), part;
    for (int field = 3; field <= 22; field++) {
        if (!str_split(&rest, ' ', &part) || part.len == 0) return false;
        if (field == 3) line.state = part.at[0];
        if (field == 20 && str_to_u64(part, &line.threads)) return false;
        if (field == 22 && str_to_u64(part, &line.start_ticks)) return false;
    }
    *ret_line = line;
    return true;
}

enum err who_am_i(struct host_facts *ret_facts)
{
    struct host_facts facts = {0};
    struct stat_line line;
    struct stat namespace;
    char self[32];
    if (!prim_kernel_boot_id(&facts.boot_id) || !read_stat("/proc/self/stat", &line) ||
        stat("/proc/self/ns/pid", &namespace) < 0)
        return ERR_UNSUPPORTED;
    facts.self.pid = (uint32_t)getpid();
    facts.self.start_ticks = line.start_ticks;
    facts.self.pid_namespace = namespace.st_ino;
    ssize_t len = readlink("/proc/self", self, sizeof self - 1);
    if (len > 0) {
        self[len] = '\0';
        facts.proc_is_ours = strtol(self, NULL, 10) == (long)getpid();
    }
    *ret_facts = facts;
    return ERR_OK;
}

bool who_is_dead(const struct host_facts *facts, const struct who *who, const coord_id *boot_id)
{
    char path[64];
    struct stat_line line;
    if (!prim_id_equal(&facts->boot_id, boot_id)) return false;
    if (who->pid == 0 || who->pid > INT32_MAX || who->pid_namespace != facts->self.pid_namespace)
        return false;
    if (kill((pid_t)who->pid, 0) < 0 && errno == ESRCH) return true;
    if (!facts->proc_is_ours) return false;
    (void)snprintf(path, sizeof path, "/proc/%u/stat", who->pid);
    if (!read_stat(path, &line)) return kill((pid_t)who->pid, 0) < 0 && errno == ESRCH;
    if (line.start_ticks != who->start_ticks) return true;
    /* A main thread that has ended also has these states while other threads run. */
    return (line.state == 'Z' || line.state == 'X') && line.threads <= 1;
}

int who_watch(const struct host_facts *facts, const struct who *who)
{
    if (who->pid == 0 || who->pid == facts->self.pid ||
        who->pid_namespace != facts->self.pid_namespace || !facts->proc_is_ours)
        return -1;
    int fd = sys_pidfd(who->pid);
    if (fd < 0) return -1;
    /* The process is dead but not reaped, and its lease continues in another process. Reporting
     * this death again and again would be a busy loop. */
    struct pollfd end = {.fd = fd, .events = POLLIN};
    if (poll(&end, 1, 0) == 0) return fd;
    sys_close(fd);
    return -1;
}
