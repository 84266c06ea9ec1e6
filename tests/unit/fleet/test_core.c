/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of the tables, row by row: coordinator.md section 5, facts S1 to S10 of section 20, and
 * muster's own limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/core/fleet.h"
#include "lib/test.h"

/* -- short forms of commands -- */
static struct str s(const char *text)
{
    return str_from(text);
}

static struct fleet_command add(const char *id)
{
    return (struct fleet_command){
        FLEET_ADD_SHARD,
        .add_shard = {.id = s(id), .address = s("host:1"), .registered_at = {9, 1}}};
}

static struct fleet_command removal(const char *id)
{
    return (struct fleet_command){FLEET_REMOVE_SHARD, .remove_shard = s(id)};
}

static struct fleet_command bind(const char *cluster, const char *shard)
{
    return (struct fleet_command){FLEET_BIND_CLUSTER, .bind_cluster = {s(cluster), s(shard)}};
}

static struct fleet_command assign(const char *key, const char *value, const char *shard)
{
    return (struct fleet_command){FLEET_ASSIGN_DOMAIN,
                                  .assign_domain = {s(key), s(value), s(shard)}};
}

static struct fleet_command unassign(const char *key, const char *value)
{
    return (struct fleet_command){FLEET_UNASSIGN_DOMAIN,
                                  .unassign_domain = {.key = s(key), .value = s(value)}};
}

static struct fleet_command quota(const char *provider, const char *region,
                                  const struct fleet_slice *slices, size_t count)
{
    return (struct fleet_command){FLEET_SET_QUOTA,
                                  .set_quota = {s(provider), s(region), slices, count}};
}

static struct fleet_command provider(const char *name, const char *address, const char *region)
{
    return (struct fleet_command){FLEET_UPSERT_PROVIDER,
                                  .upsert_provider = {s(name), s(address), s(region)}};
}

static struct fleet *open_fleet(void)
{
    struct fleet *fleet;

    CHECK_OK("open", fleet_open(&fleet));
    return fleet;
}

static enum fleet_status run(struct fleet *fleet, struct fleet_command command)
{
    return fleet_apply(fleet, &command).status;
}

/* -- section 5 and S1 to S6 as one script: each line runs on the result of the lines above -- */
TEST(every_command_answers_as_the_specification_says)
{
    static const struct fleet_slice slices[] = {{{"nobody", 6}, -5}};
    const struct {
        const char *why;
        struct fleet_command command;
        enum fleet_status status;
        bool changed;
        const char *text; /* what a person reads when it is refused */
    } script[] = {
        {"S1: a new shard", add("shard-1"), FLEET_DONE, true, "done"},
        {"S1: twice", add("shard-1"), FLEET_SHARD_EXISTS, false, "shard exists: shard-1"},
        {"an empty id", add(""), FLEET_SHARD_ID_EMPTY, false, "shard id is empty"},
        {"S2: remove it", removal("shard-1"), FLEET_DONE, true, "done"},
        {"S2: twice", removal("shard-1"), FLEET_SHARD_NOT_FOUND, false, "shard not found: shard-1"},
        {"an empty id is no shard", removal(""), FLEET_SHARD_NOT_FOUND, false, "shard not found: "},
        {"a", add("a"), FLEET_DONE, true, "done"},
        {"b", add("b"), FLEET_DONE, true, "done"},
        {"S3: first contact", bind("c1", "a"), FLEET_DONE, true, "done"},
        {"S3: again to the same", bind("c1", "a"), FLEET_DONE, false, "done"},
        {"S3: to another", bind("c1", "b"), FLEET_CLUSTER_BOUND, false,
         "cluster already bound: c1: current a, requested b"},
        {"S4: to nobody", bind("c2", "x"), FLEET_SHARD_NOT_FOUND, false, "shard not found: x"},
        {"the shard is looked at first", bind("c1", "x"), FLEET_SHARD_NOT_FOUND, false,
         "shard not found: x"},
        {"S5: assign", assign("topology.kubernetes.io/rack", "r-1", "a"), FLEET_DONE, true, "done"},
        {"S5: the same", assign("topology.kubernetes.io/rack", "r-1", "a"), FLEET_DONE, false,
         "done"},
        {"S5: to another", assign("topology.kubernetes.io/rack", "r-1", "b"), FLEET_DOMAIN_ASSIGNED,
         false, "domain already assigned: topology.kubernetes.io/rack=r-1: current a, requested b"},
        {"to nobody", assign("rack", "r-2", "x"), FLEET_SHARD_NOT_FOUND, false,
         "shard not found: x"},
        {"the shard is looked at first", assign("topology.kubernetes.io/rack", "r-1", "x"),
         FLEET_SHARD_NOT_FOUND, false, "shard not found: x"},
        {"unassigning never fails: absent", unassign("zone", "absent"), FLEET_DONE, false, "done"},
        {"nor with another value", unassign("topology.kubernetes.io/rack", "r-"), FLEET_DONE, false,
         "done"},
        {"unassign", unassign("topology.kubernetes.io/rack", "r-1"), FLEET_DONE, true, "done"},
        {"now it may go to another", assign("topology.kubernetes.io/rack", "r-1", "b"), FLEET_DONE,
         true, "done"},
        {"a quota checks nothing", quota("aws", "us-east-1", slices, 1), FLEET_DONE, true, "done"},
        {"not even names", quota("", "", NULL, 0), FLEET_DONE, true, "done"},
        {"a provider", provider("aws-east", "h:1", "us"), FLEET_DONE, true, "done"},
        {"in its place", provider("aws-east", "h:2", ""), FLEET_DONE, true, "done"},
        {"without a name", provider("", "h:1", "us"), FLEET_PROVIDER_NAME_EMPTY, false,
         "provider name is empty"},
        {"kind 0",
         {.kind = (enum fleet_kind)0},
         FLEET_UNKNOWN_KIND,
         false,
         "unknown command kind 0"},
        {"kind 9",
         {.kind = (enum fleet_kind)9},
         FLEET_UNKNOWN_KIND,
         false,
         "unknown command kind 9"},
    };
    struct fleet *fleet = open_fleet();
    struct note text;

    for (size_t i = 0; i < ARRAY_LEN(script); i++) {
        uint64_t hash = fleet_hash(fleet);
        struct fleet_result result = fleet_apply(fleet, &script[i].command);
        CHECK_TEXT(script[i].why, fleet_status_text(result.status),
                   fleet_status_text(script[i].status));
        CHECK_U64(script[i].why, result.changed, script[i].changed);
        CHECK(script[i].why, (fleet_hash(fleet) != hash) == script[i].changed);
        fleet_result_text(&script[i].command, &result, &text);
        CHECK_STR(script[i].why, s(text.text), s(script[i].text));
    }
    fleet_close(fleet);
}

