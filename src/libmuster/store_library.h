/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the library of a store. Stores with heavy dependencies are in separate libraries, so that a
 * program with a file lock loads neither curl nor gRPC. Two files implement the function:
 *
 *   loaded.c   in libmuster.so: loads muster-1/NAME.so when a URL names the store
 *   linked.c   in libmuster.a and muster's programs: finds the linked library (libmuster-NAME.a)
 *
 * Both sides share the structs of prim/backend.h, so their versions must be equal. */
#ifndef LIBMUSTER_STORE_LIBRARY_H
#define LIBMUSTER_STORE_LIBRARY_H
#include "prim/backend.h"

/* UNSUPPORTED/backend: the library is missing; the text says what to install or to link. */
coord_result store_library_opener(const char *name, const char *opener, prim_open_fn **ret_open);
#endif
