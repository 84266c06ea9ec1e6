/* SPDX-License-Identifier: Apache-2.0 */
/* libmuster for tests: its stores may be watched and disturbed by prefixes of the URL. trace.h and
 * fault.h have their options. For programs that are linked with libmuster_disturbed_dep. */
#ifndef TESTS_DISTURB_DISTURB_H
#define TESTS_DISTURB_DISTURB_H
#include "prim/store.h"

typedef coord_result disturb_wrap_fn(struct prim_url *url, const struct prim_clock *clock,
                                     struct prim_backend *inner, struct prim_backend **ret_backend);
/* src/libmuster/open.c calls this as prim_store_open. */
coord_result disturb_store_open(prim_open_fn *open, struct prim_url *url,
                                const coord_options *options, coord_store **ret_store);
/* Its coord_open. */
coord_result libmuster_open(const char *url, const coord_options *options, coord_store **ret_store);
#endif
