/* SPDX-License-Identifier: Apache-2.0 */
/* Basic helpers for every file. */
#ifndef BASE_BASE_H
#define BASE_BASE_H
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef NDEBUG
#error "assertions stay on: never build muster with NDEBUG"
#endif

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(n)           (1u << (n))

#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer) - (offsetof(type, member))))

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}
static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Saturates at UINT64_MAX: a deadline of "never" stays "never". */
static inline uint64_t add_sat_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
#endif
