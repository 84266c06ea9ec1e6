/* SPDX-License-Identifier: Apache-2.0 */
/* Pods and their CapacityRequests: a pod that needs a machine has one request for its whole life.
 *
 * A place is one namespace and name, with the pod and the request of that name. The chore `make`
 * makes the request agree with the pod. The chore `report` writes the request's status. All state
 * belongs to the loop's thread; a chore's run() reads only the key and copied data. */
#include <stdio.h>
#include <stdlib.h>

#include "operator/kube/internal.h"

enum { REQUEST_ARENA_MAX = 4 << 20, LONG_PAUSE_FAILURES = 10 };

static const struct chore_ops make_ops, report_ops;

/* -- the table of places -- */

static struct str place_key(char room[2 * KUBE_NAME_CAP + 1], struct str namespace_,
                            struct str name)
{
    int len =
        snprintf(room, 2 * KUBE_NAME_CAP + 1, "%.*s/%.*s", STR_ARG(namespace_), STR_ARG(name));

    return str_of(room, (size_t)len + 1);
}

static struct pod_place *place_make(struct kube_source *s, struct str namespace_, struct str name)
{
    char room[2 * KUBE_NAME_CAP + 1];
    struct str key = place_key(room, namespace_, name);
    struct pod_place *p = map_make(&s->places, key, sizeof *p);

    if (!p) {
        LOG_ERROR(&s->log, "out of memory for a pod or capacity request", log_text("object", room));
    } else if (!p->source) {
        p->source = s;
        p->key = (const char *)(p + 1);
        chore_init(&p->make, s->chores, &make_ops);
        chore_init(&p->report, s->chores, &report_ops);
        kube_waits_init(p);
    }
    return p;
}

void kube_place_free(void *place)
{
    struct pod_place *p = place;

    free(p->pod.uid);
    free(p->request.uid);
    free(p->served_uid);
    free(p->refusal);
    free(p->task_text);
    free(p->task_event);
    free(p->events);
    free(p);
}

/* Frees a place without pod and request. False: the place is still in use. */
bool kube_place_drop(struct pod_place *p)
{
    if (p->pod.uid || p->request.uid || !chore_forget(&p->make) || !chore_forget(&p->report) ||
        !chore_forget(&p->event))
        return false;
    (void)map_remove(&p->source->places, str_of(p->key, strlen(p->key) + 1));
    kube_place_free(p);
    return true;
}

static bool place_is_off(const struct pod_place *p)
{
    const struct kube_source *s = p->source;

    if (!s->pods.known || !s->requests.known || s->no_pods) return false;
    if (!p->pod.uid || !p->wants) return p->request.uid && p->managed;
    if (!p->request.uid) return true;
    /* never change a request that a person wrote */
    if (!p->managed) return false;
    return !p->served_uid || strcmp(p->served_uid, p->pod.uid) != 0 ||
           p->pod.generation != p->checked[0] || p->request.generation != p->checked[1];
}

static void place_make_if_off(struct pod_place *p)
{
    if (place_is_off(p)) chore_want(&p->make);
}

/* -- creating, replacing and deleting requests -- */

static bool make_prepare(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, make);

    p->task_generations[0] = p->pod.generation;
    p->task_generations[1] = p->request.generation;
    return place_is_off(p);
}

static struct kube_path request_path(char *namespace_, const char *name)
{
    return (struct kube_path){
        KUBE_CRD_GROUP, KUBE_CRD_VERSION, namespace_, "capacityrequests", name, NULL};
}

static const char *split_key(const char *key, char namespace_[KUBE_NAME_CAP])
{
    size_t len = str_find(str_from(key), '/');

    (void)snprintf(namespace_, KUBE_NAME_CAP, "%.*s", (int)len, key);
    return key + len + 1;
}

/* False if a user has edited the pod or the request. */
static bool request_agrees(const struct json *request, struct str body)
{
    struct json *wanted = NULL;
    bool same;

    if (json_open(body, KUBE_OBJECT_MAX, &wanted, NULL)) return false;
    same = kube_part_same(request, wanted, "spec");
    json_close(wanted);
    return same;
}

static enum err request_write(struct kube *kube, const struct kube_path *path,
                              const struct json *pod, const struct kube_answer *there,
                              int64_t *generation, struct note *note)
{
    char version[KUBE_VERSION_CAP] = "";
    struct kube_answer answer = {0};
    struct kube_path at = *path;
    struct buf body;
    enum err err = ERR_OK;

    if (there->object) err = kube_object_version(there->object, version, note);
    buf_init(&body, KUBE_OBJECT_MAX);
    if (!err) err = capacity_write(pod, str_from(version), &body, note);
    if (!err && there->object) {
        *generation = kube_generation(there->object);
        if (!request_agrees(there->object, buf_peek(&body)))
            err = kube_update(kube, &at, buf_peek(&body), KUBE_CALL_MS, &answer, note);
    } else if (!err) {
        at.name = NULL;
        err = kube_create(kube, &at, buf_peek(&body), KUBE_CALL_MS, &answer, note);
    }
    if (!err && answer.object) *generation = kube_generation(answer.object);
    kube_answer_deinit(&answer);
    buf_deinit(&body);
    return err;
}

