/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes Status, lists and watch events of an API server (decode.h). Pure, any thread. */
#include "kube/decode.h"

#include "kube/kube.h"
#include "text/utf8.h"

/* Cuts text that is too long, without splitting a UTF-8 sequence. */
static void copy_cut(char *to, size_t cap, struct str text)
{
    text = utf8_clip(text, cap - 1);
    memcpy(to, text.at, text.len);
    to[text.len] = '\0';
}

void kube_status_decode(const struct json *object, struct kube_status *ret_status)
{
    struct str text;
    uint64_t number;

    *ret_status = (struct kube_status){0};
    if (json_get_string(object, "kind", &text, NULL) || !str_equal(text, STR("Status"))) return;
    if (!json_get_u64(object, "code", &number, NULL) && number < 1000)
        ret_status->code = (uint32_t)number;
    if (!json_get_string(object, "reason", &text, NULL))
        copy_cut(ret_status->reason, sizeof ret_status->reason, text);
    if (!json_get_string(object, "message", &text, NULL))
        copy_cut(ret_status->message, sizeof ret_status->message, text);
    if (!json_get_u64(object, "details.retryAfterSeconds", &number, NULL))
        ret_status->retry_after_ms = min_u64(number, KUBE_RETRY_AFTER_MAX_MS / 1000) * 1000;
}

enum err kube_status_err(uint32_t http_status, const char *reason, bool write)
{
    switch (http_status) {
    case 200:
    case 201:
    case 202: return ERR_OK;
    case 400:
    case 422: return ERR_INVALID;
    case 401: return ERR_UNAUTHENTICATED;
    case 403: return ERR_DENIED;
    case 404: return ERR_NOT_FOUND;
    case 405:
    case 406:
    case 415:
    case 501: return ERR_UNSUPPORTED;
    case 409: return str_equal(str_from(reason), STR("AlreadyExists")) ? ERR_EXISTS : ERR_CONFLICT;
    case 410: return ERR_PRECONDITION;
    case 413: return ERR_TOO_LARGE;
    case 429: return ERR_FULL;
    default: return write && http_status >= 500 ? ERR_UNKNOWN : ERR_UNAVAILABLE;
    }
}

static enum err version_at(const struct json *object, const char *path,
                           char ret_version[KUBE_VERSION_CAP], struct note *note)
{
    struct str text;

    if (json_get_string(object, path, &text, note)) return ERR_PARSE;
    if (text.len == 0 || text.len >= KUBE_VERSION_CAP)
        return note_fail(note, ERR_PARSE, "%s: %zu bytes", path, text.len);
    memcpy(ret_version, text.at, text.len);
    ret_version[text.len] = '\0';
    return ERR_OK;
}

enum err kube_object_version(const struct json *object, char ret_version[KUBE_VERSION_CAP],
                             struct note *note)
{
    return version_at(object, "metadata.resourceVersion", ret_version, note);
}

enum err kube_list_decode(const struct json *object, struct kube_list_head *ret_head,
                          struct note *note)
{
    struct kube_list_head head = {.continue_ = STR_EMPTY};
    enum err err = kube_object_version(object, head.resource_version, note);

    if (err) return err;
    if (json_find(object, "metadata.continue") &&
        json_get_string(object, "metadata.continue", &head.continue_, note))
        return ERR_PARSE;
    if (json_get_array(object, "items", &head.items, note)) return ERR_PARSE;
    for (size_t i = 0; i < json_count(head.items); i++)
        if (json_kind(json_item(head.items, i)) != JSON_KIND_OBJECT)
            return note_fail(note, ERR_PARSE, "items.%zu: not an object", i);
    *ret_head = head;
    return ERR_OK;
}

static bool event_kind(struct str type, enum kube_event_kind *ret_kind)
{
    static const char *const types[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"};

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        *ret_kind = (enum kube_event_kind)i;
        if (str_equal(type, str_from(types[i]))) return true;
    }
    return false;
}

enum err kube_event_decode(struct str line, struct kube_event *ret_event, struct note *note)
{
    struct kube_event event = {0};
    struct str type;
    enum err err = json_open(line, KUBE_WATCH_LINE_MAX, &event.line, note);

    if (err) return err;
    err = ERR_PARSE;
    if (json_get_string(event.line, "type", &type, note)) goto refused;
    if (!event_kind(type, &event.kind)) {
        note_set(note, "an event of unknown type '%.*s'", (int)min_size(type.len, 40), type.at);
        goto refused;
    }
    if (json_get_object(event.line, "object", &event.object, note)) goto refused;
    if (event.kind != KUBE_ERROR && kube_object_version(event.object, event.resource_version, note))
        goto refused;
    *ret_event = event;
    return ERR_OK;
refused:
    json_close(event.line);
    return err;
}

void kube_event_deinit(struct kube_event *event)
{
    json_close(event->line);
    *event = (struct kube_event){0};
}
