/* SPDX-License-Identifier: Apache-2.0 */
/* --bootstrap-state: valid seeds, and the errors for wrong ones. */
#include "fleet/seed.h"
#include "lib/test.h"

static const struct {
    const char *why, *text;
    enum err err;
    const char *note;
    size_t rows;
} seeds[] = {
    {"nothing", "{}", ERR_OK, "", 0},
    {"tables may be null", "{\"quotas\":null,\"providers\":null}", ERR_OK, "", 0},
    {"plain names",
     "{\"quotas\":[{\"provider\":\"aws\",\"region\":\"r\",\"per_shard\":{\"a\":1,\"b\":2}}],"
     "\"providers\":[{\"name\":\"p\",\"address\":\"h:1\",\"region\":\"r\"}]}",
     ERR_OK, "", 2},
    {"the state of an archive, whose other tables are not taken",
     "{\"shards\":[{\"ID\":\"a\"}],\"cluster_to_shard\":{},\"domain_to_shard\":null,"
     "\"quotas\":[{\"key\":{\"Provider\":\"aws\",\"Region\":\"r\"},\"per_shard\":null}],"
     "\"providers\":[{\"Name\":\"p\",\"Address\":\"h:1\",\"Region\":\"r\"}]}",
     ERR_OK, "", 2},
    {"not JSON", "{", ERR_PARSE, "line 1: it ends early", 0},
    {"not an object", "[]", ERR_PARSE, "expected an object", 0},
    {"a misspelt table", "{\"quota\":[]}", ERR_INVALID, "field 'quota': not known here", 0},
    {"a misspelt field", "{\"providers\":[{\"nam\":\"p\"}]}", ERR_INVALID,
     "providers.0: field 'nam': not known here", 0},
    {"no list", "{\"providers\":{}}", ERR_PARSE, "field 'providers': expected a list", 0},
    {"no object in it", "{\"providers\":[1]}", ERR_PARSE, "providers.0", 0},
    {"no name", "{\"providers\":[{\"name\":\"a\"},{}]}", ERR_INVALID,
     "providers.1: field 'name': missing", 0},
    {"an empty name", "{\"providers\":[{\"name\":\"\"}]}", ERR_INVALID, "'name': empty", 0},
    {"a name that is none", "{\"providers\":[{\"name\":1}]}", ERR_PARSE,
     "providers.0: field 'Name': expected a text", 0},
    {"no region", "{\"quotas\":[{\"provider\":\"aws\"}]}", ERR_INVALID,
     "quotas.0: field 'region': missing", 0},
    {"a slice that is no number",
     "{\"quotas\":[{\"provider\":\"aws\",\"region\":\"r\",\"per_shard\":{\"a\":\"1\"}}]}",
     ERR_PARSE, "'per_shard': 'a'", 0},
    {"a slice past 32 bits",
     "{\"quotas\":[{\"provider\":\"aws\",\"region\":\"r\",\"per_shard\":{\"a\":2147483648}}]}",
     ERR_PARSE, "'a': expected a whole number of 32 bits", 0},
    {"slices that are a list",
     "{\"quotas\":[{\"provider\":\"aws\",\"region\":\"r\",\"per_shard\":[1]}]}", ERR_PARSE,
     "per_shard", 0},
};
TEST(a_seed_is_read_or_refused_with_the_place)
{
    for (size_t i = 0; i < ARRAY_LEN(seeds); i++) {
        struct fleet_seed seed = {.count = 0};
        struct note note = {""};

        CHECK_ERR(seeds[i].why, fleet_seed_parse(str_from(seeds[i].text), &seed, &note),
                  seeds[i].err);
        CHECK_HAS(seeds[i].why, note.text, seeds[i].note);
        CHECK_SIZE(seeds[i].why, seed.count, seeds[i].rows);
        fleet_seed_deinit(&seed);
    }
}

TEST(a_seed_is_commands)
{
    struct fleet_seed seed = {.count = 0};
    struct note note = {""};

    for (size_t i = 2; i <= 3; i++) {
        CHECK_OK(seeds[i].why, fleet_seed_parse(str_from(seeds[i].text), &seed, &note));
        CHECK_U64("in the order of the file", seed.commands[0].kind, FLEET_SET_QUOTA);
        CHECK_U64("providers", seed.commands[1].kind, FLEET_UPSERT_PROVIDER);
        CHECK_STR("name", seed.commands[1].upsert_provider.name, STR("p"));
        CHECK_STR("address", seed.commands[1].upsert_provider.address, STR("h:1"));
        CHECK_STR("region", seed.commands[1].upsert_provider.region, STR("r"));
        CHECK_STR("provider", seed.commands[0].set_quota.provider, STR("aws"));
        CHECK_STR("region", seed.commands[0].set_quota.region, STR("r"));
        if (i == 2) {
            CHECK_SIZE("slices", seed.commands[0].set_quota.slice_count, 2);
            CHECK_STR("shard", seed.commands[0].set_quota.slices[1].shard, STR("b"));
            CHECK_I64("slice", seed.commands[0].set_quota.slices[1].slice, 2);
        }
        fleet_seed_deinit(&seed);
    }
}

TEST(a_seed_that_is_not_there_is_named)
{
    struct fleet_seed seed = {.count = 0};
    struct note note = {""};

    CHECK_ERR("no file", fleet_seed_read(fs_real(), "/nowhere/seed.json", &seed, &note),
              ERR_NOT_FOUND);
    CHECK_HAS("named", note.text, "bootstrap state /nowhere/seed.json");
}
