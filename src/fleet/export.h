/* SPDX-License-Identifier: Apache-2.0 */
/* The export loop: every so often the leader writes the fleet tables to a directory, in the
 * original's format (coordinator.md 6.4, fleet/export_dir.h).
 *
 * A tick does nothing on a replica that does not lead, while the last export is still under way, and
 * while no table has a row. A state that has not changed is exported again: the age of `latest` is
 * the age of what it holds.
 * What fails is logged and counted, and tried again at the next tick: an export never stops the
 * coordinator. The tables are read in slices on the loop; files are written by a worker. */
#ifndef FLEET_EXPORT_H
#define FLEET_EXPORT_H
#include "fleet/machine.h"
#include "fleet/roster.h"
#include "io/io.h"
#include "obs/log.h"
#include "obs/metrics.h"

enum { EXPORT_KEEP_DEFAULT = 48 };
#define EXPORT_EVERY_MS ((uint64_t)5 * 60 * 1000)

struct export_loop;
struct export_loop_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL; one loop per registry */
    struct replica *replica;
    struct fleet_machine *fleet;
    const struct roster *roster; /* may be NULL */
    const char *dir;             /* made when it is not there */
    uint64_t every_ms; /* 0: EXPORT_EVERY_MS; the first comes one interval after the start */
    uint32_t keep;     /* exports that stay; 0: EXPORT_KEEP_DEFAULT */
};
/* ERR_INVALID (dir), ERR_NOMEM, and what worker_open and metrics_add answer. */
enum err export_loop_open(const struct export_loop_options *options, struct export_loop **ret_loop,
                          struct note *note);
/* Before the replica is closed. Waits for the disk; what is half written is removed. NULL is
 * fine. */
void export_loop_close(struct export_loop *loop);
#endif
