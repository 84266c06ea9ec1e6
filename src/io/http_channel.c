/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events.
 *
 * A channel keeps its newest events in one ring, already in wire form, and each reader keeps only a
 * position in it: memory does not grow with readers, and a reader that falls behind the oldest
 * event learns how many it missed. An event that a reader is in the middle of is held by a count,
 * so that it may leave the ring meanwhile.
 *
 * A reader with nothing to read is suspended. Senders only mark the channel and wake the HTTP
 * thread, which alone resumes readers. */
#include "io/http_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTICE_CAP = 96 };

struct event {
    uint32_t holders; /* the ring, and each reader in the middle of it */
    size_t len;
    char text[];
};

struct http_channel {
    struct http_server *server;
    struct list readers;
    struct event **ring; /* ring[sequence % events_max] */
    size_t events_max, bytes;
    uint64_t first, next; /* sequence numbers: first <= kept < next; the first ever is 1 */
    bool marked;          /* events came since readers were last resumed */
};

struct reader {
    struct list link;
    struct http_channel *channel;
    struct MHD_Connection *connection;
    uint64_t position;     /* the next event to take */
    struct event *current; /* held, or NULL */
    size_t offset;         /* into current, or else into notice */
    char notice[NOTICE_CAP];
    size_t notice_len;
    bool suspended, probe;
};

static void event_unhold(struct event *event)
{
    if (event && --event->holders == 0) free(event);
}

/* -- the ring, under lock -- */

static struct event **slot_of(struct http_channel *channel, uint64_t sequence)
{
    return &channel->ring[sequence % channel->events_max];
}

static void drop_oldest(struct http_channel *channel)
{
    struct event **slot = slot_of(channel, channel->first++);
    channel->bytes -= (*slot)->len;
    event_unhold(*slot);
    *slot = NULL;
}

static void ring_add(struct http_channel *channel, struct event *own_event)
{
    while (channel->next - channel->first >= channel->events_max ||
           (channel->next > channel->first &&
            channel->bytes + own_event->len > HTTP_CHANNEL_BYTES_MAX))
        drop_oldest(channel);
    *slot_of(channel, channel->next++) = own_event;
    channel->bytes += own_event->len;
    assert(channel->next - channel->first <= channel->events_max);
}

/* "event: name", one "data: " per line, and an empty line. A CR, or CR LF, ends a line as LF
 * does. */
static struct event *event_make(struct str name, struct str data)
{
    static const char field[] = "data: ";
    size_t lines = 1, room;
    struct event *event;
    char *at;

    for (size_t i = 0; i < data.len; i++) lines += data.at[i] == '\n' || data.at[i] == '\r';
    room = name.len + data.len + lines * (sizeof field) + sizeof "event: \n\n";
    event = malloc(sizeof *event + room);
    if (!event) return NULL;
    at = event->text;
    if (name.len > 0) at += sprintf(at, "event: %.*s\n", STR_ARG(name));
    at = stpcpy(at, field);
    for (size_t i = 0; i < data.len; i++) {
        char c = data.at[i];
        if (c == '\r' && i + 1 < data.len && data.at[i + 1] == '\n') continue;
        if (c == '\n' || c == '\r') {
            *at++ = '\n';
            at = stpcpy(at, field);
        } else {
            *at++ = c;
        }
    }
    *at++ = '\n'; /* the empty line follows the id, which only the ring knows */
    event->len = (size_t)(at - event->text);
    assert(event->len < room);
    event->holders = 1;
    return event;
}

/* -- readers, on the HTTP thread, under lock -- */

