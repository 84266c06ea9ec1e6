/* SPDX-License-Identifier: Apache-2.0 */
/* The limit bench_log is judged by: pwrite and fdatasync in a loop on a pre-zeroed file.
 *   bare_sync FILE BYTES MILLISECONDS      prints: syncs a second, p50 and p99 in microseconds */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 20, CHUNK = 1 << 20, SYNCS_MAX = 1 << 20 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    static uint64_t took[SYNCS_MAX];
    static char bytes[CHUNK];
    size_t len = argc == 4 ? strtoul(argv[2], NULL, 10) : 0, count = 0;
    uint64_t began, until;
    off_t at = 0;
    int fd;

    if (len == 0 || len > CHUNK) return 2;
    fd = open(argv[1], O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
    for (int i = 0; i < FILE_BYTES / CHUNK; i++)
        if (write(fd, bytes, CHUNK) != CHUNK) return 1;
    if (fsync(fd)) return 1;
    bytes[0] = 1;
    began = now_ns();
    until = began + strtoull(argv[3], NULL, 10) * 1000000;
    while (count < SYNCS_MAX && now_ns() < until) {
        uint64_t start = now_ns();
        if (pwrite(fd, bytes, len, at) != (ssize_t)len || fdatasync(fd)) return 1;
        took[count++] = now_ns() - start;
        at = at + 2 * (off_t)len > FILE_BYTES ? 0 : at + (off_t)len;
    }
    qsort(took, count, sizeof took[0], by_size);
    printf("%.0f %llu %llu\n", (double)count * 1e9 / (double)(now_ns() - began),
           (unsigned long long)took[count / 2] / 1000,
           (unsigned long long)took[count * 99 / 100] / 1000);
    unlink(argv[1]);
    return 0;
}
