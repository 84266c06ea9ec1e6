/* SPDX-License-Identifier: Apache-2.0 */
/* The pending output of a stream, in chunks, so that sent bytes are freed early. */
#include <string.h>

#include "wire/h2_internal.h"

/* A small response fits in one chunk of the least size; a long one uses chunks of about a frame. */
enum { CHUNK_LEAST = 208, CHUNK_MOST = 16 << 10 };

struct h2_chunk {
    struct h2_chunk *next;
    uint32_t begin, end, cap; /* bytes[begin] to bytes[end - 1] are pending */
    char bytes[];
};

static enum err add_room(struct h2_queue *q, struct h2_memory *m, size_t need)
{
    while (need > 0) {
        size_t cap = min_size(max_size(need, CHUNK_LEAST), CHUNK_MOST);
        struct h2_chunk *chunk = h2_memory_alloc(m, sizeof *chunk + cap);

        if (!chunk) return ERR_NOMEM;
        *chunk = (struct h2_chunk){.cap = (uint32_t)cap};
        *(q->last ? &q->last->next : &q->first) = chunk;
        q->last = chunk;
        need -= min_size(need, cap);
    }
    return ERR_OK;
}

/* The chunks from `chunk` on have reserved space. */
static void fill(struct h2_chunk *chunk, struct str part, struct h2_chunk **ret_chunk)
{
    while (part.len > 0) {
        size_t n;
        assert(chunk);
        n = min_size(chunk->cap - chunk->end, part.len);
        if (n == 0) {
            chunk = chunk->next;
            continue;
        }
        memcpy(chunk->bytes + chunk->end, part.at, n);
        chunk->end += (uint32_t)n;
        part = str_tail(part, n);
    }
    *ret_chunk = chunk;
}

enum err h2_queue_push(struct h2_queue *q, struct h2_memory *m, const struct str *parts,
                       size_t count, size_t total)
{
    size_t room = q->last ? q->last->cap - q->last->end : 0;
    struct h2_queue fresh = {0};
    struct h2_chunk *at;

    if (total > room && add_room(&fresh, m, total - room)) {
        h2_queue_clear(&fresh, m);
        return ERR_NOMEM;
    }
    at = q->last ? q->last : fresh.first;
    if (fresh.first) {
        *(q->last ? &q->last->next : &q->first) = fresh.first;
        q->last = fresh.last;
    }
    for (size_t i = 0; i < count; i++) fill(at, parts[i], &at);
    q->len += total;
    return ERR_OK;
}

size_t h2_queue_pull(struct h2_queue *q, struct h2_memory *m, uint8_t *into, size_t room)
{
    size_t taken = 0;

    while (taken < room && q->first) {
        struct h2_chunk *chunk = q->first;
        size_t n = min_size(chunk->end - chunk->begin, room - taken);
        memcpy(into + taken, chunk->bytes + chunk->begin, n);
        chunk->begin += (uint32_t)n;
        taken += n;
        if (chunk->begin < chunk->end) break;
        q->first = chunk->next;
        if (!q->first) q->last = NULL;
        h2_memory_free(m, chunk);
    }
    assert(taken <= q->len);
    q->len -= taken;
    return taken;
}

void h2_queue_clear(struct h2_queue *q, struct h2_memory *m)
{
    while (q->first) {
        struct h2_chunk *chunk = q->first;
        q->first = chunk->next;
        h2_memory_free(m, chunk);
    }
    *q = (struct h2_queue){0};
}
