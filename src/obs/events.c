/* SPDX-License-Identifier: Apache-2.0 */
/* Event lines are written immediately, or queued in order while the sink accepts none. One lock
 * guards the queue and the sink. The log is written after the lock is released. */
#include "obs/events.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/line_out.h"
#include "obs/events_file.h"
#include "obs/log.h"

enum { FAST_LINE = 2048 }; /* longer lines are built on the heap */

struct queued {
    struct queued *next;
    enum events_class class;
    size_t len;
    char text[];
};

struct events {
    pthread_mutex_t lock;
    enum events_kind kind;
    struct line_out out;
    struct events_file *file;
    struct queued *queue, **queue_end; /* oldest first; queue_end points to the last link */
    size_t queue_max, queue_count, queue_bytes, droppable;
    const struct log_source *log;
    const char *name;
    struct events_stats stats;
    uint64_t lost_in_trouble;
    enum err trouble;
};

/* log lines to write after the lock is released */
struct news {
    bool changed;
    enum err trouble;
    uint64_t lost;
};

/* -- the sink: callers hold the lock -- */

static void begin_trouble(struct events *events, enum err err, struct news *news)
{
    if (events->stats.in_trouble) return;
    events->stats.in_trouble = true;
    events->lost_in_trouble = 0;
    /* A full pipe is common and not logged here. A full queue is logged when a line is lost. */
    if (err == ERR_FULL) return;
    events->trouble = err;
    *news = (struct news){true, err, 0};
}

static enum err put(struct events *events, struct str line, struct news *news)
{
    enum err err = ERR_OK;

    if (events->kind == EVENTS_STDOUT) err = line_out_write(&events->out, line);
    if (events->kind == EVENTS_FILE) err = events_file_write(events->file, line);
    if (err) {
        begin_trouble(events, err, news);
        return err;
    }
    events->stats.written++;
    events->stats.refusing = false;
    return ERR_OK;
}

static void end_trouble(struct events *events, struct news *news)
{
    if (!events->stats.in_trouble) return;
    events->stats.in_trouble = false;
    if (events->trouble) *news = (struct news){true, ERR_OK, events->lost_in_trouble};
    events->trouble = ERR_OK;
}

static void lose(struct events *events, struct news *news)
{
    events->stats.lost++;
    events->lost_in_trouble++;
    if (events->trouble) return;
    events->trouble = ERR_FULL;
    *news = (struct news){true, ERR_FULL, events->lost_in_trouble};
}

static void events_log(struct events *events, struct news news)
{
    if (!news.changed || !events->log) return;
    if (news.trouble)
        LOG_ERROR(events->log, "event lines cannot be written", log_text("of", events->name),
                  log_err("err", news.trouble), log_text("why", err_text(news.trouble)));
    else
        LOG_WARN(events->log, "event lines are written again", log_text("of", events->name),
                 log_u64("lost", news.lost));
}

/* -- the queue: callers hold the lock -- */

static void queue_remove(struct events *events, struct queued **place)
{
    struct queued *line = *place;
    *place = line->next;
    if (!line->next) events->queue_end = place;
    events->queue_count--;
    events->queue_bytes -= line->len;
    events->droppable -= line->class == EVENT_MAY_DROP;
    free(line);
}

static bool queue_has_room(const struct events *events, size_t len)
{
    return events->queue_count < events->queue_max &&
           events->queue_bytes + len <= EVENTS_QUEUE_BYTES_MAX;
}

/* Drops EVENT_MAY_DROP lines, oldest first, to make room for an EVENT_KEEP line. */
static bool queue_make_room(struct events *events, size_t len, struct news *news)
{
    struct queued **place = &events->queue;
    while (*place && !queue_has_room(events, len) && events->droppable > 0) {
        if ((*place)->class == EVENT_MAY_DROP) {
            queue_remove(events, place);
            lose(events, news);
        } else {
            place = &(*place)->next;
        }
    }
    return queue_has_room(events, len);
}

static enum err queue_add(struct events *events, enum events_class class, struct str line,
                          struct news *news)
{
    bool room = queue_has_room(events, line.len) ||
                (class == EVENT_KEEP && queue_make_room(events, line.len, news));
    struct queued *queued = room ? malloc(sizeof *queued + line.len) : NULL;

