/* SPDX-License-Identifier: Apache-2.0 */
/* A heap for one connection, with a count and a ceiling.
 *
 * nghttp2's limits do not cover every queue of nghttp2. The ceiling covers all memory of a
 * connection, and so protects other connections.
 *
 * Each block is preceded by its size:  [ size, 16 bytes ][ what the caller sees ... ]
 *
 * Freed small blocks are kept for later calls, at most KEPT_MAX bytes, because a turn needs more of
 * them than malloc's fast path holds. Kept blocks are freed at the ceiling, when the connection is
 * quiet, or after a few dozen turns. */
#include <stdlib.h>
#include <string.h>

#include "wire/h2_internal.h"

enum { HEAD = 16, STEP = H2_KEPT_STEP };
/* The sanitizers detect a use after free only if blocks are really freed. */
#if defined(__SANITIZE_ADDRESS__)
enum { KEPT_MAX = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { KEPT_MAX = 0 };
#else
enum { KEPT_MAX = 128 << 10 };
#endif
#else
enum { KEPT_MAX = 128 << 10 };
#endif
static_assert(HEAD >= sizeof(size_t) && HEAD % _Alignof(max_align_t) == 0,
              "what follows the size is aligned for any type");

static size_t h2_memory_size_of(const void *memory)
{
    size_t size;

    memcpy(&size, (const char *)memory - HEAD, sizeof size);
    return size;
}

static void *h2_memory_block(char *block, size_t size)
{
    memcpy(block, &size, sizeof size);
    return block + HEAD;
}

/* -- kept blocks: a kept block begins with a pointer to the next one of its size -- */

static bool is_small(size_t total)
{
    return total <= (size_t)STEP * H2_KEPT_SIZES;
}

static char *take_kept(struct h2_memory *m, size_t total)
{
    char **first = &m->kept[total / STEP], *block = *first;

    if (!block) return NULL;
    memcpy(first, block, sizeof *first);
    m->kept_bytes -= total;
    return block;
}

static bool h2_memory_keep(struct h2_memory *m, char *block, size_t total)
{
    char **first;

    if (!is_small(total) || total > KEPT_MAX - min_size(KEPT_MAX, m->kept_bytes)) return false;
    first = &m->kept[total / STEP];
    memcpy(block, first, sizeof *first);
    *first = block;
    m->kept_bytes += total;
    return true;
}

void h2_memory_trim(struct h2_memory *m)
{
    for (size_t steps = 1; steps <= H2_KEPT_SIZES; steps++)
        for (char *block; (block = take_kept(m, steps * STEP)) != NULL;) free(block);
}

static size_t block_size(const struct h2_memory *m, size_t size)
{
    size_t total = size <= m->max ? size + HEAD : SIZE_MAX;

    return is_small(total) ? (total + STEP - 1) / STEP * STEP : total;
}

static bool may_take(struct h2_memory *m, size_t total, size_t instead_of)
{
    if (total <= m->max && m->used - instead_of + m->kept_bytes > m->max - total) h2_memory_trim(m);
    if (total > m->max || m->used - instead_of > m->max - total) {
        m->over = true;
        return false;
    }
    return true;
}

void *h2_memory_alloc(struct h2_memory *m, size_t size)
{
    size_t total = block_size(m, size);
    char *block = is_small(total) ? take_kept(m, total) : NULL;

    /* A kept block is already counted, so reusing it cannot exceed the ceiling. */
    if (!block && may_take(m, total, 0)) block = malloc(total);
    if (!block) return NULL;
    m->used += total;
    return h2_memory_block(block, total);
}

void h2_memory_free(struct h2_memory *m, void *memory)
{
    size_t total;

    if (!memory) return;
    total = h2_memory_size_of(memory);
    assert(m->used >= total);
    m->used -= total;
    if (!h2_memory_keep(m, (char *)memory - HEAD, total)) free((char *)memory - HEAD);
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
    before = h2_memory_size_of(old);
    total = block_size(m, size);
    if (!may_take(m, total, before)) return NULL;
    block = realloc((char *)old - HEAD, total);
    if (!block) return NULL;
    m->used = m->used - before + total;
    return h2_memory_block(block, total);
}

nghttp2_mem h2_memory_for_engine(struct h2_memory *m)
{
    return (nghttp2_mem){m, engine_malloc, engine_free, engine_calloc, engine_realloc};
}
