/* SPDX-License-Identifier: Apache-2.0 */
/* An arena is a list of blocks. The first block serves the next allocation. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* AddressSanitizer then reports a use after arena_reset() like a use after free. */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#endif
#ifdef ARENA_POISONS
/* The pointers are not const: gcc would warn that fresh memory is read before it is written. */
void __asan_poison_memory_region(volatile void *at, size_t len);
void __asan_unpoison_memory_region(volatile void *at, size_t len);
#define POISON(at, len)   __asan_poison_memory_region((at), (len))
#define UNPOISON(at, len) __asan_unpoison_memory_region((at), (len))
#else
#define POISON(at, len)   ((void)(at), (void)(len))
#define UNPOISON(at, len) ((void)(at), (void)(len))
#endif

enum {
    BLOCK_FIRST = 4096,      /* size of the first block; each next block doubles */
    BLOCK_MOST = 256 * 1024, /* larger requests get a block of their size */
};

struct arena_block {
    struct arena_block *next;
    size_t size, used; /* of data[]: bytes in all, and bytes allocated */
    alignas(max_align_t) char data[];
};

static size_t block_room(const struct arena_block *block)
{
    return block->size - block->used;
}

static size_t block_bytes(const struct arena_block *block)
{
    return sizeof(struct arena_block) + block->size;
}

static void block_free(struct arena_block *block)
{
    UNPOISON(block->data, block->size);
    free(block);
}

void arena_init(struct arena *a, size_t max)
{
    *a = (struct arena){.max = max};
}

void arena_deinit(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *block = a->blocks;
        a->blocks = block->next;
        block_free(block);
    }
    a->used = 0;
}

void arena_reset(struct arena *a)
{
    struct arena_block *keep = a->blocks;

    for (struct arena_block *b = a->blocks; b; b = b->next)
        if (b->size > keep->size) keep = b;
    for (struct arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        if (b != keep) block_free(b);
    }
    a->blocks = keep;
    a->used = 0;
    if (!keep) return;
    keep->next = NULL;
    keep->used = 0;
    a->used = block_bytes(keep);
    POISON(keep->data, keep->size);
}

/* Block sizes double. Near the arena's limit a block is as small as possible. */
static struct arena_block *block_add(struct arena *a, size_t size)
{
    size_t need = sizeof(struct arena_block) + size;
    size_t left = a->max - a->used;
    size_t bytes = a->blocks ? min_size(block_bytes(a->blocks) * 2, BLOCK_MOST) : BLOCK_FIRST;
    struct arena_block *block;

    assert(a->used <= a->max);
    if (need > left) return NULL;
    bytes = max_size(need, min_size(bytes, left));
    block = malloc(bytes);
    if (!block) return NULL;
    block->size = bytes - sizeof(struct arena_block);
    block->used = 0;
    a->used += bytes;
    POISON(block->data, block->size);
    /* The block with more free room goes first, so that a large request does not waste the free
     * room of the previous block. */
    if (a->blocks && block_room(a->blocks) > block->size - size) {
        block->next = a->blocks->next;
        a->blocks->next = block;
    } else {
        block->next = a->blocks;
        a->blocks = block;
    }
    return block;
}

void *arena_alloc(struct arena *a, size_t size)
{
    const size_t align = alignof(max_align_t);
    struct arena_block *block = a->blocks;
    size_t rounded;
    char *at;

    if (size > PTRDIFF_MAX - sizeof(struct arena_block) - align) return NULL;
    /* distinct addresses also for 0 bytes */
    rounded = (max_size(size, 1) + align - 1) / align * align;
    if (!block || block_room(block) < rounded) block = block_add(a, rounded);
    if (!block) return NULL;
    at = block->data + block->used;
    block->used += rounded;
    UNPOISON(at, size);
    return at;
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    void *at;

    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    at = arena_alloc(a, bytes);
    if (at) memset(at, 0, bytes);
    return at;
}

char *arena_dup(struct arena *a, struct str s)
{
    char *copy;

    if (s.len == SIZE_MAX) return NULL;
    copy = arena_alloc(a, s.len + 1);
    if (!copy) return NULL;
    if (s.len > 0) memcpy(copy, s.at, s.len);
    copy[s.len] = '\0';
    return copy;
}
