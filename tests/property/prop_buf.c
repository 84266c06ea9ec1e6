/* SPDX-License-Identifier: Apache-2.0 */
/* Random appends and consumes of the buffer against a plain array; random sizes from the arena. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/prng.h"
#include "lib/test.h"

enum { MODEL_CAP = 3000, WORLDS = 150, STEPS = 1500 };

struct model {
    char bytes[MODEL_CAP];
    size_t len, max;
};

/* One random kind of append; each appends all or nothing. */
static enum err append(struct prng *p, struct buf *b, struct str bytes)
{
    char *room;
    enum err err;

    switch (prng_below(p, 4)) {
    case 0: return buf_append(b, bytes);
    case 1:
        if (memchr(bytes.at, '\0', bytes.len + 1) < (const void *)(bytes.at + bytes.len))
            return buf_append(b, bytes);
        return buf_append_c(b, bytes.at);
    case 2:
        if (strlen(bytes.at) != bytes.len) return buf_append(b, bytes);
        return buf_appendf(b, "%s", bytes.at);
    default:
        err = buf_reserve(b, bytes.len, &room);
        if (err) return err;
        if (bytes.len > 0) memcpy(room, bytes.at, bytes.len);
        buf_commit(b, bytes.len);
        return ERR_OK;
    }
}

static void step(struct prng *p, struct buf *b, struct model *m)
{
    char bytes[260];
    size_t len = prng_chance(p, 800000) ? prng_below(p, 30) : prng_below(p, sizeof bytes - 1);
    uint64_t die = prng_below(p, 100);

    prng_fill(p, bytes, sizeof bytes);
    bytes[len] = '\0';
    if (die < 60) {
        enum err want = len > m->max - m->len ? ERR_FULL : ERR_OK;
        CHECK_ERR("append", append(p, b, str_of(bytes, len)), want);
        if (want == ERR_OK) {
            memcpy(m->bytes + m->len, bytes, len);
            m->len += len;
        }
    } else if (die < 70) {
        enum err want = m->len == m->max ? ERR_FULL : ERR_OK;
        CHECK_ERR("one byte", buf_append_byte(b, bytes[0]), want);
        if (want == ERR_OK) m->bytes[m->len++] = bytes[0];
    } else if (die < 97) {
        size_t drop = prng_between(p, 0, min_size(m->len, 200));
        buf_consume(b, drop);
        m->len -= drop;
        memmove(m->bytes, m->bytes + drop, m->len);
    } else if (die < 98) {
        buf_clear(b);
        m->len = 0;
    } else {
        char *text = NULL;
        CHECK_OK("detach", buf_detach(b, &text));
        bool same = memcmp(text, m->bytes, m->len) == 0 && text[m->len] == '\0';
        free(text);
        CHECK("the text is the content", same);
        m->len = 0;
    }
    CHECK_STR("content", buf_peek(b), str_of(m->bytes, m->len));
    CHECK("the ceiling holds", b->cap <= m->max);
}

TEST(the_buffer_behaves_as_an_array_with_a_ceiling)
{
    static struct model m;
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < WORLDS; i++) {
        struct buf b;
        m.len = 0;
        m.max = prng_between(&p, 0, MODEL_CAP);
        buf_init(&b, m.max);
        for (int s = 0; s < STEPS; s++) step(&p, &b, &m);
        buf_deinit(&b);
    }
}

/* Memory taken since the last reset keeps its bytes, and `used` never passes the ceiling. */
TEST(the_arena_gives_distinct_memory_within_its_ceiling)
{
    enum { PIECES = 200 };
    struct prng p;

    prng_seed(&p, test_seed());
    for (int i = 0; i < WORLDS; i++) {
        struct arena a;
        arena_init(&a, prng_between(&p, 0, 200000));
        for (int round = 0; round < 5; round++) {
            unsigned char *piece[PIECES];
            size_t size[PIECES], count = 0;
            for (int n = 0; n < PIECES; n++) {
                size_t want = prng_chance(&p, 950000) ? prng_below(&p, 200) : prng_below(&p, 20000);
                unsigned char *got = arena_alloc(&a, want);
                CHECK("the ceiling holds", a.used <= a.max);
                if (!got) continue;
                memset(got, (int)count, want);
                piece[count] = got;
                size[count++] = want;
            }
            for (size_t k = 0; k < count; k++)
                for (size_t at = 0; at < size[k]; at++)
                    if (piece[k][at] != (unsigned char)k) CHECK("bytes stay", false);
            arena_reset(&a);
        }
        arena_deinit(&a);
    }
}
