/* SPDX-License-Identifier: Apache-2.0 */
/* The recent events of this process, kept for the crash report. One ring per process, because a
 * crash handler has no context.
 *
 * Writing takes no lock and about ten nanoseconds, from any thread, so hot code may record events.
 * The ring keeps the newest RING_SLOTS entries. Reading is safe in a signal handler and concurrent
 * with writers; an entry that is being written is left out. The log adds each of its lines. */
#ifndef OBS_RING_H
#define OBS_RING_H
#include "base/buf.h"
#include "base/str.h"
#include "io/clock.h"

enum {
    RING_SLOTS = 1024,
    RING_TEXT_MAX = 88, /* bytes; longer texts are truncated */
};

/* The clock of later entries. NULL (the default): entries have no time. The clock must outlive its
 * use. */
void ring_use_clock(struct clock *clock);
/* `what` is static text that gives `a` and `b` their meaning. */
void ring_put(const char *what, uint64_t a, uint64_t b);
/* `text` is copied. */
void ring_put_text(const char *what, struct str text);

/* Passes each entry to `put`, oldest first, as a line "<seconds> <thread> what ..." of at most 256
 * bytes with its end. Stops when `put` returns false. Returns the number of lines.
 * Async-signal-safe. */
typedef bool ring_line_fn(void *context, struct str line);
size_t ring_dump_with(ring_line_fn *put, void *context);
/* After ERR_FULL or ERR_NOMEM some lines are missing. */
enum err ring_dump(struct buf *into);
uint64_t ring_total(void); /* entries ever recorded, including overwritten ones */
#endif