TEST(each_refusal_has_the_status_the_service_answers_with)
{
    CHECK_ERR("RemoveShard, AssignDomain", fleet_status_err(FLEET_SHARD_NOT_FOUND), ERR_NOT_FOUND);
    CHECK_ERR("AssignDomain", fleet_status_err(FLEET_DOMAIN_ASSIGNED), ERR_EXISTS);
    CHECK_ERR("BindCluster", fleet_status_err(FLEET_CLUSTER_BOUND), ERR_EXISTS);
    CHECK_ERR("AddShard", fleet_status_err(FLEET_SHARD_EXISTS), ERR_EXISTS);
    CHECK_ERR("empty", fleet_status_err(FLEET_SHARD_ID_EMPTY), ERR_INVALID);
    CHECK_ERR("done", fleet_status_err(FLEET_DONE), ERR_OK);
    CHECK_ERR("no such", fleet_status_err((enum fleet_status)99), ERR_INTERNAL);
    CHECK_TEXT("no such", fleet_status_text((enum fleet_status)99), "unknown result");
    CHECK_TEXT("kind", fleet_kind_name(FLEET_UPSERT_PROVIDER), "UpsertProvider");
    CHECK_TEXT("no such", fleet_kind_name((enum fleet_kind)99), "?");
}

TEST(s5_the_domains_of_a_shard_are_exactly_its_own)
{
    struct fleet *fleet = open_fleet();
    struct fleet_walk walk = {0};
    struct fleet_row domain;

    run(fleet, add("a"));
    run(fleet, add("b"));
    run(fleet, assign("rack", "r-1", "a"));
    run(fleet, assign("rack", "r-0", "b"));
    CHECK("one", fleet_next_of(fleet, FLEET_DOMAINS, &walk, s("a"), &domain));
    CHECK_STR("key", domain.domain.key, s("rack"));
    CHECK_STR("value", domain.domain.value, s("r-1"));
    CHECK_STR("shard", domain.domain.shard, s("a"));
    CHECK("and no more", !fleet_next_of(fleet, FLEET_DOMAINS, &walk, s("a"), &domain));
    CHECK("still none", !fleet_next_of(fleet, FLEET_DOMAINS, &walk, s("a"), &domain));
    run(fleet, unassign("rack", "r-1"));
    walk = (struct fleet_walk){0};
    CHECK("none left", !fleet_next_of(fleet, FLEET_DOMAINS, &walk, s("a"), &domain));
    walk = (struct fleet_walk){0};
    CHECK("nobody's", !fleet_next_of(fleet, FLEET_DOMAINS, &walk, s("x"), &domain));
    fleet_close(fleet);
}

TEST(s6_removing_a_shard_takes_its_clusters_and_domains_with_it)
{
    struct fleet_command command = removal("a");
    struct fleet *fleet = open_fleet();
    struct fleet_row cluster;
    struct fleet_row domain;
    struct fleet_result result;
    struct fleet_row shard;
    struct fleet_row row;
    struct fleet_slice slice = {STR("a"), 3};

    run(fleet, add("a"));
    run(fleet, add("b"));
    run(fleet, bind("c1", "a"));
    run(fleet, bind("c2", "b"));
    run(fleet, assign("rack", "r-1", "a"));
    run(fleet, assign("rack", "r-2", "a"));
    run(fleet, assign("rack", "r-3", "b"));
    run(fleet, quota("p", "r", &slice, 1));
    CHECK("counted", fleet_find(fleet, FLEET_SHARDS, s("a"), STR_EMPTY, &shard));
    CHECK_U32("clusters", shard.shard.clusters, 1);
    CHECK_U32("domains", shard.shard.domains, 2);
    result = fleet_apply(fleet, &command);
    CHECK_U32("clusters", result.clusters_freed, 1);
    CHECK_U32("domains", result.domains_freed, 2);
    CHECK("gone", !fleet_find(fleet, FLEET_SHARDS, s("a"), STR_EMPTY, &shard));
    CHECK("gone", !fleet_find(fleet, FLEET_CLUSTERS, s("c1"), STR_EMPTY, &cluster));
    CHECK("gone", !fleet_find(fleet, FLEET_DOMAINS, s("rack"), s("r-1"), &domain));
    CHECK("gone", !fleet_find(fleet, FLEET_DOMAINS, s("rack"), s("r-2"), &domain));
    CHECK("b keeps its own", fleet_find(fleet, FLEET_CLUSTERS, s("c2"), STR_EMPTY, &cluster));
    CHECK("b keeps its own", fleet_find(fleet, FLEET_DOMAINS, s("rack"), s("r-3"), &domain));
    CHECK("invariant 5: quotas stay", fleet_find(fleet, FLEET_QUOTAS, s("p"), s("r"), &row));
    CHECK_STR("and still name it", row.quota.slices[0].shard, s("a"));
    CHECK_U64("free for another", run(fleet, bind("c1", "b")), FLEET_DONE);
    CHECK_U64("free for another", run(fleet, assign("rack", "r-1", "b")), FLEET_DONE);
    fleet_close(fleet);
}