/* Reads pod and request from the server, because the loop's data may be old. */
static enum err make_run(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, make);
    struct kube *kube = p->source->kube;
    char namespace_[KUBE_NAME_CAP];
    const char *name = split_key(p->key, namespace_);
    struct kube_path pod_at = {"", "v1", namespace_, "pods", name, NULL};
    struct kube_path at = request_path(namespace_, name);
    struct kube_answer pod = {0}, there = {0};
    struct capacity_view request = {0};
    struct pod_view view = {0};
    struct note note = {0};
    enum err err = kube_get(kube, &pod_at, KUBE_CALL_MS, &pod, &note);

    if (!err) err = pod_read(pod.object, &view, &note);
    if (err == ERR_NOT_FOUND) err = ERR_OK;
    if (!err) {
        err = kube_get(kube, &at, KUBE_CALL_MS, &there, &note);
        if (!err) err = capacity_view_read(there.object, &request, &note);
        if (err == ERR_NOT_FOUND) err = ERR_OK;
    }
    if (!err && view.wants) {
        p->task_generations[0] = view.generation;
        if (!there.object || request.managed)
            err = request_write(kube, &at, pod.object, &there, &p->task_generations[1], &note);
    } else if (!err && there.object && request.managed) {
        char uid[ID_MAX + 1];
        (void)snprintf(uid, sizeof uid, "%.*s", STR_ARG(request.uid));
        err = kube_delete(kube, &at, uid, KUBE_CALL_MS, NULL, &note);
        if (err == ERR_NOT_FOUND) err = ERR_OK;
    }
    kube_answer_deinit(&pod);
    kube_answer_deinit(&there);
    if (err) kube_chore_failed(p->source, "capacity request", str_from(p->key), err, &note);
    return err;
}

static bool make_ended(struct chore *chore, enum err err)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, make);

    /* A retry rarely helps after these errors, so the first pause is long. */
    if (err == ERR_PARSE || err == ERR_INVALID || err == ERR_TOO_LARGE)
        chore->failures = LONG_PAUSE_FAILURES;
    if (!err) memcpy(p->checked, p->task_generations, sizeof p->checked);
    return kube_place_drop(p);
}

static const struct chore_ops make_ops = {make_prepare, make_run, make_ended};

/* -- the status of a request -- */

static bool report_prepare(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, report);

    p->task_ack = !p->refusal;
    p->task_kind = kube_condition_due(p, &p->task_since);
    if (!p->request.uid) return false;
    if ((p->refusal ? p->rejected : p->acknowledged) && !p->task_kind) return false;
    return kube_copy(&p->task_text, p->refusal ? str_from(p->refusal) : STR_EMPTY);
}

static enum err report_run(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, report);
    struct kube *kube = p->source->kube;
    char namespace_[KUBE_NAME_CAP];
    const char *name = split_key(p->key, namespace_);
    struct kube_path at = request_path(namespace_, name);
    struct kube_answer there = {0};
    struct note note = {0};
    struct buf body;
    enum err err = kube_get(kube, &at, KUBE_CALL_MS, &there, &note);

    buf_init(&body, KUBE_OBJECT_MAX);
    if (!err)
        err = capacity_status_write(there.object, p->task_ack ? "Acknowledged" : "Rejected",
                                    str_from(p->task_text), p->task_kind, p->task_since, &body);
    at.subresource = "status";
    if (!err) err = kube_update(kube, &at, buf_peek(&body), KUBE_CALL_MS, NULL, &note);
    buf_deinit(&body);
    kube_answer_deinit(&there);
    if (err == ERR_NOT_FOUND) return ERR_OK;
    if (err) kube_chore_failed(p->source, "status of a request", str_from(p->key), err, &note);
    return err;
}

static bool report_ended(struct chore *chore, enum err err)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, report);

    /* A server with an older CRD drops the condition; it is not written twice. */
    if (!err && p->task_kind) p->written = p->task_kind;
    return kube_place_drop(p);
}

static const struct chore_ops report_ops = {report_prepare, report_run, report_ended};

void kube_places_taken(struct demand_source *source, uint64_t change)
{
    struct kube_source *s = kube_source_of(source);
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(&s->places, &cursor)) != NULL;) {
        struct pod_place *p = entry->value;
        if (p->change && p->change <= change && !p->acknowledged) chore_want(&p->report);
        if (p->pod.uid && p->wants && !p->placed) kube_place_supplied(p);
    }
}

/* -- objects: new, changed, deleted -- */

static struct place_object *place_object(struct pod_place *p, const struct followed *f)
{
    return f == &p->source->pods ? &p->pod : &p->request;
}

