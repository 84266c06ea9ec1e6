#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "prim/answer.h"
#include "prim/backend.h"

int64_t prim_boottime_ns(void *unused)
{
    struct timespec now;
    (void)unused;
    /* Counts time asleep too, so that a resumed holder sees at once how late it is (T9). */
    int failed = clock_gettime(CLOCK_BOOTTIME, &now);
    assert(failed == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

coord_id prim_boot_id(void)
{
    static const coord_id unknown = {{0}};
    coord_id id = unknown;
    struct stat space;
    char text[64];
    size_t digits = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0) { (void)close(fd); }
    for (ssize_t i = 0; i < len; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0) { continue; } /* dashes, the end of the line */
        if (digits == 2 * sizeof id.b) { return unknown; }
        id.b[digits / 2] = (uint8_t)(id.b[digits / 2] << 4 | digit);
        digits++;
    }
    if (digits != 2 * sizeof id.b) { return unknown; }
    /* Two containers of one host may count from different starts. */
    if (stat("/proc/self/ns/time", &space) == 0) {
        store_le64(id.b, load_le64(id.b) ^ (uint64_t)space.st_ino);
    }
    return id;
}