TEST(s7_a_heartbeat_shows_and_is_no_part_of_the_replicated_state)
{
    struct fleet_time now = fleet_time_from_unix_ns(1780315200123450000);
    struct fleet *fleet = open_fleet();
    struct fleet_row shard;
    uint64_t hash;

    run(fleet, add("a"));
    hash = fleet_hash(fleet);
    CHECK("unknown: no effect", !fleet_heartbeat(fleet, s("x"), now));
    CHECK("known", fleet_heartbeat(fleet, s("a"), now));
    CHECK("found", fleet_find(fleet, FLEET_SHARDS, s("a"), STR_EMPTY, &shard));
    CHECK_I64("shows", fleet_time_to_unix_ns(shard.shard.last_heartbeat), 1780315200123450000);
    CHECK_U64("not in the hash", fleet_hash(fleet), hash);
    fleet_heartbeats_clear(fleet);
    CHECK("found", fleet_find(fleet, FLEET_SHARDS, s("a"), STR_EMPTY, &shard));
    CHECK("cleared", !fleet_time_is_set(shard.shard.last_heartbeat));
    fleet_close(fleet);
}

TEST(a_heartbeat_in_a_command_is_ignored_and_an_unset_registration_stays_unset)
{
    struct fleet_command command = {FLEET_ADD_SHARD,
                                    .add_shard = {.id = STR("a"), .last_heartbeat = {77, 1}}};
    struct fleet *fleet = open_fleet();
    struct fleet_row shard;

    CHECK_U64("added", run(fleet, command), FLEET_DONE);
    CHECK("found", fleet_find(fleet, FLEET_SHARDS, s("a"), STR_EMPTY, &shard));
    CHECK("no heartbeat", !fleet_time_is_set(shard.shard.last_heartbeat));
    CHECK("no clock inside apply", !fleet_time_is_set(shard.shard.registered_at));
    CHECK_SIZE("no address", shard.shard.address.len, 0);
    fleet_close(fleet);
}

TEST(invariant_4_address_and_registration_never_change)
{
    struct fleet_command again = {
        FLEET_ADD_SHARD,
        .add_shard = {.id = STR("a"), .address = STR("other:9"), .registered_at = {5, 5}}};
    struct fleet *fleet = open_fleet();
    struct fleet_row shard;

    run(fleet, add("a"));
    CHECK_U64("exists", run(fleet, again), FLEET_SHARD_EXISTS);
    CHECK("found", fleet_find(fleet, FLEET_SHARDS, s("a"), STR_EMPTY, &shard));
    CHECK_STR("address", shard.shard.address, s("host:1"));
    CHECK_I64("registered", shard.shard.registered_at.seconds, 9);
    fleet_close(fleet);
}

TEST(s8_a_quota_row_is_the_callers_copy_sorted_and_replaced_whole)
{
    char name[] = "b";
    struct fleet_slice slices[] = {{str_of(name, 1), 200}, {STR("a"), 1}, {STR("a"), 100}};
    struct fleet_slice other = {STR("z"), INT32_MIN};
    struct fleet *fleet = open_fleet();
    struct fleet_row row;

    run(fleet, quota("aws", "us-east-1", slices, 3));
    name[0] = 'x';
    slices[0].slice = 0;
    CHECK("found", fleet_find(fleet, FLEET_QUOTAS, s("aws"), s("us-east-1"), &row));
    CHECK_SIZE("the last of the same shard counts", row.quota.slice_count, 2);
    CHECK_STR("ascending", row.quota.slices[0].shard, s("a"));
    CHECK_I64("a", row.quota.slices[0].slice, 100);
    CHECK_STR("unaffected by the change", row.quota.slices[1].shard, s("b"));
    CHECK_I64("b", row.quota.slices[1].slice, 200);
    run(fleet, quota("aws", "us-east-1", &other, 1));
    CHECK("found", fleet_find(fleet, FLEET_QUOTAS, s("aws"), s("us-east-1"), &row));
    CHECK_SIZE("replaced whole", row.quota.slice_count, 1);
    CHECK_I64("z", row.quota.slices[0].slice, INT32_MIN);
    run(fleet, quota("aws", "us-east-1", NULL, 0));
    CHECK("an empty row is a row", fleet_find(fleet, FLEET_QUOTAS, s("aws"), s("us-east-1"), &row));
    CHECK_SIZE("empty", row.quota.slice_count, 0);
    CHECK("other region", !fleet_find(fleet, FLEET_QUOTAS, s("aws"), s("us"), &row));
    fleet_close(fleet);
}

