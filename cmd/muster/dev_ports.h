/* Which loopback ports the replicas of `muster dev` use: the defaults + 10 x n, or free ones. */
#ifndef MUSTER_DEV_PORTS_H
#define MUSTER_DEV_PORTS_H
#include "io/io.h"

enum { DEV_REPLICAS_MAX = 7, DEV_PORTS_EACH = 3 };
struct dev_ports {
    uint16_t grpc[DEV_REPLICAS_MAX], raft[DEV_REPLICAS_MAX], http[DEV_REPLICAS_MAX];
};
void dev_ports_usual(struct dev_ports *ports, size_t replicas);
/* Free ones, drawn once and kept in DIR/ports: replicas that all came back at other addresses would
 * not find each other. */
enum err dev_ports_free(struct io *io, const char *dir, size_t replicas, struct dev_ports *ports,
                        struct note *note);
#endif
