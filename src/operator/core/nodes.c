/* SPDX-License-Identifier: Apache-2.0 */
/* A record for each machine of the cluster. A machine that left keeps its record until the source
 * has taken the change. No I/O. */
#include "operator/core/nodes.h"

#include <stdlib.h>

struct nodes_record {
    struct list changed; /* linked into nodes->changed while a change is pending */
    bool gone;           /* the machine left the cluster */
    struct cluster_node node;
    void *body;
    uint64_t session;
    char id[];
};
struct nodes {
    struct map by_id;
    struct list changed; /* oldest change first */
    char taken[ID_MAX];
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
    static const uint8_t phases[MACHINE_STATE_COUNT] = {
        [MACHINE_IDLE] = NODE_LAUNCHED,    [MACHINE_CONFIGURING] = NODE_REGISTERED,
        [MACHINE_CONFIGURED] = NODE_READY, [MACHINE_DRAINING] = NODE_DRAINING,
        [MACHINE_FAILED] = NODE_FAILED,
    };

    static_assert(NODE_PROVISIONING == 0, "the phase of all other states");
    return (unsigned)state < MACHINE_STATE_COUNT ? (enum node_phase)phases[state]
                                                 : NODE_PROVISIONING;
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

static void node_record_free(struct nodes_record *r)
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
    while ((entry = map_next(&nodes->by_id, &cursor))) node_record_free(entry->value);
    map_deinit(&nodes->by_id);
    free(nodes);
}

/* -- the copy of a report -- */

/* node_keep_texts() treats both structs as arrays of texts. */
static_assert(sizeof(struct label) == 2 * sizeof(struct str), "key, value");
static_assert(sizeof(struct taint) == 3 * sizeof(struct str), "key, value, effect");

static size_t node_text_bytes(const struct str *texts, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) bytes += texts[i].len;
    return bytes;
}

static char *node_keep_texts(struct str *texts, size_t count, char *room)
{
    for (size_t i = 0; i < count; i++) {
        if (texts[i].len) memcpy(room, texts[i].at, texts[i].len);
        texts[i].at = room;
        room += texts[i].len;
    }
    return room;
}

/* Copies `given` with all its texts and lists to one allocation. */
static void *node_keep(const struct cluster_node *given, struct cluster_node *ret_node)
{
    const void *lists[] = {given->labels, given->resources, given->taints};
    const size_t counts[] = {2 * given->label_count, 2 * given->resource_count,
                             3 * given->taint_count};
    struct str own[] = {given->node_name, given->provider_id, given->last_error}, *body, *at[3];
    size_t texts = counts[0] + counts[1] + counts[2], bytes = node_text_bytes(own, ARRAY_LEN(own));

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) bytes += node_text_bytes(lists[i], counts[i]);
    body = malloc(texts * sizeof *body + bytes + 1); /* never a size of 0 */
    if (!body) return NULL;
    at[0] = body;
    at[1] = at[0] + counts[0];
    at[2] = at[1] + counts[1];
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (counts[i]) memcpy(at[i], lists[i], counts[i] * sizeof *body);
    (void)node_keep_texts(own, ARRAY_LEN(own),
                          node_keep_texts(body, texts, (char *)(body + texts)));
    *ret_node = *given;
    ret_node->node_name = own[0];
    ret_node->provider_id = own[1];
    ret_node->last_error = own[2];
    ret_node->labels = (const void *)at[0];
    ret_node->resources = (const void *)at[1];
    ret_node->taints = (const void *)at[2];
    return body;
}

/* -- the table of machines -- */

static void nodes_check(const struct nodes *nodes)
{
    size_t left = map_count(&nodes->by_id);

    for (size_t i = 0; i < NODE_PHASE_COUNT; i++) left -= nodes->counts[i];
    assert(left <= map_count(&nodes->by_id));      /* invariant I3 */
    assert(!left || !list_empty(&nodes->changed)); /* invariant I4 */
}

static void node_mark_changed(struct nodes *nodes, struct nodes_record *r)
{
    if (list_empty(&r->changed)) list_append(&nodes->changed, &r->changed);
}

static void node_leave(struct nodes *nodes, struct nodes_record *r)
{
    assert(!r->gone);
    nodes->counts[r->node.phase]--;
    r->gone = true;
    node_mark_changed(nodes, r);
}

enum err nodes_report(struct nodes *nodes, const struct cluster_node *given)
{
    struct nodes_record *r = map_get(&nodes->by_id, given->machine_id);
    struct cluster_node fresh;
    void *body = node_keep(given, &fresh);
    bool is_new = !r, drained;

    assert(given->machine_id.len <= ID_MAX);
    if (body && is_new) r = map_make(&nodes->by_id, given->machine_id, sizeof *r);
    if (!body || !r) {
        free(body);
        return body && map_count(&nodes->by_id) == NODES_MAX ? ERR_FULL : ERR_NOMEM;
    }
    if (is_new) {
        list_init(&r->changed);
        r->gone = true; /* a new machine is not in the counts yet */
    }
    drained = given->state == MACHINE_IDLE && !r->gone &&
              (r->node.state == MACHINE_DRAINING || r->node.phase == NODE_DRAINING ||
               r->node.phase == NODE_DRAINED);
    if (!r->gone) nodes->counts[r->node.phase]--;
    fresh.machine_id = str_of(r->id, given->machine_id.len);
    fresh.phase = drained ? NODE_DRAINED : node_phase_of(given->state);
    r->gone = false;
    free(r->body);
    r->body = body;
    r->node = fresh;
    r->session = nodes->session;
    nodes->counts[fresh.phase]++;
    node_mark_changed(nodes, r);
    if (drained || given->left) node_leave(nodes, r);
    nodes_check(nodes);
    return ERR_OK;
}

void nodes_reclaim(struct nodes *nodes, struct str machine_id, enum node_phase phase)
{
    struct nodes_record *r = map_get(&nodes->by_id, machine_id);

    assert(phase == NODE_DRAINING || phase == NODE_DRAINED || phase == NODE_FAILED);
    if (!r || r->gone) return;
    nodes->counts[r->node.phase]--;
    nodes->counts[phase]++;
    r->node.phase = phase;
    node_mark_changed(nodes, r);
    nodes_check(nodes);
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
        struct nodes_record *r = entry->value;
        if (r->gone || r->session == nodes->session) continue;
        node_leave(nodes, r);
        left++;
    }
    nodes_check(nodes);
    return left;
}

size_t nodes_count(const struct nodes *nodes, enum node_phase phase)
{
    assert(phase < NODE_PHASE_COUNT);
    return nodes->counts[phase];
}

const struct cluster_node *nodes_find(const struct nodes *nodes, struct str machine_id)
{
    const struct nodes_record *r = map_get(&nodes->by_id, machine_id);

    return r && !r->gone ? &r->node : NULL;
}

bool nodes_take(struct nodes *nodes, struct str *ret_id)
{
    struct list *link = list_pop(&nodes->changed);
    struct nodes_record *r;

    if (!link) return false;
    r = CONTAINER_OF(link, struct nodes_record, changed);
    *ret_id = str_of(nodes->taken, r->node.machine_id.len);
    memcpy(nodes->taken, r->id, ret_id->len);
    if (r->gone) {
        map_remove(&nodes->by_id, r->node.machine_id);
        node_record_free(r);
    }
    return true;
}

const struct cluster_node *nodes_next(const struct nodes *nodes, size_t *cursor)
{
    struct map_entry *entry;

    while ((entry = map_next(&nodes->by_id, cursor))) {
        const struct nodes_record *r = entry->value;
        if (!r->gone) return &r->node;
    }
    return NULL;
}
