/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between a driver and the operating system, implemented by io/real.h (the kernel)
 * and src/sim (a simulated host). */
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
