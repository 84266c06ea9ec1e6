/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include "lib/test.h"

TEST(deadlines)
{
    mono_time now = {1000};

    CHECK_U64("after", mono_after(now, 500).ms, 1500);
    CHECK_U64("for ever stays for ever", mono_after(now, UINT64_MAX).ms, MONO_NEVER.ms);
    CHECK_U64("never, and later", mono_after(MONO_NEVER, 1).ms, MONO_NEVER.ms);
    CHECK("due at its moment", mono_due(now, now));
    CHECK("due after it", mono_due((mono_time){999}, now));
    CHECK("not before it", !mono_due((mono_time){1001}, now));
    CHECK("never", !mono_due(MONO_NEVER, now));
    CHECK_U64("elapsed", mono_elapsed_ms((mono_time){400}, now), 600);
    CHECK_U64("backwards counts as nothing", mono_elapsed_ms(now, (mono_time){400}), 0);
    CHECK_U64("the earlier", mono_min(now, MONO_NEVER).ms, 1000);
    CHECK_U64("either way", mono_min(MONO_NEVER, now).ms, 1000);
}
