/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps pods, nodes and budgets by name, and adds up what each node runs when rows are wanted. */
#include "operator/kube/loads.h"

#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "text/real.h"

enum { LOADS_MAX = 1 << 20, TERMS_MAX = 64 };

struct load_head {  /* first member of each kind's object */
    struct str key; /* in memory of its own */
    uint64_t list;  /* newest list that has the object */
    uint64_t digest;
};
struct pod_load {
    struct load_head head;
    struct resources requests;
    double penalty;    /* dollars */
    bool counts, bare; /* a drain evicts the pod; nothing would start it again */
    struct str node, namespace_;
    size_t label_count;
    struct label labels[]; /* texts follow */
};
struct node_load {
    struct load_head head;
    struct resources allocatable;
    char *provider_id;
    struct occupancy_row row; /* while rows are made */
    struct resources used;
};
struct budget_load {
    struct load_head head;
    struct arena arena;
    struct str namespace_;
    bool holds; /* allows no further disruption */
    struct requirement terms[TERMS_MAX];
    size_t term_count;
};
struct loads {
    struct map kinds[LOAD_KINDS]; /* by "namespace/name", nodes by name */
    uint64_t lists[LOAD_KINDS], change;
    bool known[LOAD_KINDS], lost[LOAD_KINDS]; /* lost: memory ran out since the list began */
    struct dimensions dimensions;
    struct occupancy_row *rows;
    size_t row_cap;
};

enum err loads_open(uint64_t seed, struct loads **ret_loads)
{
    struct loads *l = calloc(1, sizeof *l);

    if (!l) return ERR_NOMEM;
    for (int kind = 0; kind < LOAD_KINDS; kind++) map_init(&l->kinds[kind], LOADS_MAX, seed);
    dimensions_init(&l->dimensions);
    *ret_loads = l;
    return ERR_OK;
}

static void load_free(enum load_kind kind, void *object)
{
    if (!object) return;
    free((void *)(uintptr_t)((struct load_head *)object)->key.at);
    if (kind == LOAD_NODES) free(((struct node_load *)object)->provider_id);
    if (kind == LOAD_BUDGETS) arena_deinit(&((struct budget_load *)object)->arena);
    free(object);
}

void loads_close(struct loads *l)
{
    struct map_entry *entry;

    if (!l) return;
    for (enum load_kind kind = 0; kind < LOAD_KINDS; kind++) {
        for (size_t cursor = 0; (entry = map_next(&l->kinds[kind], &cursor));)
            load_free(kind, entry->value);
        map_deinit(&l->kinds[kind]);
    }
    dimensions_deinit(&l->dimensions);
    free(l->rows);
    free(l);
}

/* --- the objects --- */

/* Digests of what is read, so that other changes of an object do not count. */
static void digest_text(uint64_t *digest, struct str text)
{
    *digest = str_hash(text, *digest + 1);
}

static void digest_resources(uint64_t *digest, const struct resources *r)
{
    digest_text(digest, str_of((const char *)&r->mask, sizeof r->mask));
    digest_text(digest,
                str_of((const char *)r->milli, resource_bits(r->mask) * sizeof r->milli[0]));
}

/* "pods" counts as a resource, as for the scheduler. False: the requests cannot be read. */
static bool load_requests(struct loads *l, const struct json *pod, struct resources *ret_requests)
{
    struct note note;
    uint32_t pods;

    *ret_requests = (struct resources){0};
    if (pod_requests(pod, &l->dimensions, ret_requests, &note) ||
        dimensions_index(&l->dimensions, STR("pods"), &pods, NULL) ||
        resources_set(ret_requests, pods, 1000, QUANTITY_DECIMAL_SI))
        return false;
    return true;
}

static bool load_is_bare(const struct json *pod)
{
    const struct json *owners = json_find(pod, "metadata.ownerReferences");
    bool controls = false;

    for (size_t i = 0; owners && i < json_count(owners); i++)
        if (!json_get_bool(json_item(owners, i), "controller", &controls, NULL) && controls)
            return false;
    return true;
}

static double load_penalty(const struct json *pod)
{
    struct str text =
        kube_label(pod, "metadata.annotations", STR(KUBE_CRD_GROUP "/reclamation-penalty"));
    char copy[REAL_TEXT_CAP + 1];
    double dollars;

    if (str_equal(text, STR("pinned"))) return HUGE_VAL;
    if (text.len == 0 || text.len > REAL_TEXT_CAP) return 0;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    return !real_read(copy, &dollars) && dollars > 0 ? dollars : 0;
}

static struct str load_put(char **at, struct str text)
{
    struct str out = str_of(*at, text.len);

    if (text.len) memcpy(*at, text.at, text.len);
    *at += text.len;
    return out;
}

