/* SPDX-License-Identifier: Apache-2.0 */
/* From the calls of io/net.h to whichever network stands behind them. */
#include "io/net.h"

enum err net_dial(struct net *net, const struct dial_options *options,
                  const struct stream_events *events, void *owner, struct stream **ret_stream,
                  struct note *note)
{
    return net->dial(net, options, events, owner, ret_stream, note);
}

enum err net_listen(struct net *net, const struct listen_options *options,
                    struct listener **ret_listener, struct note *note)
{
    return net->listen(net, options, ret_listener, note);
}

const char *listener_address(const struct listener *listener)
{
    return listener->ops->address(listener);
}

struct listener_stats listener_stats(const struct listener *listener)
{
    return listener->ops->stats(listener);
}

void listener_pause(struct listener *listener, bool paused)
{
    listener->ops->pause(listener, paused);
}

void listener_close(struct listener *listener)
{
    if (listener) listener->ops->close(listener);
}

void stream_start(struct stream *stream, const struct stream_events *events, void *owner)
{
    stream->ops->start(stream, events, owner);
}

enum err stream_write(struct stream *stream, const struct str *parts, size_t count)
{
    return stream->ops->write(stream, parts, count);
}

size_t stream_pending(const struct stream *stream)
{
    return stream->ops->pending(stream);
}

void stream_pause(struct stream *stream)
{
    stream->ops->pause(stream);
}

void stream_resume(struct stream *stream)
{
    stream->ops->resume(stream);
}

void stream_end(struct stream *stream)
{
    stream->ops->end(stream);
}

void stream_close(struct stream *stream)
{
    stream->ops->close(stream);
}

const char *stream_peer_address(const struct stream *stream)
{
    return stream->ops->peer_address(stream);
}

const struct tls_identity *stream_peer_identity(const struct stream *stream)
{
    return stream->ops->peer_identity(stream);
}

const char *stream_alpn(const struct stream *stream)
{
    return stream->ops->alpn(stream);
}
