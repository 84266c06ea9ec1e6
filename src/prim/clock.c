#include <time.h>

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
