/* SPDX-License-Identifier: Apache-2.0 */
/* Shows machines as UpcomingNodes and hints as AvailableCapacities, with one chore per object. A
 * sweep finds machines that left the cluster without a report. */
#include <stdlib.h>

#include "operator/kube/internal.h"

enum { SWEPT_BYTES_MAX = 256 << 20 };

struct kind {
    const char *kind, *resource;
    void (*name)(struct str key, char ret_name[KUBE_NAME_CAP]);
};
static const struct kind machines = {"UpcomingNode", "upcomingnodes", upcoming_name};
static const struct kind hints = {"AvailableCapacity", "availablecapacities", available_name};

static const struct chore_ops show_ops;

static struct shown *shown_find(struct kube_source *s, struct map *table, const struct kind *kind,
                                struct str key)
{
    struct shown *row = map_make(table, key, sizeof *row);

    if (!row) {
        LOG_ERROR(&s->log, "out of memory for a status object", log_str("object", key));
    } else if (!row->source) {
        row->source = s;
        row->key = str_of(row + 1, key.len);
        row->kind = kind;
        chore_init(&row->chore, s->chores, &show_ops);
    }
    return row;
}

void kube_shown_free(void *shown)
{
    struct shown *row = shown;

    free(row->hint);
    free(row->body);
    free(row);
}

/* -- writing one object -- */

static bool show_prepare(struct chore *chore)
{
    struct shown *row = CONTAINER_OF(chore, struct shown, chore);
    const struct cluster_node *node =
        row->hint ? NULL : nodes_find(row->source->around->nodes, row->key);
    struct buf body;
    enum err err = ERR_OK;

    (void)kube_copy(&row->body, STR_EMPTY);
    row->gone = !row->hint && !node;
    if (row->gone) return true;
    if (row->hint) return kube_copy(&row->body, str_from(row->hint));
    buf_init(&body, KUBE_OBJECT_MAX);
    err = upcoming_body(node, &body);
    if (!err && !kube_copy(&row->body, buf_peek(&body))) err = ERR_NOMEM;
    buf_deinit(&body);
    if (err)
        LOG_WARN(&row->source->log, "could not write a machine's object",
                 log_str("machine", row->key), log_err("err", err));
    return !err;
}

/* Replaces `part` of the object if it differs. *there receives the object as it is on the
 * server. */
static enum err show_part(struct kube *kube, const struct kind *kind, const struct kube_path *path,
                          const struct json *body, const char *part, struct kube_answer *there,
                          struct note *note)
{
    char version[KUBE_VERSION_CAP];
    struct kube_answer answer = {0};
    struct kube_path at = *path;
    struct buf text;
    enum err err;

    if (kube_part_same(there->object, body, part)) return ERR_OK;
    at.subresource = strcmp(part, "status") == 0 ? "status" : NULL;
    buf_init(&text, KUBE_OBJECT_MAX);
    err = kube_object_version(there->object, version, note);
    if (!err) err = shown_write(kind->kind, path->name, str_from(version), body, &text);
    if (!err) err = kube_update(kube, &at, buf_peek(&text), KUBE_CALL_MS, &answer, note);
    buf_deinit(&text);
    if (err) {
        kube_answer_deinit(&answer);
        return err;
    }
    kube_answer_deinit(there);
    *there = answer;
    return ERR_OK;
}

static enum err show_made(struct kube *kube, const struct kind *kind, const struct kube_path *path,
                          const struct json *body, struct kube_answer *ret_there, struct note *note)
{
    struct kube_path at = *path;
    struct buf text;
    enum err err;

    at.name = NULL;
    buf_init(&text, KUBE_OBJECT_MAX);
    err = shown_write(kind->kind, path->name, STR_EMPTY, body, &text);
    kube_answer_deinit(ret_there);
    if (!err) err = kube_create(kube, &at, buf_peek(&text), KUBE_CALL_MS, ret_there, note);
    buf_deinit(&text);
    return err;
}

static enum err show_it(struct kube *kube, const struct kind *kind, const struct kube_path *path,
                        const char *body_text, struct note *note)
{
    struct kube_answer there = {0};
    struct json *body = NULL;
    enum err err = json_open(str_from(body_text), KUBE_OBJECT_MAX, &body, note);

    if (!err) err = kube_get(kube, path, KUBE_CALL_MS, &there, note);
    if (err == ERR_NOT_FOUND) err = show_made(kube, kind, path, body, &there, note);
    if (!err) err = show_part(kube, kind, path, body, "spec", &there, note);
    if (!err) err = show_part(kube, kind, path, body, "status", &there, note);
    kube_answer_deinit(&there);
    json_close(body);
    return err;
}

