/* SPDX-License-Identifier: Apache-2.0 */
/* One screen of a terminal that is drawn again and again, and restored at the end.
 *
 * A frame is lines of printable text in sections. A section begins with a line whose first byte is
 * SCREEN_SECTION; its second line is a table's heading. A frame that does not fit is cut, each
 * section to a fair share of rows.
 *
 * A separate process makes the frames, so that a part of the fleet that hangs does not keep the
 * user from leaving. The terminal is restored at the end, on every signal that can be caught, and
 * while this process is stopped (Ctrl-Z). */
#ifndef CTL_SCREEN_H
#define CTL_SCREEN_H
#include "base/buf.h"
#include "base/note.h"

#define SCREEN_SECTION '\f'
enum { SCREEN_FRAME_MAX = 1024 * 1024 };

/* Runs in the frame process; may block. */
typedef enum err screen_make_fn(void *owner, struct buf *into);
/* Shows frames until the user presses q or Ctrl-C. ERR_INTERNAL with a note: the frame process
 * ended or the terminal is gone. Ignores SIGPIPE from then on. */
enum err screen_run(screen_make_fn *make, void *owner, uint64_t every_ms, struct note *note);

/* Fits a frame into `rows` and `columns`; titles keep their first byte. ERR_FULL, ERR_NOMEM. */
enum err screen_fit(struct str frame, size_t rows, size_t columns, struct buf *into);
/* Writes a whole frame for a pipe, with a blank line between sections. */
enum err screen_plain(struct str frame, struct buf *into);
#endif
