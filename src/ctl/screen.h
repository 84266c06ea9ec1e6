/* SPDX-License-Identifier: Apache-2.0 */
/* One screen of a terminal that is drawn again and again, and given back as it was.
 *
 * A frame is lines of printable text in sections; a section begins with a line whose first byte is
 * SCREEN_SECTION, and its second line is the heading of a table. A frame that does not fit is cut:
 * lines at the right edge, and of the sections the rows, each section keeping its fair share, with
 * a line that says how many are missing.
 *
 * Frames are made by a process of its own, so that a part of the fleet that hangs does not keep
 * anybody from leaving. The terminal is restored when the user leaves, when the maker ends, and on
 * every signal that can be caught; it is given back while the process is stopped (Ctrl-Z). */
#ifndef CTL_SCREEN_H
#define CTL_SCREEN_H
#include "base/buf.h"
#include "base/note.h"

#define SCREEN_SECTION '\f'
enum { SCREEN_FRAME_MAX = 1024 * 1024 };

/* Appends one frame to `into`. Called in the maker's process, as often as it takes. */
typedef enum err screen_make_fn(void *owner, struct buf *into);
/* Until the user presses q or Ctrl-C. ERR_INTERNAL with a note: the maker ended, or the terminal is
 * gone. SIGPIPE is ignored from then on. */
enum err screen_run(screen_make_fn *make, void *owner, uint64_t every_ms, struct note *note);

/* Fits a frame into so many rows and columns; titles keep their mark. ERR_FULL,
 * ERR_NOMEM. */
enum err screen_fit(struct str frame, size_t rows, size_t columns, struct buf *into);
/* The whole frame for a pipe: sections parted by a blank line. */
enum err screen_plain(struct str frame, struct buf *into);
#endif
