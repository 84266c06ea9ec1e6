/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the Kubernetes source. All belong to the loop's thread; a chore's run() reads only
 * copies. */
#ifndef OPERATOR_KUBE_INTERNAL_H
#define OPERATOR_KUBE_INTERNAL_H
#include "base/map.h"
#include "kube/kube.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "operator/kube/chores.h"
#include "operator/kube/follow.h"
#include "operator/kube/kube.h"
#include "operator/kube/loads.h"
#include "operator/kube/objects.h"

enum {
    KUBE_CALL_MS = 10 * 1000,
    KUBE_PAGE = 500,           /* objects per answer */
    KUBE_PLACES_MAX = 1 << 20, /* pods and requests */
    KUBE_HINTS_MAX = 4096,
    KUBE_DRAINS_MAX = 1 << 16,
};

struct pod_place;
/* All pods or all requests, as the API server reports them. */
struct followed {
    struct kube_source *source;
    struct follow *follow;
    uint64_t lists;
    bool known;
};
/* The pod or the request of one place. */
struct place_object {
    char *uid;          /* NULL: the object does not exist */
    int64_t generation; /* metadata.generation; 0: the server does not count */
    uint64_t list;      /* newest list that has the object */
};
/* A pod, its CapacityRequest of the same namespace and name, or both. */
struct pod_place {
    struct kube_source *source;
    struct chore make;   /* creates, replaces or deletes the request */
    struct chore report; /* writes the request's status */
    struct chore event;  /* writes an Event of the pod */
    const char *key;     /* "namespace/name" */
    struct place_object pod, request;
    bool wants;
    bool placed;                 /* the pod has a node */
    bool managed;                /* the operator made the request; false: a person did */
    char *served_uid;            /* uid of the pod that the request serves; NULL: none */
    int64_t checked[2];          /* generations of pod and request that were found to agree */
    bool acknowledged, rejected; /* as the request's status says */
    uint64_t change;             /* from demand_put(); 0: refused */
    char *refusal;               /* reason of a refusal; NULL: accepted */
    /* The condition Supplied as the server has it, and as this process wrote it last. */
    enum supply_kind condition, written;
    mono_time *events; /* by kind: when the pod got an Event; NULL: never */
    /* copies for the running chore: */
    int64_t task_generations[2];
    bool task_ack;
    char *task_text;
    enum supply_kind task_kind;
    wall_time task_since;
    char *task_event;
};

struct kind; /* the kind of an object: UpcomingNode or AvailableCapacity */
struct shown {
    struct kube_source *source;
    struct chore chore;
    struct str key;
    char *hint; /* content of the hint's object; NULL for a machine */
    const struct kind *kind;
    bool gone;
    /* copy for the running chore: */
    char *body; /* JSON of the object; NULL: delete the object */
};

struct load_feed { /* nodes or budgets, for `loads` */
    struct kube_source *source;
    struct follow *follow;
    enum load_kind kind;
};
struct kube_source {
    struct demand_source source; /* must be first */
    struct source_ops ops;
    struct loads *loads; /* NULL: pods of one namespace only, so what runs on a node is unknown */
    struct load_feed node_feed, budget_feed;
    const struct operator_around *around;
    struct kube *kube;
    struct log_source log;
    struct chores *chores;
    struct followed pods, requests;
    char *namespace_;
    bool no_pods;
    struct map places, machines, hints, drains;
    struct chore sweep;     /* finds shown machines that have left */
    struct buf swept;       /* machine ids that `sweep` found, one per line */
    mono_time events_since; /* start of the time in which `events_left` Events may be written */
    uint32_t events_left;
    bool events_denied;
    size_t supplies_from, supplies_left; /* map cursor; places to look at since the last change */
    struct counter *writes_failed, *evicted, *blocked, *eviction_failures;
    struct counter *events_written, *events_dropped;
    struct gauge *rejected;
};

static inline struct kube_source *kube_source_of(struct demand_source *source)
{
    return CONTAINER_OF(source, struct kube_source, source);
}

/* Functions that take a struct demand_source implement source_ops. */
/* -- places.c: pods and their requests -- */
extern const struct follow_events kube_pod_events, kube_request_events;
void kube_places_taken(struct demand_source *source, uint64_t change);
void kube_place_free(void *place);
bool kube_place_drop(struct pod_place *place); /* true: freed, because nothing is there */

/* -- waits.c: requests without machines -- */
void kube_waits_init(struct pod_place *place);
bool kube_supplies(struct demand_source *source, bool changed);
void kube_place_supplied(struct pod_place *place); /* the place or its supply changed */
/* The condition to write; SUPPLY_UNKNOWN: none. *ret_since may be NULL. */
enum supply_kind kube_condition_due(const struct pod_place *place, wall_time *ret_since);

/* -- occupancy.c: what the machines run -- */
extern const struct follow_events kube_loaded_pod_events; /* also kube_pod_events */
enum err kube_loads_open(struct kube_source *s, const struct follow_options *follow, uint64_t seed);
void kube_loads_close(struct kube_source *s);
bool kube_occupancy(struct demand_source *source, struct occupancy_rows *ret_rows);
uint64_t kube_occupancy_change(struct demand_source *source);

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

/* Calls `look` for all objects of a list, on a chore's thread. `options` must have no limit and no
 * continue token. An error of `look` ends the iteration. */
typedef enum err kube_object_fn(void *owner, const struct json *object, struct note *note);
enum err kube_each(struct kube_source *s, const struct kube_path *at,
                   const struct kube_list_options *options, kube_object_fn *look, void *owner,
                   struct note *note);
enum err kube_put_line(struct buf *into, struct str text);
void kube_chore_failed(struct kube_source *s, const char *what, struct str which, enum err err,
                       const struct note *note);
/* Replaces *to by a copy of `text`; empty: by NULL. False: no memory. */
bool kube_copy(char **to, struct str text);
#endif
