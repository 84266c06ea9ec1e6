/* SPDX-License-Identifier: Apache-2.0 */
/* The operating system as a struct io: libuv loop, kernel sockets and files. One per thread. */
#ifndef IO_REAL_H
#define IO_REAL_H
#include "io/io.h"

struct real_io;
/* Opens the I/O; the process then ignores SIGPIPE. ERR_NOMEM, ERR_IO. */
enum err real_io_open(struct real_io **ret_real);
/* Like real_io_open, for a library inside another program, whose signal handling must not change.
 * The thread that runs the loop blocks SIGPIPE. */
enum err real_io_open_within(struct real_io **ret_real);
struct io *real_io_io(struct real_io *real);
/* Runs until real_io_stop. Close everything opened on the loop before real_io_close. */
void real_io_run(struct real_io *real);
void real_io_stop(struct real_io *real); /* loop thread only; other threads use loop_post */
/* Runs one turn: delivers events that are ready, and if `wait` is set, waits for the next event
 * first. For tests and benches. */
void real_io_turn(struct real_io *real, bool wait);
/* Waits for closing handles, runs waiting posts, and frees `real`. Also waits for a name lookup
 * that cannot be cancelled. No thread may post any more. `real` may be NULL. */
void real_io_close(struct real_io *real);
const char *real_io_engine_version(void); /* version of the libuv in use, such as "1.44.2" */
#endif
