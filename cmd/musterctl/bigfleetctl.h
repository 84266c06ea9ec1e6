/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of bigfleetctl: musterctl under that name takes the same options before the
 * command, one dash or two, says its mistakes as "bigfleetctl: ..." and ends with 1 for all of
 * them. */
#ifndef MUSTERCTL_BIGFLEETCTL_H
#define MUSTERCTL_BIGFLEETCTL_H
#include <stdbool.h>

bool bigfleetctl_is(const char *program_name); /* as it was started, with or without its path */
int bigfleetctl_main(int argc, char **argv);
#endif
