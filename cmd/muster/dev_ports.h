/* SPDX-License-Identifier: Apache-2.0 */
/* The loopback ports of `muster dev`'s processes: the default ones, or free ones. */
#ifndef MUSTER_DEV_PORTS_H
#define MUSTER_DEV_PORTS_H
#include "io/io.h"

enum { DEV_REPLICAS_MAX = 7, DEV_SHARDS_MAX = 2, DEV_OPERATORS = 3, DEV_WORKERS_MAX = 64 };
/* Only port numbers, in the order of the ports file. New members must be added at the end. */
struct dev_ports {
    struct {
        uint16_t grpc, raft, http; /* 7790, 7791, 8790; each further replica adds 10 */
    } replicas[DEV_REPLICAS_MAX];
    uint16_t provider_grpc, provider_http; /* 7770, 8771 */
    struct {
        uint16_t grpc, http; /* 7780, 8780; each further shard adds 1 */
    } shards[DEV_SHARDS_MAX];
    uint16_t operator_http[DEV_OPERATORS]; /* 8770, 8772, 8773 */
    uint16_t workers[DEV_REPLICAS_MAX];    /* 50051; each further replica adds 10 */
};
void dev_ports_usual(struct dev_ports *ports);
/* Chooses free ports once and keeps them in DIR/ports, so that restarted processes find each
 * other. */
enum err dev_ports_free(struct io *io, const char *dir, struct dev_ports *ports, struct note *note);
#endif
