/* SPDX-License-Identifier: Apache-2.0 */
/* Wall time against libc's calendar. */
#include <stdio.h>
#include <time.h>

#include "base/prng.h"
#include "lib/test.h"
#include "text/rfc3339.h"

enum { ROUNDS = 100000 };

TEST(wall_time_agrees_with_the_c_library)
{
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t ms = prng_below(&p, 253402300800000u);
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;
        char text[RFC3339_CAP], want[64], day[32];
        CHECK("calendar",
              gmtime_r(&seconds, &tm) && strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm));
        snprintf(want, sizeof want, "%s.%03uZ", day, (unsigned)(ms % 1000));
        wall_text((wall_time){ms}, text);
        CHECK_TEXT("same text", text, want);
    }
}
