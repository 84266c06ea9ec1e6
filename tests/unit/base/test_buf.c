/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#include "dies.h"
#include "lib/test.h"

TEST(a_zeroed_or_fresh_buffer_can_be_closed_twice)
{
    struct buf zeroed = {0}, fresh;

    buf_init(&fresh, 10);
    CHECK("no memory before the first append", fresh.data == NULL);
    CHECK_STR("and the view of it is empty, not NULL", buf_peek(&fresh), STR_EMPTY);
    CHECK("so that it can be split", buf_peek(&fresh).at != NULL);
    buf_deinit(&zeroed);
    buf_deinit(&zeroed);
    buf_deinit(&fresh);
    buf_deinit(&fresh);
}

TEST(appends_follow_one_another)
{
    struct buf b;

    buf_init(&b, 1000);
    CHECK_OK("bytes", buf_append(&b, STR("a\0b")));
    CHECK_OK("a C string", buf_append_c(&b, "-cd-"));
    CHECK_OK("no string at all", buf_append_c(&b, NULL));
    CHECK_OK("one byte", buf_append_byte(&b, '!'));
    CHECK_OK("formatted", buf_appendf(&b, "%d/%s", 42, "x"));
    CHECK_OK("formatted to nothing", buf_appendf(&b, "%s", ""));
    CHECK_OK("nothing", buf_append(&b, (struct str){0}));
    CHECK_STR("in order", buf_peek(&b), STR("a\0b-cd-!42/x"));
    buf_clear(&b);
    CHECK_STR("cleared", buf_peek(&b), STR_EMPTY);
    CHECK("the memory is kept", b.cap > 0);
    buf_deinit(&b);
}

TEST(the_ceiling_is_reached_to_the_byte_and_refuses_whole_appends)
{
    static const struct {
        const char *why;
        size_t max, before, add;
        enum err want;
    } cases[] = {
        {"exactly full", 10, 4, 6, ERR_OK},
        {"one too many", 10, 4, 7, ERR_FULL},
        {"full, nothing more", 10, 10, 0, ERR_OK},
        {"full, one more", 10, 10, 1, ERR_FULL},
        {"a ceiling of nothing", 0, 0, 1, ERR_FULL},
        {"a ceiling past the first growth", 200, 100, 100, ERR_OK},
        {"one past it", 200, 100, 101, ERR_FULL},
    };
    char bytes[256], *room = NULL;

    memset(bytes, 'x', sizeof bytes);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (int way = 0; way < 3; way++) {
            struct buf b;
            size_t add = cases[i].add;
            enum err got = ERR_INTERNAL;

            buf_init(&b, cases[i].max);
            CHECK_OK(cases[i].why, buf_append(&b, str_of(bytes, cases[i].before)));
            if (way == 0) got = buf_append(&b, str_of(bytes, add));
            if (way == 1) got = buf_appendf(&b, "%.*s", (int)add, bytes);
            if (way == 2 && !(got = buf_reserve(&b, add, &room))) {
                if (add > 0) memset(room, 'x', add);
                buf_commit(&b, add);
            }
            CHECK_ERR(cases[i].why, got, cases[i].want);
            CHECK_SIZE(cases[i].why, b.len, cases[i].before + (got == ERR_OK ? add : 0));
            CHECK("the ceiling holds", b.cap <= b.max);
            CHECK_STR("only the appended bytes", buf_peek(&b), str_of(bytes, b.len));
            buf_deinit(&b);
        }
    }
}

TEST(a_refused_format_leaves_the_content)
{
    struct buf b;

    buf_init(&b, 8);
    CHECK_OK("fits", buf_appendf(&b, "%s", "abcdef"));
    CHECK_ERR("does not", buf_appendf(&b, "%s", "123"), ERR_FULL);
    CHECK_STR("the content is unchanged", buf_peek(&b), STR("abcdef"));
    CHECK_OK("a fitting append still works", buf_appendf(&b, "%d", 12));
    CHECK_STR("to the last byte", buf_peek(&b), STR("abcdef12"));
    buf_deinit(&b);
}

