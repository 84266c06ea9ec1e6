/* SPDX-License-Identifier: Apache-2.0 */
/* One record per machine, under its id for as long as something of it is known or still to be told;
 * what the shard said of it is one piece of memory, replaced when it says more. */
#include "operator/core/nodes.h"

#include <stdlib.h>

struct record {
    struct list changed; /* in nodes->changed: not taken since */
    struct node node;    /* views of `body`, and of `id` */
    void *body;
    uint64_t session; /* in which the shard last told of it */
    char id[];
};
struct nodes {
    struct map by_id;     /* in the order they were first heard of; also those that are gone and not
                             taken yet */
    struct list changed;  /* oldest change first */
    struct record *taken; /* gone, out of the table; its view was handed out */
    uint64_t session;
    size_t counts[NODE_PHASE_COUNT];
};

static const char *const phase_names[NODE_PHASE_COUNT] = {
    "Provisioning", "Launched", "Registered", "Ready", "Draining", "Drained", "Failed",
};

const char *node_phase_name(enum node_phase phase)
{
    assert(phase < NODE_PHASE_COUNT);
    return phase_names[phase];
}

enum node_phase node_phase_of(enum machine_state state)
{
    switch (state) {
    case MACHINE_IDLE: return NODE_LAUNCHED;
    case MACHINE_CONFIGURING: return NODE_REGISTERED;
    case MACHINE_CONFIGURED: return NODE_READY;
    case MACHINE_DRAINING: return NODE_DRAINING;
    case MACHINE_FAILED: return NODE_FAILED;
    case MACHINE_UNSPECIFIED:
    case MACHINE_SPECULATIVE:
    case MACHINE_CREATING:
    case MACHINE_DELETING:
    case MACHINE_STATE_COUNT: break;
    }
    return NODE_PROVISIONING;
}

enum err nodes_open(uint64_t seed, struct nodes **ret_nodes)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);

    if (!nodes) return ERR_NOMEM;
    map_init(&nodes->by_id, NODES_MAX, seed);
    list_init(&nodes->changed);
    *ret_nodes = nodes;
    return ERR_OK;
}

static struct record *record_of(struct list *changed)
{
    return CONTAINER_OF(changed, struct record, changed);
}

static void record_free(struct record *r)
{
    if (!r) return;
    free(r->body);
    free(r);
}

void nodes_close(struct nodes *nodes)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (!nodes) return;
    record_free(nodes->taken);
    while ((entry = map_next(&nodes->by_id, &cursor))) record_free(entry->value);
    map_deinit(&nodes->by_id);
    free(nodes);
}

/* -- what was said of one machine -- */

struct room { /* what is left of a body */
    char *texts;
    struct label *labels;
    struct taint *taints;
};

static size_t bytes_of_labels(const struct label *labels, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) bytes += labels[i].key.len + labels[i].value.len;
    return bytes;
}

static size_t bytes_of_texts(const struct node *n)
{
    size_t bytes = n->node_name.len + n->provider_id.len + n->last_error.len;

    bytes += bytes_of_labels(n->labels, n->label_count);
    bytes += bytes_of_labels(n->resources, n->resource_count);
    for (size_t i = 0; i < n->taint_count; i++)
        bytes += n->taints[i].key.len + n->taints[i].value.len + n->taints[i].effect.len;
    return bytes;
}

static struct str keep(struct room *room, struct str text)
{
    struct str kept = {room->texts, text.len};

    if (text.len) memcpy(room->texts, text.at, text.len);
    room->texts += text.len;
    return kept;
}

static const struct label *keep_labels(struct room *room, const struct label *labels, size_t count)
{
    struct label *kept = room->labels;

    for (size_t i = 0; i < count; i++) {
        kept[i].key = keep(room, labels[i].key);
        kept[i].value = keep(room, labels[i].value);
    }
    room->labels += count;
    return kept;
}

/* The texts and lists of `told` in memory of their own; everything else is copied as it is. */
static void *keep_body(const struct node *told, struct node *ret_node)
{
    size_t labels = (told->label_count + told->resource_count) * sizeof(struct label);
    size_t taints = told->taint_count * sizeof(struct taint);
    char *body = malloc(labels + taints + bytes_of_texts(told) + 1); /* never of no size */
    struct room room = {.labels = (void *)body};

    if (!body) return NULL;
    room.taints = (void *)(body + labels);
    room.texts = body + labels + taints;
    *ret_node = *told;
    ret_node->node_name = keep(&room, told->node_name);
    ret_node->provider_id = keep(&room, told->provider_id);
    ret_node->last_error = keep(&room, told->last_error);
    ret_node->labels = keep_labels(&room, told->labels, told->label_count);
    ret_node->resources = keep_labels(&room, told->resources, told->resource_count);
    ret_node->taints = room.taints;
    for (size_t i = 0; i < told->taint_count; i++) {
        room.taints[i].key = keep(&room, told->taints[i].key);
        room.taints[i].value = keep(&room, told->taints[i].value);
        room.taints[i].effect = keep(&room, told->taints[i].effect);
    }
    return body;
}

