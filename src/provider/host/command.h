/* SPDX-License-Identifier: Apache-2.0 */
/* The command backend: every operation runs a user's script, so that a shell script can connect any
 * cloud (docs/providers.md).
 *
 * A bounded number of scripts runs at a time; others wait in order. A script that fails ends only
 * its own operation. A script also lists the machines at an interval. A machine that the list omits
 * stays; only those under "removed" are removed. */
#ifndef PROVIDER_HOST_COMMAND_H
#define PROVIDER_HOST_COMMAND_H
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

struct command_options { /* copied */
    struct io *io;
    const struct log_source *log; /* may be NULL */
    const char *script;           /* a path, or a name without slash that is searched in PATH */
    uint32_t running_max;         /* scripts at a time; 0: 16 */
    uint64_t timeout_ms;          /* per script, plus the grace period of a drain; 0: 10 min */
    uint64_t list_every_ms;       /* interval of `list`; 0: 30 s */
};
/* ERR_INVALID (no script), ERR_NOMEM, ERR_FULL. */
enum err command_backend_open(const struct command_options *options, struct backend **ret_backend,
                              struct note *note);
#endif