TEST(s9_providers_are_listed_by_name)
{
    struct fleet *fleet = open_fleet();
    struct fleet_walk walk = {0};
    struct fleet_row row;

    run(fleet, provider("gcp-west", "g:1", "west"));
    run(fleet, provider("aws-east", "a:0", "nowhere"));
    run(fleet, provider("aws-east", "a:1", "east"));
    CHECK("first", fleet_next(fleet, FLEET_PROVIDERS, &walk, &row));
    CHECK_STR("name", row.provider.name, s("aws-east"));
    CHECK_STR("address", row.provider.address, s("a:1"));
    CHECK_STR("region", row.provider.region, s("east"));
    CHECK("second", fleet_next(fleet, FLEET_PROVIDERS, &walk, &row));
    CHECK_STR("name", row.provider.name, s("gcp-west"));
    CHECK("two", !fleet_next(fleet, FLEET_PROVIDERS, &walk, &row));
    fleet_close(fleet);
}

TEST(assignments_are_listed_by_shard_then_key_then_value)
{
    static const char *const want[] = {"a rack 2", "a zone 0", "b rack 1", "b rack 10", "b rack 9"};
    struct fleet *fleet = open_fleet();
    struct fleet_walk walk = {0};
    struct fleet_row row;
    char got[64];

    run(fleet, add("b"));
    run(fleet, add("empty"));
    run(fleet, add("a"));
    run(fleet, assign("rack", "9", "b"));
    run(fleet, assign("rack", "10", "b"));
    run(fleet, assign("rack", "1", "b"));
    run(fleet, assign("zone", "0", "a"));
    run(fleet, assign("rack", "2", "a"));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        CHECK(want[i], fleet_next_assignment(fleet, &walk, &row));
        snprintf(got, sizeof got, "%.*s %.*s %.*s", STR_ARG(row.domain.shard),
                 STR_ARG(row.domain.key), STR_ARG(row.domain.value));
        CHECK_TEXT("order", got, want[i]);
    }
    CHECK("end", !fleet_next_assignment(fleet, &walk, &row));
    CHECK("still the end", !fleet_next_assignment(fleet, &walk, &row));
    fleet_close(fleet);
}

TEST(unassign_returns_the_former_owner)
{
    struct fleet_command command = unassign("rack", "r");
    struct fleet *fleet = open_fleet();

    run(fleet, add("a"));
    run(fleet, assign("rack", "r", "a"));
    CHECK_STR("the owner", fleet_apply(fleet, &command).holder, s("a"));
    CHECK_STR("nobody", fleet_apply(fleet, &command).holder, s(""));
    fleet_close(fleet);
}

