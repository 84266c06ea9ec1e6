/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinators' own store: muster://h1:7790,h2:7790,h3:7790, coordination.md B6.
 *
 *   ?tls=1   TLS; ca=, cert=, key= name files; without ca= the system's roots
 *
 * The server decides everything in one step and numbers it; here is what a caller needs around
 * that: it follows the leader, repeats under the same request, waits with a deadline, and tells a
 * holder at once when its claim is over. */
#ifndef PRIM_NATIVE_NATIVE_H
#define PRIM_NATIVE_NATIVE_H
#include "prim/backend.h"

coord_result prim_native_open(const struct prim_open *in, struct prim_backend **ret_backend);
#endif
