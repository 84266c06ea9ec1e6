/* SPDX-License-Identifier: Apache-2.0 */
/* The data directory of a coordinator's replica: found, made to join a cluster, or made to bootstrap
 * one. The rules: fleet/bootstrap_rules.h. */
#ifndef MUSTER_COORDINATOR_BOOTSTRAP_H
#define MUSTER_COORDINATOR_BOOTSTRAP_H
#include "common/chassis.h"

struct coordinator_bootstrap_options {
    struct chassis *chassis;
    const char *const *join_addresses; /* ends with NULL */
    const char *grpc_address, *raft_address;
    struct tls_context *grpc_server, *grpc_client; /* NULL: plaintext */
    struct health_check *ready;                    /* is told what is waited for */
    bool *ret_told_to_join; /* set when the others named a cluster, which is to be joined */
    bool *ret_alone;        /* set when a cluster of one was bootstrapped, without join addresses */
};
/* Makes the directory unless it is there; the loop turns while the others are asked. ERR_CANCELLED:
 * stopped meanwhile. ERR_PRECONDITION: another cluster lists this replica. */
enum err coordinator_directory(const struct coordinator_bootstrap_options *options,
                               struct note *note);
#endif
