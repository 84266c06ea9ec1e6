/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue backend: a simulated cloud, defined by latencies and failure probabilities.
 *
 * Machines are named "<pool>-<zone>-<number>", so an id means the same in every process. The
 * backend stores nothing: after a restart the host reports the machines. One seeded generator
 * makes all random choices, and the loop provides all times, so that the simulator can drive the
 * backend. */
#ifndef PROVIDER_HOST_CLOUD_H
#define PROVIDER_HOST_CLOUD_H
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

struct cloud_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    const char *path;             /* the catalogue, checked each second; NULL: built-in */
    uint64_t seed_count;          /* number of machines in all pools */
};
/* ERR_PARSE and ERR_INVALID with a note on the place in the catalogue, ERR_NOMEM, and errors of
 * reading the file. */
enum err cloud_open(const struct cloud_options *options, struct backend **ret_backend,
                    struct note *note);
#endif
