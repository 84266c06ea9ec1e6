/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a Kubernetes API server. Calls block, have their own timeouts, and may come from any
 * number of threads.
 *
 * The client transfers objects as JSON and never retries. Gets and lists carry no resourceVersion,
 * so the server answers from its store. PATCH is not offered, because without a resourceVersion it
 * overwrites silently.
 *
 * A write may arrive twice, because the transport repeats a request whose kept connection is dead.
 * The repeated write returns ERR_EXISTS or ERR_CONFLICT, so a writer must recognise its own write
 * in the object. */
#ifndef KUBE_KUBE_H
#define KUBE_KUBE_H
#include "base/note.h"
#include "base/str.h"
#include "kube/config.h"
#include "kube/decode.h"

enum {
    KUBE_BODY_MAX = 16 << 20,      /* bytes of one answer; beyond: ERR_TOO_LARGE */
    KUBE_WATCH_LINE_MAX = 8 << 20, /* bytes of one event; a stored object has at most 1.5 MiB */
    KUBE_IDLE_CONNECTIONS_MAX = 8, /* connections kept for later calls */
    KUBE_RETRY_AFTER_MAX_MS = 3600 * 1000, /* upper limit of the server's Retry-After */
};

struct kube; /* any thread; must not be closed while calls run */

/* Copies the config and does not connect yet. ERR_INVALID: the server is not an http(s) address, or
 * is plain http on another host, which exposes the token. ERR_NOMEM, ERR_IO. */
enum err kube_open(const struct kube_config *config, struct kube **ret_kube, struct note *note);
void kube_close(struct kube *kube); /* NULL is allowed */
/* Ends every current and future call within a second, from any thread. ERR_CANCELLED: nothing was
 * sent, or the call only reads. kube_watch_cancel() ends watches. */
void kube_cancel(struct kube *kube);

/* Each part is as in URLs and is checked before anything is sent. */
struct kube_path {
    const char *group, *version; /* "" and "v1" for the core group */
    const char *namespace_;      /* NULL: not namespaced, or a list of all namespaces */
    const char *resource;        /* for example "leases" */
    const char *name;            /* NULL: the collection */
    const char *subresource;     /* NULL: the object itself */
};

/* The answer; also set after an error that has an HTTP status. */
struct kube_answer {
    uint32_t http_status; /* 0: no answer was received */
    char reason[KUBE_REASON_CAP];
    uint64_t retry_after_ms; /* 0: the server did not request a delay */
    struct json *object;     /* set on success; owned by the answer */
};
void kube_answer_deinit(struct kube_answer *answer); /* zeroed or deinited is fine */

/* Rules for all calls: the caller must deinit *ret_answer, also after errors; NULL discards the
 * answer. Errors of kube_status_err(), and without an answer:
 *   ERR_TIMEOUT, ERR_UNAVAILABLE  nothing was done (a read, or the request was not sent)
 *   ERR_UNKNOWN                   a write was sent and its outcome is unknown
 *   ERR_PARSE, ERR_TOO_LARGE      the answer to a read is malformed (a write: ERR_UNKNOWN)
 *   ERR_CANCELLED                 kube_cancel() was called; nothing was done
 *   ERR_INVALID                   the path is invalid; nothing was sent
 *   ERR_UNAUTHENTICATED           the token file cannot be read
 *   ERR_NOMEM */
enum err kube_get(struct kube *kube, const struct kube_path *path, uint64_t timeout_ms,
                  struct kube_answer *ret_answer, struct note *note);

struct kube_list_options {
    const char *label_selector; /* NULL: selects all objects */
    const char *field_selector; /* NULL: all objects */
    uint32_t limit;             /* objects per page; 0: all objects */
    struct str continue_;       /* token of the previous page; all pages show the same instant.
                                   ERR_PRECONDITION: expired, list from the start */
};
/* kube_list_decode() decodes the object of the answer. */
enum err kube_list(struct kube *kube, const struct kube_path *path,
                   const struct kube_list_options *options, uint64_t timeout_ms,
                   struct kube_answer *ret_answer, struct note *note);
enum err kube_create(struct kube *kube, const struct kube_path *path, struct str body,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);
/* Replaces the object. A body without metadata.resourceVersion overwrites concurrent changes. */
enum err kube_update(struct kube *kube, const struct kube_path *path, struct str body,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);

/* ERR_CONFLICT: the object has another uid than `uid`. `uid` NULL: any object of that name. */
enum err kube_delete(struct kube *kube, const struct kube_path *path, const char *uid,
                     uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);
/* Evicts a pod (policy/v1 Eviction). ERR_FULL (429): a disruption budget forbids the eviction. */
enum err kube_evict(struct kube *kube, const char *namespace_, const char *pod, const char *uid,
                    uint64_t timeout_ms, struct kube_answer *ret_answer, struct note *note);

/* -- watch: one reader thread; kube_watch_cancel() from any thread -- */

struct kube_watch;
struct kube_watch_options {
    const char *label_selector;   /* NULL: all objects */
    const char *resource_version; /* of the list before the watch; never NULL */
    uint64_t idle_timeout_ms; /* without a byte for this time the connection is dead; 0: 150,000 */
};
/* Copies all options. kube_watch_next() connects. ERR_INVALID, ERR_NOMEM. */
enum err kube_watch_open(struct kube *kube, const struct kube_path *path,
                         const struct kube_watch_options *options, struct kube_watch **ret_watch,
                         struct note *note);
/* Returns the next change or bookmark. A stream that ends is reopened at the same position after
 * growing pauses, so no event is lost or repeated.
 *   ERR_TIMEOUT       nothing within wait_ms; call again
 *   ERR_PRECONDITION  the server no longer has the version: list, then open a new watch
 *   ERR_CANCELLED     kube_watch_cancel() was called
 *   ERR_UNAUTHENTICATED, ERR_DENIED, ERR_NOT_FOUND, ERR_INVALID, ERR_UNSUPPORTED   server errors
 *   ERR_PARSE, ERR_TOO_LARGE   the answer is malformed; list again
 * All errors but ERR_TIMEOUT are final. On success the caller must call kube_event_deinit(). */
enum err kube_watch_next(struct kube_watch *watch, uint64_t wait_ms, struct kube_event *ret_event,
                         struct note *note);
void kube_watch_cancel(struct kube_watch *watch); /* ends a waiting kube_watch_next() */
void kube_watch_close(struct kube_watch *watch);  /* not during kube_watch_next(); may be NULL */
#endif
