/* SPDX-License-Identifier: Apache-2.0 */
/* prim/kube/lease.h and sights.h: the content of an object, and when a holder counts as gone. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "prim/kube/lease.h"
#include "prim/kube/sights.h"

enum { SECOND_NS = 1000000000 };
#define CREATED "2026-11-15T20:00:00Z" /* 1794772800 */
enum { CREATED_S = 1794772800 };

TEST(names_are_forty_characters_of_base32_of_sha256)
{
    char name[LEASE_NAME_CAP];

    /* sha256("") is e3b0c442 98fc1c14 9afbf4c8 996fb924 27ae41e4 649b934c a495991b 7852b855 */
    kube_lease_name(STR_EMPTY, name);
    CHECK_TEXT("by hand", name, "crd-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfe");
    kube_lease_name(STR("a/b"), name);
    CHECK_SIZE("a DNS name of 44 characters", strlen(name), 44);
}

/* Adds the server's fields to the written object. */
static struct json *stored(const struct lease_write *write, const char *extra)
{
    struct json *json = NULL;
    struct note note = {""};
    struct buf body, whole;
    const char *mark = "\"metadata\":{";

    buf_init(&body, LEASE_BODY_MAX);
    buf_init(&whole, LEASE_BODY_MAX);
    CHECK_OK("encodes", kube_lease_encode(write, &body));
    CHECK_OK("ends", buf_append_byte(&body, '\0'));
    const char *at = strstr(body.data, mark) + strlen(mark);
    buf_append(&whole, str_of(body.data, (size_t)(at - body.data)));
    if (!write->over) buf_append_c(&whole, "\"uid\":\"u-1\",\"resourceVersion\":\"5\",");
    buf_appendf(&whole, "\"creationTimestamp\":\"" CREATED "\",%s", extra);
    buf_append_c(&whole, at);
    CHECK_OK(note.text, json_open(buf_peek(&whole), LEASE_BODY_MAX, &json, &note));
    buf_deinit(&whole);
    buf_deinit(&body);
    return json;
}

static struct lease_write leased(void)
{
    return (struct lease_write){
        .prefix = "muster",
        .store_id = "00",
        .namespace_ = "ns",
        .key = STR("g/slot-0007"),
        .n = 3,
        .create_n = 2,
        .envelope = {.flags = ENVELOPE_LEASED | ENVELOPE_SLOT,
                     .lease_id = {{1, 2}},
                     .request_id = {{9}},
                     .ttl_ms = 5000,
                     .owner = STR("me"),
                     .value = STR("any \0 byte")},
        .wall_us = 1794772801000002,
        .boot = "b007",
        .at_ms = 77,
        .new_holder = true,
    };
}

TEST(an_object_has_the_written_fields_in_readable_form)
{
    struct lease_write write = leased();
    struct json *json = stored(&write, "");
    struct kube_lease_view view;
    struct str text;

    CHECK_OK("reads", kube_lease_decode(json, "muster", &view, NULL));
    CHECK_U64("revision", view.revision, ((uint64_t)CREATED_S << 24) + 3);
    CHECK_U64("of its beginning", view.create_revision, ((uint64_t)CREATED_S << 24) + 2);
    CHECK_U64("a grant's token is its revision", view.token, view.revision);
    CHECK_U32("seconds", view.duration_s, 5);
    CHECK_STR("the clock's owner", view.boot, STR("b007"));
    CHECK_I64("when", view.at_ms, 77);
    CHECK_STR("key", view.key, write.key);
    CHECK_STR("value", view.envelope.value, write.envelope.value);
    CHECK("not foreign", !view.foreign && kube_lease_is_leased(&view));
    CHECK_OK("holder", json_get_string(json, "spec.holderIdentity", &text, NULL));
    CHECK_STR("owner and lease", text, STR("me#01020000000000000000000000000000"));
    CHECK_OK("time", json_get_string(json, "spec.renewTime", &text, NULL));
    CHECK_STR("for people", text, STR("2026-11-15T20:00:01.000002Z"));
    const struct json *labels = json_find(json, "metadata.labels");
    CHECK_OK("kind", json_get_string(json_member(labels, STR("muster/kind")), "", &text, NULL));
    CHECK_STR("kind", text, STR("slot"));
    CHECK_OK("slot", json_get_string(json_member(labels, STR("muster/slot")), "", &text, NULL));
    CHECK_STR("slot", text, STR("7"));
    kube_lease_view_deinit(&view);
    json_close(json);
}

