/* SPDX-License-Identifier: Apache-2.0 */
/* The Kubernetes objects an operator reads and writes, as JSON. Pure: nothing is sent from here.
 *
 * A pod becomes a CapacityRequest when it appears and keeps it until it is finished or gone, placed
 * or not: a request that left when its pod was placed would take the machine away from under it.
 * Whatever a cluster's API server says is checked: a bad object costs itself. */
#ifndef OPERATOR_KUBE_OBJECTS_H
#define OPERATOR_KUBE_OBJECTS_H
#include "base/arena.h"
#include "base/buf.h"
#include "operator/core/nodes.h"
#include "operator/core/request.h"
#include "operator/source.h"
#include "text/json.h"

#define KUBE_CRD_GROUP   "bigfleet.lucy.sh"
#define KUBE_CRD_VERSION "v1alpha1"
#define KUBE_MANAGED_BY  "muster-operator" /* label app.kubernetes.io/managed-by of what we made */

enum {
    KUBE_NAME_CAP = 254,         /* of an object, with its NUL */
    KUBE_OBJECT_MAX = 512 << 10, /* bytes of an object we write */
    KUBE_RESOURCES_MAX = 64,     /* names of resources in one pod */
};

struct pod_view { /* views into the document */
    struct str namespace_, name, uid;
    struct str node; /* empty: not placed */
    bool wants; /* a machine: not finished, no DaemonSet or mirror pod, not marked to be ignored */
    bool moves; /* is evicted when its node is drained */
    bool leaving;       /* terminating */
    int64_t generation; /* counts the changes of its spec; 0: the server does not count */
};
/* ERR_PARSE: no pod. */
enum err pod_read(const struct json *pod, struct pod_view *ret_view, struct note *note);

/* The CapacityRequest of a pod that wants one; `version` is the resourceVersion it replaces, empty
 * to create it. ERR_INVALID, ERR_PARSE with the field; ERR_TOO_LARGE, ERR_NOMEM. */
enum err capacity_write(const struct json *pod, struct str version, struct buf *out,
                        struct note *note);

struct capacity_view { /* of a CapacityRequest; views into the document */
    struct str namespace_, name, uid;
    struct str pod_uid; /* empty: nobody's, a person wrote it */
    struct str phase;   /* "" before the first word */
    bool managed;       /* by an operator, for a pod */
    int64_t generation; /* counts the changes of its spec */
};
enum err capacity_view_read(const struct json *object, struct capacity_view *ret_view,
                            struct note *note);
/* What it asks for; lists and texts in the arena. ERR_INVALID and ERR_PARSE name the field;
 * ERR_UNSUPPORTED: an operator no machine is matched by (Gt, Lt); ERR_NOMEM. */
enum err capacity_read(const struct json *object, struct arena *arena,
                       struct capacity_request *ret_request, struct note *note);
/* The same object with a phase ("Acknowledged", "Rejected") and a message in its status. */
enum err capacity_status_write(const struct json *object, const char *phase, struct str message,
                               struct buf *out);

/* The name of a machine's UpcomingNode: "un-" and its id where that can be a name; else "und-" and
 * a digest of it. */
void upcoming_name(struct str machine_id, char ret_name[KUBE_NAME_CAP]);
/* What it shows of the machine: {"spec": ..., "status": ...}. */
enum err upcoming_body(const struct cluster_node *node, struct buf *out);
/* The machine of an UpcomingNode; ERR_PARSE. */
enum err upcoming_machine(const struct json *object, struct str *ret_machine_id, struct note *note);

/* "ac-" and the digest of the fingerprint behind "available:". */
void available_name(struct str key, char ret_name[KUBE_NAME_CAP]);
enum err available_body(const struct available *hint, struct buf *out);
/* An object of ours that is nobody's namespace, with a body as above. */
enum err shown_write(const char *kind, const char *name, struct str version,
                     const struct json *body, struct buf *out);

bool kube_is_name(struct str id); /* an object can be called so */
/* The same node, closed to new work, with a note that names its machine, so that the node is found
 * again after a restart; *ret_already: it was closed, with that note. */
enum err node_cordon_write(const struct json *node, struct str machine, bool *ret_already,
                           struct buf *out);
struct str node_machine(const struct json *node); /* as that note says; empty: none */
/* By what the provider calls it; where that is empty, not known, by that note. */
bool node_is(const struct json *node, struct str machine, struct str provider_id);

/* -- json.c: parts that all objects have -- */
#define KUBE_LABEL_MANAGED STR("app.kubernetes.io/managed-by")

struct str kube_text(const struct json *object, const char *path); /* empty: not there, no text */
/* The member of a map at a path; keys of labels have dots. */
struct str kube_label(const struct json *object, const char *map, struct str key);
bool kube_part_same(const struct json *a, const struct json *b, const char *part); /* "spec" */
int64_t kube_generation(const struct json *object); /* 0: it has none */
/* ERR_PARSE: no namespaced object. */
enum err kube_names(const struct json *object, struct str *ret_namespace, struct str *ret_name,
                    struct str *ret_uid, struct note *note);

void kube_put(struct ndjson *w, struct str key, const struct json *value);
/* All members but one, each as it is. */
void kube_put_members(struct ndjson *w, const struct json *object, struct str but);
/* Opens metadata and leaves it open. */
void kube_put_head(struct ndjson *w, const char *kind, struct str namespace_, struct str name,
                   struct str version);
#endif
