/* SPDX-License-Identifier: Apache-2.0 */
#include "log/mutant.h"

#include <stddef.h>

#ifdef MUSTER_MUTANTS
enum mutant log_mutant = MUTANT_NONE;
#endif

static const char *const names[] = {[MUTANT_NONE] = "NONE",
#define X(name) [MUTANT_##name] = #name,
                                    MUTANT_MAP(X)
#undef X
};

const char *mutant_name(enum mutant mutant)
{
    return (unsigned)mutant < MUTANT_COUNT ? names[mutant] : NULL;
}
