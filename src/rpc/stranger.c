/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are no gRPC: a browser, a probe, a judge of HTTP/2. Each is told so in words, for
 * it does not look at trailers; a gRPC client finds its status there all the same.
 *
 * The answer waits for the end of the request, as HTTP does and calls do, so that a peer still
 * hears what is wrong with the rest of it. What waits is bounded: few streams, little data, and as
 * long as headers may take; past that it is answered, and h2 tells the peer to stop sending. */
#include "rpc/server_internal.h"

enum { BODY_PATIENCE = 64 << 10 }; /* bytes of a request's body we let pass */

static void answer(struct connection *c, int32_t stream, const struct plain_request *s)
{
    const struct h2_header headers[] = {{STR(":status"), str_from(s->http_status)},
                                        {STR("content-type"), STR("text/plain")}};
    const struct h2_header trailers[] = {{STR("grpc-status"), STR("13")}, /* INTERNAL */
                                         {STR("grpc-message"), s->text}};
    const struct str body[] = {s->text, STR("\n")};
    enum err err = h2_respond(c->h2, stream, headers, ARRAY_LEN(headers), s->head);

    if (!err && !s->head) err = h2_send(c->h2, stream, body, ARRAY_LEN(body));
    if (!err && !s->head) err = h2_send_trailers(c->h2, stream, trailers, ARRAY_LEN(trailers));
    if (err) h2_reset(c->h2, stream, H2_INTERNAL_ERROR);
}

static struct plain_request *find(struct connection *c, int32_t stream)
{
    for (size_t i = 0; i < ARRAY_LEN(c->strangers); i++)
        if (c->strangers[i].stream == stream) return &c->strangers[i];
    return NULL;
}

static void answer_now(struct connection *c, struct plain_request *s)
{
    struct plain_request asked = *s;

    *s = (struct plain_request){0};
    answer(c, asked.stream, &asked);
}

void stranger_refuse(struct connection *c, const struct plain_request *stranger, bool end)
{
    struct plain_request *place = end ? NULL : find(c, 0);

    if (!place) {
        answer(c, stranger->stream, stranger);
        return;
    }
    *place = *stranger;
    place->due = mono_after(loop_now(c->server->io->loop), c->server->limits.header_timeout_ms);
    connection_wake_by(c, place->due);
}

mono_time stranger_due(const struct connection *c)
{
    mono_time due = MONO_NEVER;

    for (size_t i = 0; i < ARRAY_LEN(c->strangers); i++)
        if (c->strangers[i].stream) due = mono_min(due, c->strangers[i].due);
    return due;
}

void stranger_expire(struct connection *c, mono_time now)
{
    for (size_t i = 0; i < ARRAY_LEN(c->strangers); i++)
        if (c->strangers[i].stream && mono_due(c->strangers[i].due, now))
            answer_now(c, &c->strangers[i]);
    connection_mark_dirty(c);
}

void stranger_data(struct connection *c, int32_t stream, size_t len)
{
    struct plain_request *s = find(c, stream);

    if (!s) return;
    s->bytes += len;
    if (s->bytes > BODY_PATIENCE) answer_now(c, s);
}

void stranger_end(struct connection *c, int32_t stream)
{
    struct plain_request *s = find(c, stream);

    if (s) answer_now(c, s);
}

void stranger_gone(struct connection *c, int32_t stream)
{
    struct plain_request *s = find(c, stream);

    if (s) *s = (struct plain_request){0};
}
