/* SPDX-License-Identifier: Apache-2.0 */
/* A slow CLOCK_BOOTTIME: while the kernel's clock counts 100 + DRIFT_PERCENT (of the environment),
 * this one counts 100. A program that links this file, and its libraries, use it. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS = 1000000000 };
static int64_t start_ns;
static long percent;

static int64_t true_ns(void)
{
    struct timespec now = {0};

    (void)syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return now.tv_sec * (int64_t)NS + now.tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("DRIFT_PERCENT");

    percent = text ? strtol(text, NULL, 10) : 0;
    start_ns = true_ns();
}

int clock_gettime(clockid_t which, struct timespec *now)
{
    if (which != CLOCK_BOOTTIME || !percent) return (int)syscall(SYS_clock_gettime, which, now);
    int64_t passed_ns = (true_ns() - start_ns) * 100 / (100 + percent);
    now->tv_sec = (start_ns + passed_ns) / NS;
    now->tv_nsec = (start_ns + passed_ns) % NS;
    return 0;
}
