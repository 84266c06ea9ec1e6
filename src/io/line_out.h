/* SPDX-License-Identifier: Apache-2.0 */
/* Whole lines to a descriptor somebody else reads: standard error, standard output, a pipe.
 *
 * It never waits. When the reader is behind, ERR_FULL says that nothing was written and the line is
 * still the caller's: to drop and count, or to keep. A line up to LINE_OUT_ATOMIC bytes reaches a
 * pipe in one piece beside other writers, other processes too; a longer one may be cut in two by
 * them, but never by us: its rest goes out before the next line. It goes out by itself only with
 * line_out_flush, so call that from a timer and before the end.
 *
 * One thread at a time. SIGPIPE is the program's affair (io/signals.h ignores it). */
#ifndef IO_LINE_OUT_H
#define IO_LINE_OUT_H
#include "base/buf.h"
#include "base/str.h"

enum {
    LINE_OUT_ATOMIC = 4096,     /* PIPE_BUF */
    LINE_OUT_MAX = 1024 * 1024, /* of one line; more is ERR_TOO_LARGE */
};
enum line_out_kind { LINE_OUT_FILE, LINE_OUT_PIPE, LINE_OUT_SOCKET };
struct line_out {
    int fd;     /* borrowed, or a second opening of the same pipe that does not wait */
    bool owned; /* fd is ours to close; else (no /proc) poll is asked before each piece */
    bool torn;  /* the last write stopped inside a line and its rest is lost */
    enum line_out_kind kind;
    struct buf rest; /* of a line that was begun */
};

/* ERR_INVALID when fd is not open. The flags of `fd` itself are left alone: others share it. */
enum err line_out_init(struct line_out *out, int fd);
void line_out_deinit(struct line_out *out); /* fine on a zeroed one; the rest of a line is lost */
/* `line` ends with '\n'. ERR_FULL, ERR_NO_SPACE, ERR_CLOSED (nobody reads), ERR_TOO_LARGE,
 * ERR_NOMEM, ERR_IO: the line is not out, or (files) in part; the next line then begins on a line
 * of its own. */
enum err line_out_write(struct line_out *out, struct str line);
/* The rest of a line that was begun, if any. ERR_FULL: some of it is still here. Other errors as
 * above. */
enum err line_out_flush(struct line_out *out);
#endif
