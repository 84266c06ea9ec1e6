/* SPDX-License-Identifier: Apache-2.0 */
/* Coordination over a NATS JetStream key-value bucket, nats-server 2.11 or newer. */
#ifndef PRIM_NATS_NATS_H
#define PRIM_NATS_NATS_H
#include "prim/backend.h"

coord_result prim_nats_open(const struct prim_open *in, struct prim_backend **ret_backend);
#endif
