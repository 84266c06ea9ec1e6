/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in reading and writing a Lease object: reported, outputs
 * untouched, nothing leaked, and a lack of memory is never called damage. */
#include <stdlib.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "prim/kube/lease.h"
#include "prim/kube/sights.h"

static struct lease_write write_of(const struct kube_lease_view *over)
{
    return (struct lease_write){.prefix = "muster",
                                .store_id = "0",
                                .namespace_ = "ns",
                                .key = STR("a/b"),
                                .over = over,
                                .n = 3,
                                .create_n = 1,
                                .envelope = {.flags = ENVELOPE_LEASED,
                                             .ttl_ms = 5000,
                                             .owner = STR("me"),
                                             .value = STR("value")},
                                .wall_us = 1794772801000002,
                                .boot = "b007"};
}

static const char server_part[] =
    "\"uid\":\"u\",\"resourceVersion\":\"5\",\"creationTimestamp\":\"2026-11-15T20:00:00Z\","
    "\"finalizers\":[\"x/y\"],";

static struct json *stored(void)
{
    struct lease_write write = write_of(NULL);
    struct json *json = NULL;
    struct buf body, whole;
    const char *mark = "\"metadata\":{";

    buf_init(&body, LEASE_BODY_MAX);
    buf_init(&whole, LEASE_BODY_MAX);
    CHECK_OK("encodes", kube_lease_encode(&write, &body));
    CHECK_OK("ends", buf_append_byte(&body, '\0'));
    const char *at = strstr(body.data, mark) + strlen(mark);
    buf_append(&whole, str_of(body.data, (size_t)(at - body.data)));
    buf_append_c(&whole, server_part);
    buf_append_c(&whole, at);
    CHECK_OK("reads", json_open(buf_peek(&whole), LEASE_BODY_MAX, &json, NULL));
    buf_deinit(&whole);
    buf_deinit(&body);
    return json;
}

TEST(an_object_is_read_whole_or_not_at_all)
{
    struct json *json = stored();

    FAULT_SWEEP_ALLOC(k)
    {
        struct kube_lease_view view = {0};
        enum err err = kube_lease_decode(json, "muster", &view, NULL);
        CHECK_ERR("reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        CHECK("nothing came out", !err || view.object == NULL);
        kube_lease_view_deinit(&view);
    }
    json_close(json);
}

TEST(an_object_is_written_whole_or_not_at_all)
{
    struct json *json = stored();
    struct kube_lease_view view;
    uint64_t turns = 0;

    CHECK_OK("reads", kube_lease_decode(json, "muster", &view, NULL));
    FAULT_SWEEP_ALLOC(k)
    {
        struct lease_write write = write_of(&view);
        struct buf body;
        buf_init(&body, LEASE_BODY_MAX);
        enum err err = kube_lease_encode(&write, &body);
        CHECK_ERR("reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        CHECK("no half of it", !err || body.len == 0);
        buf_deinit(&body);
        turns = k;
    }
    CHECK("several were refused", turns > 4);
    kube_lease_view_deinit(&view);
    json_close(json);
}

TEST(a_sight_that_cannot_be_noted_only_makes_us_wait)
{
    struct kube_lease_view view = {.uid = "u", .version = "1", .duration_s = 2};

    FAULT_SWEEP_ALLOC(k)
    {
        struct sights sights;
        kube_sights_init(&sights, 7);
        kube_sights_note(&sights, STR("x"), &view, 1);
        CHECK("never gone by mistake", kube_sights_left_ms(&sights, STR("x"), &view, 2) == 3000);
        kube_sights_deinit(&sights);
    }
}