/* -- our limits -- */
TEST(texts_past_their_limit_and_texts_that_are_none_are_refused_by_name)
{
    static char id[FLEET_ID_MAX + 2], label[FLEET_LABEL_KEY_MAX + 2];
    static struct fleet_slice many[FLEET_SLICES_MAX + 1];
    struct fleet *fleet = open_fleet();
    struct note text;

    memset(id, 'i', sizeof id - 1);
    memset(label, 'l', sizeof label - 1);
    run(fleet, add("a"));
    const struct {
        const char *why;
        struct fleet_command command;
        enum fleet_status status;
        const char *text;
    } cases[] = {
        {"shard id", add(id), FLEET_TOO_LONG, "shard id: longer than the limit of 253"},
        {"shard id", add("\xff"), FLEET_NOT_TEXT, "shard id: not UTF-8"},
        {"address",
         {FLEET_ADD_SHARD, .add_shard = {.id = STR("x"), .address = s(label)}},
         FLEET_TOO_LONG,
         "shard address: longer than the limit of 512"},
        {"time",
         {FLEET_ADD_SHARD, .add_shard = {.id = STR("x"), .registered_at = {-1, 0}}},
         FLEET_BAD_TIME,
         "registered at: time out of range"},
        {"time",
         {FLEET_ADD_SHARD, .add_shard = {.id = STR("x"), .registered_at = {315537897600, 0}}},
         FLEET_BAD_TIME,
         "registered at: time out of range"},
        {"time",
         {FLEET_ADD_SHARD, .add_shard = {.id = STR("x"), .registered_at = {0, 1000000000}}},
         FLEET_BAD_TIME,
         "registered at: time out of range"},
        {"cluster", bind(id, "a"), FLEET_TOO_LONG, "cluster id: longer than the limit of 253"},
        {"cluster", bind("\xc0\x80", "a"), FLEET_NOT_TEXT, "cluster id: not UTF-8"},
        {"label key", assign(label, "v", "a"), FLEET_TOO_LONG,
         "label key: longer than the limit of 512"},
        {"label value", assign("k", label, "a"), FLEET_TOO_LONG,
         "label value: longer than the limit of 512"},
        {"label value", assign("k", "\xed\xa0\x80", "a"), FLEET_NOT_TEXT, "label value: not UTF-8"},
        {"absent, whatever its length", unassign(label, label), FLEET_DONE, "done"},
        {"provider", quota(id, "", NULL, 0), FLEET_TOO_LONG,
         "provider: longer than the limit of 253"},
        {"region", quota("", id, NULL, 0), FLEET_TOO_LONG, "region: longer than the limit of 253"},
        {"slices", quota("", "", many, FLEET_SLICES_MAX + 1), FLEET_TOO_LONG,
         "quota row: longer than the limit of 16384"},
        {"slices", quota("", "", many, FLEET_SLICES_MAX), FLEET_DONE, "done"},
        {"name", provider(id, "", ""), FLEET_TOO_LONG,
         "provider name: longer than the limit of 253"},
        {"address", provider("p", label, ""), FLEET_TOO_LONG,
         "provider address: longer than the limit of 512"},
        {"region", provider("p", "", id), FLEET_TOO_LONG, "region: longer than the limit of 253"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet_result result = fleet_apply(fleet, &cases[i].command);
        CHECK_TEXT(cases[i].why, fleet_status_text(result.status),
                   fleet_status_text(cases[i].status));
        fleet_result_text(&cases[i].command, &result, &text);
        CHECK_STR(cases[i].why, s(text.text), s(cases[i].text));
    }
    id[FLEET_ID_MAX] = '\0';
    label[FLEET_LABEL_KEY_MAX] = '\0';
    CHECK_U64("at the limit", run(fleet, add(id)), FLEET_DONE);
    CHECK_U64("at the limit", run(fleet, assign(label, label, id)), FLEET_DONE);
    CHECK_U64("at the limit", run(fleet, bind(id, id)), FLEET_DONE);
    fleet_close(fleet);
}

TEST(a_full_table_says_so_and_accepts_changes_that_add_no_row)
{
    struct fleet *fleet = open_fleet();
    struct note text;
    char id[16];

    for (unsigned i = 0; i < FLEET_SHARDS_MAX; i++) {
        snprintf(id, sizeof id, "s-%u", i);
        CHECK_U64("room", run(fleet, add(id)), FLEET_DONE);
    }
    struct fleet_command more = add("more");
    struct fleet_result result = fleet_apply(fleet, &more);
    CHECK_U64("full", result.status, FLEET_FULL);
    CHECK_ERR("full", fleet_status_err(result.status), ERR_FULL);
    fleet_result_text(&more, &result, &text);
    CHECK_STR("text", s(text.text), s("shards: table is full at 65536"));
    CHECK_U64("exists comes first", run(fleet, add("s-7")), FLEET_SHARD_EXISTS);
    run(fleet, removal("s-7"));
    CHECK_U64("room again", run(fleet, more), FLEET_DONE);
    fleet_close(fleet);
}

/* -- times -- */
TEST(times_and_unix_nanoseconds_meet_and_zero_is_unset_both_ways)
{
    static const struct {
        const char *why;
        struct fleet_time time;
        int64_t ns;
    } cases[] = {
        {"unset", {0, 0}, 0},
        {"after 1970", {FLEET_TIME_UNIX, 1}, 1},
        {"before 1970", {FLEET_TIME_UNIX - 1, 999999999}, -1},
        {"2026", {FLEET_TIME_UNIX + 1780315200, 123450000}, 1780315200123450000},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_I64(cases[i].why, fleet_time_to_unix_ns(cases[i].time), cases[i].ns);
        CHECK_I64(cases[i].why, fleet_time_from_unix_ns(cases[i].ns).seconds,
                  cases[i].time.seconds);
        CHECK_U64(cases[i].why, fleet_time_from_unix_ns(cases[i].ns).nanos, cases[i].time.nanos);
    }
    CHECK_I64("too early", fleet_time_to_unix_ns((struct fleet_time){0, 1}), INT64_MIN);
    CHECK_I64("too late", fleet_time_to_unix_ns((struct fleet_time){315537897599, 0}), INT64_MAX);
}

/* -- the whole -- */
TEST(the_same_content_has_the_same_hash_whatever_the_way_to_it)
{
    struct fleet *one = open_fleet(), *other = open_fleet();

    run(one, add("a"));
    run(one, add("b"));
    run(one, assign("rack", "1", "a"));
    run(one, assign("rack", "2", "b"));
    run(other, add("b"));
    run(other, assign("rack", "2", "b"));
    run(other, add("gone"));
    run(other, assign("rack", "1", "gone"));
    CHECK("not yet", fleet_hash(one) != fleet_hash(other));
    run(other, removal("gone"));
    run(other, add("a"));
    run(other, assign("rack", "1", "a"));
    CHECK_U64("the same", fleet_hash(one), fleet_hash(other));
    run(one, unassign("rack", "1"));
    run(one, unassign("rack", "2"));
    run(one, assign("rack", "1", "b"));
    run(one, assign("rack", "2", "a"));
    CHECK("owners exchanged", fleet_hash(one) != fleet_hash(other));
    fleet_clear(one);
    fleet_clear(other);
    CHECK_U64("empty", fleet_hash(one), fleet_hash(other));
    fleet_close(one);
    fleet_close(other);
}

TEST(memory_is_counted_and_given_back)
{
    struct fleet *fleet = open_fleet();
    uint64_t empty = fleet_bytes(fleet), shard;
    char value[16];

    run(fleet, add("a"));
    shard = fleet_bytes(fleet);
    CHECK("counted", shard > empty);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(value, sizeof value, "r-%u", i);
        run(fleet, assign("rack", value, "a"));
    }
    CHECK("counted", fleet_bytes(fleet) > shard + 1000 * sizeof(void *));
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(value, sizeof value, "r-%u", i);
        run(fleet, unassign("rack", value));
    }
    CHECK_U64("freed", fleet_bytes(fleet), shard);
    run(fleet, removal("a"));
    CHECK_U64("freed", fleet_bytes(fleet), empty);
    fleet_close(fleet);
    fleet_close(NULL);
}

/* -- views -- */
/* Writes each row as one line. */
static void view_lines(struct fleet_view *view, struct buf *lines, size_t rows_max)
{
    struct fleet_row row;
    bool more = true;

    for (size_t i = 0; i < rows_max; i++) {
        CHECK_OK("next", fleet_view_next(view, &row, &more));
        if (!more) return;
        struct str first = row.table == FLEET_SHARDS    ? row.shard.id
                           : row.table == FLEET_DOMAINS ? row.domain.value
                                                        : row.cluster.id;
        struct str second = row.table == FLEET_SHARDS    ? row.shard.address
                            : row.table == FLEET_DOMAINS ? row.domain.shard
                                                         : row.cluster.shard;
        CHECK_OK("room",
                 buf_appendf(lines, "%u %.*s %.*s;", row.table, STR_ARG(first), STR_ARG(second)));
    }
}

