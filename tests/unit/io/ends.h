/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a connection: received bytes, the end of the connection, and when the test acts.
 * */
#ifndef TESTS_UNIT_IO_ENDS_H
#define TESTS_UNIT_IO_ENDS_H
#include <stdio.h>
#include <string.h>

#include "io/net.h"
#include "rig.h"

enum when { NEVER, IN_ACCEPT, IN_OPEN, IN_BYTES, IN_DRAINED, IN_END, IN_CLOSED };
struct end {
    struct stream *stream; /* NULL before accept and after on_closed */
    enum when close_when;
    void (*on_bytes)(struct end *end, struct str bytes); /* NULL: count them */
    void (*on_drained)(struct end *end);
    void (*on_end)(struct end *end);
    unsigned opened, drained, ended, closed;
    uint64_t got;
    char last[256]; /* the last received bytes as text */
    enum err why;
    struct note note;
    char peer[80];
};

static inline void end_maybe_close(struct end *end, enum when now)
{
    if (end->close_when == now) {
        stream_close(end->stream);
        stream_close(end->stream); /* twice is once */
    }
}
static inline void end_on_open(void *owner)
{
    struct end *end = owner;
    end->opened++;
    snprintf(end->peer, sizeof end->peer, "%s", stream_peer_address(end->stream));
    end_maybe_close(end, IN_OPEN);
}
static inline void end_on_bytes(void *owner, struct str bytes)
{
    struct end *end = owner;
    size_t kept = min_size(bytes.len, sizeof end->last - 1);
    CHECK("bytes come between open and close", !end->closed && bytes.len > 0);
    end->got += bytes.len;
    memcpy(end->last, bytes.at, kept);
    end->last[kept] = '\0';
    if (end->on_bytes) end->on_bytes(end, bytes);
    end_maybe_close(end, IN_BYTES);
}
static inline void end_on_drained(void *owner)
{
    struct end *end = owner;
    CHECK("drained comes before closed", !end->closed);
    end->drained++;
    if (end->on_drained) end->on_drained(end);
    end_maybe_close(end, IN_DRAINED);
}
static inline void end_on_end(void *owner)
{
    struct end *end = owner;
    CHECK("the end comes once", !end->closed && end->ended == 0);
    end->ended++;
    if (end->on_end) end->on_end(end);
    end_maybe_close(end, IN_END);
}
static inline void end_on_closed(void *owner, enum err why, const struct note *note)
{
    struct end *end = owner;
    CHECK("closed comes once", !end->closed);
    end->closed++;
    end->why = why;
    end->note = *note;
    end_maybe_close(end, IN_CLOSED); /* too late to matter */
    end->stream = NULL;
}
static const struct stream_events end_events = {
    .on_open = end_on_open,
    .on_bytes = end_on_bytes,
    .on_drained = end_on_drained,
    .on_end = end_on_end,
    .on_closed = end_on_closed,
};

/* A listener that gives each connection the next of its ends. */
struct server {
    struct listener *listener;
    struct end *ends;
    size_t count, accepted;
    const struct stream_events *events; /* NULL: end_events */
    bool closes_itself;                 /* the listener, in on_accept */
};
static inline void server_on_accept(void *owner, struct stream *own_stream)
{
    struct server *server = owner;
    struct end *end;

    CHECK("there is an end for it", server->accepted < server->count);
    end = &server->ends[server->accepted++];
    end->stream = own_stream;
    end->opened++;
    snprintf(end->peer, sizeof end->peer, "%s", stream_peer_address(own_stream));
    if (server->closes_itself) {
        listener_close(server->listener);
        server->listener = NULL;
    }
    if (end->close_when == IN_ACCEPT) { /* before it was started: on_closed is not called */
        stream_close(own_stream);
        end->stream = NULL;
        return;
    }
    stream_start(own_stream, server->events ? server->events : &end_events, end);
}
static inline void server_open(struct rig *rig, struct server *server,
                               struct listen_options options)
{
    struct note note = {""};

    options.on_accept = server_on_accept;
    options.owner = server;
    CHECK_OK("listen", net_listen(rig->net, &options, &server->listener, &note));
}
static inline void end_dial(struct rig *rig, struct end *end, struct dial_options options)
{
    struct note note = {""};
    CHECK_OK("dial", net_dial(rig->net, &options, &end_events, end, &end->stream, &note));
}
static inline enum err end_write(struct end *end, const char *text)
{
    struct str part = str_from(text);
    return stream_write(end->stream, &part, 1);
}
#endif
