/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a reclaim: cordons the node, then evicts its pods until no movable pod is left or the
 * grace period is over. Each round lists the node's pods in all namespaces, because the source may
 * follow only one namespace.
 *
 * A machine without a node counts as drained only if another machine's node was found or the
 * cluster has no nodes. Otherwise the machine's node may exist under an unknown name. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "operator/kube/internal.h"

enum {
    AGAIN_MS = 2000,
    NODE_MAX = 2 << 20, /* bytes */
    OTHERS_MAX = 64,    /* limit of machines in `others` */
    OTHERS_BYTES_MAX = 1 << 20,
};
#define NO_NODE "no node belongs to the machine, by name or provider id"

struct drain {
    struct kube_source *source;
    struct chore chore;
    struct str id;
    char *machine;
    char *node_name; /* the machine's id if no name is known */
    char *provider_id;
    char *node;
    struct buf others; /* other machines of the cluster, one per line: id, node name, provider id */
    bool other_found;  /* at least one machine of `others` has a node */
    bool node_seen;
    bool closed;
    atomic_bool over; /* no more evictions */
    bool anew;        /* ordered again while the earlier drain was stopping */
    /* results of the last run: */
    size_t left;
    size_t blocked; /* of `left`: protected by a disruption budget */
};

void kube_drain_free(void *drain)
{
    struct drain *d = drain;

    buf_deinit(&d->others);
    free(d->machine);
    free(d->node_name);
    free(d->provider_id);
    free(d->node);
    free(d);
}

static void drain_forget(struct drain *d)
{
    (void)map_remove(&d->source->drains, d->id);
    kube_drain_free(d);
}

/* -- cordoning the node -- */

/* Reads the provider id from the machine's UpcomingNode, because a restarted operator may not have
 * it from the shard yet. */
static enum err drain_read_shown(struct drain *d, struct note *note)
{
    char name[KUBE_NAME_CAP];
    struct kube_path at = {KUBE_CRD_GROUP, KUBE_CRD_VERSION, NULL, "upcomingnodes", name, NULL};
    struct kube_answer answer = {0};
    struct str id = STR_EMPTY;
    enum err err;

    upcoming_name(str_from(d->machine), name);
    err = kube_get(d->source->kube, &at, KUBE_CALL_MS, &answer, note);
    if (!err && !json_get_string(answer.object, "spec.providerID", &id, NULL) &&
        !kube_copy(&d->provider_id, id))
        err = ERR_NOMEM;
    kube_answer_deinit(&answer);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static bool drain_is_other(const struct drain *d, struct str text)
{
    struct str rest = buf_peek(&d->others), line;

    while (text.len && str_split(&rest, '\n', &line))
        if (str_equal(line, text)) return true;
    return false;
}

static enum err drain_check_node(void *owner, const struct json *node, struct note *note)
{
    struct drain *d = owner;
    struct str name;
    enum err err;

    d->node_seen = true;
    if (!d->other_found)
        d->other_found = drain_is_other(d, kube_text(node, "metadata.name")) ||
                         drain_is_other(d, kube_text(node, "spec.providerID")) ||
                         drain_is_other(d, node_machine(node));
    if (!node_is(node, str_from(d->machine), str_from(d->provider_id))) return ERR_OK;
    err = json_get_string(node, "metadata.name", &name, note);
    if (!err && !kube_copy(&d->node, name)) err = ERR_NOMEM;
    return err;
}

/* d->node stays NULL if the machine has no node. */
static enum err drain_find_node(struct drain *d, struct note *note)
{
    struct kube_path at = {"", "v1", NULL, "nodes", NULL, NULL};
    struct kube_list_options all = {0};
    enum err err = ERR_OK;

    if (!d->provider_id && !d->node) err = drain_read_shown(d, note);
    if (err || d->node) return err;
    return kube_each(d->source, &at, &all, drain_check_node, d, note);
}

static enum err drain_cordon(struct drain *d, const char *name, struct note *note)
{
    struct kube *kube = d->source->kube;
    struct kube_path at = {"", "v1", NULL, "nodes", name, NULL};
    struct kube_answer node = {0};
    struct buf body;
    bool already = false;
    enum err err = kube_get(kube, &at, KUBE_CALL_MS, &node, note);

