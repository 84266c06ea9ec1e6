/* SPDX-License-Identifier: Apache-2.0 */
/* dash/token.h: accepted files, the file that is created when there is none, and the messages. */
#include "dash/token.h"

#include <stdio.h>

#include "io/real.h"
#include "lib/test.h"

static char path[FS_PATH_CAP];

static void put(const char *content)
{
    static uint64_t unique;

    snprintf(path, sizeof path, "%s/token", test_dir());
    CHECK_OK("written", fs_publish(fs_real(), path, str_from(content), 0600, ++unique));
}

#define SIXTEEN "0123456789abcdef"
#define LONGEST SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN "-_ZYXWVUTSRQPONM" /* 128 */

TEST(a_token_is_one_line_of_letters_and_digits)
{
    static const struct {
        const char *why, *content, *token; /* NULL: refused */
    } cases[] = {
        {"the shortest", SIXTEEN, SIXTEEN},
        {"with a line end", SIXTEEN "\n", SIXTEEN},
        {"the longest", LONGEST "\r\n", LONGEST},
        {"too short", "0123456789abcde\n", NULL},
        {"too long", LONGEST "x", NULL},
        {"two lines", SIXTEEN "\n" SIXTEEN "\n", NULL},
        {"a blank within", "0123456789 abcdef", NULL},
        {"empty", "", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char token[DASH_TOKEN_MAX + 1] = "untouched";
        struct note note = {""};
        enum err want = cases[i].token ? ERR_OK : ERR_INVALID;
        put(cases[i].content);
        CHECK_ERR(cases[i].why, dash_token_read(fs_real(), path, token, &note), want);
        CHECK_TEXT(cases[i].why, token, cases[i].token ? cases[i].token : "untouched");
        if (want) CHECK_HAS(cases[i].why, note.text, "16 to 128 letters and digits");
        CHECK_ERR(cases[i].why, dash_token_check(fs_real(), path, &note), want);
    }
}

TEST(a_token_that_is_made_is_read_again_and_only_by_its_owner)
{
    struct io io = {.fs = fs_real(), .entropy = entropy_real()};
    char made[DASH_TOKEN_MAX + 1] = "", other[DASH_TOKEN_MAX + 1] = "", read[DASH_TOKEN_MAX + 1];
    struct fs_info info = {.size = 0};
    struct note note = {""};

    snprintf(path, sizeof path, "%s/none", test_dir());
    CHECK_ERR("none", dash_token_read(io.fs, path, read, &note), ERR_NOT_FOUND);
    CHECK_OK("it may be made", dash_token_check(io.fs, path, &note));
    CHECK_OK("made", dash_token_make(&io, path, made, &note));
    CHECK_U64("32 digits", strlen(made), 32);
    CHECK_OK("stat", fs_stat(io.fs, path, &info));
    CHECK_U64("its owner's", info.mode & 0777, 0600);
    CHECK_OK("read", dash_token_read(io.fs, path, read, &note));
    CHECK_TEXT("the same", read, made);
    CHECK_OK("another", dash_token_make(&io, path, other, &note));
    CHECK("not the same twice", strcmp(made, other) != 0);
}

TEST(a_file_that_cannot_be_made_is_refused_before_anything_is)
{
    struct note note = {""};

    snprintf(path, sizeof path, "%s/no/such/token", test_dir());
    CHECK_ERR("no directory", dash_token_check(fs_real(), path, &note), ERR_INVALID);
    CHECK_HAS("names it", note.text, "no/such/token: not found");
    CHECK_ERR("a directory", dash_token_check(fs_real(), test_dir(), &note), ERR_INVALID);
}
