/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: a machine is a real process on this host, for experiments and tests whose
 * machines must really run, break and survive.
 *
 *   Create     creates a directory and starts the host's process in it
 *   Configure  writes blob and metadata as files and starts the node's process
 *   Drain      sends SIGTERM to the node, and SIGKILL when the grace period is over
 *   Delete     ends the host's process in the same way, then removes the directory
 *
 * The processes outlive the provider. A later provider finds them by pid, start time and boot id,
 * and reports those that ended meanwhile. A machine whose process ends by itself is reported as
 * Failed; its other process is killed, and its directory stays until the machine is deleted. */
#ifndef PROVIDER_HOST_PROCESS_H
#define PROVIDER_HOST_PROCESS_H
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

struct process_backend_options { /* the texts must outlive the backend, except `directory` */
    struct io *io;
    const struct log_source *log; /* may be NULL */
    const char *directory;        /* directory that contains one for each machine */
    /* Commands for sh; NULL means sleep. Environment: MUSTER_MACHINE_ID, MUSTER_MACHINE_DIR,
     * MUSTER_MACHINE_TYPE, MUSTER_ZONE, and for the node MUSTER_CLUSTER, MUSTER_BLOB_FILE,
     * MUSTER_METADATA_FILE. */
    const char *host_command, *node_command;
    const char *ready_file;   /* the ready node creates this file; NULL: a node is ready at once */
    uint64_t ready_within_ms; /* 0 means 5 min */
    uint32_t machines;        /* number of machines, with the ids "local-1" and so on */
    struct offer offer;       /* offer of every machine; has no labels and no allocatable */
    bool cgroups;             /* uses cgroups where they are available */
};
/* Opens the backend. ERR_INVALID (no directory), errors of fs_make_dirs(), ERR_UNSUPPORTED (no
 * /proc), ERR_NOMEM, with a note. */
enum err process_backend_open(const struct process_backend_options *options,
                              struct backend **ret_backend, struct note *note);
#endif
