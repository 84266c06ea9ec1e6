/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a process that outlives the provider, finds it again by its file, and ends it with
 * everything it started. The calls block briefly. */
#include "provider/host/hosted.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/process.h"

enum { PID_FILE_MAX = 128, CGROUP_FILE_MAX = 64 * 1024, FILE_MODE = 0600 };

static bool path_in(const struct hosted_place *place, const char *ending, char path[FS_PATH_CAP])
{
    return snprintf(path, FS_PATH_CAP, "%s/%s.%s", place->directory, place->role, ending) <
           FS_PATH_CAP;
}

/* -- cgroups -- */

static bool write_word(const char *directory, const char *file, const char *word)
{
    char path[FS_PATH_CAP];
    ssize_t wrote;
    int fd;

    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path) return false;
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    wrote = write(fd, word, strlen(word));
    close(fd);
    return wrote == (ssize_t)strlen(word);
}

/* Finds the line of cgroup version 2: "0::/a/b". */
static struct str own_cgroup(struct str text)
{
    struct str line;

    while (str_split(&text, '\n', &line))
        if (str_starts(line, STR("0::/"))) return str_tail(line, 3);
    return STR_EMPTY;
}

/* Making a cgroup is the test for permissions, delegation and the kernel's cgroup.kill. */
static bool can_make_cgroups(const char *root)
{
    char path[FS_PATH_CAP], kill_file[FS_PATH_CAP + 16];
    bool can;

    if (snprintf(path, sizeof path, "%s/muster-trial-%d", root, (int)getpid()) >= (int)sizeof path)
        return false;
    snprintf(kill_file, sizeof kill_file, "%s/cgroup.kill", path);
    can = mkdir(path, 0755) == 0 && access(kill_file, W_OK) == 0;
    (void)rmdir(path);
    return can;
}

void hosted_cgroup_root(char root[FS_PATH_CAP])
{
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    struct buf text;
    struct str own = STR_EMPTY;

    root[0] = '\0';
    buf_init(&text, CGROUP_FILE_MAX);
    if (fs_read_whole(fs_real(), "/proc/self/cgroup", CGROUP_FILE_MAX, &text) == ERR_OK)
        own = own_cgroup(buf_peek(&text));
    for (size_t i = 0; own.len > 0 && i < ARRAY_LEN(mounts) && !root[0]; i++) {
        int len = snprintf(root, FS_PATH_CAP, "%s%.*s", mounts[i], own.len > 1 ? (int)own.len : 0,
                           own.at);
        if (len >= FS_PATH_CAP || !can_make_cgroups(root)) root[0] = '\0';
    }
    buf_deinit(&text);
}

/* -- starting a process -- */

struct record {
    struct io *io;
    const struct hosted_place *place;
    struct hosted hosted;
};

/* If the kernel refuses, the process has only its session. */
static void join_cgroup(const char *cgroup, int pid)
{
    char number[16];

    if (!cgroup[0]) return;
    snprintf(number, sizeof number, "%d", pid);
    if ((mkdir(cgroup, 0755) && errno != EEXIST) || !write_word(cgroup, "cgroup.procs", number))
        (void)rmdir(cgroup);
}

/* The process is watched before its program runs, so it cannot have ended. */
static enum err on_record(void *owner, int pid, struct note *note)
{
    struct record *record = owner;
    const struct hosted_place *place = record->place;
    char path[FS_PATH_CAP], text[PID_FILE_MAX];
    struct process_name name;
    enum err err = process_name_of(pid, &name);

    join_cgroup(place->cgroup, pid);
    if (!err && !path_in(place, "pid", path)) err = ERR_INVALID;
    if (!err) err = process_watch(&name, &record->hosted.pidfd);
    if (!err) {
        record->hosted.pid = pid;
        snprintf(text, sizeof text, "%d %" PRIu64 " %s\n", name.pid, name.start_ticks, name.boot);
        err = fs_publish(record->io->fs, path, str_from(text), FILE_MODE,
                         entropy_u64(record->io->entropy));
    }
    if (err) note_set(note, "%s/%s.pid: %s", place->directory, place->role, err_text(err));
    return err;
}