    buf_init(&body, NODE_MAX);
    if (!err) err = node_cordon_write(node.object, str_from(d->machine), &already, &body);
    if (!err && !already) err = kube_update(kube, &at, buf_peek(&body), KUBE_CALL_MS, NULL, note);
    buf_deinit(&body);
    kube_answer_deinit(&node);
    return err;
}

static enum err drain_run_cordon(struct drain *d, struct note *note)
{
    enum err err = ERR_NOT_FOUND;

    if (!d->node && kube_is_name(str_from(d->node_name))) {
        err = drain_cordon(d, d->node_name, note);
        if (!err && !kube_copy(&d->node, str_from(d->node_name))) err = ERR_NOMEM;
    }
    if (err != ERR_NOT_FOUND) return err;
    err = drain_find_node(d, note);
    if (!err && d->node) err = drain_cordon(d, d->node, note);
    return err == ERR_NOT_FOUND ? ERR_OK : err; /* the node was deleted meanwhile */
}

/* -- evicting pods -- */

static enum err drain_evict(struct drain *d, const struct pod_view *pod, struct note *note)
{
    struct kube_source *s = d->source;
    char namespace_[KUBE_NAME_CAP], name[KUBE_NAME_CAP], uid[ID_MAX + 1];
    enum err err;

    (void)snprintf(namespace_, sizeof namespace_, "%.*s", STR_ARG(pod->namespace_));
    (void)snprintf(name, sizeof name, "%.*s", STR_ARG(pod->name));
    (void)snprintf(uid, sizeof uid, "%.*s", STR_ARG(pod->uid));
    err = kube_evict(s->kube, namespace_, name, uid, KUBE_CALL_MS, NULL, note);
    /* ERR_NOT_FOUND: the pod is gone. ERR_CONFLICT: a new pod has its name. */
    if (!err || err == ERR_NOT_FOUND || err == ERR_CONFLICT) {
        if (s->evicted) counter_inc(s->evicted);
    } else if (err == ERR_FULL) {
        d->blocked++;
        if (s->blocked) counter_inc(s->blocked);
    } else {
        if (s->eviction_failures) counter_inc(s->eviction_failures);
        kube_chore_failed(s, "eviction", pod->name, err, note);
        if (err == ERR_CANCELLED) return err;
    }
    return ERR_OK; /* the drain continues with the next pod */
}

static enum err drain_check_pod(void *owner, const struct json *object, struct note *note)
{
    struct drain *d = owner;
    struct pod_view pod;
    bool odd = pod_read(object, &pod, note) != ERR_OK; /* an unreadable pod counts as movable */

    if (!odd && !pod.moves) return ERR_OK;
    d->left++;
    if (atomic_load(&d->over)) return ERR_CANCELLED;
    return odd || pod.leaving ? ERR_OK : drain_evict(d, &pod, note);
}

static enum err drain_run_evictions(struct drain *d, struct note *note)
{
    struct kube_path at = {"", "v1", NULL, "pods", NULL, NULL};
    char on_node[KUBE_NAME_CAP + 32];
    struct kube_list_options list = {.field_selector = on_node};

    d->left = d->blocked = 0;
    (void)snprintf(on_node, sizeof on_node, "spec.nodeName=%s", d->node);
    return kube_each(d->source, &at, &list, drain_check_pod, d, note);
}

/* -- the chore of a drain -- */

/* If one other machine has a node, names and ids of machines and nodes match. */
static void drain_take_others(struct drain *d)
{
    const struct nodes *nodes = d->source->around->nodes;
    const struct cluster_node *node;
    size_t cursor = 0, count = 0;
    enum err err = ERR_OK;

    buf_clear(&d->others);
    d->other_found = d->node_seen = false;
    while (!err && count < OTHERS_MAX && (node = nodes_next(nodes, &cursor))) {
        if (node->phase != NODE_READY || str_equal(node->machine_id, str_from(d->machine)))
            continue;
        count++;
        err = kube_put_line(&d->others, node->machine_id);
        if (!err) err = kube_put_line(&d->others, node->node_name);
        if (!err) err = kube_put_line(&d->others, node->provider_id);
    }
}

static bool drain_prepare(struct chore *chore)
{
    struct drain *d = CONTAINER_OF(chore, struct drain, chore);
    const struct cluster_node *node =
        d->provider_id ? NULL : nodes_find(d->source->around->nodes, str_from(d->machine));

    /* Without memory for the copy, the next run retries. */
    if (node) (void)kube_copy(&d->provider_id, node->provider_id);
    if (!d->closed) drain_take_others(d);
    return true;
}

static enum err drain_run(struct chore *chore)
{
    struct drain *d = CONTAINER_OF(chore, struct drain, chore);
    struct note note = {0};
    enum err err = d->closed ? drain_run_evictions(d, &note) : drain_run_cordon(d, &note);

