/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a name in a table of dimensions. */
#ifndef TESTS_LIB_DIMENSIONS_FIND_H
#define TESTS_LIB_DIMENSIONS_FIND_H
#include "model/resource.h"

static inline bool dimensions_find(const struct dimensions *d, struct str name, uint32_t *ret_index)
{
    *ret_index = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        if (!str_equal(d->names[i], name)) continue;
        *ret_index = i;
        return true;
    }
    return false;
}
#endif
