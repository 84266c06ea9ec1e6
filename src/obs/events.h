/* SPDX-License-Identifier: Apache-2.0 */
/* Writes event lines, each one JSON object, to standard output, a rotating file, or nothing. Any
 * thread.
 *
 * Writing never blocks: when the sink does not accept a line, up to queue_max lines are queued.
 * Beyond that, EVENT_MAY_DROP lines are dropped and counted, and EVENT_KEEP lines are refused with
 * ERR_FULL: the caller then stops admitting work.
 *
 * ERR_OK means that the line was accepted, not that it is durable. Lines are synced when their file
 * is rotated and at close. */
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
    EVENT_MAY_DROP, /* for heartbeats and samples */
    EVENT_KEEP,     /* for transitions */
};
enum {
    EVENTS_LINE_MAX = 256 * 1024, /* bytes, including the line end */
    EVENTS_QUEUE_MAX = 100000,
    EVENTS_QUEUE_BYTES_MAX = 64 << 20,
    EVENTS_KEEP_MAX = 1000, /* upper limit for rotated files */
};
struct events_options {
    enum events_kind kind;
    int fd;                /* for EVENTS_STDOUT: borrowed; 0: standard output */
    struct fs *fs;         /* for EVENTS_FILE */
    struct clock *clock;   /* for EVENTS_FILE: times the check for a moved file, once a second */
    const char *path;      /* copied */
    uint32_t mode;         /* file mode; 0 means 0644 */
    uint64_t rotate_bytes; /* a file that reaches this size becomes path.1; 0: never */
    uint32_t keep;         /* rotated files, path.1 (newest) to path.<keep>; 0: 5 */
    /* The loop's worker syncs and closes rotated files; all writes must come from the loop's
     * thread. NULL: the writer syncs and closes the files itself and waits. */
    struct loop *loop;
    size_t queue_max;
    const struct log_source *log; /* NULL: no logging */
    const char *name;             /* for log messages, such as "events"; static text */
};
struct events_stats {
    uint64_t written, lost, rotations, failed_rotations;
    uint64_t refused; /* EVENT_KEEP lines that the full queue refused; the caller keeps them */
    size_t queued;
    bool in_trouble;
    bool refusing; /* an EVENT_KEEP line was refused and no line was written since */
};
/* ERR_INVALID or, for a file, errors of fs_open with a note. */
enum err events_open(const struct events_options *options, struct events **ret_events,
                     struct note *note);
/* Writes queued lines if the sink accepts them, syncs a file, frees. NULL is allowed. */
void events_close(struct events *events);
/* `line` must not contain a line break. ERR_FULL: an EVENT_MAY_DROP line was dropped and counted,
 * or an EVENT_KEEP line was refused. ERR_INVALID, ERR_TOO_LARGE, ERR_NOMEM. */
enum err events_write(struct events *events, enum events_class class, struct str line);
/* Retries queued lines. Call from a timer. True: the queue is empty. */
bool events_flush(struct events *events);
struct events_stats events_stats(struct events *events);
#endif