TEST(an_update_keeps_what_others_wrote_and_names_what_it_replaces)
{
    struct lease_write write = leased(), renewal;
    struct json *json = stored(&write, "\"finalizers\":[\"x/y\"],\"ownerReferences\":[{\"a\":1}],"),
                *next;
    struct kube_lease_view view;
    struct str text;

    CHECK_OK("reads", kube_lease_decode(json, "muster", &view, NULL));
    view.transitions = 4;
    renewal = write;
    renewal.over = &view;
    renewal.new_holder = false;
    renewal.wall_us += 1000000;
    next = stored(&renewal, "");
    CHECK_OK("uid", json_get_string(next, "metadata.uid", &text, NULL));
    CHECK_STR("uid", text, STR("u-1"));
    CHECK_OK("version", json_get_string(next, "metadata.resourceVersion", &text, NULL));
    CHECK_STR("version", text, STR("5"));
    CHECK_OK("since", json_get_string(next, "spec.acquireTime", &text, NULL));
    CHECK_STR("a renewal is no new beginning", text, STR("2026-11-15T20:00:01.000002Z"));
    CHECK_OK("finalizers", json_get_string(next, "metadata.finalizers.0", &text, NULL));
    CHECK_STR("stay", text, STR("x/y"));
    CHECK("owners stay", json_find(next, "metadata.ownerReferences.0.a") != NULL);
    uint64_t transitions;
    CHECK_OK("transitions", json_get_u64(next, "spec.leaseTransitions", &transitions, NULL));
    CHECK_U64("as many", transitions, 4);
    json_close(next);
    kube_lease_view_deinit(&view);
    json_close(json);
}

static const struct {
    const char *why, *text;
} damaged[] = {
    {"nothing", "{}"},
    {"a Lease of a kubelet", "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"1\","
                             "\"creationTimestamp\":\"" CREATED "\"},\"spec\":{}}"},
    {"no counter", "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"1\",\"creationTimestamp\":"
                   "\"" CREATED "\",\"annotations\":{\"muster/key\":\"k\"}},\"spec\":{}}"},
    {"a counter of zero",
     "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"1\",\"creationTimestamp\":\"" CREATED
     "\",\"annotations\":{\"muster/key\":\"k\",\"muster/n\":\"0\",\"muster/c\":\"0\"}},"
     "\"spec\":{}}"},
    {"a time that is none",
     "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"1\",\"creationTimestamp\":\"yesterday "
     "20:00:00Z\",\"annotations\":{\"muster/key\":\"k\"}},\"spec\":{}}"},
    {"an envelope that is none",
     "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"1\",\"creationTimestamp\":\"" CREATED
     "\",\"annotations\":{\"muster/key\":\"k\",\"muster/n\":\"1\",\"muster/c\":\"1\",\"muster/"
     "env\":\"AAAA\"}},\"spec\":{}}"},
    {"a list for a spec",
     "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"1\",\"creationTimestamp\":\"" CREATED
     "\",\"annotations\":{\"muster/key\":\"k\",\"muster/n\":\"1\",\"muster/c\":\"1\",\"muster/"
     "env\":\"AAAA\"}},\"spec\":[]}"},
};

TEST(a_foreign_or_damaged_object_is_never_read_as_a_value)
{
    for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
        struct json *json = NULL;
        struct kube_lease_view view = {0};
        struct note note = {""};
        CHECK_OK(damaged[i].why, json_open(str_from(damaged[i].text), 1 << 16, &json, &note));
        CHECK_ERR(damaged[i].why, kube_lease_decode(json, "muster", &view, &note), ERR_CORRUPT);
        CHECK_HAS(damaged[i].why, note.text, "not an entry of ours");
        json_close(json);
    }
}

/* -- sights -- */

static struct kube_lease_view version(const char *text, uint32_t duration_s)
{
    struct kube_lease_view view = {.uid = "u", .duration_s = duration_s};
    snprintf(view.version, sizeof view.version, "%s", text);
    return view;
}

