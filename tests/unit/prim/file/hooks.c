/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/prim/file/hooks.h"

struct file_hooks file_hooks;

const char *file_step_name(enum file_step step)
{
    static const char *const names[] = {
#define X(name) #name,
        FILE_STEPS(X)
#undef X
    };
    return step < STEP_COUNT ? names[step] : "?";
}
