/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a Lease object: refused as not ours, or an entry within its bounds that, written
 * again, reads the same. */
#include <stdlib.h>
#include <string.h>

#include "prim/kube/lease.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void write_again(const struct kube_lease_view *view)
{
    struct lease_write write = {.prefix = "muster",
                                .store_id = "0",
                                .namespace_ = "ns",
                                .key = view->key,
                                .over = view,
                                .n = view->n,
                                .create_n = view->create_n,
                                .envelope = view->envelope};
    struct json *json = NULL;
    struct buf body;

    buf_init(&body, LEASE_BODY_MAX);
    enum err err = kube_lease_encode(&write, &body);
    must(err == ERR_OK || err == ERR_TOO_LARGE);
    if (!err) {
        must(json_open(buf_peek(&body), LEASE_BODY_MAX, &json, NULL) == ERR_OK);
        json_close(json);
    }
    buf_deinit(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json *json = NULL;
    struct kube_lease_view view = {0};
    struct note note = {""};

    if (json_open(str_of(data, size), LEASE_BODY_MAX, &json, NULL)) return 0;
    if (kube_lease_decode(json, "muster", &view, &note)) {
        must(note.text[0] != '\0');
    } else {
        must(view.revision > 0 && view.revision < INT64_MAX);
        must(view.create_revision <= view.revision);
        must(!kube_lease_is_leased(&view) || view.duration_s > 0);
        write_again(&view);
    }
    kube_lease_view_deinit(&view);
    json_close(json);
    return 0;
}
