/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events.
 *
 * A channel keeps its newest events in one ring, already encoded, and each reader has only a
 * position in the ring. A reader that has received part of an event holds a reference, because the
 * event may leave the ring.
 *
 * Senders only mark the channel and wake the HTTP thread, which writes to the readers. The server's
 * lock protects the ring, the reference counts and the list of readers. */
#include "io/http_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_ID_CAP = 48 };

struct event {
    uint32_t holders; /* one for the ring, one for each reader that got a part */
    size_t len;
    char text[];
};

struct http_channel {
    struct http_server *server;
    struct list readers; /* HTTP thread only */
    size_t events_max, bytes;
    uint64_t first, next; /* the ring has `first` to `next` - 1 */
    bool marked;          /* events were added since the last write to readers */
    struct event *ring[]; /* by sequence number % events_max */
};

static void event_unhold(struct event *event)
{
    if (event && --event->holders == 0) free(event);
}

/* -- the ring; call with the lock held -- */

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

/* The id is the last line: a reader that was cut off inside the event requests the event again. */
static void ring_add(struct http_channel *channel, struct event *own_event)
{
    own_event->len += (size_t)snprintf(own_event->text + own_event->len, EVENT_ID_CAP,
                                       "id: %016" PRIx64 "-%" PRIu64 "\n\n",
                                       channel->server->boot_id, channel->next);
    while (channel->next - channel->first >= channel->events_max ||
           (channel->next > channel->first &&
            channel->bytes + own_event->len > HTTP_CHANNEL_BYTES_MAX))
        drop_oldest(channel);
    *slot_of(channel, channel->next++) = own_event;
    channel->bytes += own_event->len;
    assert(channel->next - channel->first <= channel->events_max);
}

/* Encodes "event: name" and one "data: " per line. CR, LF and CR LF end a line. */
static struct event *event_make(struct str name, struct str data)
{
    static const char field[] = "data: ";
    size_t lines = 1, room;
    struct event *event;
    char *at;

    for (size_t i = 0; i < data.len; i++) lines += data.at[i] == '\n' || data.at[i] == '\r';
    room = name.len + data.len + lines * (sizeof field) + sizeof "event: \n\n" + EVENT_ID_CAP;
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
    *at++ = '\n'; /* ring_add appends the id and the empty line */
    event->len = (size_t)(at - event->text);
    assert(event->len + EVENT_ID_CAP <= room);
    event->holders = 1;
    return event;
}

/* -- readers, on the HTTP thread -- */

static void channel_write(struct http_connection *c, struct str text)
{
    char size[16];
    struct str parts[] = {STR_EMPTY, text, STR_EMPTY};

    if (!c->head.old) { /* HTTP/1.1 needs a chunk around the text */
        parts[0] = str_of(size, (size_t)snprintf(size, sizeof size, "%zX\r\n", text.len));
        parts[2] = STR("\r\n");
    }
    http_connection_write(c, parts, ARRAY_LEN(parts));
}

/* *ret_missed: number of events that the reader lost before the returned event. */
static bool channel_next(struct http_connection *c, uint64_t *ret_missed)
{
    struct http_channel *channel = c->channel;

    http_lock(c->server);
    *ret_missed = channel->first > c->position ? channel->first - c->position : 0;
    c->position += *ret_missed;
    if (c->position < channel->next) {
        c->event = *slot_of(channel, c->position++);
        c->event->holders++;
        c->event_at = 0;
    }
    http_unlock(c->server);
    return c->event != NULL;
}

static void channel_release(struct http_connection *c)
{
    http_lock(c->server);
    event_unhold(c->event);
    http_unlock(c->server);
    c->event = NULL;
}

void http_channel_pump(struct http_connection *c, bool probe)
{
    char notice[64];
    uint64_t missed;

    while (http_connection_has_room(c)) { /* until no event is left or the output is full */
        if (c->event) {
            struct str left = str_of(c->event->text + c->event_at, c->event->len - c->event_at);
            left.len = min_size(left.len, HTTP_OUTPUT_PIECE);
            channel_write(c, left);
            c->event_at += left.len;
            if (c->event_at < c->event->len) continue;
            channel_release(c);
            atomic_fetch_add(&c->server->events_sent, 1);
        } else if (!channel_next(c, &missed)) {
            if (probe) channel_write(c, STR(": alive\n\n"));
            break;
        } else if (missed > 0) {
            atomic_fetch_add(&c->server->events_dropped, missed);
            snprintf(notice, sizeof notice, "event: dropped\ndata: %" PRIu64 "\n\n", missed);
            channel_write(c, str_from(notice));
        }
        probe = false;
    }
}

void http_channel_pump_all(struct http_channel *channel)
{
    bool marked;

    http_lock(channel->server);
    marked = channel->marked;
    channel->marked = false;
    http_unlock(channel->server);
    if (!marked) return;
    LIST_EACH(&channel->readers, node) /* writing removes no reader */
    {
        http_channel_pump(CONTAINER_OF(node, struct http_connection, in_channel), false);
    }
}

void http_channel_leave(struct http_connection *c)
{
    if (list_empty(&c->in_channel)) return;
    http_lock(c->server);
    list_remove(&c->in_channel);
    http_unlock(c->server);
    channel_release(c);
    atomic_fetch_sub(&c->server->readers, 1);
}

void http_channel_finish(struct http_connection *c)
{
    const struct str last_chunk = STR("0\r\n\r\n");

    if (!c->head.old && http_connection_has_room(c)) http_connection_write(c, &last_chunk, 1);
    http_channel_leave(c);
    http_connection_end(c);
}

/* Event ids of other processes do not count. */
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

void http_channel_answer(struct http_connection *c)
{
    struct http_answer answer = {.status = 200,
                                 .content_type = "text/event-stream",
                                 .cache_control = "no-store",
                                 .endless = true};

    if (c->method != HTTP_HEAD) {
        atomic_fetch_add(&c->server->readers, 1);
        http_lock(c->server);
        c->position = position_after(c->channel, c->head.fields[FIELD_LAST_EVENT_ID]);
        list_append(&c->channel->readers, &c->in_channel);
        http_unlock(c->server);
    }
    http_request_send(c, &answer, STR_EMPTY);
    if (c->state != CONNECTION_EVENTS) return;
    channel_write(c, STR("retry: 2000\n\n")); /* shows the client that it is connected */
    http_channel_pump(c, false);
}

/* -- functions for any thread -- */

enum err http_channel_open(struct http_server *server, const char *path, size_t events_max,
                           struct http_channel **ret_channel)
{
    struct http_channel *channel;
    struct route *route;
    enum err err;

    if (events_max == 0 || events_max > HTTP_CHANNEL_EVENTS_MAX) return ERR_INVALID;
    channel = calloc(1, sizeof *channel + events_max * sizeof channel->ring[0]);
    if (!channel) return ERR_NOMEM;
    list_init(&channel->readers);
    channel->server = server;
    channel->events_max = events_max;
    channel->first = channel->next = 1;
    http_lock(server);
    err = http_route_add(server, path, &route);
    if (!err) {
        route->kind = ROUTE_CHANNEL;
        route->methods = HTTP_GET;
        route->channel = channel;
    }
    http_unlock(server);
    if (err)
        http_channel_free(channel);
    else
        *ret_channel = channel;
    return err;
}

void http_channel_free(struct http_channel *channel)
{
    if (!channel) return;
    assert(list_empty(&channel->readers));
    while (channel->first < channel->next) drop_oldest(channel);
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
