/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue backend: a cloud that exists only as times and chances.
 *
 * Its machines are called "<pool>-<zone>-<number>", so an id means the same in every process and
 * after every change of the catalogue. The backend stores nothing: after a restart the host reports
 * the machines. All draws come from one generator, seeded by the catalogue, and all times from the
 * loop, so that the simulator can drive it. */
#ifndef PROVIDER_HOST_CLOUD_H
#define PROVIDER_HOST_CLOUD_H
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

struct cloud_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    const char *path;    /* of the catalogue, checked every second; NULL: the built-in one */
    uint64_t seed_count; /* machines, shared out over the pools */
};
/* ERR_PARSE, ERR_INVALID (the catalogue, with the place), ERR_NOMEM, what files answer. */
enum err cloud_open(const struct cloud_options *options, struct backend **ret_backend,
                    struct note *note);
#endif