/* NULL: no memory. */
static struct load_head *pod_load_make(struct loads *l, const struct json *pod,
                                       const struct pod_view *view)
{
    const struct json *labels = json_find(pod, "metadata.labels"), *value;
    size_t size = sizeof(struct pod_load) + view->node.len + view->namespace_.len;
    struct str key;
    struct pod_load *p;
    void *cursor = NULL;
    char *at;

    while (labels && json_next(labels, &cursor, &key, &value))
        size += sizeof(struct label) + key.len + kube_text(value, "").len;
    p = calloc(1, size);
    if (!p) return NULL;
    p->counts = view->moves && !view->leaving;
    p->penalty = load_penalty(pod);
    p->bare = !load_requests(l, pod, &p->requests) || load_is_bare(pod);
    p->label_count = labels ? json_count(labels) : 0;
    at = (char *)(p->labels + p->label_count);
    p->node = load_put(&at, view->node);
    p->namespace_ = load_put(&at, view->namespace_);
    cursor = NULL;
    for (size_t i = 0; labels && json_next(labels, &cursor, &key, &value); i++)
        p->labels[i] = (struct label){load_put(&at, key), load_put(&at, kube_text(value, ""))};
    digest_resources(&p->head.digest, &p->requests);
    digest_text(&p->head.digest, str_of((const char *)&p->penalty, sizeof p->penalty));
    digest_text(&p->head.digest, p->counts ? p->bare ? STR("b") : STR("c") : STR("-"));
    digest_text(&p->head.digest, str_of((const char *)(p->labels + p->label_count),
                                        (size_t)(at - (const char *)(p->labels + p->label_count))));
    return &p->head;
}

static struct load_head *node_load_make(struct loads *l, const struct json *node)
{
    const struct json *amounts = json_find(node, "status.allocatable"), *value;
    struct node_load *n = calloc(1, sizeof *n);
    struct str name, provider = kube_text(node, "spec.providerID");
    void *cursor = NULL;
    uint32_t dimension;

    if (n && provider.len) n->provider_id = str_dup(provider);
    if (!n || (provider.len && !n->provider_id)) {
        free(n);
        return NULL;
    }
    while (amounts && json_next(amounts, &cursor, &name, &value)) {
        struct label pair = {name, kube_text(value, "")};
        struct resources one = {0};
        /* An amount that cannot be read offers no room. */
        if (resources_parse(&l->dimensions, "allocatable", &pair, 1, &one, NULL) ||
            dimensions_index(&l->dimensions, name, &dimension, NULL))
            continue;
        (void)resources_set(&n->allocatable, dimension, resources_get(&one, dimension),
                            QUANTITY_DECIMAL_SI);
    }
    digest_resources(&n->head.digest, &n->allocatable);
    digest_text(&n->head.digest, provider);
    return &n->head;
}

