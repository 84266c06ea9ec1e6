/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in every function of base that allocates. After each
 * failure the call returns out of memory, the content is unchanged, the same call then succeeds,
 * and nothing leaks (AddressSanitizer counts). A failure that no call reports fails the test. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/heap.h"
#include "base/map.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"

/* Ends one turn of a sweep: `reported` calls returned out of memory. */
static void check_reported(unsigned reported)
{
    CHECK_U64("each failed allocation is reported, once", reported, fault_alloc_fired() ? 1 : 0);
}

TEST(arena_answers_null_and_keeps_what_it_gave)
{
    uint64_t turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        enum { PIECES = 60 };
        struct arena a;
        char *got[PIECES];
        unsigned reported = 0;

        arena_init(&a, 1 << 20);
        for (size_t i = 0; i < PIECES; i++) {
            size_t used = a.used, size = i % 7 == 3 ? 5000 : 300;
            got[i] = arena_alloc(&a, size);
            if (!got[i]) {
                reported++;
                CHECK_SIZE("nothing was taken", a.used, used);
                got[i] = arena_alloc(&a, size);
                CHECK("the next try is served", got[i] != NULL);
            }
            memset(got[i], (int)i, size);
        }
        for (size_t i = 0; i < PIECES; i++) CHECK_U64("content", (unsigned char)got[i][299], i);
        arena_reset(&a);
        if (!arena_calloc(&a, 1000, 100)) reported++;
        if (!arena_dup(&a, STR("a text that finds its place in the block that was kept")))
            reported++;
        arena_deinit(&a);
        check_reported(reported);
        turns = k;
    }
    CHECK("several blocks were involved", turns > 4);
}

/* The ways a buffer can grow. */
enum way { APPEND, APPEND_C, APPEND_BYTE, APPENDF, RESERVE, WAYS };

static enum err grow(struct buf *b, enum way way, const char *text)
{
    char *room = NULL;
    enum err err;

    switch (way) {
    case APPEND: return buf_append(b, str_from(text));
    case APPEND_C: return buf_append_c(b, text);
    case APPEND_BYTE: return buf_append_byte(b, text[0]);
    case APPENDF: return buf_appendf(b, "%s", text);
    default:
        err = buf_reserve(b, strlen(text), &room);
        if (err) CHECK("the output is untouched", room == NULL);
        if (err) return err;
        memcpy(room, text, strlen(text));
        buf_commit(b, strlen(text));
        return ERR_OK;
    }
}

TEST(buffer_content_is_untouched_in_every_way_to_grow)
{
    for (enum way way = APPEND; way < WAYS; way++) {
        uint64_t turns = 0;

        FAULT_SWEEP_ALLOC(k)
        {
            static char model[4096];
            size_t len = 0;
            struct buf b;
            unsigned reported = 0;

            buf_init(&b, sizeof model);
            for (size_t i = 0; i < 300; i++) {
                char text[] = "0123456789";
                size_t add = way == APPEND_BYTE ? 1 : strlen(text);
                text[0] = (char)('a' + i % 26);
                enum err err = grow(&b, way, text);
                if (err) {
                    reported++;
                    CHECK_ERR("why", err, ERR_NOMEM);
                    CHECK_STR("content", buf_peek(&b), str_of(model, len));
                    CHECK_OK("the next try is served", grow(&b, way, text));
                }
                memcpy(model + len, text, add);
                len += add;
                CHECK_STR("content", buf_peek(&b), str_of(model, len));
            }
            buf_deinit(&b);
            check_reported(reported);
            turns = k;
        }
        CHECK("it grew several times", turns > 3);
    }
}

TEST(detaching_an_empty_buffer_may_fail_and_changes_nothing)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct buf b;
        char *text = NULL;
        unsigned reported = 0;

        buf_init(&b, 10);
        if (buf_detach(&b, &text)) {
            reported++;
            CHECK("the output is untouched", text == NULL);
            CHECK_OK("the next try is served", buf_detach(&b, &text));
        }
        CHECK_TEXT("empty", text, "");
        free(text);
        buf_deinit(&b);
        check_reported(reported);
    }
}

TEST(a_full_buffer_is_detached_without_memory)
{
    struct buf b;
    char *text = NULL;

    buf_init(&b, 3);
    CHECK_OK("filled", buf_append(&b, STR("abc")));
    fault_alloc_arm(1);
    enum err err = buf_detach(&b, &text);
    bool fired = fault_alloc_fired();
    fault_alloc_arm(0);
    CHECK_OK("handed over", err);
    CHECK("no allocation was needed", !fired);
    CHECK_TEXT("content", text, "abc");
    free(text);
    buf_deinit(&b);
}

