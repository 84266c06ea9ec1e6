/* SPDX-License-Identifier: Apache-2.0 */
/* worker/cdylib.h with the example plugin and with wrong ones: case 202 of workers.md. */
#include <stdlib.h>

#include "lib/test.h"
#include "worker/cdylib.h"

static const char *library(void)
{
    const char *path = getenv("TEST_PLUGIN");
    CHECK("TEST_PLUGIN names the shared object", path);
    return path;
}

TEST(the_sample_echoes_maps_and_refuses) /* 202 */
{
    const struct muster_plugin *plugin;
    struct note note = {""};
    struct buf answer;

    buf_init(&answer, 64);
    CHECK_OK("load", cdylib_load(library(), "upper_plugin", &plugin, &note));
    CHECK_OK("echo", cdylib_call(plugin, STR("echo"), STR("a\0b\xff"), &answer, &note));
    CHECK_STR("the same bytes", buf_peek(&answer), STR("a\0b\xff"));
    buf_clear(&answer);
    CHECK_OK("map", cdylib_call(plugin, STR("map"), STR("pear 7"), &answer, &note));
    CHECK_STR("mapped", buf_peek(&answer), STR("PEAR 7"));
    buf_clear(&answer);
    CHECK_OK("nothing", cdylib_call(plugin, STR("map"), STR_EMPTY, &answer, &note));
    CHECK_SIZE("is nothing", answer.len, 0);
    CHECK_ERR("no such method", cdylib_call(plugin, STR("nope"), STR("x"), &answer, &note),
              ERR_INVALID);
    CHECK_HAS("with its number", note.text, "rc 1");
    CHECK_ERR("more than fits",
              cdylib_call(plugin, STR("echo"),
                          STR("0123456789012345678901234567890123456789"
                              "0123456789012345678901234567890123456789"),
                          &answer, &note),
              ERR_FULL);
    buf_deinit(&answer);
}

TEST(plugins_that_keep_no_contract_are_refused_with_the_reason) /* 202 */
{
    static const struct {
        const char *symbol;
        enum err want;
        const char *says;
    } cases[] = {
        {"abi_two", ERR_VERSION, "ABI version 2, this worker has 1"},
        {"no_plugin", ERR_INVALID, "returned no plugin"},
        {"half_plugin", ERR_INVALID, "lacks call"},
        {"nothing", ERR_NOT_FOUND, "no symbol 'nothing'"},
    };
    const struct muster_plugin *plugin;
    struct note note;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_ERR(cases[i].symbol,
                  cdylib_load(getenv("TEST_ODD_PLUGIN"), cases[i].symbol, &plugin, &note),
                  cases[i].want);
        CHECK_HAS("the reason", note.text, cases[i].says);
    }
    CHECK_ERR("no such file", cdylib_load("/nowhere/libx.so", "x", &plugin, &note), ERR_NOT_FOUND);
    CHECK_HAS("names it", note.text, "/nowhere/libx.so");
}
