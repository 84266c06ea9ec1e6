/* SPDX-License-Identifier: Apache-2.0 */
#include "store/core/must.h"

#include "base/base.h"

void *store_must(void *memory)
{
    assert(memory && "out of memory while applying: the replica ends rather than differ");
    return memory;
}
