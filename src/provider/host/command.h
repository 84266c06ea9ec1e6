/* SPDX-License-Identifier: Apache-2.0 */
/* The command backend: every operation runs a user's script, so that a shell script can attach any
 * cloud. docs/providers.md has the contract of the script.
 *
 * A bounded number of scripts runs at once, the others wait in order. A script that hangs or prints
 * too much or no JSON fails its own operation only. The script also lists the machines (`list`) at
 * an interval; machines that it omits stay, machines that it names under "removed" go. */
#ifndef PROVIDER_HOST_COMMAND_H
#define PROVIDER_HOST_COMMAND_H
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

struct command_options { /* copied */
    struct io *io;
    const struct log_source *log; /* may be NULL */
    const char *script;           /* looked up in PATH when it has no slash */
    uint32_t running_max;         /* scripts at once; 0: 16 */
    uint64_t timeout_ms;          /* of one; a drain has its grace beside; 0: 10 min */
    uint64_t list_every_ms;       /* 0: 30 s */
};
/* ERR_INVALID (no script), ERR_NOMEM, ERR_FULL. */
enum err command_backend_open(const struct command_options *options, struct backend **ret_backend,
                              struct note *note);
#endif