TEST(a_view_shows_the_state_of_its_start_despite_later_changes)
{
    static const char want[] = "0 a host:1;0 b host:1;0 c host:1;1 c1 a;1 c2 b;2 1 a;2 2 b;2 3 c;";
    struct fleet *fleet = open_fleet();
    struct fleet_view *view, *second;
    struct buf lines;

    run(fleet, add("c"));
    run(fleet, add("b"));
    run(fleet, add("a"));
    run(fleet, bind("c2", "b"));
    run(fleet, bind("c1", "a"));
    run(fleet, assign("rack", "3", "c"));
    run(fleet, assign("rack", "2", "b"));
    run(fleet, assign("rack", "1", "a"));
    for (size_t at = 0; at <= 8; at++) {
        uint64_t hash = fleet_hash(fleet);
        buf_init(&lines, 1024);
        CHECK_OK("open", fleet_view_open(fleet, &view));
        CHECK_U64("hash", fleet_view_hash(view), hash);
        CHECK_U32("counts", fleet_view_counts(view).of[FLEET_DOMAINS], 3);
        view_lines(view, &lines, at);
        run(fleet, unassign("rack", "2"));
        run(fleet, assign("rack", "2", "c")); /* another row with the same key */
        run(fleet, assign("rack", "0", "c")); /* before or after the position of the walk */
        run(fleet, assign("rack", "4", "c"));
        run(fleet, removal("b"));
        run(fleet, removal("a"));
        run(fleet, add("aa"));
        run(fleet, bind("c0", "aa"));
        CHECK_OK("a second view, of a later moment", fleet_view_open(fleet, &second));
        run(fleet, removal("c"));
        view_lines(view, &lines, SIZE_MAX);
        CHECK_STR("as it was", buf_peek(&lines), s(want));
        fleet_view_close(view);
        buf_clear(&lines);
        view_lines(second, &lines, SIZE_MAX);
        CHECK_STR("as it was then", buf_peek(&lines),
                  s("0 aa host:1;0 c host:1;1 c0 aa;2 0 c;2 2 c;2 3 c;2 4 c;"));
        fleet_view_close(second);
        fleet_clear(fleet);
        run(fleet, add("c"));
        run(fleet, add("b"));
        run(fleet, add("a"));
        run(fleet, bind("c2", "b"));
        run(fleet, bind("c1", "a"));
        run(fleet, assign("rack", "3", "c"));
        run(fleet, assign("rack", "2", "b"));
        run(fleet, assign("rack", "1", "a"));
        buf_deinit(&lines);
    }
    fleet_close(fleet);
}

TEST(a_view_costs_only_the_rows_removed_while_it_is_open)
{
    struct fleet *fleet = open_fleet();
    uint64_t before, open;
    struct fleet_view *view;
    char value[16];

    run(fleet, add("a"));
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(value, sizeof value, "r-%u", i);
        run(fleet, assign("rack", value, "a"));
    }
    before = fleet_bytes(fleet);
    CHECK_OK("open", fleet_view_open(fleet, &view));
    open = fleet_bytes(fleet);
    CHECK("no copy", open - before < 4096);
    run(fleet, removal("a"));
    CHECK("handed over, not copied", fleet_bytes(fleet) <= open);
    fleet_view_close(view);
    CHECK("freed", fleet_bytes(fleet) < 4096);
    fleet_close(fleet);
}

TEST(views_are_counted_and_fail_when_the_tables_are_cleared)
{
    struct fleet_view *views[FLEET_VIEWS_MAX], *more = NULL;
    struct fleet *fleet = open_fleet();
    struct fleet_row row;
    bool got = false;

    run(fleet, add("a"));
    run(fleet, add("b"));
    for (size_t i = 0; i < FLEET_VIEWS_MAX; i++)
        CHECK_OK("room", fleet_view_open(fleet, &views[i]));
    CHECK_ERR("one too many", fleet_view_open(fleet, &more), ERR_FULL);
    CHECK_OK("first", fleet_view_next(views[0], &row, &got));
    run(fleet, removal("b"));
    fleet_clear(fleet);
    CHECK_ERR("cancelled", fleet_view_next(views[0], &row, &got), ERR_CANCELLED);
    for (size_t i = 0; i < FLEET_VIEWS_MAX; i++) fleet_view_close(views[i]);
    fleet_view_close(NULL);
    CHECK_OK("room again", fleet_view_open(fleet, &more));
    CHECK_OK("empty", fleet_view_next(more, &row, &got));
    CHECK("none", !got);
    fleet_view_close(more);
    fleet_close(fleet);
}

/* -- the sorted sets fill and empty in any order -- */
enum { MANY = 3000 };

static unsigned in_order(unsigned way, unsigned i)
{
    switch (way) {
    case 0: return i;
    case 1: return MANY - 1 - i;
    case 2: return i % 2 ? MANY - 1 - i / 2 : i / 2;                  /* from both ends */
    case 3: return i % 2 ? MANY / 2 + i / 2 : MANY / 2 - 1 - (i / 2); /* from the middle */
    default: return (unsigned)((uint64_t)i * 1009 % MANY);            /* scattered */
    }
}

