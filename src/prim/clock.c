/* SPDX-License-Identifier: Apache-2.0 */
/* Time, boot identity and random numbers from the kernel. */
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hex.h"
#include "prim/answer.h"
#include "prim/backend.h"

int64_t prim_boottime_ns(void *)
{
    struct timespec now;
    /* CLOCK_BOOTTIME includes suspended time, so a resumed holder sees how late it is (T9). */
    int failed = clock_gettime(CLOCK_BOOTTIME, &now);
    assert(failed == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t prim_wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now); /* cheap; an error of a few ms does no harm */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool prim_kernel_boot_id(coord_id *ret_id)
{
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0) (void)close(fd);
    return len > 1 && text[len - 1] == '\n' &&
           hex_read_id(str_of(text, (size_t)len - 1), ret_id->b);
}

coord_id prim_boot_id(void)
{
    coord_id id = {{0}};
    struct stat space;
    if (!prim_kernel_boot_id(&id)) return id;
    /* Containers of one host can have different clock offsets, so the id includes the namespace. */
    if (stat("/proc/self/ns/time", &space) == 0)
        store_le64(id.b, load_le64(id.b) ^ (uint64_t)space.st_ino);
    return id;
}

coord_id prim_id_random(void)
{
    coord_id id;
    /* A request of up to 256 bytes is never partial, and blocks only during early boot. */
    ssize_t got = getrandom(id.b, sizeof id.b, 0);
    assert(got == (ssize_t)sizeof id.b);
    return id;
}

uint64_t prim_random(void)
{
    coord_id id = prim_id_random();
    return load_le64(id.b);
}

coord_id prim_id_request(void)
{
    coord_id id = prim_id_random();
    uint64_t ms = prim_wall_ms();
    for (size_t i = 0; i < 6; i++) id.b[i] = (uint8_t)(ms >> (8 * (5 - i)));
    return id;
}