enum err hosted_start(struct io *io, const struct hosted_place *place, const char *command,
                      const char *const *env, struct hosted *ret_hosted, struct note *note)
{
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    struct record record = {io, place, hosted_none};
    char log[FS_PATH_CAP];
    const struct process_detached options = {.argv = argv,
                                             .env = env,
                                             .directory = place->directory,
                                             .output = log,
                                             .record = on_record,
                                             .owner = &record};
    int pid;
    enum err err = path_in(place, "log", log) ? ERR_OK : ERR_INVALID;

    if (!err) err = process_start_detached(&options, &pid, note);
    if (err)
        hosted_let_go(&record.hosted);
    else
        *ret_hosted = record.hosted;
    return err;
}

/* -- finding a process again -- */

static bool read_name(struct str text, struct process_name *ret_name)
{
    struct str rest = str_trim(text), pid, start;
    int64_t number;

    if (!str_split(&rest, ' ', &pid) || !str_split(&rest, ' ', &start)) return false;
    if (str_to_i64(pid, &number) || number <= 1 || number > INT32_MAX) return false;
    *ret_name = (struct process_name){.pid = (int)number};
    if (str_to_u64(start, &ret_name->start_ticks)) return false;
    return rest.at && rest.len > 0 &&
           snprintf(ret_name->boot, sizeof ret_name->boot, "%.*s", STR_ARG(rest)) <
               (int)sizeof ret_name->boot;
}

enum err hosted_find(struct io *io, const struct hosted_place *place, struct hosted *ret_hosted)
{
    struct hosted hosted = hosted_none;
    struct process_name name;
    char path[FS_PATH_CAP];
    struct buf text;
    enum err err = path_in(place, "pid", path) ? ERR_OK : ERR_NOT_FOUND;

    buf_init(&text, PID_FILE_MAX);
    if (!err) err = fs_read_whole(io->fs, path, PID_FILE_MAX, &text);
    if (!err && !read_name(buf_peek(&text), &name)) err = ERR_NOT_FOUND;
    buf_deinit(&text);
    if (err) return ERR_NOT_FOUND;
    err = process_watch(&name, &hosted.pidfd);
    if (err) return err;
    hosted.pid = name.pid;
    *ret_hosted = hosted;
    return ERR_OK;
}

/* -- ending a process -- */

bool hosted_runs(const struct hosted *hosted)
{
    return hosted->pidfd >= 0 && !process_watch_ended(hosted->pidfd);
}

void hosted_signal(const struct hosted *hosted, int signal)
{
    /* A running process keeps the id of its group from being reused. */
    if (hosted_runs(hosted)) (void)kill(-hosted->pid, signal);
}

bool hosted_gone(struct io *io, const struct hosted_place *place, struct hosted *hosted,
                 char how[PROCESS_END_CAP])
{
    char path[FS_PATH_CAP];

    if (hosted_runs(hosted)) return false;
    if (hosted->pidfd >= 0) {
        /* The ids of a child stay valid until this process waits for it. Other processes' ids may
         * be reused, so only their cgroup is killed. */
        if (process_watch_is_child(hosted->pidfd)) (void)kill(-hosted->pid, SIGKILL);
        if (!process_watch_reap(hosted->pidfd, how)) snprintf(how, PROCESS_END_CAP, "it is gone");
        if (path_in(place, "pid", path)) (void)fs_remove(io->fs, path);
        hosted_let_go(hosted);
    }
    if (!place->cgroup[0] || access(place->cgroup, F_OK)) return true;
    (void)write_word(place->cgroup, "cgroup.kill", "1");
    return rmdir(place->cgroup) == 0 || errno == ENOENT;
}

void hosted_let_go(struct hosted *hosted)
{
    if (hosted->pidfd >= 0) close(hosted->pidfd);
    *hosted = hosted_none;
}
