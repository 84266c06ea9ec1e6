/* SPDX-License-Identifier: Apache-2.0 */
/* One entry as a Lease object of coordination.k8s.io/v1: names, labels, the envelope in its
 * annotation, the revision. Pure; the layout is docs/formats/kube-lease.md.
 *
 *   revision = creationTimestamp in seconds << 24, plus the counter n
 * An object is never deleted by us, so n only grows; one deleted by somebody else comes back with
 * a later creation time. A change of holder that does not pass through a tombstone adds 2 to n: the
 * number between is the one watchers give to the expiry they observed. */
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

/* The first 40 characters of the lower-case base32 of SHA-256. */
void kube_lease_hash(struct str text, char ret_hash[LEASE_HASH_CAP]);
void kube_lease_name(struct str key, char ret_name[LEASE_NAME_CAP]); /* "crd-" before it */

/* A stored object. Strings of the envelope point into `bytes`. */
struct kube_lease_view {
    char uid[LEASE_UID_CAP], version[KUBE_VERSION_CAP];
    uint64_t n;
    uint64_t create_n; /* n when the entry came into being, after a tombstone or an expiry */
    uint64_t revision, create_revision;
    uint64_t token; /* 0: not leased */
    uint32_t duration_s, transitions;
    bool foreign; /* strategy or preferredHolder is set: somebody else coordinates here */
    struct claim_envelope envelope;
    struct buf bytes;          /* the envelope, decoded from base64 */
    const struct json *object; /* borrowed: an update copies foreign labels from it */
    struct str boot;           /* which clock `at_ms` is of; borrowed; "": not known */
    int64_t at_ms;             /* before the write of the grant or its last renewal left */
    struct str acquired;       /* acquireTime as it is; borrowed from the object */
    struct str key;            /* the annotation; borrowed */
};
/* ERR_CORRUPT when it is not an entry of ours or is damaged, ERR_NOMEM. `prefix` is of labels. */
enum err kube_lease_decode(const struct json *object, const char *prefix,
                           struct kube_lease_view *ret_view, struct note *note);
void kube_lease_view_deinit(struct kube_lease_view *view); /* fine on a zeroed one, and twice */

/* An object as it was read or written. */
struct doc {
    bool present;
    struct json *json;
    struct kube_lease_view view; /* when present */
    int64_t sent_ns, got_ns;
};
void kube_doc_deinit(struct doc *doc); /* fine on a zeroed one, and twice */

static inline bool kube_lease_is_tombstone(const struct kube_lease_view *view)
{
    return view->envelope.flags & ENVELOPE_TOMBSTONE;
}
static inline bool kube_lease_is_leased(const struct kube_lease_view *view)
{
    return (view->envelope.flags & ENVELOPE_LEASED) && !kube_lease_is_tombstone(view);
}

/* An object as it shall be written. */
struct lease_write {
    const char *prefix, *store_id; /* label <prefix>/store */
    const char *namespace_;
    struct str key;
    const struct kube_lease_view *over; /* the object that is replaced; NULL: a new one */
    uint64_t n, create_n;
    struct claim_envelope envelope; /* revision and token as they shall be read back */
    uint64_t wall_us;               /* for people */
    const char *boot;               /* as in the view */
    int64_t at_ms;
    bool new_holder; /* acquireTime is now, one more transition */
};
/* Appends JSON. ERR_NOMEM, ERR_TOO_LARGE. */
enum err kube_lease_encode(const struct lease_write *write, struct buf *out);
#endif
