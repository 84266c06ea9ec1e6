/* SPDX-License-Identifier: Apache-2.0 */
/* The Kubernetes objects that an operator reads and writes, as JSON. Pure.
 *
 * A CapacityRequest stays until its pod is finished or terminating, even after the pod is placed.
 * If the request were deleted, the pod would lose its machine. A wrong object is refused without an
 * effect on other objects. */
#ifndef OPERATOR_KUBE_OBJECTS_H
#define OPERATOR_KUBE_OBJECTS_H
#include "base/arena.h"
#include "base/buf.h"
#include "model/resource.h"
#include "operator/core/nodes.h"
#include "operator/core/request.h"
#include "operator/source.h"
#include "text/json.h"

#define KUBE_CRD_GROUP   "bigfleet.lucy.sh"
#define KUBE_CRD_VERSION "v1alpha1"
#define KUBE_MANAGED_BY  "muster-operator"

enum {
    KUBE_NAME_CAP = 254, /* bytes of an object's name with NUL */
    KUBE_OBJECT_MAX = 512 << 10,
    KUBE_RESOURCES_MAX = 64,
};

struct pod_view { /* views into the document */
    struct str namespace_, name, uid;
    struct str node;    /* empty: not placed */
    bool wants;         /* false: finished, terminating, ignored, of a DaemonSet, a mirror pod */
    bool moves;         /* must be evicted when its node is drained */
    bool leaving;       /* terminating */
    bool finished;      /* Succeeded or Failed */
    int64_t generation; /* metadata.generation; 0: the server does not count */
};
/* ERR_PARSE: not a pod. */
enum err pod_read(const struct json *pod, struct pod_view *ret_view, struct note *note);

/* What the scheduler reserves on a node for the pod. Errors of resources_parse(). */
enum err pod_requests(const struct json *pod, struct dimensions *dimensions,
                      struct resources *ret_requests, struct note *note);

/* Writes the CapacityRequest of a pod. ERR_INVALID and ERR_PARSE name the field. ERR_TOO_LARGE,
 * ERR_NOMEM. `version`: the resourceVersion to replace; empty: create. */
enum err capacity_write(const struct json *pod, struct str version, struct buf *out,
                        struct note *note);

/* What the shard reports about a request. The kinds after SUPPLY_MET are reasons to wait. */
enum supply_kind {
    SUPPLY_UNKNOWN,
    SUPPLY_MET,
    SUPPLY_NO_MATCH,
    SUPPLY_STARVED,
    SUPPLY_EXHAUSTED,
    SUPPLY_TOPOLOGY,
    SUPPLY_OTHER, /* a reason of a newer shard */
    SUPPLY_KINDS
};
enum supply_kind supply_kind_of(const struct supply *supply);

struct capacity_view { /* a CapacityRequest; views into the document */
    struct str namespace_, name, uid;
    struct str pod_uid;         /* uid of the served pod; empty: a person wrote the request */
    struct str phase;           /* "" before the first status */
    enum supply_kind condition; /* as the condition Supplied says; SUPPLY_UNKNOWN: none */
    bool managed;
    int64_t generation;
};
enum err capacity_view_read(const struct json *object, struct capacity_view *ret_view,
                            struct note *note);
/* Reads a CapacityRequest into the arena.
 *   ERR_INVALID, ERR_PARSE   the note names the field
 *   ERR_UNSUPPORTED          the operator Gt or Lt, which matches no machine
 *   ERR_NOMEM */
enum err capacity_read(const struct json *object, struct arena *arena,
                       struct capacity_request *ret_request, struct note *note);
/* Writes the object with a new phase ("Acknowledged", "Rejected") and message in its status, and
 * the condition Supplied. SUPPLY_UNKNOWN: the condition stays as it is, as all others do. */
enum err capacity_status_write(const struct json *object, const char *phase, struct str message,
                               enum supply_kind kind, wall_time since, struct buf *out);
/* The Event of a pod that waits. */
struct pod_event {
    struct str namespace_, name, uid; /* the pod's */
    enum supply_kind kind;
    wall_time at;
};
enum err event_write(const struct pod_event *event, struct buf *out);

/* The name of a machine's UpcomingNode: "un-" and the id, or "und-" and a digest of the id if the
 * former is no valid name. */
void upcoming_name(struct str machine_id, char ret_name[KUBE_NAME_CAP]);
enum err upcoming_body(const struct cluster_node *node, struct buf *out);
/* ERR_PARSE: the UpcomingNode has no machine id. */
enum err upcoming_machine(const struct json *object, struct str *ret_machine_id, struct note *note);

/* "ac-" and a digest of the fingerprint. `key` is "available:" and the fingerprint. */
void available_name(struct str key, char ret_name[KUBE_NAME_CAP]);
enum err available_body(const struct available *hint, struct buf *out);
/* Writes an UpcomingNode or AvailableCapacity; `body` is from upcoming_body() or
 * available_body(). */
enum err shown_write(const char *kind, const char *name, struct str version,
                     const struct json *body, struct buf *out);

bool kube_is_name(struct str id);
/* Makes the node unschedulable, and adds an annotation with the machine's id. *ret_already: both
 * were done before. */
enum err node_cordon_write(const struct json *node, struct str machine, bool *ret_already,
                           struct buf *out);
struct str node_machine(const struct json *node);
/* True if the node's providerID is `provider_id`. With an empty `provider_id`: true if the node's
 * annotation names `machine`. */
bool node_is(const struct json *node, struct str machine, struct str provider_id);

/* -- json.c: parts that all objects have -- */
#define KUBE_LABEL_MANAGED STR("app.kubernetes.io/managed-by")

struct str kube_text(const struct json *object, const char *path);
/* The member `key` of the map at path `map`. `key` may contain dots, which a path may not. */
struct str kube_label(const struct json *object, const char *map, struct str key);
/* `part` is a top-level member, for example "spec". */
bool kube_part_same(const struct json *a, const struct json *b, const char *part);
int64_t kube_generation(const struct json *object); /* 0: the object has none */
/* ERR_PARSE: the object is not namespaced. */
enum err kube_names(const struct json *object, struct str *ret_namespace, struct str *ret_name,
                    struct str *ret_uid, struct note *note);

void kube_put(struct ndjson *w, struct str key, const struct json *value);
/* Copies all top-level members except `but`. */
void kube_put_members(struct ndjson *w, const struct json *object, struct str but);
/* Begins an object and its metadata. The caller must close the metadata. */
void kube_put_head(struct ndjson *w, const char *kind, struct str namespace_, struct str name,
                   struct str version);
#endif
