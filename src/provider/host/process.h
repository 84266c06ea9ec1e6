/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: a machine is a real process on this host, for trials and tests that want
 * machines which really run, break and survive.
 *
 *   Create     a directory, and in it the host's process
 *   Configure  the blob and the metadata as files, and the node's process
 *   Drain      SIGTERM to the node, SIGKILL when its grace is over
 *   Delete     the host's process likewise, then the directory
 *
 * The processes outlive the provider. A later provider finds them by number, start and boot, and
 * reports those that ended meanwhile. A machine whose process ends by itself is reported as Failed;
 * the rest of it is killed, and its directory stays until the machine is deleted. */
#ifndef PROVIDER_HOST_PROCESS_H
#define PROVIDER_HOST_PROCESS_H
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

struct process_backend_options { /* its texts outlive the backend, but for `directory` */
    struct io *io;
    const struct log_source *log; /* may be NULL */
    const char *directory;        /* one below it for each machine */
    /* For sh; NULL: sleep. They find MUSTER_MACHINE_ID, _DIR, _TYPE and MUSTER_ZONE, the node's
     * also MUSTER_CLUSTER, MUSTER_BLOB_FILE and MUSTER_METADATA_FILE. */
    const char *host_command, *node_command;
    const char *ready_file; /* the node makes it in its directory when it is ready; NULL: at once */
    uint64_t ready_within_ms; /* 0: 5 min */
    uint32_t machines;        /* "local-1" and so on */
    struct offer offer;       /* of each; without labels and allocatable */
    bool cgroups;             /* where they can be had */
};
/* ERR_INVALID (no directory), what fs_make_dirs answers, ERR_UNSUPPORTED (no /proc), ERR_NOMEM,
 * with a note. */
enum err process_backend_open(const struct process_backend_options *options,
                              struct backend **ret_backend, struct note *note);
#endif
