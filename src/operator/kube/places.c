/* SPDX-License-Identifier: Apache-2.0 */
/* Pods and their CapacityRequests: one for each pod, for its whole life. */
#include <stdio.h>
#include <stdlib.h>

#include "operator/kube/internal.h"
#include "operator/kube/json.h"

enum { REQUEST_ARENA_MAX = 4 << 20 };

static const struct chore_ops make_ops, tell_ops;

/* -- the table -- */

static struct pod_place *place_find(struct kube_source *s, struct str namespace_, struct str name,
                                    bool make)
{
    char key[2 * KUBE_NAME_CAP + 1];
    struct str at = {
        key, (size_t)snprintf(key, sizeof key, "%.*s/%.*s", STR_ARG(namespace_), STR_ARG(name))};
    struct pod_place *p = map_get(&s->places, at);

    if (p || !make) return p;
    p = calloc(1, sizeof *p);
    if (!p || !(p->key = str_dup(at)) || map_put(&s->places, str_from(p->key), p)) {
        LOG_ERROR(&s->log, "no room for another pod or request", log_str("object", at));
        if (p) free(p->key);
        free(p);
        return NULL;
    }
    p->source = s;
    chore_init(&p->make, s->chores, &make_ops);
    chore_init(&p->tell, s->chores, &tell_ops);
    return p;
}

static void place_free(struct pod_place *p)
{
    free(p->key);
    free(p->pod_uid);
    free(p->request_uid);
    free(p->served_uid);
    free(p->refusal);
    free(p->task_text);
    free(p);
}

/* Frees a place that stands for nothing. False: it is still of use. */
static bool place_drop(struct pod_place *p)
{
    if (p->pod_uid || p->request_uid || !chore_forget(&p->make) || !chore_forget(&p->tell))
        return false;
    (void)map_remove(&p->source->places, str_from(p->key));
    place_free(p);
    return true;
}

static bool same(const char *a, const char *b)
{
    return a && b && str_equal(str_from(a), str_from(b));
}

/* The request is not as the pod wants it. */
static bool place_is_off(const struct pod_place *p)
{
    const struct kube_source *s = p->source;

    if (!s->pods_known || !s->requests_known || s->no_pods) return false;
    if (!p->pod_uid || !p->wants) return p->request_uid && p->managed;
    if (!p->request_uid) return true;
    if (!p->managed) return false; /* a person's request under that name is left alone */
    return !same(p->served_uid, p->pod_uid) || p->pod_generation != p->checked[0] ||
           p->request_generation != p->checked[1];
}

/* -- the request is made, remade, removed -- */

static bool make_prepare(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, make);

    p->task_generations[0] = p->pod_generation;
    p->task_generations[1] = p->request_generation;
    return place_is_off(p);
}

static struct kube_path pod_path(char *namespace_, const char *name)
{
    return (struct kube_path){"", "v1", namespace_, "pods", name, NULL};
}

static struct kube_path request_path(char *namespace_, const char *name)
{
    return (struct kube_path){
        KUBE_CRD_GROUP, KUBE_CRD_VERSION, namespace_, "capacityrequests", name, NULL};
}

/* Cuts a key in two; the name follows the slash. */
static const char *split_key(const char *key, char namespace_[KUBE_NAME_CAP])
{
    size_t len = str_find(str_from(key), '/');

    (void)snprintf(namespace_, KUBE_NAME_CAP, "%.*s", (int)len, key);
    return key + len + 1;
}

/* What the pod asks for is what the request says: somebody may have edited either. */
static bool agree(const struct json *request, struct str body)
{
    struct json *wanted = NULL;
    const struct json *a, *b;
    bool same_spec;

    if (json_open(body, KUBE_OBJECT_MAX, &wanted, NULL)) return false;
    a = json_find(request, "spec");
    b = json_find(wanted, "spec");
    same_spec = a && b && json_same(a, b);
    json_close(wanted);
    return same_spec;
}

/* *generation is that of the request as it stands then. */
static enum err make_it(struct kube *kube, const struct kube_path *path, const struct json *pod,
                        const struct kube_answer *there, int64_t *generation, struct note *note)
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
        if (!agree(there->object, buf_peek(&body)))
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