static enum err show_run(struct chore *chore)
{
    struct shown *row = CONTAINER_OF(chore, struct shown, chore);
    struct kube *kube = row->source->kube;
    /* copied, because the loop may change the hint during this run */
    const struct kind *kind = row->kind;
    char name[KUBE_NAME_CAP];
    struct kube_path at = {KUBE_CRD_GROUP, KUBE_CRD_VERSION, NULL, kind->resource, name, NULL};
    struct note note = {0};
    enum err err;

    kind->name(row->key, name);
    if (row->body) {
        err = show_it(kube, kind, &at, row->body, &note);
    } else {
        err = kube_delete(kube, &at, NULL, KUBE_CALL_MS, NULL, &note);
        if (err == ERR_NOT_FOUND) err = ERR_OK;
    }
    if (err) kube_chore_failed(row->source, kind->kind, row->key, err, &note);
    return err;
}

static bool show_ended(struct chore *chore, enum err err)
{
    struct shown *row = CONTAINER_OF(chore, struct shown, chore);
    struct kube_source *s = row->source;

    if (err || !row->gone || nodes_find(s->around->nodes, row->key)) return false;
    (void)map_remove(&s->machines, row->key);
    kube_shown_free(row);
    return true;
}

static const struct chore_ops show_ops = {show_prepare, show_run, show_ended};

void kube_show_machine(struct demand_source *source, struct str machine_id)
{
    struct kube_source *s = kube_source_of(source);
    struct shown *row = shown_find(s, &s->machines, &machines, machine_id);

    if (row) chore_want(&row->chore);
}

void kube_show_hint(struct demand_source *source, const struct available *hint)
{
    struct kube_source *s = kube_source_of(source);
    struct shown *row = shown_find(s, &s->hints, &hints, hint->key);
    struct buf body;

    if (!row) return;
    buf_init(&body, KUBE_OBJECT_MAX);
    if (!available_body(hint, &body) && kube_copy(&row->hint, buf_peek(&body)))
        chore_want(&row->chore);
    buf_deinit(&body);
}

/* -- shown machines that have left the cluster -- */

static bool sweep_prepare(struct chore *chore)
{
    buf_clear(&CONTAINER_OF(chore, struct kube_source, sweep)->swept);
    return true;
}

static enum err sweep_object(void *owner, const struct json *object, struct note *)
{
    struct kube_source *s = owner;
    struct str id;
    enum err err = ERR_OK;

    if (!upcoming_machine(object, &id, NULL)) err = kube_put_line(&s->swept, id);
    return err == ERR_FULL ? ERR_TOO_LARGE : err;
}

static enum err sweep_run(struct chore *chore)
{
    struct kube_source *s = CONTAINER_OF(chore, struct kube_source, sweep);
    struct kube_path at = {KUBE_CRD_GROUP, KUBE_CRD_VERSION, NULL, machines.resource, NULL, NULL};
    struct kube_list_options ours = {.label_selector =
                                         "app.kubernetes.io/managed-by=" KUBE_MANAGED_BY};
    struct note note = {0};
    enum err err = kube_each(s, &at, &ours, sweep_object, s, &note);

    if (err) kube_chore_failed(s, "list of", str_from(machines.resource), err, &note);
    return err;
}

static bool sweep_ended(struct chore *chore, enum err err)
{
    struct kube_source *s = CONTAINER_OF(chore, struct kube_source, sweep);
    struct str ids = buf_peek(&s->swept), id;

    while (!err && str_split(&ids, '\n', &id))
        if (id.len && !nodes_find(s->around->nodes, id)) kube_show_machine(&s->source, id);
    buf_clear(&s->swept);
    return false;
}

static const struct chore_ops sweep_ops = {sweep_prepare, sweep_run, sweep_ended};

void kube_show_sweep(struct demand_source *source)
{
    struct kube_source *s = kube_source_of(source);
    chore_want(&s->sweep);
}

void kube_show_init(struct kube_source *s)
{
    chore_init(&s->sweep, s->chores, &sweep_ops);
    buf_init(&s->swept, SWEPT_BYTES_MAX);
}