static void check_sorted(const struct fleet *fleet, unsigned count)
{
    struct fleet_walk walk = {0};
    struct fleet_row row;
    char last[16] = "";

    for (unsigned i = 0; i < count; i++) {
        CHECK("one more", fleet_next(fleet, FLEET_DOMAINS, &walk, &row));
        CHECK("ascending", str_compare(s(last), row.domain.value) < 0);
        snprintf(last, sizeof last, "%.*s", STR_ARG(row.domain.value));
    }
    CHECK("no more", !fleet_next(fleet, FLEET_DOMAINS, &walk, &row));
}

TEST(rows_may_come_and_go_in_any_order)
{
    char value[16];

    for (unsigned way = 0; way < 25; way++) {
        struct fleet *fleet = open_fleet();
        uint64_t empty;

        run(fleet, add("a"));
        empty = fleet_bytes(fleet);
        for (unsigned i = 0; i < MANY; i++) {
            snprintf(value, sizeof value, "%04u", in_order(way / 5, i));
            CHECK_U64("assigned", run(fleet, assign("k", value, "a")), FLEET_DONE);
        }
        check_sorted(fleet, MANY);
        for (unsigned i = 0; i < MANY; i++) {
            struct fleet_command command;
            snprintf(value, sizeof value, "%04u", in_order(way % 5, i));
            command = unassign("k", value);
            CHECK("unassigned", fleet_apply(fleet, &command).changed);
            if (i % 500 == 0) check_sorted(fleet, MANY - 1 - i);
        }
        CHECK_U64("all memory is freed", fleet_bytes(fleet), empty);
        fleet_close(fleet);
    }
}

/* A node that is its parent's only child, beside a full neighbour. Rows in order create such a
 * parent on the third level; a few more rows in the middle fill the neighbour. */
TEST(the_last_row_of_a_lone_node_may_go)
{
    char value[16];

    for (unsigned way = 0; way < 240; way++) {
        unsigned count = 950 + way / 4;
        struct fleet *fleet = open_fleet();

        run(fleet, add("a"));
        for (unsigned i = 0; i < count; i++) {
            snprintf(value, sizeof value, "%04u", i);
            run(fleet, assign("k", value, "a"));
        }
        for (unsigned i = 0; i < way % 4; i++) {
            snprintf(value, sizeof value, "0500-%u", i);
            run(fleet, assign("k", value, "a"));
        }
        for (unsigned i = count; i-- > count - 40;) {
            snprintf(value, sizeof value, "%04u", i);
            run(fleet, unassign("k", value));
        }
        run(fleet, assign("k", "zz", "a")); /* after all rows: this search reads the inner nodes */
        check_sorted(fleet, count - 40 + way % 4 + 1);
        fleet_close(fleet);
    }
}

/* -- leaving domains: design.md section 6 -- */
static struct fleet_result at_level(struct fleet *fleet, uint64_t index, uint32_t level,
                                    struct fleet_command command)
{
    return fleet_apply_entry(fleet, &command, (struct fleet_entry){index, level});
}

static struct fleet_command forced(struct fleet_command command)
{
    command.force = true;
    return command;
}

static struct fleet_command clear(const char *key, const char *value, const char *shard,
                                  uint64_t since)
{
    return (struct fleet_command){FLEET_CLEAR_LEAVING,
                                  .clear_leaving = {s(key), s(value), s(shard), since}};
}

TEST(a_domain_is_leaving_until_its_last_shard_acknowledged)
{
    const struct {
        const char *why;
        struct fleet_command command;
        enum fleet_status status;
        bool changed;
        const char *holder;
        uint32_t leaving; /* rows after it */
    } steps[] = {
        {"a", add("a"), FLEET_DONE, true, "", 0},
        {"b", add("b"), FLEET_DONE, true, "", 0},
        {"owned", assign("z", "1", "a"), FLEET_DONE, true, "", 0},
        {"taken away", unassign("z", "1"), FLEET_DONE, true, "a", 1},
        {"again, it is nobody's", unassign("z", "1"), FLEET_DONE, false, "", 1},
        {"not to another", assign("z", "1", "b"), FLEET_DOMAIN_LEAVING, false, "a", 1},
        {"another value is free", assign("z", "11", "b"), FLEET_DONE, true, "", 1},
        {"back to its last shard", assign("z", "1", "a"), FLEET_DONE, true, "", 0},
        {"the acknowledgement of before", clear("z", "1", "a", 4), FLEET_DONE, false, "", 0},
        {"taken away again, entry 10", unassign("z", "1"), FLEET_DONE, true, "a", 1},
        {"an older acknowledgement", clear("z", "1", "a", 4), FLEET_DONE, false, "", 1},
        {"another shard's", clear("z", "1", "b", 10), FLEET_DONE, false, "", 1},
        {"its own", clear("z", "1", "a", 10), FLEET_DONE, true, "", 0},
        {"twice", clear("z", "1", "a", 10), FLEET_DONE, false, "", 0},
        {"now to another", assign("z", "1", "b"), FLEET_DONE, true, "", 0},
        {"b goes, entry 16", removal("b"), FLEET_DONE, true, "", 2},
        {"both are leaving it", assign("z", "1", "a"), FLEET_DOMAIN_LEAVING, false, "b", 2},
        {"forced", forced(assign("z", "1", "a")), FLEET_DONE, true, "", 2},
        {"a second leaver, entry 19", unassign("z", "1"), FLEET_DONE, true, "a", 3},
        {"b comes back", add("b"), FLEET_DONE, true, "", 3},
        {"a has not acknowledged", assign("z", "1", "b"), FLEET_DOMAIN_LEAVING, false, "a", 3},
        {"b acknowledges", clear("z", "11", "b", 16), FLEET_DONE, true, "", 2},
        {"and the other", clear("z", "1", "b", 16), FLEET_DONE, true, "", 1},
        {"not b's any more", assign("z", "1", "b"), FLEET_DOMAIN_LEAVING, false, "a", 1},
        {"a acknowledges", clear("z", "1", "a", 19), FLEET_DONE, true, "", 0},
        {"free", assign("z", "1", "b"), FLEET_DONE, true, "", 0},
    };
    struct fleet *fleet = open_fleet();

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct fleet_result result = at_level(fleet, i + 1, FLEET_LEAVING_LEVEL, steps[i].command);
        CHECK_TEXT(steps[i].why, fleet_status_text(result.status),
                   fleet_status_text(steps[i].status));
        CHECK_U64(steps[i].why, result.changed, steps[i].changed);
        CHECK_STR(steps[i].why, result.holder, s(steps[i].holder));
        CHECK_U32(steps[i].why, fleet_counts(fleet).of[FLEET_LEAVING], steps[i].leaving);
    }
    fleet_close(fleet);
}

