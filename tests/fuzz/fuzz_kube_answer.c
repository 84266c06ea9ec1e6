/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes from an API server: one line of a watch, and the same as a Status and as a
 * list. What is accepted is within its bounds. */
#include <stdlib.h>
#include <string.h>

#include "kube/decode.h"
#include "kube/kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_line(struct str text)
{
    struct kube_event event;
    struct note note = {""};
    enum err err = kube_event_decode(text, &event, &note);

    if (err) {
        must(err == ERR_PARSE || err == ERR_TOO_LARGE);
        must(note.text[0] != '\0');
        return;
    }
    must(event.object && json_kind(event.object) == JSON_KIND_OBJECT);
    must((event.kind == KUBE_ERROR) == (event.resource_version[0] == '\0'));
    kube_event_deinit(&event);
}

static void check_document(const struct json *json)
{
    struct kube_status status;
    struct kube_list_head head;

    kube_status_decode(json, &status);
    must(memchr(status.reason, '\0', sizeof status.reason) != NULL);
    must(memchr(status.message, '\0', sizeof status.message) != NULL);
    must(str_is_utf8(str_from(status.message)) && str_is_utf8(str_from(status.reason)));
    must(status.retry_after_ms <= KUBE_RETRY_AFTER_MAX_MS && status.code < 1000);
    must(kube_status_err(status.code, status.reason, true) < ERR_COUNT);
    if (!kube_list_decode(json, &head, NULL)) {
        must(head.resource_version[0] != '\0' && json_kind(head.items) == JSON_KIND_ARRAY);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_of(data, size);
    struct json *json = NULL;

    check_line(text);
    if (!json_open(text, KUBE_BODY_MAX, &json, NULL)) check_document(json);
    json_close(json);
    return 0;
}
