/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <string.h>

#include "lib/test.h"

static const struct {
    enum err err;
    const char *name, *text;
    enum grpc_status status;
    int exit_code;
} listed[] = {{ERR_OK, "OK", "ok", GRPC_OK, 0},
#define X(name, text, status, exit_code) {ERR_##name, #name, text, GRPC_##status, exit_code},
              ERR_MAP(X)
#undef X
};

TEST(every_row_of_the_map_is_answered)
{
    CHECK_SIZE("one row for each code", ARRAY_LEN(listed), ERR_COUNT);
    for (size_t i = 0; i < ARRAY_LEN(listed); i++) {
        CHECK_U64("in order, without gaps", listed[i].err, i);
        CHECK_TEXT("name", err_name(listed[i].err), listed[i].name);
        CHECK_TEXT("text", err_text(listed[i].err), listed[i].text);
        CHECK_U64("status", err_grpc_status(listed[i].err), listed[i].status);
        CHECK_I64("exit code", err_exit_code(listed[i].err), listed[i].exit_code);
    }
}

TEST(only_success_is_success)
{
    for (size_t i = 1; i < ARRAY_LEN(listed); i++) {
        CHECK(listed[i].name, err_grpc_status(listed[i].err) != GRPC_OK);
        CHECK(listed[i].name,
              err_exit_code(listed[i].err) >= 1 && err_exit_code(listed[i].err) <= 6);
    }
}

TEST(texts_are_lower_case_without_full_stop_and_no_two_are_the_same)
{
    for (size_t i = 0; i < ARRAY_LEN(listed); i++) {
        struct str text = str_from(listed[i].text);
        CHECK(listed[i].name, text.len > 0 && text.at[text.len - 1] != '.');
        CHECK(listed[i].name, text.at[0] >= 'a' && text.at[0] <= 'z');
        for (size_t j = 0; j < i; j++) {
            CHECK(listed[i].name, strcmp(listed[i].text, listed[j].text) != 0);
            CHECK(listed[i].name, strcmp(listed[i].name, listed[j].name) != 0);
        }
    }
}

/* Retry policies and the model checker depend on this rule. */
TEST(dont_know_is_kept_apart_from_not_done)
{
    CHECK_U64("on the wire, too", err_grpc_status(ERR_UNKNOWN), GRPC_UNKNOWN);
    for (size_t i = 0; i < ARRAY_LEN(listed); i++)
        if (listed[i].err != ERR_UNKNOWN)
            CHECK(listed[i].name, err_grpc_status(listed[i].err) != GRPC_UNKNOWN);
}

TEST(a_number_that_is_no_code_gets_a_safe_answer)
{
    static const int numbers[] = {ERR_COUNT, ERR_COUNT + 1, 1000000, -1, INT32_MIN, INT32_MAX};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        int number = numbers[i];
        enum err err;
        memcpy(&err, &number, sizeof err); /* a value that only a bug can produce */
        CHECK_TEXT("name", err_name(err), "UNLISTED");
        CHECK_TEXT("text", err_text(err), "not a listed error");
        CHECK_U64("status", err_grpc_status(err), GRPC_INTERNAL);
        CHECK_I64("exit code", err_exit_code(err), 1);
    }
}
