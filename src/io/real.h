/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system as a struct io: libuv loop, kernel sockets and files. One per thread. */
#ifndef IO_REAL_H
#define IO_REAL_H
#include "io/io.h"

struct real_io;
/* The process then ignores SIGPIPE. ERR_NOMEM, ERR_IO. */
enum err real_io_open(struct real_io **ret_real);
/* For a library, which must not change the program's signal handling: the thread that runs the loop
 * blocks SIGPIPE instead. */
enum err real_io_open_within(struct real_io **ret_real);
struct io *real_io_io(struct real_io *real);
/* Runs until real_io_stop. Close everything opened on the loop before real_io_close. */
void real_io_run(struct real_io *real);
void real_io_stop(struct real_io *real); /* loop thread only; other threads use loop_post */
/* Runs one turn, for tests and benches. `wait`: waits for the first event. */
void real_io_turn(struct real_io *real, bool wait);
/* Runs waiting posts, waits for closing handles and a running name lookup, and frees `real`, which
 * may be NULL. No thread may post any more. */
void real_io_close(struct real_io *real);
const char *real_io_engine_version(void); /* version of libuv, such as "1.44.2" */
#endif
