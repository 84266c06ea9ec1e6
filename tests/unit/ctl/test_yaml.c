/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of ours as YAML. */
#include "ctl/yaml.h"

#include "lib/test.h"

static const struct {
    const char *why, *json, *yaml;
} documents[] = {
    {"scalars stay as they are", "{\"a\":1,\"b\":\"x: \\\"y\\\" # z\",\"c\":null,\"d\":true}",
     "---\na: 1\nb: \"x: \\\"y\\\" # z\"\nc: null\nd: true\n"},
    {"an empty list, an empty map", "{\"a\":[],\"b\":{}}", "---\na: []\nb: {}\n"},
    {"a list of maps", "{\"rows\":[{\"a\":1,\"b\":[2,3]},{\"a\":2}]}",
     "---\nrows:\n  - a: 1\n    b:\n      - 2\n      - 3\n  - a: 2\n"},
    {"maps in maps", "{\"a\":{\"b\":{\"c\":\"d\"},\"e\":1}}",
     "---\na:\n  b:\n    c: \"d\"\n  e: 1\n"},
    {"a key that is no word", "{\"topology.zone\":1,\"1\":2,\"\":3}",
     "---\n\"topology.zone\": 1\n\"1\": 2\n\"\": 3\n"},
    {"a list in a list", "{\"a\":[[1],[]]}", "---\na:\n  -\n    - 1\n  - []\n"},
};
TEST(a_document_is_written_in_block_style)
{
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        struct buf yaml;

        buf_init(&yaml, 4096);
        CHECK_OK(documents[i].why, yaml_from_json(str_from(documents[i].json), &yaml));
        CHECK_STR(documents[i].why, buf_peek(&yaml), str_from(documents[i].yaml));
        buf_deinit(&yaml);
    }
}

TEST(a_document_that_does_not_fit_is_refused)
{
    struct buf yaml;

    buf_init(&yaml, 8);
    CHECK_ERR("eight bytes", yaml_from_json(STR("{\"a\":\"123456789\"}"), &yaml), ERR_FULL);
    buf_deinit(&yaml);
}
