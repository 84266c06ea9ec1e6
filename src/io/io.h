/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver is given instead of an operating system: the real one (io/real.h) or a simulated
 * host (src/sim). Code above io/ takes a `struct io *` and never asks where it came from. */
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
