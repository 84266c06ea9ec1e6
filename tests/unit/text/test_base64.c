/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"
#include "text/base64.h"

static const struct {
    const char *bytes, *text;
} pairs[] = {{"", ""},
             {"f", "Zg=="},
             {"fo", "Zm8="},
             {"foo", "Zm9v"},
             {"foob", "Zm9vYg=="},
             {"fooba", "Zm9vYmE="},
             {"foobar", "Zm9vYmFy"}};

TEST(the_vectors_of_the_rfc_there_and_back)
{
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct buf out;
        buf_init(&out, 64);
        CHECK_OK("encodes", base64_encode(str_from(pairs[i].bytes), &out));
        CHECK_STR(pairs[i].bytes, buf_peek(&out), str_from(pairs[i].text));
        buf_clear(&out);
        CHECK_OK("decodes", base64_decode(str_from(pairs[i].text), &out));
        CHECK_STR(pairs[i].text, buf_peek(&out), str_from(pairs[i].bytes));
        buf_deinit(&out);
    }
}

TEST(every_byte_survives)
{
    char bytes[256];
    struct buf text, back;

    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)i;
    buf_init(&text, 1024);
    buf_init(&back, 256);
    CHECK_OK("encodes", base64_encode(str_of(bytes, sizeof bytes), &text));
    CHECK_OK("fits exactly", base64_decode(buf_peek(&text), &back));
    CHECK_STR("the same", buf_peek(&back), str_of(bytes, sizeof bytes));
    buf_deinit(&back);
    buf_deinit(&text);
}

static const char *const refused[] = {"Z",    "Zg",   "Zg=",   "Zg===",    "=",
                                      "Z===", "Zh==", "Zm9=",  "Zg==Zg==", "Zm9v!",
                                      "Zm-v", "Zg=a", "Zm9v=", "====",     "Zm9vZg"};

TEST(anything_but_whole_groups_is_refused_and_leaves_the_buffer_alone)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct buf out;
        buf_init(&out, 64);
        CHECK_OK("before", buf_append_c(&out, "kept"));
        CHECK_ERR(refused[i], base64_decode(str_from(refused[i]), &out), ERR_PARSE);
        CHECK_STR(refused[i], buf_peek(&out), STR("kept"));
        buf_deinit(&out);
    }
}

TEST(blanks_are_skipped_and_the_ceiling_holds)
{
    struct buf out;

    buf_init(&out, 6);
    CHECK_OK("wrapped lines", base64_decode(STR(" Zm9v\r\n\tYmFy\n"), &out));
    CHECK_STR("together", buf_peek(&out), STR("foobar"));
    buf_clear(&out);
    CHECK_ERR("one more byte", base64_decode(STR("Zm9vYmFyZg=="), &out), ERR_FULL);
    CHECK_ERR("text, too", base64_encode(STR("foobar"), &out), ERR_FULL);
    CHECK_SIZE("nothing was added", out.len, 0);
    buf_deinit(&out);
}
