/* SPDX-License-Identifier: Apache-2.0 */
/* The file source: reads demand from a TOML or JSON file (demand_file.h), and writes the machines
 * to nodes.json in the state directory (docs/operators.md).
 *
 * The demand file is checked every second. After a wrong edit the last good demand stays in force.
 * The state directory has a copy of the last good demand for a restart.
 *
 * A reclaim runs the user's command: COMMAND MACHINE GRACE_SECONDS, with DRAIN_* in its
 * environment. Exit status 0: the machine is empty. When the grace period ends, the command's
 * process group is killed. Without a command a reclaim ends immediately. */
#ifndef OPERATOR_FILE_H
#define OPERATOR_FILE_H
#include "operator/source.h"

enum {
    FILE_DRAINS_MAX = 64, /* drains at a time; the grace period of a waiting drain runs, too */
    FILE_SETTLE_MS = 200, /* changes within this time are written together */
};

struct file_source_options { /* the texts must outlive the source */
    const char *demand;
    const char *drain_command; /* a program without arguments; NULL: none */
};
/* The operator starts and closes the source (source_ops). ERR_NOMEM. */
enum err file_source_open(const struct file_source_options *options,
                          struct demand_source **ret_source);
#endif
