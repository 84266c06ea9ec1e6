/* SPDX-License-Identifier: Apache-2.0 */
/* The file source: reads demand from a TOML or JSON file (demand_file.h), writes node states to
 * one.
 *
 * The demand file is checked every second. An edit that cannot be used changes nothing: the last
 * good demand stays in force, the log names the wrong line, a metric counts it and /readyz says
 * so. The last good demand is also stored in the state directory, so that a restart beside a bad
 * file does not lose it.
 *
 * nodes.json in the state directory describes the machines; the file is replaced whole, for
 * scripts to read. Layout: docs/operators.md.
 *
 * A reclaim runs the user's command, if there is one: COMMAND MACHINE GRACE_SECONDS, with
 * DRAIN_* in its environment. When the grace period ends, its whole process group is killed.
 * Exit status 0: the machine is empty. Without a command a reclaim ends at once. */
#ifndef OPERATOR_FILE_H
#define OPERATOR_FILE_H
#include "operator/source.h"

enum {
    FILE_DRAINS_MAX = 64, /* commands at once; more wait, and their grace runs */
    FILE_SETTLE_MS = 200, /* node states that change together are written together */
};

struct file_source_options {   /* its texts outlive the source */
    const char *demand;        /* the file */
    const char *drain_command; /* NULL: none; a program without arguments */
};
/* ERR_NOMEM. The operator opens, runs and closes it (source_ops). */
enum err file_source_open(const struct file_source_options *options,
                          struct demand_source **ret_source);
#endif
