/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies processes by pid, start time and boot id from /proc, and watches them by pidfd. Any
 * thread. */
#include "io/process_look.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/fs.h"

enum { STAT_MAX = 16 * 1024, FIELD_STATE = 3, FIELD_START = 22 };

/* Field 2, the program's name, may contain blanks and brackets: count from its closing bracket. */
static struct str stat_word(struct str line, int number)
{
    size_t close = line.len;
    struct str rest, word = STR_EMPTY;

    while (close > 0 && line.at[close - 1] != ')') close--;
    rest = str_tail(line, close + 1);
    for (int i = FIELD_STATE; i <= number; i++)
        if (!str_split(&rest, ' ', &word)) return STR_EMPTY;
    return word;
}

uint64_t process_stat_field(struct str line, int number)
{
    uint64_t value = 0;

    (void)str_to_u64(stat_word(line, number), &value);
    return value;
}

static enum err read_boot(char boot[PROCESS_BOOT_CAP])
{
    struct buf text;
    enum err err;

    buf_init(&text, PROCESS_BOOT_CAP);
    err = fs_read_whole(fs_real(), "/proc/sys/kernel/random/boot_id", PROCESS_BOOT_CAP, &text);
    if (!err) snprintf(boot, PROCESS_BOOT_CAP, "%.*s", STR_ARG(str_trim(buf_peek(&text))));
    buf_deinit(&text);
    return err ? ERR_UNSUPPORTED : ERR_OK;
}

enum err process_name_of(int pid, struct process_name *ret_name)
{
    struct process_name name = {.pid = pid};
    char path[64];
    struct buf text;
    struct str state;
    enum err err;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    buf_init(&text, STAT_MAX);
    err = pid > 0 ? fs_read_whole(fs_real(), path, STAT_MAX, &text) : ERR_NOT_FOUND;
    if (!err) {
        state = stat_word(buf_peek(&text), FIELD_STATE);
        name.start_ticks = process_stat_field(buf_peek(&text), FIELD_START);
        if (str_equal(state, STR("Z")) || str_equal(state, STR("X"))) err = ERR_NOT_FOUND;
    }
    buf_deinit(&text);
    if (err) return access("/proc/self/stat", F_OK) ? ERR_UNSUPPORTED : ERR_NOT_FOUND;
    err = read_boot(name.boot);
    if (!err) *ret_name = name;
    return err;
}

enum err process_watch(const struct process_name *name, int *ret_pidfd)
{
    struct process_name now;
    int pidfd = name->pid > 0 ? pidfd_open(name->pid, 0) : -1;
    enum err err;

    if (pidfd < 0) {
        if (name->pid > 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
            return ERR_FULL;
        return ERR_NOT_FOUND;
    }
    /* The pidfd was opened before, so this identity is that of the pidfd's process. */
    err = process_name_of(name->pid, &now);
    if (!err && (now.start_ticks != name->start_ticks || strcmp(now.boot, name->boot) != 0))
        err = ERR_NOT_FOUND;
    if (err)
        close(pidfd);
    else
        *ret_pidfd = pidfd;
    return err;
}

bool process_watch_ended(int pidfd)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) > 0;
}

static bool wait_for(int pidfd, int flags, siginfo_t *ret_info)
{
    int failed;

    *ret_info = (siginfo_t){0};
    do failed = waitid(P_PIDFD, (id_t)pidfd, ret_info, WEXITED | WNOHANG | flags);
    while (failed && errno == EINTR);
    return !failed && ret_info->si_pid != 0;
}

bool process_watch_is_child(int pidfd)
{
    siginfo_t info;
    return wait_for(pidfd, WNOWAIT, &info);
}

bool process_watch_reap(int pidfd, char text[PROCESS_END_CAP])
{
    siginfo_t info;

    if (!wait_for(pidfd, 0, &info)) return false;
    snprintf(text, PROCESS_END_CAP,
             info.si_code == CLD_EXITED ? "exit status %d" : "killed by signal %d", info.si_status);
    return true;
}
