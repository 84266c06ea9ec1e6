/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdalign.h>
#include <string.h>

#include "lib/test.h"

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif

enum { ROOMY = 1 << 20 };

TEST(a_zeroed_or_fresh_arena_can_be_closed_twice)
{
    struct arena zeroed = {0}, fresh;

    arena_init(&fresh, ROOMY);
    CHECK_SIZE("no memory before the first allocation", fresh.used, 0);
    arena_deinit(&zeroed);
    arena_deinit(&zeroed);
    arena_deinit(&fresh);
    arena_deinit(&fresh);
    arena_reset(&fresh);
    CHECK("reset of an empty one takes nothing", fresh.blocks == NULL && fresh.used == 0);
}

TEST(every_address_fits_any_type_and_none_overlap)
{
    static const size_t sizes[] = {1, 0, 3, 8, 16, 17, 0, 100, 5000, 1, 70000, 2};
    unsigned char *got[ARRAY_LEN(sizes)];
    struct arena a;

    arena_init(&a, ROOMY);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        got[i] = arena_alloc(&a, sizes[i]);
        CHECK("room is there", got[i] != NULL);
        CHECK_U64("aligned for any type", (uintptr_t)got[i] % alignof(max_align_t), 0);
        for (size_t j = 0; j < i; j++) CHECK("addresses differ, of 0 bytes too", got[i] != got[j]);
        memset(got[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (size_t k = 0; k < sizes[i]; k++) CHECK_U64("written bytes stay", got[i][k], i + 1);
    arena_deinit(&a);
}

TEST(past_the_ceiling_the_answer_is_null_and_the_rest_stays)
{
    struct arena a;
    char *first;

    arena_init(&a, 1000);
    first = arena_dup(&a, STR("kept"));
    CHECK_TEXT("a small ceiling still serves", first, "kept");
    CHECK("more than the ceiling", arena_alloc(&a, 1001) == NULL);
    CHECK("block headers count, so the whole ceiling never fits", arena_alloc(&a, 1000) == NULL);
    while (arena_alloc(&a, 16)) CHECK("never past the ceiling", a.used <= a.max);
    CHECK("the ceiling is used, not half of it", a.used == a.max);
    CHECK_TEXT("earlier memory stays", first, "kept");
    arena_deinit(&a);
}

TEST(sizes_that_overflow_give_null)
{
    struct arena a;

    arena_init(&a, SIZE_MAX);
    CHECK("SIZE_MAX", arena_alloc(&a, SIZE_MAX) == NULL);
    CHECK("just below", arena_alloc(&a, SIZE_MAX - 15) == NULL);
    CHECK("half the address space", arena_alloc(&a, PTRDIFF_MAX) == NULL);
    CHECK("count times size", arena_calloc(&a, SIZE_MAX / 2 + 2, 2) == NULL);
    CHECK("a string that long", arena_dup(&a, str_of("", SIZE_MAX)) == NULL);
    CHECK("and it still works", arena_alloc(&a, 8) != NULL);
    arena_deinit(&a);
}

TEST(calloc_clears_even_memory_that_was_used_before)
{
    struct arena a;
    struct pair {
        uint64_t x, y;
    } * pair;

    arena_init(&a, ROOMY);
    memset(arena_alloc(&a, 256), 0xAA, 256);
    arena_reset(&a);
    pair = ARENA_NEW(&a, struct pair);
    CHECK("room is there", pair != NULL);
    CHECK("cleared", pair->x == 0 && pair->y == 0);
    arena_deinit(&a);
}

TEST(dup_closes_with_nul_and_keeps_inner_nul)
{
    struct arena a;
    char *copy;

    arena_init(&a, ROOMY);
    copy = arena_dup(&a, STR("a\0b"));
    CHECK("all bytes and the closing NUL", copy && memcmp(copy, "a\0b", 4) == 0);
    CHECK_TEXT("the empty view is the empty string", arena_dup(&a, (struct str){0}), "");
    arena_deinit(&a);
}

TEST(reset_keeps_the_largest_block_so_a_loop_stops_touching_the_heap)
{
    struct arena a;
    size_t settled;

    arena_init(&a, ROOMY);
    for (int i = 0; i < 200; i++) CHECK("fits", arena_alloc(&a, 100) != NULL);
    arena_reset(&a);
    settled = a.used;
    CHECK("one block is kept", settled > 0);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 80; i++) CHECK("fits", arena_alloc(&a, 100) != NULL);
        CHECK_SIZE("no new block", a.used, settled);
        arena_reset(&a);
    }
    arena_deinit(&a);
}

TEST(one_large_request_does_not_waste_the_room_before_it)
{
    struct arena a;
    char *before, *after;

    arena_init(&a, ROOMY);
    before = arena_alloc(&a, 16);
    CHECK("fits", before && arena_alloc(&a, 100000));
    after = arena_alloc(&a, 16);
    CHECK("the next small one comes from the first block again", after == before + 16);
    arena_deinit(&a);
}

#ifdef ADDRESS_SANITIZER
int __asan_address_is_poisoned(const volatile void *at);

TEST(a_use_after_reset_or_past_the_end_is_reported)
{
    struct arena a;
    char *piece;

    arena_init(&a, ROOMY);
    piece = arena_alloc(&a, 10);
    CHECK("the memory can be used", !__asan_address_is_poisoned(piece + 9));
    CHECK("not one byte more", __asan_address_is_poisoned(piece + 10));
    arena_reset(&a);
    CHECK("and not after a reset", __asan_address_is_poisoned(piece));
    arena_deinit(&a);
}
#else
TEST(a_use_after_reset_or_past_the_end_is_reported)
{
    SKIP("only a build with AddressSanitizer can report it");
}
#endif
