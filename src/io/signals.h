/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as events on the loop. The first signals_open makes the process ignore SIGPIPE. */
#ifndef IO_SIGNALS_H
#define IO_SIGNALS_H
#include <signal.h>

#include "io/loop.h"

struct signals;
typedef void signals_fn(void *owner, int signal);
/* `numbers` ends with 0. ERR_UNSUPPORTED: not a real loop (io/real.h). ERR_INVALID, ERR_NOMEM. */
enum err signals_open(struct loop *loop, const int *numbers, signals_fn *fn, void *owner,
                      struct signals **ret_signals);
void signals_close(struct signals *signals); /* NULL is allowed */
#endif
