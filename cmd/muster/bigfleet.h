/* SPDX-License-Identifier: Apache-2.0 */
/* Under the name bigfleet, muster takes that program's command lines. */
#ifndef MUSTER_BIGFLEET_H
#define MUSTER_BIGFLEET_H

#include "common/program.h"

/* `bigfleet coordinator -id=node-1` is `muster coordinator run --id=node-1`: the word run is not
 * said, and an option may have one dash. Its defaults hold where ours differ and theirs is safe: a
 * coordinator is node-1 and founds nothing unless told to. What listens stays on loopback without
 * TLS, as everywhere. */
int bigfleet_main(const struct command *program, int argc, char **argv);

#endif