static int compare_texts(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

static bool load_copy(struct arena *arena, struct str *text)
{
    text->at = arena_dup(arena, *text);
    return text->at != NULL;
}

static bool term_add(struct budget_load *b, struct str key, enum requirement_operator op,
                     const struct json *values)
{
    size_t count = !values ? 0 : json_kind(values) == JSON_KIND_ARRAY ? json_count(values) : 1;
    struct str *texts = arena_calloc(&b->arena, count, sizeof *texts);
    bool fine = texts && b->term_count < TERMS_MAX && load_copy(&b->arena, &key);

    for (size_t i = 0; fine && i < count; i++) {
        const struct json *one =
            json_kind(values) == JSON_KIND_ARRAY ? json_item(values, i) : values;
        texts[i] = kube_text(one, "");
        fine = load_copy(&b->arena, &texts[i]);
    }
    if (!fine) return false;
    if (count > 1) qsort(texts, count, sizeof *texts, compare_texts);
    b->terms[b->term_count++] = (struct requirement){key, op, texts, count};
    return true;
}

/* A selector that cannot be read in full selects more pods, so it holds more. */
static bool budget_selector(struct budget_load *b, const struct json *budget)
{
    const struct json *labels = json_find(budget, "spec.selector.matchLabels"), *value;
    const struct json *terms = json_find(budget, "spec.selector.matchExpressions");
    void *cursor = NULL;
    struct str key;

    while (labels && json_next(labels, &cursor, &key, &value))
        if (!term_add(b, key, OPERATOR_IN, value)) return false;
    for (size_t i = 0; terms && i < json_count(terms); i++) {
        const struct json *one = json_item(terms, i);
        enum requirement_operator op = OPERATOR_IN;
        while (op <= OPERATOR_DOES_NOT_EXIST &&
               !str_equal(kube_text(one, "operator"), str_from(operator_name(op))))
            op++;
        if (op > OPERATOR_DOES_NOT_EXIST) continue;
        if (!term_add(b, kube_text(one, "key"), op, json_find(one, "values"))) return false;
    }
    return true;
}

static struct load_head *budget_load_make(const struct json *budget, struct str namespace_)
{
    struct budget_load *b = calloc(1, sizeof *b);
    int64_t allowed = 0;

    if (!b) return NULL;
    arena_init(&b->arena, KUBE_OBJECT_MAX);
    (void)json_get_i64(budget, "status.disruptionsAllowed", &allowed, NULL);
    b->holds = allowed <= 0 && json_find(budget, "spec.selector");
    b->namespace_ = namespace_;
    if (!load_copy(&b->arena, &b->namespace_) || !budget_selector(b, budget)) {
        load_free(LOAD_BUDGETS, b);
        return NULL;
    }
    digest_text(&b->head.digest, b->holds ? STR("h") : STR("-"));
    for (size_t i = 0; i < b->term_count; i++) {
        digest_text(&b->head.digest, b->terms[i].key);
        digest_text(&b->head.digest, str_of((const char *)&b->terms[i].op, sizeof b->terms[i].op));
        for (size_t k = 0; k < b->terms[i].value_count; k++)
            digest_text(&b->head.digest, b->terms[i].values[k]);
    }
    return &b->head;
}

/* --- lists and changes --- */

/* Writes "namespace/name"; STR_EMPTY: the object has no name. */
static struct str load_key(const struct json *object, char room[2 * KUBE_NAME_CAP])
{
    struct str namespace_ = kube_text(object, "metadata.namespace");
    struct str name = kube_text(object, "metadata.name");
    char *at = room;

    if (!name.len || name.len >= KUBE_NAME_CAP || namespace_.len >= KUBE_NAME_CAP) return STR_EMPTY;
    (void)load_put(&at, namespace_);
    if (namespace_.len) *at++ = '/';
    (void)load_put(&at, name);
    return str_of(room, (size_t)(at - room));
}

static void load_forget(struct loads *l, enum load_kind kind, struct str key)
{
    void *old = map_remove(&l->kinds[kind], key);

    if (old) l->change++;
    load_free(kind, old);
}

void loads_begin(struct loads *l, enum load_kind kind)
{
    l->lists[kind]++;
    l->lost[kind] = false;
}

void loads_end(struct loads *l, enum load_kind kind)
{
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(&l->kinds[kind], &cursor));)
        if (((const struct load_head *)entry->value)->list != l->lists[kind])
            load_forget(l, kind, entry->key);
    l->known[kind] = true;
    l->change++;
}

void loads_gone(struct loads *l, enum load_kind kind, const struct json *object)
{
    char room[2 * KUBE_NAME_CAP];
    struct str key = load_key(object, room);

    if (key.len) load_forget(l, kind, key);
}

void loads_seen(struct loads *l, enum load_kind kind, const struct json *object)
{
    char room[2 * KUBE_NAME_CAP];
    struct str key = load_key(object, room);
    struct load_head *head = NULL, *old = map_get(&l->kinds[kind], key);
    struct pod_view view;

    if (!key.len) return;
    switch (kind) {
    case LOAD_PODS:
        if (pod_read(object, &view, NULL)) return;
        if (view.node.len && !view.finished)
            head = pod_load_make(l, object, &view);
        else if (old)
            load_forget(l, kind, key);
        if (!view.node.len || view.finished) return;
        break;
    case LOAD_NODES: head = node_load_make(l, object); break;
    case LOAD_BUDGETS:
        head = budget_load_make(object, kube_text(object, "metadata.namespace"));
        break;
    default: return;
    }
    if (head && old && old->digest == head->digest) { /* nothing that matters changed */
        old->list = l->lists[kind];
        load_free(kind, head);
        return;
    }
    load_forget(l, kind, key);
    l->change++;
    if (head) head->list = l->lists[kind];
    if (head) head->key = str_of(str_dup(key), key.len);
    if (!head || !head->key.at || map_put(&l->kinds[kind], head->key, head)) {
        load_free(kind, head);
        l->lost[kind] = true;
    }
}

uint64_t loads_change(const struct loads *l)
{
    for (int kind = 0; kind < LOAD_KINDS; kind++)
        if (!l->known[kind] || l->lost[kind]) return 0;
    return l->change;
}

/* --- rows --- */

static bool budget_holds(const struct budget_load *b, const struct pod_load *pod)
{
    if (!b->holds || !str_equal(b->namespace_, pod->namespace_)) return false;
    for (size_t i = 0; i < b->term_count; i++) {
        const struct str *value = NULL;
        for (size_t k = 0; k < pod->label_count && !value; k++)
            if (str_equal(pod->labels[k].key, b->terms[i].key)) value = &pod->labels[k].value;
        if (!requirement_holds(&b->terms[i], value)) return false;
    }
    return true;
}

