/* SPDX-License-Identifier: Apache-2.0 */
/* Access of certificates to keys: rules, and the fleet's own names. */
#include "store/etcd/access/access.h"

#include "lib/test.h"

#define URIS(...)                                                                                  \
    .uris = (const struct str[]){__VA_ARGS__},                                                     \
    .uri_count = sizeof((const struct str[]){__VA_ARGS__}) / sizeof(struct str)
#define ADMIN_URI                                                                                  \
    {                                                                                              \
        "bigfleet://admin", 16                                                                     \
    }
#define READONLY_URI                                                                               \
    {                                                                                              \
        "bigfleet://readonly", 19                                                                  \
    }
#define SHARD_URI                                                                                  \
    {                                                                                              \
        "bigfleet://shard/s1", 19                                                                  \
    }
#define REPLICA_URI                                                                                \
    {                                                                                              \
        "muster://replica/r1", 19                                                                  \
    }

static const struct key_range every_key = {{"\0", 1}, {"\0", 1}};
static const struct key_range one_key = {{"/a/k", 4}, {"", 0}};
static const struct key_range shard_key = {{"/s/k", 4}, {"", 0}};

static const struct {
    const char *why;
    struct tls_identity identity;
    bool reads_all, writes_all, is_named;
} identities[] = {
    {"an administrator", {URIS(ADMIN_URI)}, true, true, true},
    {"a replica", {URIS(REPLICA_URI, ADMIN_URI)}, true, true, true},
    {"an administrator with a name of another kind",
     {URIS(ADMIN_URI, {"https://example", 15})},
     true,
     true,
     true},
    {"a reader", {URIS(READONLY_URI)}, true, false, false},
    {"an administrator's URI as a common name",
     {.common_name = {"bigfleet://admin", 16}},
     false,
     false,
     false},
    {"a reader's URI as a common name",
     {.common_name = {"bigfleet://readonly", 19}},
     false,
     false,
     false},
    {"two names of the fleet are none", {URIS(SHARD_URI, ADMIN_URI)}, false, false, false},
    {"also the same one twice", {URIS(ADMIN_URI, ADMIN_URI)}, false, false, false},
    {"also a reader's", {URIS(SHARD_URI, READONLY_URI)}, false, false, false},
    {"nobody", {.common_name = {"nobody", 6}}, false, false, false},
};

TEST(only_one_uri_of_the_fleet_makes_an_administrator_or_a_reader)
{
    for (size_t i = 0; i < ARRAY_LEN(identities); i++) {
        const char *why = identities[i].why;
        const struct tls_identity *who = &identities[i].identity;
        CHECK_U64(why, etcd_allows(NULL, 0, who, every_key, ETCD_READ), identities[i].reads_all);
        CHECK_U64(why, etcd_allows(NULL, 0, who, every_key, ETCD_WRITE), identities[i].writes_all);
        CHECK_U64(why, etcd_allows_any(NULL, 0, who), identities[i].is_named);
    }
    CHECK("without TLS there is nobody to judge",
          etcd_allows(NULL, 0, NULL, every_key, ETCD_WRITE));
}

static struct etcd_rule rule(const char *text)
{
    struct etcd_rule rule;

    CHECK_OK(text, etcd_rule_parse(str_from(text), &rule, NULL));
    return rule;
}

TEST(a_rule_names_by_common_name_or_uri_and_a_name_of_the_fleet_by_its_uri_alone)
{
    const struct etcd_rule rules[] = {rule("app-a=/a/:write"), rule("spiffe://x/b=/a/:write"),
                                      rule("bigfleet://shard/s1=/s/:write")};
    const struct tls_identity by_name = {.common_name = STR("app-a")};
    const struct tls_identity by_uri = {URIS({"spiffe://x/a", 12}, {"spiffe://x/b", 12})};
    const struct tls_identity shard = {URIS(SHARD_URI)};
    const struct tls_identity shard_name = {.common_name = STR("bigfleet://shard/s1")};
    const struct tls_identity two = {URIS(SHARD_URI, {"bigfleet://shard/s2", 19})};

    CHECK("by its common name", etcd_allows(rules, 3, &by_name, one_key, ETCD_WRITE));
    CHECK("by one of its URIs", etcd_allows(rules, 3, &by_uri, one_key, ETCD_WRITE));
    CHECK("nothing else", !etcd_allows(rules, 3, &by_name, shard_key, ETCD_READ));
    CHECK("a shard by its URI", etcd_allows(rules, 3, &shard, shard_key, ETCD_WRITE));
    CHECK("and not by a common name", !etcd_allows(rules, 3, &shard_name, shard_key, ETCD_READ));
    CHECK("nor is it named", !etcd_allows_any(rules, 3, &shard_name));
    CHECK("nor as one of two", !etcd_allows(rules, 3, &two, shard_key, ETCD_READ));
}

TEST(a_rule_for_a_name_that_has_its_rights_is_refused)
{
    static const char *const texts[] = {"bigfleet://admin=/a/:read", "bigfleet://readonly=:write"};
    struct etcd_rule parsed;
    struct note note;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        note = (struct note){{0}};
        CHECK_ERR(texts[i], etcd_rule_parse(str_from(texts[i]), &parsed, &note), ERR_INVALID);
        CHECK_HAS("the reason", note.text, "its rights are fixed");
    }
}
