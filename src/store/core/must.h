/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that apply may not do without: a replica that has none ends rather than differ. */
#ifndef STORE_CORE_MUST_H
#define STORE_CORE_MUST_H
#include "base/base.h"

static inline void *store_must(void *memory)
{
    assert(memory && "out of memory while applying: the replica ends rather than differ");
    return memory;
}
#endif
