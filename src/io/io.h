/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between a driver and the operating system: a real one (io/real.h) or a simulated
 * host (src/sim). Code above io/ gets a `struct io *` and must not depend on which one it is. */
#ifndef IO_IO_H
#define IO_IO_H
#include "io/clock.h"
#include "io/fs.h"
#include "io/loop.h"
#include "io/net.h"
#include "io/worker.h"

struct io {
    struct loop *loop;
    struct clock *clock;
    struct entropy *entropy;
    struct net *net;
    struct fs *fs;
};
#endif