/* Both are looked at anew: what the loop saw may be old by now. */
static enum err make_run(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, make);
    struct kube *kube = p->source->kube;
    char namespace_[KUBE_NAME_CAP];
    const char *name = split_key(p->key, namespace_);
    struct kube_path pod_at = pod_path(namespace_, name), at = request_path(namespace_, name);
    struct kube_answer pod = {0}, there = {0}, answer = {0};
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
            err = make_it(kube, &at, pod.object, &there, &p->task_generations[1], &note);
    } else if (!err && there.object && request.managed) {
        char uid[ID_MAX + 1];
        (void)snprintf(uid, sizeof uid, "%.*s", STR_ARG(request.uid));
        err = kube_delete(kube, &at, uid, KUBE_CALL_MS, &answer, &note);
        if (err == ERR_NOT_FOUND) err = ERR_OK;
    }
    kube_answer_deinit(&pod);
    kube_answer_deinit(&there);
    kube_answer_deinit(&answer);
    if (err) kube_chore_failed(p->source, "capacity request", str_from(p->key), err, &note);
    return err;
}

static bool make_ended(struct chore *chore, enum err err)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, make);

    if (err == ERR_PARSE || err == ERR_INVALID || err == ERR_TOO_LARGE) {
        chore->failures = 10; /* it will not be better soon: rests long */
    }
    if (!err) memcpy(p->checked, p->task_generations, sizeof p->checked);
    return place_drop(p);
}

static const struct chore_ops make_ops = {make_prepare, make_run, make_ended};

/* -- its status -- */

static bool tell_prepare(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, tell);

    p->task_ack = !p->refusal;
    if (!p->request_uid || (p->refusal ? p->rejected : p->acknowledged)) return false;
    return kube_copy(&p->task_text, p->refusal ? str_from(p->refusal) : STR_EMPTY);
}

static enum err tell_run(struct chore *chore)
{
    struct pod_place *p = CONTAINER_OF(chore, struct pod_place, tell);
    struct kube *kube = p->source->kube;
    char namespace_[KUBE_NAME_CAP];
    const char *name = split_key(p->key, namespace_);
    struct kube_path at = request_path(namespace_, name);
    struct kube_answer there = {0}, answer = {0};
    struct note note = {0};
    struct buf body;
    enum err err = kube_get(kube, &at, KUBE_CALL_MS, &there, &note);

    buf_init(&body, KUBE_OBJECT_MAX);
    if (!err)
        err = capacity_status_write(there.object, p->task_ack ? "Acknowledged" : "Rejected",
                                    str_from(p->task_text), &body);
    at.subresource = "status";
    if (!err) err = kube_update(kube, &at, buf_peek(&body), KUBE_CALL_MS, &answer, &note);
    buf_deinit(&body);
    kube_answer_deinit(&there);
    kube_answer_deinit(&answer);
    if (err == ERR_NOT_FOUND) return ERR_OK;
    if (err) kube_chore_failed(p->source, "status of a request", str_from(p->key), err, &note);
    return err;
}

static bool tell_ended(struct chore *chore, enum err)
{
    return place_drop(CONTAINER_OF(chore, struct pod_place, tell));
}

static const struct chore_ops tell_ops = {tell_prepare, tell_run, tell_ended};

void kube_places_taken(struct demand_source *source, uint64_t change)
{
    struct kube_source *s = kube_source_of(source);
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(&s->places, &cursor)) != NULL;) {
        struct pod_place *p = entry->value;
        if (p->change && p->change <= change && !p->acknowledged) chore_want(&p->tell);
    }
}

/* -- pods -- */

static void pod_gone(struct pod_place *p)
{
    free(p->pod_uid);
    p->pod_uid = NULL;
    p->wants = false;
    if (!place_drop(p) && place_is_off(p)) chore_want(&p->make);
}

static void pod_seen(void *owner, const struct json *object)
{
    struct kube_source *s = owner;
    struct pod_view view;
    struct note note = {0};
    struct pod_place *p;

    if (pod_read(object, &view, &note)) {
        LOG_WARN(&s->log, "not a pod", log_text("note", note.text));
        return;
    }
    p = place_find(s, view.namespace_, view.name, true);
    if (!p || !kube_copy(&p->pod_uid, view.uid)) return;
    p->wants = view.wants;
    p->pod_generation = view.generation;
    p->pod_list = s->pod_lists;
    if (place_is_off(p)) chore_want(&p->make);
}

static void pods_begin(void *owner)
{
    ((struct kube_source *)owner)->pod_lists++;
}

/* Each place once, whatever is dropped on the way. */
static void each_place(struct kube_source *s, void (*look)(struct pod_place *p))
{
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(&s->places, &cursor)) != NULL;) look(entry->value);
}

static void pod_unless_listed(struct pod_place *p)
{
    if (p->pod_uid && p->pod_list != p->source->pod_lists) pod_gone(p);
}

static void make_if_off(struct pod_place *p)
{
    if (place_is_off(p)) chore_want(&p->make);
}

static void pods_end(void *owner)
{
    struct kube_source *s = owner;

    each_place(s, pod_unless_listed);
    s->pods_known = true;
    each_place(s, make_if_off);
}