/* The C locale cannot print a wide character: the only way in which formatting itself fails. */
TEST(what_cannot_be_formatted_is_refused)
{
    struct buf b;

    buf_init(&b, 100);
    CHECK_OK("starts", buf_append(&b, STR("abc")));
    CHECK_ERR("refused", buf_appendf(&b, "more %ls", L"\xFFFF"), ERR_INVALID);
    CHECK_STR("the content is unchanged", buf_peek(&b), STR("abc"));
    buf_deinit(&b);
}

TEST(sizes_that_overflow_are_refused)
{
    struct buf b;
    char *room = (char *)1;

    buf_init(&b, SIZE_MAX);
    CHECK_OK("starts", buf_append_byte(&b, 'a'));
    CHECK_ERR("more than memory", buf_reserve(&b, SIZE_MAX - 1, &room), ERR_NOMEM);
    CHECK_ERR("more than can be counted", buf_reserve(&b, SIZE_MAX, &room), ERR_FULL);
    CHECK("the output is untouched", room == (char *)1);
    CHECK_STR("so is the content", buf_peek(&b), STR("a"));
    buf_deinit(&b);
}

TEST(reserve_then_commit_appends_what_was_written)
{
    struct buf b;
    char *room;

    buf_init(&b, 100);
    CHECK_OK("nothing asked of nothing", buf_reserve(&b, 0, &room));
    CHECK("has no address", room == NULL);
    CHECK_OK("room for 50", buf_reserve(&b, 50, &room));
    memcpy(room, "hello", 5);
    buf_commit(&b, 5);
    CHECK_OK("room for the rest", buf_reserve(&b, 95, &room));
    memset(room, '.', 95);
    buf_commit(&b, 95);
    CHECK_SIZE("full", b.len, 100);
    CHECK("starts as written", str_starts(buf_peek(&b), STR("hello....")));
    buf_deinit(&b);
}

TEST(consume_drops_from_the_front)
{
    struct buf b;

    buf_init(&b, 100);
    buf_consume(&b, 0);
    CHECK_OK("filled", buf_append(&b, STR("abcdef")));
    buf_consume(&b, 2);
    CHECK_STR("the rest moved up", buf_peek(&b), STR("cdef"));
    CHECK_OK("and grows at the end", buf_append_byte(&b, 'g'));
    buf_consume(&b, 5);
    CHECK_STR("all of it", buf_peek(&b), STR_EMPTY);
    buf_deinit(&b);
}

TEST(detach_hands_the_text_over)
{
    struct buf b;
    char *text = NULL;

    buf_init(&b, 3);
    CHECK_OK("an empty one gives the empty string", buf_detach(&b, &text));
    CHECK_TEXT("empty", text, "");
    free(text);
    CHECK_OK("full to the ceiling, the NUL does not count", buf_append(&b, STR("abc")));
    CHECK_OK("detached", buf_detach(&b, &text));
    CHECK_TEXT("the content", text, "abc");
    free(text);
    CHECK("the buffer is empty and without memory", b.len == 0 && b.data == NULL);
    CHECK_OK("and usable again", buf_append(&b, STR("xyz")));
    buf_deinit(&b);
}

static void commit_too_much(void)
{
    struct buf b;
    char *room;

    buf_init(&b, 1000);
    if (buf_reserve(&b, 10, &room)) return;
    buf_commit(&b, b.cap + 1);
}

static void append_itself(void)
{
    struct buf b;

    buf_init(&b, 1000);
    if (buf_append(&b, STR("abc"))) return;
    (void)buf_append(&b, buf_peek(&b));
}

TEST(misuse_stops_at_an_assertion)
{
    CHECK("committing more than was reserved", dies(commit_too_much));
    CHECK("appending a view of the buffer to itself", dies(append_itself));
}
