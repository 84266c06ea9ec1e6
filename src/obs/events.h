/* SPDX-License-Identifier: Apache-2.0 */
/* Where event lines go: standard output, a file that rotates, or nowhere.
 *
 * A line is one JSON object; it is written with one write, never mixed with another, by any thread.
 * A file belongs to one process. Nothing waits: when the sink does not take a line
 * (a full pipe, a full disk), lines queue up to queue_max. Then lines that may be lost are dropped
 * and counted, and one that must be kept is refused with ERR_FULL: the caller stops admitting work
 * rather than lose it. events_flush() tries again. The log says once that lines cannot be written,
 * and once that they are written again.
 *
 * The surprising rule: ERR_OK means taken, not durable. Lines are synced when their file is
 * rotated away and at close. */
#ifndef OBS_EVENTS_H
#define OBS_EVENTS_H
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"
#include "io/clock.h"

struct events;
struct fs;
struct log_source;
struct loop;

enum events_kind { EVENTS_NONE, EVENTS_STDOUT, EVENTS_FILE };
enum events_class {
    EVENT_MAY_DROP, /* heartbeats, samples */
    EVENT_KEEP,     /* transitions */
};
enum {
    EVENTS_LINE_MAX = 256 * 1024, /* with the line end */
    EVENTS_QUEUE_MAX = 100000,
    EVENTS_QUEUE_BYTES_MAX = 64 << 20,
    EVENTS_KEEP_MAX = 1000, /* rotated files */
};
struct events_options {
    enum events_kind kind;
    int fd;                /* EVENTS_STDOUT: 0 means 1, standard output; borrowed */
    struct fs *fs;         /* EVENTS_FILE */
    struct clock *clock;   /* EVENTS_FILE: to look for a file moved away by others, once a second */
    const char *path;      /* copied */
    uint32_t mode;         /* 0: 0644 */
    uint64_t rotate_bytes; /* 0: never; else a file that has reached it becomes path.1 */
    uint32_t keep;         /* 0: 5; path.1 is the newest, path.<keep> the oldest */
    /* A worker of this loop syncs and closes rotated files; all writes come from its thread. NULL:
     * the writer does both, and waits. */
    struct loop *loop;
    size_t queue_max;             /* lines; 0: EVENTS_QUEUE_MAX */
    const struct log_source *log; /* NULL: nothing is logged */
    const char *name;             /* of the lines, in the log: "events"; static text */
};
struct events_stats {
    uint64_t written, lost, rotations, failed_rotations;
    uint64_t refused; /* lines to keep that found no room; each is with its caller */
    size_t queued;
    bool in_trouble;
    bool refusing; /* a line to keep was refused, and since then none has gone out */
};
/* ERR_INVALID; for a file also the errors of fs_open, with a note that names it. */
enum err events_open(const struct events_options *options, struct events **ret_events,
                     struct note *note);
/* Writes what is queued if the sink takes it, syncs a file, frees. NULL is fine. */
void events_close(struct events *events);
/* `line` without its end and without any line break in it. ERR_FULL (see above; a line that may
 * drop is gone and counted), ERR_INVALID, ERR_TOO_LARGE, ERR_NOMEM. */
enum err events_write(struct events *events, enum events_class class, struct str line);
/* Tries queued lines again, and the rest of one that a pipe took in part; call it from a timer.
 * True when nothing is left. */
bool events_flush(struct events *events);
struct events_stats events_stats(struct events *events);
#endif
