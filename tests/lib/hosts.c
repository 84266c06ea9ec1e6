/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs a command line without a shell; words are split at spaces. */
static bool run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool run(const char *format, ...)
{
    char line[512];
    const char *words[PROC_ARGS_MAX];
    size_t count = 0;
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *word = strtok(line, " "); word && count + 1 < PROC_ARGS_MAX;
         word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
    struct proc *proc = malloc(sizeof *proc);
    if (!proc) return false;
    int code = proc_run(proc, words);
    if (code != 0) fprintf(stderr, "%s: exit %d: %s\n", words[0], code, proc->output);
    free(proc);
    return code == 0;
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return done;
}

bool sandbox_enter(char *reason, size_t cap)
{
    uid_t uid = getuid();
    gid_t gid = getgid();
    char map[64];
    int spaces = CLONE_NEWNET | CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0);

    if (unshare(spaces)) {
        snprintf(reason, cap, "unshare: %s", strerror(errno));
        return false;
    }
    if (uid) {
        snprintf(map, sizeof map, "0 %u 1", uid);
        bool mapped =
            write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %u 1", gid);
        if (!mapped || !write_file("/proc/self/gid_map", map)) {
            snprintf(reason, cap, "mapping root in a user namespace: %s", strerror(errno));
            return false;
        }
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", "/run", "tmpfs", 0, NULL)) {
        snprintf(reason, cap, "private mounts: %s", strerror(errno));
        return false;
    }
    if (!run("ip link set lo up") || !run("ip link add br0 type bridge") ||
        !run("ip link set br0 up")) {
        snprintf(reason, cap, "no bridge can be made in a network namespace here");
        return false;
    }
    return true;
}

bool host_add(int host)
{
    return run("ip netns add h%d", host) &&
           run("ip link add v%d type veth peer name eth0 netns h%d", host, host) &&
           run("ip link set v%d master br0 up", host) &&
           run("ip -n h%d addr add 10.77.0.%d/24 dev eth0", host, host) &&
           run("ip -n h%d link set eth0 up", host) && run("ip -n h%d link set lo up", host);
}

const char *host_address(int host)
{
    static char text[HOSTS_MAX + 1][16];
    snprintf(text[host], sizeof text[host], "10.77.0.%d", host);
    return text[host];
}

bool host_start(int host, struct proc *proc, const char *const *argv)
{
    char name[8];
    const char *words[PROC_ARGS_MAX] = {"ip", "netns", "exec", name};
    size_t count = 4;

    snprintf(name, sizeof name, "h%d", host);
    while (*argv && count + 1 < PROC_ARGS_MAX) words[count++] = *argv++;
    words[count] = NULL;
    return proc_start(proc, words, NULL);
}

bool host_cut(int from, int to)
{
    return run("ip -n h%d route add blackhole 10.77.0.%d/32", from, to);
}

bool host_heal(int from, int to)
{
    return run("ip -n h%d route del blackhole 10.77.0.%d/32", from, to);
}

bool host_link(int host, bool up)
{
    return run("ip link set v%d %s", host, up ? "up" : "down");
}

const char *disk_mount(const char *path, size_t bytes, char *reason, size_t cap)
{
    char image[512], options[64];
    int fd;

    snprintf(image, sizeof image, "%s.img", path);
    fd = open(image, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    bool made = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0;
    if (fd >= 0) close(fd);
    if (made && run("mkfs.ext4 -q -F -m 0 %s", image) && run("mount -o loop %s %s", image, path)) {
        unlink(image);
        return "ext4";
    }
    unlink(image);
    snprintf(options, sizeof options, "size=%zu", bytes);
    if (mount("tmpfs", path, "tmpfs", 0, options) == 0) return "tmpfs";
    snprintf(reason, cap, "neither a loop device nor tmpfs can be mounted: %s", strerror(errno));
    return NULL;
}

void disk_unmount(const char *path)
{
    run("umount %s", path);
}