static void object_gone(struct pod_place *p, const struct followed *f)
{
    struct place_object *object = place_object(p, f);
    struct kube_source *s = p->source;

    if (object == &p->pod) {
        p->wants = p->placed = false;
        free(p->events);
        p->events = NULL;
    } else {
        demand_remove(s->around->demand, str_from(p->request.uid));
        if (s->rejected && p->refusal) gauge_add(s->rejected, -1);
        (void)kube_copy(&p->served_uid, STR_EMPTY);
        (void)kube_copy(&p->refusal, STR_EMPTY);
        p->change = 0;
        p->acknowledged = p->rejected = p->managed = false;
        p->condition = p->written = SUPPLY_UNKNOWN;
    }
    (void)kube_copy(&object->uid, STR_EMPTY);
    if (!kube_place_drop(p)) place_make_if_off(p);
}

static void request_put(struct pod_place *p, const struct json *object)
{
    struct kube_source *s = p->source;
    struct str uid = str_from(p->request.uid);
    struct capacity_request request;
    struct note note = {0};
    struct arena arena;
    uint64_t change = 0;
    bool before = p->refusal != NULL;
    enum err err;

    arena_init(&arena, REQUEST_ARENA_MAX);
    err = capacity_read(object, &arena, &request, &note);
    if (!err) err = demand_put(s->around->demand, uid, &request, &change, &note);
    arena_deinit(&arena);
    if (err) demand_remove(s->around->demand, uid);
    p->change = err ? 0 : change;
    (void)kube_copy(&p->refusal,
                    err ? str_from(note.text[0] ? note.text : err_name(err)) : STR_EMPTY);
    if (s->rejected) gauge_add(s->rejected, (p->refusal != NULL) - before);
    if (p->refusal) chore_want(&p->report);
}

static bool object_set(struct pod_place *p, struct followed *f, struct str uid, int64_t generation)
{
    struct place_object *object = place_object(p, f);

    object->generation = generation;
    object->list = f->lists;
    return kube_copy(&object->uid, uid);
}

static void pod_seen(void *owner, const struct json *object)
{
    struct followed *f = owner;
    struct pod_view view;
    struct note note = {0};
    struct pod_place *p;

    if (pod_read(object, &view, &note)) {
        LOG_WARN(&f->source->log, "ignored an object that is not a valid pod",
                 log_text("note", note.text));
        return;
    }
    p = place_make(f->source, view.namespace_, view.name);
    if (!p || !object_set(p, f, view.uid, view.generation)) return;
    p->wants = view.wants;
    p->placed = view.node.len > 0;
    place_make_if_off(p);
}

static void request_seen(void *owner, const struct json *object)
{
    struct followed *f = owner;
    struct capacity_view view;
    struct note note = {0};
    struct pod_place *p;

    if (capacity_view_read(object, &view, &note)) {
        LOG_WARN(&f->source->log, "ignored an invalid CapacityRequest",
                 log_text("note", note.text));
        return;
    }
    p = place_make(f->source, view.namespace_, view.name);
    if (!p) return;
    if (p->request.uid && !str_equal(str_from(p->request.uid), view.uid))
        demand_remove(f->source->around->demand, str_from(p->request.uid));
    if (!object_set(p, f, view.uid, view.generation) || !kube_copy(&p->served_uid, view.pod_uid))
        return;
    p->managed = view.managed;
    p->acknowledged = str_equal(view.phase, STR("Acknowledged"));
    p->rejected = str_equal(view.phase, STR("Rejected"));
    p->condition = view.condition;
    request_put(p, object);
    place_make_if_off(p);
    kube_place_supplied(p);
}

static void object_deleted(void *owner, const struct json *object)
{
    struct followed *f = owner;
    char room[2 * KUBE_NAME_CAP + 1];
    struct str namespace_, name, uid;
    struct pod_place *p;

    if (kube_names(object, &namespace_, &name, &uid, NULL)) return;
    p = map_get(&f->source->places, place_key(room, namespace_, name));
    if (p && str_equal(str_from(place_object(p, f)->uid), uid)) object_gone(p, f);
}

/* -- begin and end of a list -- */

/* NULL if `f` follows pods, which are no demand. */
static struct demand *followed_demand(const struct followed *f)
{
    return f == &f->source->requests ? f->source->around->demand : NULL;
}

static void objects_begin(void *owner)
{
    struct followed *f = owner;

    f->lists++;
    if (followed_demand(f)) demand_list_begin(followed_demand(f));
}

/* An object that the list did not contain was deleted. May free places. */
static void objects_end(void *owner)
{
    struct followed *f = owner;
    struct map_entry *entry;

    if (followed_demand(f)) demand_list_end(followed_demand(f));
    for (size_t cursor = 0; (entry = map_next(&f->source->places, &cursor)) != NULL;) {
        const struct place_object *object = place_object(entry->value, f);
        if (object->uid && object->list != f->lists) object_gone(entry->value, f);
    }
    f->known = true;
    for (size_t cursor = 0; (entry = map_next(&f->source->places, &cursor)) != NULL;)
        place_make_if_off(entry->value);
}

/* Keeps all objects, because the list may lack objects that exist. */
static void objects_give_up(void *owner)
{
    if (followed_demand(owner)) demand_list_give_up(followed_demand(owner));
}

const struct follow_events kube_pod_events = {objects_begin, objects_end, objects_give_up, pod_seen,
                                              object_deleted};
const struct follow_events kube_request_events = {objects_begin, objects_end, objects_give_up,
                                                  request_seen, object_deleted};
