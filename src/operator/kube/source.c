/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the Kubernetes source, reads lists page by page and counts failed calls. */
#include <stdlib.h>

#include "operator/kube/internal.h"

bool kube_copy(char **to, struct str text)
{
    char *copy = text.len ? str_dup(text) : NULL;

    if (text.len && !copy) return false;
    free(*to);
    *to = copy;
    return true;
}

enum err kube_put_line(struct buf *into, struct str text)
{
    enum err err = buf_append(into, text);

    return err ? err : buf_append_byte(into, '\n');
}

enum err kube_each(struct kube_source *s, const struct kube_path *at,
                   const struct kube_list_options *options, kube_object_fn *look, void *owner,
                   struct note *note)
{
    struct kube_list_options list = *options;
    char *more = NULL;
    enum err err;

    list.limit = KUBE_PAGE;
    do {
        struct kube_answer page = {0};
        struct kube_list_head head = {0};
        list.continue_ = str_from(more);
        err = kube_list(s->kube, at, &list, KUBE_CALL_MS, &page, note);
        if (!err) err = kube_list_decode(page.object, &head, note);
        for (size_t i = 0; !err && i < json_count(head.items); i++)
            err = look(owner, json_item(head.items, i), note);
        free(more);
        more = !err && head.continue_.len ? str_dup(head.continue_) : NULL;
        if (!err && head.continue_.len && !more) err = ERR_NOMEM;
        kube_answer_deinit(&page);
    } while (!err && more);
    return err;
}

void kube_chore_failed(struct kube_source *s, const char *what, struct str which, enum err err,
                       const struct note *note)
{
    if (s->writes_failed) counter_inc(s->writes_failed);
    /* Another client changed the object first; the chore runs again. */
    if (err == ERR_CONFLICT || err == ERR_EXISTS) return;
    LOG_WARN(&s->log, "API server rejected a write", log_text("what", what),
             log_str("object", which), log_err("err", err), log_text("note", note->text));
}

static enum err kube_add_metrics(struct kube_source *s, struct metrics *metrics, struct note *note)
{
    const struct {
        const char *name, *help;
        struct counter **to;
    } counters[] = {
        {"muster_operator_kube_failures_total",
         "Failed calls of the API server. The operator retries them.", &s->writes_failed},
        {"muster_operator_kube_evictions_total",
         "Pods evicted from nodes that the shard takes back.", &s->evicted},
        {"muster_operator_kube_evictions_blocked_total",
         "Evictions refused by a PodDisruptionBudget. The operator retries them.", &s->blocked},
        {"muster_operator_kube_evictions_failed_total",
         "Evictions that failed. The operator retries them.", &s->eviction_failures},
        {"muster_operator_kube_events_total", "Events written for pods that wait for a machine.",
         &s->events_written},
        {"muster_operator_kube_events_dropped_total",
         "Events of waiting pods that were not written: refused, or beyond 1,000 in 5 minutes.",
         &s->events_dropped},
    };
    enum err err = ERR_OK;

    if (!metrics) return ERR_OK;
    for (size_t i = 0; !err && i < ARRAY_LEN(counters); i++)
        err =
            metrics_add_counter(metrics, counters[i].name, counters[i].help, counters[i].to, note);
    if (!err)
        err = metrics_add_gauge(metrics, "muster_operator_kube_rejected_requests",
                                "CapacityRequests that the operator rejects as impossible.",
                                &s->rejected, note);
    return err;
}

static enum err kube_start(struct demand_source *source, const struct operator_around *around,
                           struct note *note)
{
    struct kube_source *s = kube_source_of(source);
    struct follow_options follow = {.io = around->io, .log = &s->log, .kube = s->kube};
    uint64_t seed = entropy_u64(follow.io->entropy); /* random, because clients choose the names */
    enum err err;

    s->around = around;
    s->log = *around->log;
    map_init(&s->places, KUBE_PLACES_MAX, seed);
    map_init(&s->machines, NODES_MAX, seed);
    map_init(&s->hints, KUBE_HINTS_MAX, seed);
    map_init(&s->drains, KUBE_DRAINS_MAX, seed);
    err = kube_add_metrics(s, around->metrics, note);
    if (!err) err = chores_open(follow.io, &s->chores);
    if (err) return err;
    kube_show_init(s);
    follow.path = (struct kube_path){
        KUBE_CRD_GROUP, KUBE_CRD_VERSION, s->namespace_, "capacityrequests", NULL, NULL};
    follow.thread_name = "kube-requests";
    follow.events = &kube_request_events;
    follow.owner = &s->requests;
    err = follow_open(&follow, &s->requests.follow);
    follow.path = (struct kube_path){"", "v1", s->namespace_, "pods", NULL, NULL};
    follow.thread_name = "kube-pods";
    follow.events = s->namespace_ ? &kube_pod_events : &kube_loaded_pod_events;
    follow.owner = &s->pods;
    if (!err && !s->namespace_) err = kube_loads_open(s, &follow, seed);
    if (!err) err = follow_open(&follow, &s->pods.follow);
    return err;
}

static bool kube_ready(struct demand_source *source, struct note *reason)
{
    struct kube_source *s = kube_source_of(source);

    return s->pods.follow && follow_whole(s->requests.follow, reason) &&
           follow_whole(s->pods.follow, reason);
}

static void kube_free_rows(struct map *table, void (*row_free)(void *row))
{
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(table, &cursor)) != NULL;) row_free(entry->value);
    map_deinit(table);
}

static void kube_source_close(struct demand_source *source)
{
    struct kube_source *s = kube_source_of(source);

    kube_cancel(s->kube); /* so that closing does not wait for a server that hangs */
    follow_close(s->pods.follow);
    follow_close(s->requests.follow);
    kube_loads_close(s);
    chores_close(s->chores);
    kube_free_rows(&s->places, kube_place_free);
    kube_free_rows(&s->machines, kube_shown_free);
    kube_free_rows(&s->hints, kube_shown_free);
    kube_free_rows(&s->drains, kube_drain_free);
    buf_deinit(&s->swept);
    kube_close(s->kube);
    free(s->namespace_);
    free(s);
}

static const struct source_ops ops = {
    .name = "kubernetes",
    .start = kube_start,
    .node_changed = kube_show_machine,
    .nodes_whole = kube_show_sweep,
    .available = kube_show_hint,
    .taken = kube_places_taken,
    .supplies = kube_supplies,
    .occupancy = kube_occupancy,
    .occupancy_change = kube_occupancy_change,
    .reclaim = kube_drain,
    .reclaim_over = kube_drain_over,
    .ready = kube_ready,
    .close = kube_source_close,
};

enum err kube_source_open(const struct kube_source_options *options,
                          struct demand_source **ret_source, struct note *note)
{
    struct kube_source *s = calloc(1, sizeof *s);
    enum err err = s ? kube_open(options->config, &s->kube, note) : ERR_NOMEM;

    if (!err && !kube_copy(&s->namespace_, str_from(options->namespace_))) err = ERR_NOMEM;
    if (err) {
        if (s) kube_close(s->kube);
        free(s);
        return err;
    }
    s->ops = ops;
    if (s->namespace_) s->ops.occupancy = NULL;
    s->source.ops = &s->ops;
    s->pods.source = s->requests.source = s;
    s->no_pods = options->no_pods;
    *ret_source = &s->source;
    return ERR_OK;
}
