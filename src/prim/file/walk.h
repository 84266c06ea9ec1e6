/* SPDX-License-Identifier: Apache-2.0 */
/* The names in a directory, without the two that are always there. */
#ifndef PRIM_FILE_WALK_H
#define PRIM_FILE_WALK_H
#include <stdbool.h>

typedef bool walk_fn(void *context, const char *name); /* false: enough */
int walk(int dir, walk_fn *each, void *context);       /* 0 or errno */
#endif
