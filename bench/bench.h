/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all benches: a step that must hold, and a clock. The machine and the commit are
 * printed once by scripts/bench. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline double clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
#endif
