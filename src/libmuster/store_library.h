/* SPDX-License-Identifier: Apache-2.0 */
/* A store with heavy dependencies is in a library of its own, so that a program that wants a file
 * lock loads neither curl nor gRPC. Two files implement this function:
 *
 *   loaded.c   in libmuster.so: loads muster-1/NAME.so when a URL asks for its store
 *   linked.c   in libmuster.a and our own programs: finds what was linked (libmuster-NAME.a)
 *
 * A store library holds its own copy of prim/'s helpers, which keep no state, and exports nothing
 * but its openers. The structs of prim/backend.h cross the border, so both sides must have one
 * version. */
#ifndef LIBMUSTER_STORE_LIBRARY_H
#define LIBMUSTER_STORE_LIBRARY_H
#include "prim/backend.h"

/* `opener` names a prim_open_fn of the library `name`. UNSUPPORTED/backend: not here; the text says
 * what to install or to link. */
coord_result store_library_opener(const char *name, const char *opener, prim_open_fn **ret_open);
#endif