static void pod_deleted(void *owner, const struct json *object)
{
    struct pod_view view;
    struct pod_place *p;

    if (pod_read(object, &view, NULL)) return;
    p = place_find(owner, view.namespace_, view.name, false);
    if (p && p->pod_uid && str_equal(str_from(p->pod_uid), view.uid)) pod_gone(p);
}

/* Of a list that is given up, what was told is true, and what was not is not known to be gone. */
const struct follow_events kube_pod_events = {
    .begin = pods_begin, .end = pods_end, .seen = pod_seen, .gone = pod_deleted};

/* -- requests -- */

static void count_refusal(struct kube_source *s, bool before, bool now)
{
    if (now && !before) s->rejected_count++;
    if (before && !now) s->rejected_count--;
    if (s->rejected) gauge_set(s->rejected, (double)s->rejected_count);
}

static void request_gone(struct pod_place *p)
{
    struct kube_source *s = p->source;

    if (p->request_uid) demand_remove(s->around->demand, str_from(p->request_uid));
    count_refusal(s, p->refusal != NULL, false);
    (void)kube_copy(&p->request_uid, STR_EMPTY);
    (void)kube_copy(&p->served_uid, STR_EMPTY);
    (void)kube_copy(&p->refusal, STR_EMPTY);
    p->change = 0;
    p->acknowledged = p->rejected = p->managed = false;
    if (!place_drop(p) && place_is_off(p)) chore_want(&p->make);
}

/* What it asks for goes to the operator, who checks it. */
static void request_take(struct pod_place *p, const struct json *object)
{
    struct kube_source *s = p->source;
    struct capacity_request request;
    struct note note = {0};
    struct arena arena;
    uint64_t change = 0;
    bool before = p->refusal != NULL;
    enum err err;

    arena_init(&arena, REQUEST_ARENA_MAX);
    err = capacity_read(object, &arena, &request, &note);
    if (!err)
        err = demand_put(s->around->demand, str_from(p->request_uid), &request, &change, &note);
    arena_deinit(&arena);
    if (err) demand_remove(s->around->demand, str_from(p->request_uid));
    p->change = err ? 0 : change;
    (void)kube_copy(&p->refusal,
                    err ? str_from(note.text[0] ? note.text : err_name(err)) : STR_EMPTY);
    count_refusal(s, before, p->refusal != NULL);
    if (p->refusal) chore_want(&p->tell);
}

static void request_seen(void *owner, const struct json *object)
{
    struct kube_source *s = owner;
    struct capacity_view view;
    struct note note = {0};
    struct pod_place *p;

    if (capacity_view_read(object, &view, &note)) {
        LOG_WARN(&s->log, "not a capacity request", log_text("note", note.text));
        return;
    }
    p = place_find(s, view.namespace_, view.name, true);
    if (!p) return;
    if (p->request_uid && !str_equal(str_from(p->request_uid), view.uid))
        demand_remove(s->around->demand, str_from(p->request_uid));
    if (!kube_copy(&p->request_uid, view.uid) || !kube_copy(&p->served_uid, view.pod_uid)) return;
    p->managed = view.managed;
    p->request_generation = view.generation;
    p->request_list = s->request_lists;
    p->acknowledged = str_equal(view.phase, STR("Acknowledged"));
    p->rejected = str_equal(view.phase, STR("Rejected"));
    request_take(p, object);
    if (place_is_off(p)) chore_want(&p->make);
}

static void requests_begin(void *owner)
{
    struct kube_source *s = owner;

    s->request_lists++;
    demand_list_begin(s->around->demand);
}

static void request_unless_listed(struct pod_place *p)
{
    if (p->request_uid && p->request_list != p->source->request_lists) request_gone(p);
}

static void requests_end(void *owner)
{
    struct kube_source *s = owner;

    demand_list_end(s->around->demand);
    each_place(s, request_unless_listed);
    s->requests_known = true;
    each_place(s, make_if_off);
}

static void requests_give_up(void *owner)
{
    demand_list_give_up(((struct kube_source *)owner)->around->demand);
}

static void request_deleted(void *owner, const struct json *object)
{
    struct capacity_view view;
    struct pod_place *p;

    if (capacity_view_read(object, &view, NULL)) return;
    p = place_find(owner, view.namespace_, view.name, false);
    if (p && p->request_uid && str_equal(str_from(p->request_uid), view.uid)) request_gone(p);
}

const struct follow_events kube_request_events = {.begin = requests_begin,
                                                  .end = requests_end,
                                                  .give_up = requests_give_up,
                                                  .seen = request_seen,
                                                  .gone = request_deleted};

void kube_places_deinit(struct kube_source *s)
{
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(&s->places, &cursor)) != NULL;)
        place_free(entry->value);
    map_deinit(&s->places);
}
