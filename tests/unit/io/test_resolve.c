/* SPDX-License-Identifier: Apache-2.0 */
#include "io/resolve.h"

#include "lib/test.h"

TEST(a_numeric_address_resolves_to_itself)
{
    static const char *const same[] = {"127.0.0.1:5", "[::1]:7790", "10.20.30.40:65535"};
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        struct resolved resolved;
        struct note note = {""};
        CHECK_OK(same[i], address_resolve(same[i], &resolved, &note));
        CHECK_SIZE(same[i], resolved.count, 1);
        CHECK_TEXT(same[i], resolved.at[0], same[i]);
    }
}

TEST(a_name_gives_each_of_its_addresses_once_with_the_port)
{
    struct resolved resolved;
    struct note note = {""};

    CHECK_OK("localhost", address_resolve("localhost:7790", &resolved, &note));
    CHECK("at least one", resolved.count > 0 && resolved.count <= RESOLVE_MAX);
    for (size_t i = 0; i < resolved.count; i++) {
        CHECK_HAS("the port", resolved.at[i], ":7790");
        for (size_t j = 0; j < i; j++) CHECK("once", strcmp(resolved.at[i], resolved.at[j]) != 0);
    }
}

TEST(a_failed_lookup_reports_the_reason)
{
    static const char *const bad[] = {"", "host", ":7790", "unix:/x", "name:notaport"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct resolved resolved = {.count = 77};
        struct note note = {""};
        CHECK_ERR(bad[i], address_resolve(bad[i], &resolved, &note), ERR_INVALID);
        CHECK("and why", note.text[0] != '\0');
        CHECK_SIZE("untouched", resolved.count, 77);
    }
}
