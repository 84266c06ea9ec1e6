/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an object that an API server shows to the operator: a pod, a CapacityRequest, a
 * node. An accepted object is within its bounds, and the text written from it can be read again. */
#include <stdlib.h>

#include "operator/kube/objects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void reads_back(const struct buf *text)
{
    struct json *json = NULL;
    struct capacity_request request;
    struct arena arena;

    must(!json_open(buf_peek(text), KUBE_OBJECT_MAX, &json, NULL));
    arena_init(&arena, 16 << 20);
    (void)capacity_read(json, &arena, &request, NULL);
    arena_deinit(&arena);
    json_close(json);
}

static void check_pod(const struct json *object)
{
    struct pod_view view;
    struct note note = {""};
    struct buf out;

    if (pod_read(object, &view, &note)) {
        must(note.text[0] != '\0');
        return;
    }
    must(view.uid.len > 0 && view.name.len < KUBE_NAME_CAP && (view.moves || !view.wants));
    buf_init(&out, KUBE_OBJECT_MAX);
    if (!capacity_write(object, STR("1"), &out, &note)) reads_back(&out);
    buf_deinit(&out);
}

static void check_request(const struct json *object)
{
    struct capacity_view view;
    struct capacity_request request;
    struct note note = {""};
    struct arena arena;
    struct buf out;
    enum err err;

    (void)capacity_view_read(object, &view, NULL);
    arena_init(&arena, 16 << 20);
    err = capacity_read(object, &arena, &request, &note);
    must(!err || err == ERR_NOMEM || err == ERR_FULL || note.text[0] != '\0');
    must(err || (request.count >= 1 && request.count <= REQUEST_COUNT_MAX));
    arena_deinit(&arena);
    buf_init(&out, KUBE_OBJECT_MAX);
    if (json_kind(object) == JSON_KIND_OBJECT &&
        !capacity_status_write(object, "Rejected", STR("why"), SUPPLY_NO_MATCH, (wall_time){1},
                               &out))
        reads_back(&out);
    buf_deinit(&out);
}

static void check_node(const struct json *object)
{
    struct str machine_id;
    struct buf out;
    bool already;

    (void)upcoming_machine(object, &machine_id, NULL);
    (void)node_is(object, STR("a"), STR("b"));
    buf_init(&out, KUBE_OBJECT_MAX);
    if (json_kind(object) == JSON_KIND_OBJECT &&
        !node_cordon_write(object, STR("m"), &already, &out))
        reads_back(&out);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *json = NULL;

    if (!json_open(str_of(data, size), KUBE_OBJECT_MAX, &json, NULL)) {
        check_pod(json);
        check_request(json);
        check_node(json);
    }
    json_close(json);
    return 0;
}
