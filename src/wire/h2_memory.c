/* A heap for one connection that knows how much it holds.
 *
 * nghttp2 queues resets, acknowledgements and headers in places that no limit of its own covers
 * all of. One ceiling under everything a connection allocates makes "that connection alone suffers"
 * true for the places we did not think of, too.
 *
 * Each block is preceded by its size:  [ size, 16 bytes ][ what the caller sees ... ] */
#include <stdlib.h>
#include <string.h>

#include "wire/h2_internal.h"

enum { HEAD = 16 };
static_assert(HEAD >= sizeof(size_t) && HEAD % _Alignof(max_align_t) == 0,
              "what follows the size is aligned for any type");

static size_t size_of(const void *memory)
{
    size_t size;

    memcpy(&size, (const char *)memory - HEAD, sizeof size);
    return size;
}

static void *hand_out(char *block, size_t size)
{
    memcpy(block, &size, sizeof size);
    return block + HEAD;
}

/* The whole block's size in *ret_total, HEAD included. */
static bool may_take(struct h2_memory *m, size_t size, size_t instead_of, size_t *ret_total)
{
    if (size > m->max - HEAD || m->used - instead_of > m->max - size - HEAD) {
        m->over = true;
        return false;
    }
    *ret_total = size + HEAD;
    return true;
}

void *h2_memory_alloc(struct h2_memory *m, size_t size)
{
    size_t total;
    char *block;

    if (!may_take(m, size, 0, &total)) return NULL;
    block = malloc(total);
    if (!block) return NULL;
    m->used += total;
    return hand_out(block, total);
}

void h2_memory_free(struct h2_memory *m, void *memory)
{
    if (!memory) return;
    assert(m->used >= size_of(memory));
    m->used -= size_of(memory);
    free((char *)memory - HEAD);
}

static void *engine_malloc(size_t size, void *memory)
{
    return h2_memory_alloc(memory, size);
}

static void engine_free(void *block, void *memory)
{
    h2_memory_free(memory, block);
}

static void *engine_calloc(size_t count, size_t size, void *memory)
{
    void *block;

    if (size > 0 && count > SIZE_MAX / size) return NULL;
    block = h2_memory_alloc(memory, count * size);
    if (block) memset(block, 0, count * size);
    return block;
}

static void *engine_realloc(void *old, size_t size, void *memory)
{
    struct h2_memory *m = memory;
    size_t before, total;
    char *block;

    if (!old) return h2_memory_alloc(m, size);
    before = size_of(old);
    if (!may_take(m, size, before, &total)) return NULL;
    block = realloc((char *)old - HEAD, total);
    if (!block) return NULL;
    m->used = m->used - before + total;
    return hand_out(block, total);
}

nghttp2_mem h2_memory_for_engine(struct h2_memory *m)
{
    return (nghttp2_mem){m, engine_malloc, engine_free, engine_calloc, engine_realloc};
}
