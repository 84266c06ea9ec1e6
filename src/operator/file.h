/* SPDX-License-Identifier: Apache-2.0 */
/* The file source: demand out of a TOML or JSON file (demand_file.h), node states into one.
 *
 * The demand file is looked at every second. An edit that cannot be used changes nothing: the last
 * good demand stays, the log says which line is wrong, a metric counts it and /readyz says so. The
 * last good demand is also kept in the state directory, so that a restart beside a bad file does
 * not lose it either.
 *
 * nodes.json in the state directory says what is known of the machines; it is replaced whole, for
 * scripts to read. Layout: docs/operators.md.
 *
 * A reclaim runs the user's command, if there is one: COMMAND MACHINE GRACE_SECONDS, and DRAIN_* in
 * its environment. It may take as long as the grace; then its whole process group is killed. Exit
 * status 0: the machine is empty. Without a command a reclaim is done at once. */
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
enum err file_source_make(const struct file_source_options *options,
                          struct demand_source **ret_source);
#endif
