/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that shows what another one is asked and answers: one line of JSON for each call, to
 * the file of ?trace=PATH (appended) or to stderr. Values, owners and lease ids are not written. */
#ifndef PRIM_TRACE_H
#define PRIM_TRACE_H
#include "prim/store.h"

coord_result prim_trace_wrap(struct prim_url *url, const struct prim_clock *clock,
                             struct prim_backend *inner, struct prim_backend **ret_backend);
#endif
