/* SPDX-License-Identifier: Apache-2.0 */
/* The test harness itself: a harness that cannot kill, pause, cut or fill would prove nothing. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/fault_alloc.h"
#include "lib/hosts.h"
#include "lib/proc.h"
#include "lib/test.h"

static struct proc one, two;

TEST(a_program_is_run_and_its_output_and_exit_code_are_seen)
{
    const char *argv[] = {"sh", "-c", "echo out; echo err >&2; exit 3", NULL};
    CHECK_I64("exit code", proc_run(&one, argv), 3);
    CHECK_HAS("stdout", one.output, "out\n");
    CHECK_HAS("stderr", one.output, "err\n");
}

TEST(a_missing_program_differs_from_one_that_fails)
{
    const char *argv[] = {"/nowhere/program", NULL};
    CHECK("not started", !proc_start(&one, argv, NULL));
}

TEST(kill_is_seen_as_a_signal)
{
    const char *argv[] = {"sleep", "600", NULL};
    CHECK("starts", proc_start(&one, argv, NULL));
    CHECK("signal sent", proc_signal(&one, SIGKILL));
    CHECK("ends", proc_wait_end(&one, PROC_DEADLINE_MS));
    CHECK_I64("by SIGKILL", proc_exit_signal(&one), SIGKILL);
    CHECK_I64("not by itself", proc_exit_code(&one), -1);
    proc_end(&one);
}

static char state_of(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return '?';
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *close_paren = got ? strrchr(text, ')') : NULL;
    return close_paren ? close_paren[2] : '?';
}

TEST(pause_stops_a_process_and_resume_continues_it)
{
    const char *argv[] = {"sleep", "600", NULL};
    CHECK("starts", proc_start(&one, argv, NULL));
    CHECK("paused", proc_pause(&one));
    CHECK_I64("stopped", state_of(one.pid), 'T');
    CHECK("resumed", proc_resume(&one));
    CHECK("goes on", state_of(one.pid) != 'T');
    proc_end(&one);
}

TEST(a_wait_that_times_out_reports_it)
{
    const char *argv[] = {"sh", "-c", "echo hello", NULL};
    CHECK("starts", proc_start(&one, argv, NULL));
    CHECK("never printed", !proc_wait_output(&one, "good-bye", 5000));
    CHECK_HAS("the output is kept", one.output, "hello");
    proc_end(&one);
}

TEST(the_kth_allocation_fails_and_only_that_one)
{
    fault_alloc_arm(2);
    void *volatile a = malloc(1), *volatile b = malloc(1), *volatile c = malloc(1);
    fault_alloc_arm(0);
    CHECK("first", a != NULL);
    CHECK("second fails", b == NULL);
    CHECK("third", c != NULL);
    free(a), free(c);
}

/* Runs a body that needs namespaces in a child, so that this process keeps its own. */
static void in_child(int (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(body());
    one = (struct proc){.pid = child, .output_fd = -1};
    CHECK("ended", proc_wait_end(&one, 2 * PROC_DEADLINE_MS));
    if (proc_exit_code(&one) == 77) SKIP("namespaces cannot be made here (reason above)");
    CHECK_I64("every step held", proc_exit_code(&one), 0);
}

/* Exits the child with the line number of a failed condition. */
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static bool enter(void)
{
    char reason[256];
    if (sandbox_enter(reason, sizeof reason)) return true;
    fprintf(stderr, "%s\n", reason);
    return false;
}

static int two_hosts(void)
{
    static const char *const serve[] = {"python3", "-u", "-m", "http.server", "8000", NULL};
    static const char *const fetch[] = {"curl", "-sS", "-m", "5", "http://10.77.0.1:8000/", NULL};
    static const char *const fetch_cut[] = {"curl", "-sS", "-m", "1", "http://10.77.0.1:8000/",
                                            NULL};

    if (!enter()) return 77;
    HOLDS(host_add(1) && host_add(2));
    HOLDS(host_start(1, &one, serve));
    HOLDS(proc_wait_output(&one, "Serving", PROC_DEADLINE_MS));
    HOLDS(host_start(2, &two, fetch) && proc_wait_end(&two, PROC_DEADLINE_MS));
    HOLDS(proc_exit_code(&two) == 0);
    proc_end(&two);
    HOLDS(host_cut(1, 2)); /* answers vanish, requests arrive */
    HOLDS(host_start(2, &two, fetch_cut) && proc_wait_end(&two, PROC_DEADLINE_MS));
    HOLDS(proc_exit_code(&two) != 0);
    proc_end(&two);
    HOLDS(host_heal(1, 2));
    HOLDS(host_link(2, false) && host_link(2, true));
    HOLDS(host_start(2, &two, fetch) && proc_wait_end(&two, PROC_DEADLINE_MS));
    HOLDS(proc_exit_code(&two) == 0);
    proc_end(&two);
    proc_end(&one);
    return 0;
}

TEST(hosts_reach_each_other_until_they_are_cut)
{
    in_child(two_hosts);
}

static int full_disk(void)
{
    static char block[64 * 1024];
    char path[256], file[300], reason[256];
    ssize_t wrote;

    if (!enter()) return 77;
    snprintf(path, sizeof path, "%s/disk", test_dir());
    HOLDS(mkdir(path, 0700) == 0);
    const char *kind = disk_mount(path, 4 << 20, reason, sizeof reason);
    HOLDS(kind);
    fprintf(stderr, "a small disk of %s\n", kind);
    snprintf(file, sizeof file, "%s/filler", path);
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    HOLDS(fd >= 0);
    int blocks = 0;
    while ((wrote = write(fd, block, sizeof block)) == sizeof block && blocks < 1000) blocks++;
    HOLDS(wrote < (ssize_t)sizeof block && blocks > 8 && blocks < 128);
    HOLDS(close(fd) == 0 && unlink(file) == 0);
    disk_unmount(path);
    HOLDS(rmdir(path) == 0);
    return 0;
}

TEST(a_small_disk_fills_up)
{
    test_dir(); /* made here, so that this process removes it */
    in_child(full_disk);
}