TEST(heap_keeps_its_order_and_the_refused_node_stays_out)
{
    FAULT_SWEEP_ALLOC(k)
    {
        enum { NODES = 100 };
        struct heap_node nodes[NODES] = {{0, 0, 0}};
        struct heap h;
        unsigned reported = 0;
        uint64_t last = 0;

        heap_init(&h, 1000);
        for (size_t i = 0; i < NODES; i++) {
            uint64_t due = i * 37 % NODES;
            enum err err = heap_put(&h, &nodes[i], due);
            if (err) {
                reported++;
                CHECK_ERR("why", err, ERR_NOMEM);
                CHECK_SIZE("the node stays out", nodes[i].place, 0);
                CHECK_SIZE("the others stay in", h.count, i);
                CHECK_OK("the next try is served", heap_put(&h, &nodes[i], due));
            }
        }
        enum err err = heap_reserve(&h, 1000);
        if (err) {
            reported++;
            CHECK_ERR("why", err, ERR_NOMEM);
            CHECK_SIZE("all stay in", h.count, NODES);
        }
        for (size_t i = 0; i < NODES; i++) {
            struct heap_node *node = heap_pop_due(&h, UINT64_MAX);
            CHECK("in order", node && node->due >= last);
            last = node->due;
        }
        heap_deinit(&h);
        check_reported(reported);
    }
}

TEST(after_a_reserve_putting_cannot_fail)
{
    enum { NODES = 100 };
    struct heap_node nodes[NODES] = {{0, 0, 0}};
    struct heap h;

    heap_init(&h, NODES);
    CHECK_OK("reserve", heap_reserve(&h, NODES));
    fault_alloc_arm(1);
    for (size_t i = 0; i < NODES; i++) CHECK_OK("put", heap_put(&h, &nodes[i], i));
    CHECK("no allocation was needed", !fault_alloc_fired());
    fault_alloc_arm(0);
    heap_deinit(&h);
}

static char keys[200][4];

static void check_map(const struct map *m, size_t from, size_t to)
{
    size_t cursor = 0;

    CHECK_SIZE("count", map_count(m), to - from);
    for (size_t i = from; i < to; i++) {
        struct map_entry *entry = map_next(m, &cursor);
        CHECK("order", entry && entry->value == keys[i]);
        CHECK("found", map_get(m, str_of(keys[i], 4)) == keys[i]);
    }
    CHECK("no more", map_next(m, &cursor) == NULL);
}

/* Half of the puts follow a removal, so that both ways to make room are used. */
TEST(map_keeps_all_entries_and_their_order)
{
    uint64_t turns = 0;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) keys[i][0] = (char)i;
    FAULT_SWEEP_ALLOC(k)
    {
        struct map m;
        unsigned reported = 0;
        size_t from = 0;

        map_init(&m, 1000, 42);
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            struct str key = str_of(keys[i], 4);
            if (i % 2 == 1 && i > 100) map_remove(&m, str_of(keys[from++], 4));
            enum err err = map_put(&m, key, keys[i]);
            if (err) {
                reported++;
                CHECK_ERR("why", err, ERR_NOMEM);
                check_map(&m, from, i);
                CHECK_OK("the next try is served", map_put(&m, key, keys[i]));
            }
        }
        check_map(&m, from, ARRAY_LEN(keys));
        map_deinit(&m);
        check_reported(reported);
        turns = k;
    }
    CHECK("it grew several times, with two allocations each", turns > 8);
}

TEST(removing_and_squeezing_holes_needs_no_memory)
{
    struct map m;

    map_init(&m, 8, 42);
    for (size_t i = 0; i < 8; i++) CHECK_OK("put", map_put(&m, str_of(keys[i], 4), keys[i]));
    for (size_t i = 0; i < 6; i++) map_remove(&m, str_of(keys[i], 4));
    fault_alloc_arm(1);
    for (size_t turn = 0; turn < 100; turn++) {
        CHECK_OK("put", map_put(&m, str_of(keys[100], 4), keys[100]));
        CHECK("removed", map_remove(&m, str_of(keys[100], 4)) == keys[100]);
    }
    CHECK("no allocation was needed", !fault_alloc_fired());
    fault_alloc_arm(0);
    check_map(&m, 6, 8);
    map_deinit(&m);
}

TEST(str_dup_answers_null)
{
    FAULT_SWEEP_ALLOC(k)
    {
        char *copy = str_dup(STR("text"));
        check_reported(copy ? 0 : 1);
        free(copy);
    }
}
