/* SPDX-License-Identifier: Apache-2.0 */
/* A real loop for a test: opened, run until a condition holds or a deadline passes, closed;
 * afterwards every file that it opened is closed. */
#ifndef TESTS_UNIT_IO_RIG_H
#define TESTS_UNIT_IO_RIG_H
#include <dirent.h>
#include <stdlib.h>

#include "io/real.h"
#include "lib/test.h"

enum { RIG_DEADLINE_MS = 40 * 1000 }; /* only against a hang; the test measures nothing */

struct rig {
    struct real_io *real;
    struct io *io;
    struct loop *loop;
    struct net *net;
    struct timer deadline;
    bool late;
    size_t files_before;
};

static inline size_t rig_open_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;

    if (!directory) abort();
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static inline void rig_on_deadline(struct timer *timer)
{
    CONTAINER_OF(timer, struct rig, deadline)->late = true;
}

static inline void rig_open(struct rig *rig)
{
    static bool warm;

    if (!warm) { /* libuv keeps one pipe per process from the first loop on */
        CHECK_OK("a loop can be had", real_io_open(&rig->real));
        real_io_close(rig->real);
        warm = true;
    }
    *rig = (struct rig){.files_before = rig_open_files()};
    CHECK_OK("a loop can be had", real_io_open(&rig->real));
    rig->io = real_io_io(rig->real);
    rig->loop = rig->io->loop;
    rig->net = rig->io->net;
    CHECK_OK("a timer can be had", timer_init(&rig->deadline, rig->loop, rig_on_deadline));
}

static inline void rig_close(struct rig *rig)
{
    timer_deinit(&rig->deadline);
    real_io_close(rig->real);
    CHECK_SIZE("every file is closed again", rig_open_files(), rig->files_before);
}

/* Runs turns until `condition`, which may use values that the callbacks change. */
#define RIG_UNTIL(why, rig, condition)                                                             \
    do {                                                                                           \
        (rig)->late = false;                                                                       \
        timer_start_in(&(rig)->deadline, RIG_DEADLINE_MS);                                         \
        while (!(condition) && !(rig)->late) real_io_turn((rig)->real, true);                      \
        timer_stop(&(rig)->deadline);                                                              \
        CHECK(why, condition);                                                                     \
    } while (0)
#endif
