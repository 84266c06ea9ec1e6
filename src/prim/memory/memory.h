/* SPDX-License-Identifier: Apache-2.0 */
/* The store mem: of this process. `mem:` is a store of its own; `mem:?name=N` is the same one for
 * all who name it, until the last of them closes it. */
#ifndef PRIM_MEMORY_MEMORY_H
#define PRIM_MEMORY_MEMORY_H
#include "prim/backend.h"

prim_open_fn prim_memory_open;
#endif
