/* SPDX-License-Identifier: Apache-2.0 */
/* Writes whole lines to a descriptor that another process reads: standard error, standard output, a
 * pipe. Never blocks.
 *
 * ERR_FULL means that nothing was written, because the reader is slow. Lines of up to
 * LINE_OUT_ATOMIC bytes reach a pipe in one piece. Other writers may write between the parts
 * of a longer line. Call line_out_flush from a timer and before exit, to send the last part.
 *
 * One thread at a time. The program must ignore SIGPIPE (io/signals.h does). */
#ifndef IO_LINE_OUT_H
#define IO_LINE_OUT_H
#include "base/buf.h"
#include "base/str.h"

enum {
    LINE_OUT_ATOMIC = 4096,     /* bytes that a pipe takes in one piece: at most PIPE_BUF */
    LINE_OUT_MAX = 1024 * 1024, /* bytes; a longer line is ERR_TOO_LARGE */
};
enum line_out_kind { LINE_OUT_FILE, LINE_OUT_PIPE, LINE_OUT_SOCKET };
struct line_out {
    int fd;     /* the caller's descriptor, or our own non-blocking one for the same pipe */
    bool owned; /* we opened fd; otherwise (no /proc) each write calls poll first */
    bool torn;  /* the last write stopped inside a line; its end is lost */
    enum line_out_kind kind;
    struct buf rest; /* the unwritten part of a line */
};

/* Keeps the flags of `fd`, because other processes share them. ERR_INVALID if `fd` is not open. */
enum err line_out_init(struct line_out *out, int fd);
void line_out_deinit(struct line_out *out); /* accepts a zeroed struct; drops an unsent part */
/* `line` ends with '\n'. After ERR_FULL, ERR_NO_SPACE, ERR_CLOSED (no reader), ERR_TOO_LARGE,
 * ERR_NOMEM and ERR_IO the line was not written. A file may contain a part of the line. */
enum err line_out_write(struct line_out *out, struct str line);
/* ERR_FULL: some bytes are still unsent. Other errors: see line_out_write. */
enum err line_out_flush(struct line_out *out);
#endif
