/* SPDX-License-Identifier: Apache-2.0 */
/* decide_thread.c: slack_return. Under a sanitizer memory is another allocator's, which gives
 * nothing back. */
#include "shard/decide_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/test.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ANOTHER_ALLOCATOR 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define ANOTHER_ALLOCATOR 1
#endif

#ifndef ANOTHER_ALLOCATOR

static uint64_t resident(void)
{
    unsigned long long all = 0, here = 0;
    FILE *statm = fopen("/proc/self/statm", "r");

    CHECK("statm", statm && fscanf(statm, "%llu %llu", &all, &here) == 2);
    fclose(statm);
    return here * (uint64_t)sysconf(_SC_PAGESIZE);
}

TEST(holes_between_blocks_that_stay_go_back_to_the_system)
{
    enum { BLOCKS = 2000, BLOCK = 16 << 10 };
    static void *burst[BLOCKS], *stays[BLOCKS];
    mono_time last = {0}, now = {1};
    uint64_t most;

    for (int i = 0; i < BLOCKS; i++) {
        burst[i] = malloc(BLOCK);
        stays[i] = malloc(64);
        CHECK("memory", burst[i] && stays[i]);
        memset(burst[i], 1, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i++) free(burst[i]);
    most = resident();
    slack_return(&last, now);
    CHECK_U64("not all the time", last.ms, 0);
    now.ms = SLACK_EVERY_MS;
    slack_return(&last, now);
    /* A system that swaps took some of it before we looked. */
    if (most > (uint64_t)BLOCKS * BLOCK)
        CHECK("most of it", resident() + (uint64_t)BLOCKS * BLOCK / 2 < most);
    CHECK_U64("again later", last.ms, now.ms);
    for (int i = 0; i < BLOCKS; i++) free(stays[i]);
}
#else
TEST(nothing_is_given_back_where_it_cannot)
{
    mono_time last = {0};

    slack_return(&last, (mono_time){SLACK_EVERY_MS});
    CHECK_U64("tried", last.ms, SLACK_EVERY_MS);
}
#endif
