/* SPDX-License-Identifier: Apache-2.0 */
/* An entry as a Lease object of coordination.k8s.io/v1: names, labels, the envelope in an
 * annotation, the revision. Pure; the layout is docs/formats/kube-lease.md.
 *
 *   revision = creationTimestamp in seconds << 24, plus the counter n
 * This library never deletes objects, so n only grows. A change of holder without a tombstone
 * adds 2 to n: watchers use the skipped number for the expiry that they observed. */
#ifndef PRIM_KUBE_LEASE_H
#define PRIM_KUBE_LEASE_H
#include "base/buf.h"
#include "base/note.h"
#include "kube/decode.h"
#include "prim/envelope.h"
#include "prim/names.h"
#include "text/json.h"

enum {
    LEASE_NAME_CAP = 45, /* "crd-" and 40 characters */
    LEASE_HASH_CAP = 41,
    LEASE_UID_CAP = 64,
    LEASE_PREFIX_MAX = 100,
    LEASE_BODY_MAX = 1 << 20,
};

/* Computes the first 40 characters of the SHA-256 in lower-case base32. */
void kube_lease_hash(struct str text, char ret_hash[LEASE_HASH_CAP]);
void kube_lease_name(struct str key, char ret_name[LEASE_NAME_CAP]);

/* Strings of the envelope point into `bytes`. */
struct kube_lease_view {
    char uid[LEASE_UID_CAP], version[KUBE_VERSION_CAP];
    uint64_t n;
    uint64_t create_n; /* `n` at the entry's creation, or after a tombstone or expiry */
    uint64_t revision, create_revision;
    uint64_t token; /* 0: not leased */
    uint32_t duration_s, transitions;
    bool foreign; /* strategy or preferredHolder is set by another program */
    struct claim_envelope envelope;
    struct buf bytes;
    const struct json *object; /* borrowed: an update copies foreign labels */
    struct str boot;           /* boot id of the clock of `at_ms`; borrowed; "": unknown */
    int64_t at_ms;             /* before the grant or its last renewal was sent */
    struct str acquired;       /* acquireTime; borrowed */
    struct str key;            /* from the annotation; borrowed */
};
/* ERR_CORRUPT (damaged or foreign) or ERR_NOMEM. `prefix`: of the labels. */
enum err kube_lease_decode(const struct json *object, const char *prefix,
                           struct kube_lease_view *ret_view, struct note *note);
void kube_lease_view_deinit(struct kube_lease_view *view); /* accepts a zeroed or deinited view */

struct doc {
    bool present;
    struct json *json;
    struct kube_lease_view view;
    int64_t sent_ns, got_ns;
};
void kube_doc_deinit(struct doc *doc); /* accepts a zeroed or deinited doc */

static inline bool kube_lease_is_tombstone(const struct kube_lease_view *view)
{
    return view->envelope.flags & ENVELOPE_TOMBSTONE;
}
static inline bool kube_lease_is_leased(const struct kube_lease_view *view)
{
    return (view->envelope.flags & ENVELOPE_LEASED) && !kube_lease_is_tombstone(view);
}

struct lease_write {
    const char *prefix, *store_id; /* label <prefix>/store */
    const char *namespace_;
    struct str key;
    const struct kube_lease_view *over; /* the object to replace; NULL: a new object */
    uint64_t n, create_n;
    struct claim_envelope envelope; /* revision and token: for later reads */
    uint64_t wall_us;               /* for people */
    const char *boot;
    int64_t at_ms;
    bool new_holder; /* acquireTime is now; adds a transition */
};
/* ERR_NOMEM or ERR_TOO_LARGE. */
enum err kube_lease_encode(const struct lease_write *write, struct buf *out);
#endif