    if (err && !atomic_load(&d->over))
        kube_chore_failed(d->source, d->closed ? "list of pods for" : "closing a node", d->id, err,
                          &note);
    return err;
}

static bool drain_finish(struct drain *d)
{
    operator_reclaim_ended(d->source->around->host, d->id, STR_EMPTY);
    drain_forget(d);
    return true;
}

static bool drain_give_up(struct drain *d)
{
    LOG_WARN(&d->source->log,
             "machine of a reclaim could not be drained: no node belongs to it; compare "
             "spec.providerID of the nodes",
             log_text("machine", d->machine),
             log_text("provider_id", d->provider_id ? d->provider_id : ""));
    operator_reclaim_ended(d->source->around->host, d->id, STR(NO_NODE));
    drain_forget(d);
    return true;
}

static bool drain_ended(struct chore *chore, enum err err)
{
    struct drain *d = CONTAINER_OF(chore, struct drain, chore);

    if (d->anew) { /* the machine was ordered again */
        d->anew = d->closed = false;
        atomic_store(&d->over, false);
        chore_want(chore);
        return false;
    }
    if (atomic_load(&d->over)) {
        drain_forget(d);
        return true;
    }
    if (err) return false;
    if (!d->closed) {
        if (!d->node && d->node_seen && !d->other_found) return drain_give_up(d);
        d->closed = true;
        operator_reclaim_started(d->source->around->host, d->id);
        /* The machine has no node, so no pods of this cluster run there. */
        if (!d->node) return drain_finish(d);
        chore_want(chore);
        return false;
    }
    if (!d->left) return drain_finish(d);
    if (d->blocked)
        LOG_INFO(&d->source->log, "drain waits for a PodDisruptionBudget",
                 log_text("node", d->node), log_u64("pods", d->blocked));
    chore_want_in(chore, AGAIN_MS);
    return false;
}

static const struct chore_ops drain_ops = {drain_prepare, drain_run, drain_ended};

void kube_drain(struct demand_source *source, const struct reclaim_order *order)
{
    struct kube_source *s = kube_source_of(source);
    struct drain *d = map_make(&s->drains, order->instruction_id, sizeof *d);
    bool fine;

    if (d && d->source) { /* restart the drain if it is over */
        d->anew = atomic_load(&d->over);
        return;
    }
    fine = d &&
           kube_copy(&d->node_name, order->node_name.len ? order->node_name : order->machine_id) &&
           kube_copy(&d->machine, order->machine_id) &&
           kube_copy(&d->provider_id, order->provider_id);
    if (!fine) {
        LOG_ERROR(&s->log, "out of memory for a reclaim", log_str("id", order->instruction_id));
        if (d) kube_drain_free(map_remove(&s->drains, order->instruction_id));
        return;
    }
    d->id = str_of(d + 1, order->instruction_id.len);
    d->source = s;
    buf_init(&d->others, OTHERS_BYTES_MAX);
    chore_init(&d->chore, s->chores, &drain_ops);
    d->chore.urgent = true; /* a drain has a deadline */
    chore_want(&d->chore);
}

void kube_drain_over(struct demand_source *source, struct str instruction_id)
{
    struct kube_source *s = kube_source_of(source);
    struct drain *d = map_get(&s->drains, instruction_id);

    if (!d) return;
    d->anew = false;
    atomic_store(&d->over, true);
    if (chore_forget(&d->chore)) drain_forget(d);
}
