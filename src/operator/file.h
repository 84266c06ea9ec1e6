/* SPDX-License-Identifier: Apache-2.0 */
/* The file source: reads demand from a TOML or JSON file (demand_file.h), and writes node states to
 * a file.
 *
 * The demand file is checked every second. After an unusable edit the last good demand stays in
 * force, the log names the wrong line, a metric counts the edit and /readyz reports it. The last
 * good demand is also stored in the state directory, so that a restart with an unusable file does
 * not lose the demand.
 *
 * nodes.json in the state directory describes the machines, for scripts. The file is always
 * replaced as a whole. docs/operators.md describes its layout.
 *
 * A reclaim runs the user's command, if one is configured: COMMAND MACHINE GRACE_SECONDS, with
 * DRAIN_* in its environment. When the grace period ends, the command's process group is killed.
 * Exit status 0 means that the machine is empty. Without a command a reclaim ends at once. */
#ifndef OPERATOR_FILE_H
#define OPERATOR_FILE_H
#include "operator/source.h"

enum {
    FILE_DRAINS_MAX = 64, /* commands that run at once; waiting drains' grace periods run, too */
    FILE_SETTLE_MS = 200, /* node states that change within this time are written together */
};

struct file_source_options {   /* the texts must outlive the source */
    const char *demand;        /* path of the demand file */
    const char *drain_command; /* a program without arguments; NULL: none */
};
/* Opens a file source, which the operator starts and closes (source_ops). ERR_NOMEM. */
enum err file_source_open(const struct file_source_options *options,
                          struct demand_source **ret_source);
#endif