TEST(a_holder_is_gone_when_nothing_was_written_for_its_time_and_a_grace)
{
    struct sights sights;
    struct kube_lease_view a = version("1", 20), b = version("2", 20);
    int64_t t = 1000ll * SECOND_NS;

    kube_sights_init(&sights, 7);
    CHECK_I64("never seen: all of it", kube_sights_left_ms(&sights, STR("x"), &a, t), 22000);
    kube_sights_note(&sights, STR("x"), &a, t);
    CHECK_I64("from the first sight on", kube_sights_left_ms(&sights, STR("x"), &a, t + SECOND_NS),
              21000);
    kube_sights_note(&sights, STR("x"), &a, t + 10ll * SECOND_NS); /* the same: the first counts */
    CHECK_I64("a moment before",
              kube_sights_left_ms(&sights, STR("x"), &a, t + 22ll * SECOND_NS - 1), 1);
    CHECK_I64("now", kube_sights_left_ms(&sights, STR("x"), &a, t + 22ll * SECOND_NS), 0);
    CHECK_I64("another version: alive",
              kube_sights_left_ms(&sights, STR("x"), &b, t + 30ll * SECOND_NS), 22000);
    kube_sights_note(&sights, STR("x"), &b, t + 30ll * SECOND_NS);
    CHECK_I64("counted from zero", kube_sights_left_ms(&sights, STR("x"), &b, t + 31ll * SECOND_NS),
              21000);
    CHECK_I64("a read that left before the first sight proves nothing",
              kube_sights_left_ms(&sights, STR("x"), &b, t), 22000);
    snprintf(b.uid, sizeof b.uid, "other");
    CHECK_I64("another object", kube_sights_left_ms(&sights, STR("x"), &b, t + 90ll * SECOND_NS),
              22000);
    kube_sights_deinit(&sights);
}

TEST(the_grace_is_a_tenth_and_at_least_a_second)
{
    CHECK_I64("short", kube_sights_grace_ms(2000), 1000);
    CHECK_I64("even", kube_sights_grace_ms(10000), 1000);
    CHECK_I64("long", kube_sights_grace_ms(60000), 6000);
}

TEST(a_new_object_waits_out_the_second_of_the_one_that_was_deleted)
{
    struct sights sights;
    struct kube_lease_view a = version("1", 20);
    int64_t t = 1000ll * SECOND_NS;

    kube_sights_init(&sights, 7);
    kube_sights_note_absent(&sights, STR("x"), t);
    CHECK("an object never seen is unknown", !kube_sights_knows(&sights, STR("x")));
    CHECK_I64("and waits for nothing", kube_sights_create_wait_ms(&sights, STR("x"), t), 0);
    kube_sights_note(&sights, STR("x"), &a, t);
    CHECK_I64("an existing object, too", kube_sights_create_wait_ms(&sights, STR("x"), t), 0);
    kube_sights_note_absent(&sights, STR("x"), t);
    CHECK_I64("a second and a bit", kube_sights_create_wait_ms(&sights, STR("x"), t), 1001);
    kube_sights_note_absent(&sights, STR("x"), t + SECOND_NS / 2);
    CHECK_I64("from the first look that missed it",
              kube_sights_create_wait_ms(&sights, STR("x"), t + SECOND_NS / 2), 501);
    CHECK_I64("then no more", kube_sights_create_wait_ms(&sights, STR("x"), t + 2ll * SECOND_NS),
              0);
    kube_sights_deinit(&sights);
}

TEST(the_table_of_sights_is_bounded_and_forgets_the_one_not_looked_at)
{
    struct sights sights;
    struct kube_lease_view a = version("1", 2);
    char name[32];

    kube_sights_init(&sights, 7);
    for (int i = 0; i < SIGHTS_MAX; i++) {
        snprintf(name, sizeof name, "n%d", i);
        kube_sights_note(&sights, str_from(name), &a, 1);
    }
    kube_sights_note(&sights, STR("n0"), &a, 1); /* looked at again */
    kube_sights_note(&sights, STR("one more"), &a, 1);
    CHECK("kept", kube_sights_knows(&sights, STR("n0")));
    CHECK("forgotten", !kube_sights_knows(&sights, STR("n1")));
    kube_sights_deinit(&sights);
}
