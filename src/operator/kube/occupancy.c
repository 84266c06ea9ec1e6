/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds the table of loads: pods from the follower that also makes requests, nodes and
 * PodDisruptionBudgets from followers of their own. Runs on the loop's thread. */
#include "operator/kube/internal.h"

/* -- pods -- */

static struct loads *loads_of_pods(void *owner)
{
    return ((struct followed *)owner)->source->loads;
}

static void loaded_begin(void *owner)
{
    loads_begin(loads_of_pods(owner), LOAD_PODS);
    kube_pod_events.begin(owner);
}

static void loaded_end(void *owner)
{
    loads_end(loads_of_pods(owner), LOAD_PODS);
    kube_pod_events.end(owner);
}

static void loaded_give_up(void *owner)
{
    kube_pod_events.give_up(owner);
}

static void loaded_seen(void *owner, const struct json *object)
{
    loads_seen(loads_of_pods(owner), LOAD_PODS, object);
    kube_pod_events.seen(owner, object);
}

static void loaded_gone(void *owner, const struct json *object)
{
    loads_gone(loads_of_pods(owner), LOAD_PODS, object);
    kube_pod_events.gone(owner, object);
}

const struct follow_events kube_loaded_pod_events = {loaded_begin, loaded_end, loaded_give_up,
                                                     loaded_seen, loaded_gone};

/* -- nodes and budgets -- */

static void feed_begin(void *owner)
{
    struct load_feed *f = owner;

    loads_begin(f->source->loads, f->kind);
}

static void feed_end(void *owner)
{
    struct load_feed *f = owner;

    loads_end(f->source->loads, f->kind);
}

static void feed_seen(void *owner, const struct json *object)
{
    struct load_feed *f = owner;

    loads_seen(f->source->loads, f->kind, object);
}

static void feed_gone(void *owner, const struct json *object)
{
    struct load_feed *f = owner;

    loads_gone(f->source->loads, f->kind, object);
}

static const struct follow_events feed_events = {
    .begin = feed_begin, .end = feed_end, .seen = feed_seen, .gone = feed_gone};

static enum err feed_open(struct kube_source *s, const struct follow_options *like,
                          struct load_feed *feed)
{
    struct follow_options follow = *like;
    bool nodes = feed->kind == LOAD_NODES;

    feed->source = s;
    follow.path = (struct kube_path){
        nodes ? "" : "policy", "v1", NULL, nodes ? "nodes" : "poddisruptionbudgets", NULL, NULL};
    follow.thread_name = nodes ? "kube-nodes" : "kube-budgets";
    follow.events = &feed_events;
    follow.owner = feed;
    return follow_open(&follow, &feed->follow);
}

enum err kube_loads_open(struct kube_source *s, const struct follow_options *follow, uint64_t seed)
{
    enum err err = loads_open(seed, &s->loads);

    s->node_feed.kind = LOAD_NODES;
    s->budget_feed.kind = LOAD_BUDGETS;
    if (!err) err = feed_open(s, follow, &s->node_feed);
    return err ? err : feed_open(s, follow, &s->budget_feed);
}

void kube_loads_close(struct kube_source *s)
{
    follow_close(s->node_feed.follow);
    follow_close(s->budget_feed.follow);
    loads_close(s->loads);
}

bool kube_occupancy(struct demand_source *source, struct occupancy_rows *ret_rows)
{
    const struct kube_source *s = kube_source_of(source);

    return s->loads && loads_rows(s->loads, s->around->nodes, ret_rows);
}

/* A machine that is shown or leaves changes the rows, too, but the shard knows that. */
uint64_t kube_occupancy_change(struct demand_source *source)
{
    const struct kube_source *s = kube_source_of(source);

    return s->loads ? loads_change(s->loads) : 0;
}
