/* SPDX-License-Identifier: Apache-2.0 */
/* Streams by number: a hash table whose buckets double while memory allows. Adding a stream cannot
 * fail: if memory runs out, the chains grow longer. The limit on open streams bounds a chain's
 * length. */
#include <string.h>

#include "wire/h2_internal.h"

enum { BUCKETS_FIRST = 16 };

/* All numbers of one side are odd or all are even, so the lowest bit is dropped. */
static size_t place(const struct h2_streams *s, int32_t id)
{
    return ((uint32_t)id >> 1) & (s->bucket_count - 1);
}

enum err h2_streams_init(struct h2_streams *s, struct h2_memory *m)
{
    s->buckets = h2_memory_alloc(m, BUCKETS_FIRST * sizeof(struct h2_stream *));
    if (!s->buckets) return ERR_NOMEM;
    memset(s->buckets, 0, BUCKETS_FIRST * sizeof(struct h2_stream *));
    s->bucket_count = BUCKETS_FIRST;
    return ERR_OK;
}

static void link_in(struct h2_streams *s, struct h2_stream *stream)
{
    struct h2_stream **bucket = &s->buckets[place(s, stream->id)];

    stream->chain = *bucket;
    *bucket = stream;
}

static void grow(struct h2_streams *s, struct h2_memory *m)
{
    struct h2_streams wider = {.bucket_count = s->bucket_count * 2, .count = s->count};
    size_t bytes = wider.bucket_count * sizeof(struct h2_stream *);

    /* Growing never fails the connection: longer chains are only slower. */
    if (m->used + bytes > m->max / 2) return;
    wider.buckets = h2_memory_alloc(m, bytes);
    if (!wider.buckets) return;
    memset(wider.buckets, 0, bytes);
    for (size_t i = 0; i < s->bucket_count; i++) {
        while (s->buckets[i]) {
            struct h2_stream *stream = s->buckets[i];
            s->buckets[i] = stream->chain;
            link_in(&wider, stream);
        }
    }
    h2_memory_free(m, s->buckets);
    *s = wider;
}

void h2_streams_put(struct h2_streams *s, struct h2_memory *m, struct h2_stream *stream)
{
    assert(!h2_streams_get(s, stream->id));
    if (s->count >= s->bucket_count) grow(s, m);
    link_in(s, stream);
    s->count++;
}

struct h2_stream *h2_streams_get(const struct h2_streams *s, int32_t id)
{
    struct h2_stream *stream = s->buckets[place(s, id)];

    while (stream && stream->id != id) stream = stream->chain;
    return stream;
}

void h2_streams_remove(struct h2_streams *s, struct h2_stream *stream)
{
    struct h2_stream **at = &s->buckets[place(s, stream->id)];

    while (*at != stream) at = &(*at)->chain;
    *at = stream->chain;
    assert(s->count > 0);
    s->count--;
}