    if (!queued) {
        if (class == EVENT_MAY_DROP) {
            lose(events, news);
        } else {
            events->stats.refused++;
            events->stats.refusing = true;
        }
        return room ? ERR_NOMEM : ERR_FULL;
    }
    queued->next = NULL;
    queued->class = class;
    queued->len = line.len;
    memcpy(queued->text, line.at, line.len);
    *events->queue_end = queued;
    events->queue_end = &queued->next;
    events->queue_count++;
    events->queue_bytes += line.len;
    events->droppable += class == EVENT_MAY_DROP;
    return ERR_OK;
}

/* Writes queued lines in order while the sink accepts. True: all are written. */
static bool drain(struct events *events, struct news *news)
{
    while (events->queue) {
        if (put(events, str_of(events->queue->text, events->queue->len), news)) return false;
        queue_remove(events, &events->queue);
    }
    if (events->kind != EVENTS_STDOUT) return true;
    enum err err = line_out_flush(&events->out); /* the rest of a partially written line */
    if (err) begin_trouble(events, err, news);
    return !err;
}

/* -- calls -- */

static enum err write_locked(struct events *events, enum events_class class, struct str line,
                             struct news *news)
{
    if ((events->queue && !drain(events, news)) || put(events, line, news))
        return queue_add(events, class, line, news);
    end_trouble(events, news);
    return ERR_OK;
}

enum err events_write(struct events *events, enum events_class class, struct str line)
{
    char fast[FAST_LINE];
    char *room = fast;
    struct news news = {0};
    enum err err;

    if (line.len == 0 || str_has(line, '\n')) return ERR_INVALID;
    if (line.len >= EVENTS_LINE_MAX) return ERR_TOO_LARGE;
    if (events->kind == EVENTS_NONE) return ERR_OK;
    if (line.len >= sizeof fast) {
        room = malloc(line.len + 1);
        if (!room) return ERR_NOMEM;
    }
    memcpy(room, line.at, line.len);
    room[line.len] = '\n';
    pthread_mutex_lock(&events->lock);
    err = write_locked(events, class, str_of(room, line.len + 1), &news);
    pthread_mutex_unlock(&events->lock);
    if (room != fast) free(room);
    events_log(events, news);
    return err;
}

bool events_flush(struct events *events)
{
    struct news news = {0};
    bool empty;
    pthread_mutex_lock(&events->lock);
    empty = drain(events, &news);
    if (empty) {
        end_trouble(events, &news);
        events->stats.refusing = false; /* the queue is empty, so only memory was short */
    }
    pthread_mutex_unlock(&events->lock);
    events_log(events, news);
    return empty;
}

struct events_stats events_stats(struct events *events)
{
    struct events_stats stats;
    pthread_mutex_lock(&events->lock);
    stats = events->stats;
    stats.queued = events->queue_count;
    if (events->file) events_file_count(events->file, &stats);
    pthread_mutex_unlock(&events->lock);
    return stats;
}

enum err events_open(const struct events_options *options, struct events **ret_events,
                     struct note *note)
{
    struct events *events = calloc(1, sizeof *events);
    enum err err = ERR_OK;

    if (!events) return ERR_NOMEM;
    pthread_mutex_init(&events->lock, NULL);
    events->queue_end = &events->queue;
    events->kind = EVENTS_NONE; /* becomes options->kind when the sink is open */
    events->queue_max = options->queue_max ? options->queue_max : EVENTS_QUEUE_MAX;
    events->log = options->log;
    events->name = options->name;
    if (options->kind == EVENTS_STDOUT) {
        err = line_out_init(&events->out, options->fd ? options->fd : 1);
        if (err) note_set(note, "standard output is not open");
    } else if (options->kind == EVENTS_FILE) {
        err = events_file_open(options, &events->file, note);
    } else if (options->kind != EVENTS_NONE) {
        err = ERR_INVALID;
    }
    if (!err) {
        events->kind = options->kind;
        *ret_events = events;
        return ERR_OK;
    }
    events_close(events);
    return err;
}

void events_close(struct events *events)
{
    if (!events) return;
    (void)events_flush(events);
    while (events->queue) queue_remove(events, &events->queue);
    if (events->kind == EVENTS_STDOUT) line_out_deinit(&events->out);
    events_file_close(events->file);
    pthread_mutex_destroy(&events->lock);
    free(events);
}