static void notice(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void notice(struct reader *reader, const char *format, ...)
{
    va_list args;
    int len;
    va_start(args, format);
    len = vsnprintf(reader->notice, NOTICE_CAP, format, args);
    va_end(args);
    assert(len > 0 && len < NOTICE_CAP);
    reader->notice_len = (size_t)len;
    reader->offset = 0;
}

/* Chooses what to write next. False when there is nothing. */
static bool reader_next(struct reader *reader)
{
    struct http_channel *channel = reader->channel;

    if (reader->position < channel->first) {
        uint64_t missed = channel->first - reader->position;
        reader->position = channel->first;
        atomic_fetch_add(&channel->server->events_dropped, missed);
        notice(reader, "event: dropped\ndata: %" PRIu64 "\n\n", missed);
        return true;
    }
    if (reader->position < channel->next) {
        reader->current = *slot_of(channel, reader->position++);
        reader->current->holders++;
        reader->offset = 0;
        return true;
    }
    if (!reader->probe) return false;
    reader->probe = false;
    notice(reader, ": alive\n\n");
    return true;
}

static size_t copy_out(struct str from, size_t *offset, char *into, size_t room)
{
    size_t len = min_size(from.len - *offset, room);
    memcpy(into, from.at + *offset, len);
    *offset += len;
    return len;
}

/* Fills `into` with whole or partial events. */
static size_t reader_fill(struct reader *reader, char *into, size_t room)
{
    size_t len = 0;
    while (len < room) {
        if (reader->current) {
            struct str text = str_of(reader->current->text, reader->current->len);
            len += copy_out(text, &reader->offset, into + len, room - len);
            if (reader->offset < text.len) break;
            event_unhold(reader->current);
            reader->current = NULL;
            atomic_fetch_add(&reader->channel->server->events_sent, 1);
            /* The id comes last, so that a reader cut off inside an event asks for it again. */
            notice(reader, "id: %016" PRIx64 "-%" PRIu64 "\n\n", reader->channel->server->boot_id,
                   reader->position - 1);
        } else if (reader->notice_len > 0) {
            struct str text = str_of(reader->notice, reader->notice_len);
            len += copy_out(text, &reader->offset, into + len, room - len);
            if (reader->offset < text.len) break;
            reader->notice_len = 0;
        } else if (!reader_next(reader)) {
            break;
        }
    }
    return len;
}

/* The library asks for bytes. 0 with the connection suspended means "later". */
static ssize_t on_read(void *context, uint64_t offset, char *into, size_t room)
{
    struct reader *reader = context;
    struct http_server *server = reader->channel->server;
    size_t len;

    (void)offset;
    http_lock(server);
    len = server->stopping ? 0 : reader_fill(reader, into, room);
    if (len == 0 && server->stopping) {
        http_unlock(server);
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (len == 0) {
        reader->suspended = true;
        MHD_suspend_connection(reader->connection);
    }
    http_unlock(server);
    return (ssize_t)len;
}

/* The connection has ended, for whatever reason. */
static void on_reader_free(void *context)
{
    struct reader *reader = context;
    struct http_server *server = reader->channel->server;
    http_lock(server);
    list_remove(&reader->link);
    event_unhold(reader->current);
    http_unlock(server);
    atomic_fetch_sub(&server->readers, 1);
    free(reader);
}

/* Where a reader that comes back goes on: after the event it names, if that was ours. */
static uint64_t position_after(const struct http_channel *channel, struct str last_event_id)
{
    char boot[24];
    struct str prefix = str_of(
        boot, (size_t)snprintf(boot, sizeof boot, "%016" PRIx64 "-", channel->server->boot_id));
    uint64_t sequence;
    if (!str_starts(last_event_id, prefix) ||
        str_to_u64(str_tail(last_event_id, prefix.len), &sequence) != ERR_OK ||
        sequence >= channel->next)
        return channel->next;
    return sequence + 1;
}

enum MHD_Result http_channel_answer(struct http_channel *channel, struct MHD_Connection *connection,
                                    struct str last_event_id)
{
    struct http_server *server = channel->server;
    struct reader *reader = calloc(1, sizeof *reader);
    struct MHD_Response *response;
    struct peer *peer = http_peer_of(connection);
    enum MHD_Result result = MHD_NO;

    if (peer) peer->answering = true; /* probes find out when it has left */
    if (!reader) return MHD_queue_response(connection, 503, server->out_of_memory);
    list_init(&reader->link);
    reader->channel = channel;
    reader->connection = connection;
    notice(reader, "retry: 2000\n\n"); /* bytes at once: the client knows it is connected */
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, HTTP_EVENT_BLOCK, on_read,
                                                 reader, on_reader_free);
    if (!response) {
        free(reader);
        return MHD_queue_response(connection, 503, server->out_of_memory);
    }
    atomic_fetch_add(&server->readers, 1);
    http_lock(server);
    reader->position = position_after(channel, last_event_id);
    list_append(&channel->readers, &reader->link);
    http_unlock(server);
    if (http_standard_headers(response, "text/event-stream", "no-store"))
        result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response); /* the reader goes with the last reference */
    return result;
}

void http_channel_resume(struct http_channel *channel, enum resume_why why)
{
    struct http_server *server = channel->server;
    http_lock(server);
    if (why == RESUME_FOR_EVENTS && !channel->marked) goto done;
    if (why == RESUME_FOR_EVENTS) channel->marked = false;
    LIST_EACH(&channel->readers, node)
    {
        struct reader *reader = CONTAINER_OF(node, struct reader, link);
        if (!reader->suspended) continue;
        reader->probe = why == RESUME_FOR_PULSE;
        reader->suspended = false;
        MHD_resume_connection(reader->connection);
    }
done:
    http_unlock(server);
}

/* -- any thread -- */

enum err http_channel_open(struct http_server *server, const char *path, size_t events_max,
                           struct http_channel **ret_channel)
{
    struct http_channel *channel;
    struct route *route;
    enum err err;

    if (events_max == 0 || events_max > HTTP_CHANNEL_EVENTS_MAX) return ERR_INVALID;
    channel = calloc(1, sizeof *channel);
    if (!channel) return ERR_NOMEM;
    list_init(&channel->readers);
    channel->server = server;
    channel->events_max = events_max;
    channel->first = channel->next = 1;
    channel->ring = calloc(events_max, sizeof(void *));
    if (!channel->ring) {
        free(channel);
        return ERR_NOMEM;
    }
    http_lock(server);
    err = http_route_add(server, path, &route);
    if (!err) {
        route->kind = ROUTE_CHANNEL;
        route->methods = HTTP_GET;
        route->channel = channel;
    }
    http_unlock(server);
    if (err) {
        http_channel_free(channel);
        return err;
    }
    *ret_channel = channel;
    return ERR_OK;
}

void http_channel_free(struct http_channel *channel)
{
    if (!channel) return;
    assert(list_empty(&channel->readers));
    while (channel->first < channel->next) drop_oldest(channel);
    free(channel->ring);
    free(channel);
}

enum err http_channel_send(struct http_channel *channel, struct str name, struct str data)
{
    struct http_server *server = channel->server;
    struct event *event;

    if (data.len > HTTP_EVENT_MAX || name.len > HTTP_EVENT_MAX) return ERR_TOO_LARGE;
    if (str_has(name, '\n') || str_has(name, '\r')) return ERR_INVALID;
    event = event_make(name, data);
    if (!event) return ERR_NOMEM;
    http_lock(server);
    ring_add(channel, event);
    channel->marked = true;
    if (!list_empty(&channel->readers)) http_wake(server);
    http_unlock(server);
    return ERR_OK;
}
