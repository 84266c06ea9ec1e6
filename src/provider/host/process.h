/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: a machine is a real process on this host, for experiments and tests.
 *
 *   Create     creates a directory and starts the host's process in it
 *   Configure  writes blob and metadata as files and starts the node's process
 *   Drain      sends SIGTERM to the node, and SIGKILL when the grace period is over
 *   Delete     ends the host's process in the same way, then removes the directory
 *
 * The processes outlive the provider. A later provider finds them by pid, start time and boot id. A
 * machine whose process ended by itself is Failed: its other process is killed, and its directory
 * stays until the machine is deleted. */
#ifndef PROVIDER_HOST_PROCESS_H
#define PROVIDER_HOST_PROCESS_H
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

struct process_backend_options { /* the texts must outlive the backend, except `directory` */
    struct io *io;
    const struct log_source *log; /* may be NULL */
    const char *directory;
    /* Commands for sh; NULL: sleep. Environment: MUSTER_MACHINE_ID, MUSTER_MACHINE_DIR,
     * MUSTER_MACHINE_TYPE, MUSTER_ZONE, and for the node MUSTER_CLUSTER, MUSTER_BLOB_FILE,
     * MUSTER_METADATA_FILE. */
    const char *host_command, *node_command;
    const char *ready_file;   /* the node makes this file when ready; NULL: ready when started */
    uint64_t ready_within_ms; /* 0: 5 min */
    uint32_t machines;        /* the ids are "local-1" and so on */
    struct offer offer;       /* of every machine */
    bool cgroups;
};
/* ERR_INVALID (no directory), errors of fs_make_dirs(), ERR_UNSUPPORTED (no /proc), ERR_NOMEM, with
 * a note. */
enum err process_backend_open(const struct process_backend_options *options,
                              struct backend **ret_backend, struct note *note);
#endif
