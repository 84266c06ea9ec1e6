/* SPDX-License-Identifier: Apache-2.0 */
/* The Kubernetes source and its tables. Everything belongs to the loop's thread, except what a
 * chore's run() reads. */
#ifndef OPERATOR_KUBE_INTERNAL_H
#define OPERATOR_KUBE_INTERNAL_H
#include "base/map.h"
#include "kube/kube.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "operator/kube/chores.h"
#include "operator/kube/follow.h"
#include "operator/kube/kube.h"
#include "operator/kube/objects.h"

enum {
    KUBE_CALL_MS = 10 * 1000,
    KUBE_PAGE = 500,           /* objects per answer */
    KUBE_PLACES_MAX = 1 << 20, /* pods and requests of one cluster */
    KUBE_HINTS_MAX = 4096,
    KUBE_DRAINS_MAX = 1 << 16,
};

struct pod_place;
/* All objects of one kind, pods or requests, as the API server reports them. */
struct followed {
    struct kube_source *source;
    struct follow *follow;
    uint64_t lists; /* number of lists begun */
    bool known;     /* at least one list was completed */
};
/* One object of a pod_place: the pod or its CapacityRequest. */
struct place_object {
    char *uid;          /* uid of the object; NULL: the object does not exist */
    int64_t generation; /* generation of the object's spec, if the server counts generations */
    uint64_t list;      /* number of the newest list with the object */
};
/* One namespace and name: a pod, its CapacityRequest, or both. */
struct pod_place {
    struct kube_source *source;
    struct chore make;   /* creates or deletes the request, as the pod requires */
    struct chore report; /* writes the demand's result into the request's status */
    const char *key;     /* "namespace/name" */
    struct place_object pod, request;
    bool wants;                  /* the pod wants a request */
    bool managed;                /* the operator made the request for a pod; false: a person did */
    char *served_uid;            /* uid of the pod that the request serves; NULL: none */
    int64_t checked[2];          /* generations of pod and request that were last found to agree */
    bool acknowledged, rejected; /* as the status of the request says */
    uint64_t change;             /* change number from demand_put(); 0: the demand was refused */
    char *refusal;               /* why the demand was refused; NULL if accepted */
    /* copies for the running chore: */
    int64_t task_generations[2];
    bool task_ack;
    char *task_text;
};

struct kind; /* kind of the object that shows a machine or hint */
/* A machine or a hint that is shown as an object of the cluster. */
struct shown {
    struct kube_source *source;
    struct chore chore;
    struct str key; /* the machine id, or the key of the hint */
    char *hint;     /* content of the hint's object; NULL for a machine */
    const struct kind *kind;
    bool gone;
    /* copy for the running chore: */
    char *body; /* JSON of the object to write; NULL: delete the object */
};

struct kube_source {
    struct demand_source source; /* must be first */
    const struct operator_around *around;
    struct kube *kube;
    struct log_source log;
    struct chores *chores;
    struct followed pods, requests;
    char *namespace_;
    bool no_pods;
    struct map places, machines, hints, drains;
    struct chore sweep; /* finds shown machines that have left the cluster */
    struct buf swept;   /* machine ids that `sweep` found, one per line */
    struct counter *writes_failed, *evicted, *blocked, *eviction_failures;
    struct gauge *rejected;
};

static inline struct kube_source *kube_source_of(struct demand_source *source)
{
    return CONTAINER_OF(source, struct kube_source, source);
}

/* Functions that take a struct demand_source implement members of struct source_ops. */
/* -- places.c: pods and their requests -- */
extern const struct follow_events kube_pod_events, kube_request_events;
void kube_places_taken(struct demand_source *source, uint64_t change);
void kube_place_free(void *place);

/* -- show.c: machines and hints -- */
void kube_show_machine(struct demand_source *source, struct str machine_id);
void kube_show_sweep(struct demand_source *source);
void kube_show_hint(struct demand_source *source, const struct available *hint);
void kube_show_init(struct kube_source *s);
void kube_shown_free(void *shown);

/* -- drain.c: reclaims -- */
void kube_drain(struct demand_source *source, const struct reclaim_order *order);
void kube_drain_over(struct demand_source *source, struct str instruction_id);
void kube_drain_free(void *drain);

/* Calls `look` for all objects of a list, page by page, on a chore's thread. `options` must have no
 * limit and no continue position. An error of `look` ends the iteration. */
typedef enum err kube_object_fn(void *owner, const struct json *object, struct note *note);
enum err kube_each(struct kube_source *s, const struct kube_path *at,
                   const struct kube_list_options *options, kube_object_fn *look, void *owner,
                   struct note *note);
enum err kube_put_line(struct buf *into, struct str text); /* appends the text and a newline */
/* Counts and logs a failed call of a chore that will be repeated. */
void kube_chore_failed(struct kube_source *s, const char *what, struct str which, enum err err,
                       const struct note *note);
/* Replaces *to by a copy of `text`, or NULL if empty. Returns false without memory. */
bool kube_copy(char **to, struct str text);
#endif
