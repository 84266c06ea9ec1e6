/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes answers of an API server: the Status of a failure, the metadata of a list, one line of a
 * watch. Input is not trusted: every field may be missing or have the wrong type. */
#ifndef KUBE_DECODE_H
#define KUBE_DECODE_H
#include "base/note.h"
#include "text/json.h"

enum {
    KUBE_REASON_CAP = 64, /* Status.reason, truncated to fit: "AlreadyExists" */
    KUBE_MESSAGE_CAP = 256,
    KUBE_VERSION_CAP = 128, /* bytes of a resourceVersion; a longer one is refused */
};

struct kube_status {
    uint32_t code; /* 0: the answer has none */
    char reason[KUBE_REASON_CAP];
    char message[KUBE_MESSAGE_CAP];
    uint64_t retry_after_ms; /* 0: the answer has none */
};
/* Missing fields stay empty. Another kind of document gives an empty status. */
void kube_status_decode(const struct json *object, struct kube_status *ret_status);
/* Maps an HTTP status to an error. For a write every 5xx is ERR_UNKNOWN, because a timeout between
 * the server and its store has the same status.
 *   404 NOT_FOUND   409 EXISTS or CONFLICT by the reason   410 PRECONDITION: list again
 *   400 422 INVALID   401 UNAUTHENTICATED   403 DENIED   429 FULL   413 TOO_LARGE
 *   405 406 415 501 UNSUPPORTED   5xx and everything else UNAVAILABLE */
enum err kube_status_err(uint32_t http_status, const char *reason, bool write);

struct kube_list_head {
    char resource_version[KUBE_VERSION_CAP];
    struct str continue_;     /* "": the last page; borrowed from the document */
    const struct json *items; /* an array of objects; borrowed */
};
/* ERR_PARSE: the document is not a list. */
enum err kube_list_decode(const struct json *object, struct kube_list_head *ret_head,
                          struct note *note);

enum kube_event_kind { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED, KUBE_BOOKMARK, KUBE_ERROR };
struct kube_event {
    enum kube_event_kind kind;
    const struct json *object;               /* borrowed from `line` */
    char resource_version[KUBE_VERSION_CAP]; /* "" for KUBE_ERROR only */
    struct json *line;                       /* owned by the event */
};
/* Decodes one line of a watch. ERR_PARSE, ERR_TOO_LARGE, ERR_NOMEM. After success the caller must
 * call kube_event_deinit(). */
enum err kube_event_decode(struct str line, struct kube_event *ret_event, struct note *note);
void kube_event_deinit(struct kube_event *event); /* zeroed or deinited is fine */

/* Copies metadata.resourceVersion. ERR_PARSE if it is missing, empty or too long. */
enum err kube_object_version(const struct json *object, char ret_version[KUBE_VERSION_CAP],
                             struct note *note);
#endif