static bool pod_is_held(const struct loads *l, const struct pod_load *pod)
{
    const struct map_entry *entry;

    if (pod->bare) return true;
    for (size_t cursor = 0; (entry = map_next(&l->kinds[LOAD_BUDGETS], &cursor));)
        if (budget_holds(entry->value, pod)) return true;
    return false;
}

static void resources_more(struct resources *sum, const struct resources *more)
{
    for (uint64_t left = more->mask; left; left &= left - 1) {
        uint32_t dimension = (uint32_t)__builtin_ctzll(left);
        int64_t milli;
        if (__builtin_add_overflow(resources_get(sum, dimension), resources_get(more, dimension),
                                   &milli))
            milli = INT64_MAX;
        /* With more than RESOURCES_MAX names nothing fits, because the shard could not use the row
         * either. */
        (void)resources_set(sum, dimension, milli, QUANTITY_DECIMAL_SI);
    }
}

static void pod_add(const struct loads *l, const struct pod_load *pod, struct node_load *node)
{
    resources_more(&node->used, &pod->requests);
    if (!pod->counts) return;
    if (pod_is_held(l, pod)) {
        node->row.held++;
        return;
    }
    node->row.evictable++;
    node->row.disruption += 1 + pod->penalty;
    resources_more(&node->row.requested, &pod->requests);
    if (resources_max(&node->row.largest, &pod->requests)) node->row.held++;
}

/* Only resources that some pod requests matter. */
static struct resources node_free(const struct node_load *node, uint64_t wanted)
{
    struct resources out = {0};

    for (uint64_t left = node->allocatable.mask & wanted; left; left &= left - 1) {
        uint32_t dimension = (uint32_t)__builtin_ctzll(left);
        int64_t milli =
            resources_get(&node->allocatable, dimension) - resources_get(&node->used, dimension);
        (void)resources_set(&out, dimension, milli > 0 ? milli : 0, QUANTITY_DECIMAL_SI);
    }
    return out;
}

/* NULL: the machine has no node. */
static struct node_load *node_of_machine(const struct loads *l, const struct map *by_provider,
                                         const struct cluster_node *machine)
{
    struct str name = machine->node_name.len ? machine->node_name : machine->machine_id;
    struct node_load *node = map_get(&l->kinds[LOAD_NODES], name);

    return node || !machine->provider_id.len ? node : map_get(by_provider, machine->provider_id);
}

static bool loads_add_up(struct loads *l, struct map *by_provider, uint64_t *ret_wanted)
{
    struct map_entry *entry;

    *ret_wanted = 0;
    for (size_t cursor = 0; (entry = map_next(&l->kinds[LOAD_NODES], &cursor));) {
        struct node_load *node = entry->value;
        node->row = (struct occupancy_row){0};
        node->used = (struct resources){0};
        if (!node->provider_id) continue;
        if (map_put(by_provider, str_from(node->provider_id), node) == ERR_NOMEM) return false;
    }
    for (size_t cursor = 0; (entry = map_next(&l->kinds[LOAD_PODS], &cursor));) {
        const struct pod_load *pod = entry->value;
        struct node_load *node = map_get(&l->kinds[LOAD_NODES], pod->node);
        *ret_wanted |= pod->requests.mask;
        if (node) pod_add(l, pod, node);
    }
    return true;
}

bool loads_rows(struct loads *l, const struct nodes *machines, struct occupancy_rows *ret_rows)
{
    const struct cluster_node *machine;
    struct map by_provider;
    size_t count = 0, cursor = 0, most = 0;
    uint64_t wanted;
    bool fine;

    if (!loads_change(l)) return false;
    map_init(&by_provider, LOADS_MAX, 0);
    fine = loads_add_up(l, &by_provider, &wanted);
    for (int phase = 0; phase < NODE_PHASE_COUNT; phase++)
        most += nodes_count(machines, (enum node_phase)phase);
    if (fine && most > l->row_cap) {
        free(l->rows);
        l->rows = malloc(most * sizeof *l->rows);
        l->row_cap = l->rows ? most : 0;
        fine = l->rows != NULL;
    }
    while (fine && count < most && (machine = nodes_next(machines, &cursor))) {
        const struct node_load *node;
        if (machine->phase != NODE_READY && machine->phase != NODE_DRAINING) continue;
        node = node_of_machine(l, &by_provider, machine);
        if (!node) continue;
        l->rows[count] = node->row;
        l->rows[count].machine = machine->machine_id;
        l->rows[count++].free = node_free(node, wanted);
    }
    map_deinit(&by_provider);
    *ret_rows = (struct occupancy_rows){l->rows, count, &l->dimensions};
    return fine;
}
