/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system, as a struct io: libuv loop, kernel sockets and files. One per thread. */
#ifndef IO_REAL_H
#define IO_REAL_H
#include "io/io.h"

struct real_io;
enum err real_io_open(struct real_io **ret_real); /* ERR_NOMEM, ERR_IO; SIGPIPE is ignored then */
/* The same inside somebody else's program, whose signals are not ours to change: the thread that
 * runs it blocks SIGPIPE itself. */
enum err real_io_open_within(struct real_io **ret_real);
struct io *real_io_io(struct real_io *real);
/* Runs until real_io_stop. Everything opened on it must be closed before real_io_close. */
void real_io_run(struct real_io *real);
void real_io_stop(struct real_io *real); /* loop thread only; use loop_post elsewhere */
/* One turn: delivers what is ready, waiting for the next event if `wait`. For tests and benches. */
void real_io_turn(struct real_io *real, bool wait);
/* Runs what is left of closing handles and waiting posts, then frees; waits for a name lookup that
 * cannot be called off. Nobody may post any more. NULL is fine. */
void real_io_close(struct real_io *real);
const char *real_io_engine_version(void); /* of libuv, "1.44.2", as loaded */
#endif