/* -- the table -- */

static void mark_changed(struct nodes *nodes, struct record *r)
{
    if (list_empty(&r->changed)) list_append(&nodes->changed, &r->changed);
}

static void set_phase(struct nodes *nodes, struct record *r, enum node_phase phase)
{
    assert(nodes->counts[r->node.phase] > 0);
    nodes->counts[r->node.phase]--;
    nodes->counts[phase]++;
    r->node.phase = phase;
    mark_changed(nodes, r);
}

/* In the table until its end was taken, and counted no more. */
static void leave(struct nodes *nodes, struct record *r)
{
    assert(!r->node.gone && nodes->counts[r->node.phase] > 0);
    nodes->counts[r->node.phase]--;
    r->node.gone = true;
    mark_changed(nodes, r);
}

static enum err add(struct nodes *nodes, struct str id, struct record **ret_record)
{
    struct record *r = calloc(1, sizeof *r + id.len);
    enum err err;

    if (!r) return ERR_NOMEM;
    memcpy(r->id, id.at, id.len);
    list_init(&r->changed);
    r->node.gone = true; /* until something is known */
    err = map_put(&nodes->by_id, str_of(r->id, id.len), r);
    if (err) {
        record_free(r);
        return err;
    }
    *ret_record = r;
    return ERR_OK;
}

enum err nodes_tell(struct nodes *nodes, const struct node *told)
{
    struct record *r = map_get(&nodes->by_id, told->machine_id);
    struct node fresh;
    void *body = keep_body(told, &fresh);
    enum err err = body ? ERR_OK : ERR_NOMEM;
    bool drained;

    if (!err && !r) err = add(nodes, told->machine_id, &r);
    if (err) {
        free(body);
        return err;
    }
    drained = told->state == MACHINE_IDLE && !r->node.gone &&
              (r->node.phase == NODE_DRAINING || r->node.phase == NODE_DRAINED);
    if (!r->node.gone) nodes->counts[r->node.phase]--;
    fresh.machine_id = str_of(r->id, told->machine_id.len);
    fresh.phase = drained ? NODE_DRAINED : node_phase_of(told->state);
    fresh.gone = false;
    free(r->body);
    r->body = body;
    r->node = fresh;
    r->session = nodes->session;
    nodes->counts[fresh.phase]++;
    mark_changed(nodes, r);
    if (drained) leave(nodes, r);
    return ERR_OK;
}

void nodes_reclaim(struct nodes *nodes, struct str machine_id, enum node_phase phase)
{
    struct record *r = map_get(&nodes->by_id, machine_id);

    assert(phase == NODE_DRAINING || phase == NODE_DRAINED || phase == NODE_FAILED);
    if (r && !r->node.gone) set_phase(nodes, r, phase);
}

void nodes_session(struct nodes *nodes)
{
    nodes->session++;
}

size_t nodes_sweep(struct nodes *nodes)
{
    struct map_entry *entry;
    size_t cursor = 0, left = 0;

    while ((entry = map_next(&nodes->by_id, &cursor))) {
        struct record *r = entry->value;
        if (r->node.gone || r->session == nodes->session) continue;
        leave(nodes, r);
        left++;
    }
    return left;
}

size_t nodes_count(const struct nodes *nodes, enum node_phase phase)
{
    assert(phase < NODE_PHASE_COUNT);
    return nodes->counts[phase];
}

const struct node *nodes_find(const struct nodes *nodes, struct str machine_id)
{
    const struct record *r = map_get(&nodes->by_id, machine_id);

    return r && !r->node.gone ? &r->node : NULL;
}

bool nodes_changed(const struct nodes *nodes)
{
    return !list_empty(&nodes->changed);
}

bool nodes_take(struct nodes *nodes, struct node *ret_node)
{
    struct list *link = list_pop(&nodes->changed);
    struct record *r;

    record_free(nodes->taken);
    nodes->taken = NULL;
    if (!link) return false;
    r = record_of(link);
    if (r->node.gone) {
        map_remove(&nodes->by_id, r->node.machine_id);
        nodes->taken = r;
    }
    *ret_node = r->node;
    return true;
}

const struct node *nodes_next(const struct nodes *nodes, size_t *cursor)
{
    struct map_entry *entry;

    while ((entry = map_next(&nodes->by_id, cursor))) {
        const struct record *r = entry->value;
        if (!r->node.gone) return &r->node;
    }
    return NULL;
}