TEST(below_level_4_nothing_is_ever_leaving_and_the_hash_is_that_of_older_releases)
{
    struct fleet *old = open_fleet(), *new = open_fleet();
    const struct fleet_command script[] = {add("a"), add("b"), assign("z", "1", "a"),
                                           assign("z", "2", "a")};

    for (size_t i = 0; i < ARRAY_LEN(script); i++) {
        at_level(old, i + 1, 3, script[i]);
        at_level(new, i + 1, FLEET_LEAVING_LEVEL, script[i]);
    }
    CHECK_U64("the same tables", fleet_hash(old), fleet_hash(new));
    at_level(old, 5, 3, unassign("z", "1"));
    at_level(new, 5, FLEET_LEAVING_LEVEL, unassign("z", "1"));
    CHECK("it shows in the hash", fleet_hash(old) != fleet_hash(new));
    at_level(new, 6, FLEET_LEAVING_LEVEL, clear("z", "1", "a", 5));
    CHECK_U64("and is gone", fleet_hash(old), fleet_hash(new));
    CHECK_U64("as before", at_level(old, 6, 3, assign("z", "1", "b")).status, FLEET_DONE);
    CHECK_U64("as before", at_level(old, 7, 3, removal("a")).status, FLEET_DONE);
    CHECK_U64("as before", at_level(old, 8, 3, assign("z", "2", "b")).status, FLEET_DONE);
    CHECK_U32("none", fleet_counts(old).of[FLEET_LEAVING], 0);
    fleet_close(old);
    fleet_close(new);
}

TEST(a_domain_leaves_a_limited_number_of_shards)
{
    struct fleet *fleet = open_fleet();
    struct fleet_result result = {0};
    char id[FLEET_LEAVERS_MAX + 1][8];
    uint64_t index = 0;

    for (int i = 0; i <= FLEET_LEAVERS_MAX; i++) {
        snprintf(id[i], sizeof id[i], "s-%02d", i);
        at_level(fleet, ++index, FLEET_LEAVING_LEVEL, add(id[i]));
        result = at_level(fleet, ++index, FLEET_LEAVING_LEVEL, forced(assign("z", "1", id[i])));
        if (i == FLEET_LEAVERS_MAX) break;
        CHECK_U64("forced", result.status, FLEET_DONE);
        at_level(fleet, ++index, FLEET_LEAVING_LEVEL, unassign("z", "1"));
    }
    CHECK_U64("one too many", result.status, FLEET_FULL);
    CHECK_TEXT("names the table", result.field, "shards that a domain is leaving");
    CHECK_U64("back to one of them",
              at_level(fleet, ++index, FLEET_LEAVING_LEVEL, assign("z", "1", id[3])).status,
              FLEET_DOMAIN_LEAVING);
    fleet_close(fleet);
}

TEST(a_restored_row_of_leaving_domains_obeys_the_tables)
{
    struct fleet *fleet = open_fleet();
    struct fleet_row row = {FLEET_LEAVING, .leaving = {s("z"), s("1"), s("gone"), 7}};
    char room[300];

    run(fleet, add("a"));
    run(fleet, assign("z", "2", "a"));
    CHECK_U64("of a shard that is not registered", fleet_put(fleet, &row).status, FLEET_DONE);
    row.leaving.shard = STR_EMPTY;
    CHECK_U64("of nobody", fleet_put(fleet, &row).status, FLEET_SHARD_ID_EMPTY);
    memset(room, 'x', sizeof room);
    row.leaving.shard = str_of(room, sizeof room);
    CHECK_U64("too long", fleet_put(fleet, &row).status, FLEET_TOO_LONG);
    row.leaving = (struct fleet_leaving){s("z"), s("2"), s("a"), 7};
    CHECK_U64("its owner's", fleet_put(fleet, &row).status, FLEET_DOMAIN_ASSIGNED);
    row = (struct fleet_row){FLEET_DOMAINS, .domain = {s("z"), s("1"), s("a")}};
    CHECK_U64("an owner beside it", fleet_put(fleet, &row).status, FLEET_DONE);
    CHECK_U32("one", fleet_counts(fleet).of[FLEET_LEAVING], 1);
    fleet_clear(fleet);
    CHECK_U32("none", fleet_counts(fleet).of[FLEET_LEAVING], 0);
    fleet_close(fleet);
}
