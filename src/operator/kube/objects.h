/* SPDX-License-Identifier: Apache-2.0 */
/* The Kubernetes objects that an operator reads and writes, as JSON. Pure: this file sends nothing.
 *
 * A pod becomes a CapacityRequest when it appears, and the request stays until the pod is finished
 * or deleted, whether or not the pod is placed. If the request were deleted when its pod was
 * placed, the pod would lose its machine. Data from the API server is checked: only the wrong
 * object is refused. */
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
/* value of the label app.kubernetes.io/managed-by of objects that the operator writes */
#define KUBE_MANAGED_BY "muster-operator"

enum {
    KUBE_NAME_CAP = 254,         /* size of an object's name, including NUL */
    KUBE_OBJECT_MAX = 512 << 10, /* bytes of an object that the operator writes */
    KUBE_RESOURCES_MAX = 64,     /* resource names in one pod */
};

struct pod_view { /* views into the document */
    struct str namespace_, name, uid;
    struct str node;    /* name of the pod's node; empty: not placed */
    bool wants;         /* needs a machine: not finished, not ignored, no DaemonSet or mirror pod */
    bool moves;         /* the pod must be evicted when its node is drained */
    bool leaving;       /* terminating */
    int64_t generation; /* generation of the pod's spec; 0: the server does not count */
};
/* Reads a pod. ERR_PARSE: not a pod. */
enum err pod_read(const struct json *pod, struct pod_view *ret_view, struct note *note);

/* Writes the CapacityRequest of a pod: for a create if `version` is empty, else to replace this
 * resourceVersion. ERR_INVALID and ERR_PARSE name the field. ERR_TOO_LARGE, ERR_NOMEM. */
enum err capacity_write(const struct json *pod, struct str version, struct buf *out,
                        struct note *note);

struct capacity_view { /* a CapacityRequest; views into the document */
    struct str namespace_, name, uid;
    struct str pod_uid; /* uid of the served pod; empty if a person wrote the request */
    struct str phase;   /* phase in the status; "" before the first status */
    bool managed;       /* an operator created the request for a pod */
    int64_t generation; /* generation of the request's spec */
};
enum err capacity_view_read(const struct json *object, struct capacity_view *ret_view,
                            struct note *note);
/* Reads a CapacityRequest. Lists and texts are in the arena. ERR_INVALID, ERR_PARSE: a note with
 * the field. ERR_UNSUPPORTED: an operator that matches no machine (Gt, Lt). ERR_NOMEM. */
enum err capacity_read(const struct json *object, struct arena *arena,
                       struct capacity_request *ret_request, struct note *note);
/* Writes the same object with a phase ("Acknowledged", "Rejected") and a message in its status. */
enum err capacity_status_write(const struct json *object, const char *phase, struct str message,
                               struct buf *out);

/* Writes the name of a machine's UpcomingNode: "un-" and the machine id if that is a valid name;
 * else "und-" and a digest of the id. */
void upcoming_name(struct str machine_id, char ret_name[KUBE_NAME_CAP]);
/* Writes the content of an UpcomingNode: {"spec": ..., "status": ...}. */
enum err upcoming_body(const struct cluster_node *node, struct buf *out);
/* Reads the machine id of an UpcomingNode. Returns ERR_PARSE if there is none. */
enum err upcoming_machine(const struct json *object, struct str *ret_machine_id, struct note *note);

/* Writes "ac-" and a digest of the fingerprint, which follows "available:" in `key`. */
void available_name(struct str key, char ret_name[KUBE_NAME_CAP]);
enum err available_body(const struct available *hint, struct buf *out);
/* Writes an UpcomingNode or AvailableCapacity with a body from one of the functions above. */
enum err shown_write(const char *kind, const char *name, struct str version,
                     const struct json *body, struct buf *out);

bool kube_is_name(struct str id); /* true if an object can have this name */
/* Writes the node as unschedulable, with an annotation that names its machine, so that a restarted
 * operator finds the node. Sets *ret_already if the node has both already. */
enum err node_cordon_write(const struct json *node, struct str machine, bool *ret_already,
                           struct buf *out);
/* Returns the machine id in the node's annotation, or an empty text. */
struct str node_machine(const struct json *node);
/* Returns whether the node is this machine. Compares the node's providerID, or the machine
 * annotation if `provider_id` is empty. */
bool node_is(const struct json *node, struct str machine, struct str provider_id);

/* -- json.c: parts that all objects have -- */
#define KUBE_LABEL_MANAGED STR("app.kubernetes.io/managed-by")

/* Returns the string at the path, or an empty text if no string is there. */
struct str kube_text(const struct json *object, const char *path);
/* Returns the member `key` of the map at path `map`. A label's key may contain dots. */
struct str kube_label(const struct json *object, const char *map, struct str key);
/* Returns whether one part, for example "spec", is equal in both objects. */
bool kube_part_same(const struct json *a, const struct json *b, const char *part);
int64_t kube_generation(const struct json *object); /* 0: the object has none */
/* Reads namespace, name and uid. Returns ERR_PARSE if the object is not namespaced. */
enum err kube_names(const struct json *object, struct str *ret_namespace, struct str *ret_name,
                    struct str *ret_uid, struct note *note);

void kube_put(struct ndjson *w, struct str key, const struct json *value);
/* Copies all members except `but` unchanged. */
void kube_put_members(struct ndjson *w, const struct json *object, struct str but);
/* Begins an object and its metadata. The caller must close the metadata. */
void kube_put_head(struct ndjson *w, const char *kind, struct str namespace_, struct str name,
                   struct str version);
#endif
