/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/fake_clock.h"
#include "lib/test.h"

/* The process has one ring: entries of a test follow this mark. */
static void mark(void)
{
    static uint64_t marks;

    ring_put("mark", ++marks, 0);
}

static char *since_mark(char *dump)
{
    char *last = dump;

    for (char *found; (found = strstr(last, " mark "));) last = strchr(found, '\n') + 1;
    return last;
}

static char *dumped(void)
{
    struct buf text;
    char *all;
    buf_init(&text, 1 << 20);
    CHECK_OK("dump", ring_dump(&text));
    CHECK_OK("text", buf_detach(&text, &all));
    return all;
}

TEST(entries_are_reported_oldest_first_with_time_and_thread)
{
    struct fake_clock clock;
    char want[256], *got;
    fake_clock_init(&clock);
    mark();
    ring_use_clock(&clock.clock);
    ring_put("term from to", 3, 4);
    fake_clock_advance(&clock, 250);
    ring_put_text("peer", STR("10.0.0.1\nforged"));
    ring_use_clock(NULL);
    ring_put("untimed", 0, UINT64_MAX);
    snprintf(want, sizeof want,
             "1.000000 %d term from to 3 4\n1.250000 %d peer 10.0.0.1?forged\n"
             "0.000000 %d untimed 0 18446744073709551615\n",
             getpid(), getpid(), getpid());
    got = dumped();
    CHECK_TEXT("the dump", since_mark(got), want);
    free(got);
}

TEST(only_the_newest_are_kept_and_text_is_cut)
{
    char long_text[200], *got;
    uint64_t before;
    memset(long_text, 'x', sizeof long_text);
    for (uint64_t i = 0; i < RING_SLOTS + 10; i++) ring_put("n", i, 0);
    got = dumped();
    CHECK("the oldest ten are gone", strstr(got, " n 10 0\n") && !strstr(got, " n 9 0\n"));
    free(got);
    mark();
    before = ring_total();
    ring_put_text("t", str_of(long_text, sizeof long_text));
    got = dumped();
    CHECK_SIZE("cut", strspn(strchr(since_mark(got), 'x'), "x"), RING_TEXT_MAX);
    free(got);
    CHECK_U64("counted", ring_total() - before, 1);
}

static atomic_bool stop;
static void *writer(void *argument)
{
    uint64_t n = (uint64_t)(uintptr_t)argument;
    char text[64];
    for (uint64_t i = 0; !atomic_load(&stop); i++) {
        ring_put("pair", n * 1000000 + i,
                 n * 1000000 + i); /* equal values, so that a mixed entry is visible */
        memset(text, 'a' + (int)n, sizeof text);
        ring_put_text("text", str_of(text, sizeof text));
    }
    return NULL;
}

TEST(a_reader_beside_writers_never_sees_a_mix)
{
    pthread_t threads[4];
    size_t lines = 0;
    for (uint64_t i = 0; i < RING_SLOTS; i++) ring_put("pair", i, i); /* nothing of other tests */
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, writer, (void *)i);
    for (int round = 0; round < 1000 || lines < 1000; round++) {
        char *got = dumped(), *rest = got;
        for (char *line; (line = strsep(&rest, "\n")) && *line; lines++) {
            char *pair = strstr(line, " pair "), *text = strstr(line, " text ");
            CHECK("one of the two", (pair != NULL) != (text != NULL));
            if (pair) {
                char *end;
                unsigned long long a = strtoull(pair + 6, &end, 10), b = strtoull(end, NULL, 10);
                CHECK_U64("both halves of one entry", a, b);
            } else {
                CHECK_SIZE("text of one writer", strspn(text + 6, (char[]){text[6], '\0'}), 64);
            }
        }
        free(got);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}
