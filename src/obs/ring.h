/* SPDX-License-Identifier: Apache-2.0 */
/* The last events of this process, kept for the moment it dies.
 *
 * One ring per process, because a crash has no context to be handed. Writing takes no lock and some
 * ten nanoseconds, from any thread, so hot code may call it: a term changed, a batch of 412
 * applied, a connection closed. The newest RING_SLOTS entries are kept. Reading is safe in a signal
 * handler and beside writers; an entry that is being written at that moment is left out.
 *
 * Each line of the log goes in by itself. */
#ifndef OBS_RING_H
#define OBS_RING_H
#include "base/buf.h"
#include "base/str.h"
#include "io/clock.h"

enum {
    RING_SLOTS = 1024,
    RING_TEXT_MAX = 88, /* more is cut */
};

/* The clock for entries from now on; NULL (at start): entries carry no time. Under the simulator
 * give the virtual one. It must outlive its use. */
void ring_use_clock(struct clock *clock);
/* `what` is static text; `a` and `b` are whatever it says. */
void ring_put(const char *what, uint64_t a, uint64_t b);
/* `text` is copied. */
void ring_put_text(const char *what, struct str text);

/* Oldest first, one line each: "<seconds> <thread> what ...". Async-signal-safe: no lock, no
 * allocation, write(2) only.
 * Each line (at most 256 bytes, with its end) goes to `put`, until that answers false. Returns the
 * number of lines. */
typedef bool ring_line_fn(void *context, struct str line);
size_t ring_dump_with(ring_line_fn *put, void *context);
/* The same into a buffer. ERR_FULL, ERR_NOMEM: what fitted is there. */
enum err ring_dump(struct buf *into);
uint64_t ring_total(void); /* entries ever put; those not kept are the difference */
#endif
