/* SPDX-License-Identifier: Apache-2.0 */
/* Which loopback ports the processes of `muster dev` use: the usual ones, or free ones. */
#ifndef MUSTER_DEV_PORTS_H
#define MUSTER_DEV_PORTS_H
#include "io/io.h"

enum { DEV_REPLICAS_MAX = 7, DEV_SHARDS_MAX = 2, DEV_OPERATORS = 3, DEV_WORKERS_MAX = 64 };
/* Nothing but ports, in the order of the file; new ones go to the end. */
struct dev_ports {
    struct {
        uint16_t grpc, raft, http; /* 7790, 7791, 8790, each + 10 for the next */
    } replicas[DEV_REPLICAS_MAX];
    uint16_t provider_grpc, provider_http; /* 7770, 8771 */
    struct {
        uint16_t grpc, http; /* 7780, 8780, each + 1 */
    } shards[DEV_SHARDS_MAX];
    uint16_t operator_http[DEV_OPERATORS]; /* 8770, 8772, 8773 */
    uint16_t workers[DEV_REPLICAS_MAX];    /* coordinators', for workers: 50051, each + 10 */
};
void dev_ports_usual(struct dev_ports *ports);
/* Free ones, drawn once and kept in DIR/ports: processes that all came back at other addresses
 * would not find each other. */
enum err dev_ports_free(struct io *io, const char *dir, struct dev_ports *ports, struct note *note);
#endif
