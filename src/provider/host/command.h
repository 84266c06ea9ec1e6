/* SPDX-License-Identifier: Apache-2.0 */
/* The command backend: every operation runs a user's script, so that a shell script can connect any
 * cloud. docs/providers.md has the contract of the script.
 *
 * A bounded number of scripts runs at once; the others wait in order. A script that hangs, prints
 * too much or prints no JSON fails only its own operation. The script also lists the machines
 * (`list`) at an interval. Machines that the list omits stay; machines that the list names under
 * "removed" are removed. */
#ifndef PROVIDER_HOST_COMMAND_H
#define PROVIDER_HOST_COMMAND_H
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

struct command_options { /* copied */
    struct io *io;
    const struct log_source *log; /* may be NULL */
    const char *script;           /* path, or a name to search in PATH if it contains no slash */
    uint32_t running_max;         /* limit for running scripts; 0 means 16 */
    uint64_t timeout_ms;          /* per script, plus the grace period of a drain; 0 means 10 min */
    uint64_t list_every_ms;       /* interval between runs of `list`; 0 means 30 s */
};
/* Opens the backend. ERR_INVALID (no script), ERR_NOMEM, ERR_FULL. */
enum err command_backend_open(const struct command_options *options, struct backend **ret_backend,
                              struct note *note);
#endif
