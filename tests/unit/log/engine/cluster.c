/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define OR_DIE(pointer) or_die(pointer)
static void *or_die(void *memory)
{
    if (!memory) abort();
    return memory;
}

void cluster_violate(struct cluster *cluster, const char *format, ...)
{
    va_list args;

    if (cluster->violation[0]) return;
    va_start(args, format);
    vsnprintf(cluster->violation, sizeof cluster->violation, format, args);
    va_end(args);
}

bool cluster_sound(const struct cluster *cluster)
{
    if (cluster->violation[0]) fprintf(stderr, "violation: %s\n", cluster->violation);
    return !cluster->violation[0];
}

struct node *cluster_node(struct cluster *cluster, uint64_t id)
{
    assert(id && id <= CLUSTER_NODES);
    return &cluster->nodes[id];
}

/* -- a node's log -- */

static struct node_entry *entry_at(struct node *node, uint64_t index)
{
    return index >= node->first && index <= node->last ? &node->log[index - node->first] : NULL;
}

static uint64_t term_at(struct node *node, uint64_t index)
{
    const struct node_entry *entry = entry_at(node, index);
    if (entry) return entry->term;
    return index == node->snapshot.index ? node->snapshot.term : 0;
}

static void forget_old(struct node *node)
{
    for (uint64_t i = 0; i < node->old_count; i++) free((void *)(uintptr_t)node->old[i].bytes.at);
    free(node->old);
    node->old = NULL;
    node->old_count = 0;
}

/* Keeps the durable entries from `from` on, in front of older kept ones. */
static void keep_old(struct node *node, uint64_t from)
{
    uint64_t count = node->durable + 1 - from;
    struct node_entry *old = OR_DIE(calloc(count + node->old_count, sizeof *old));

    for (uint64_t i = 0; i < count; i++) {
        old[i] = *entry_at(node, from + i);
        old[i].bytes.at = OR_DIE(str_dup(old[i].bytes));
    }
    if (node->old_count) memcpy(old + count, node->old, node->old_count * sizeof *old);
    free(node->old);
    node->old = old;
    node->old_first = from;
    node->old_count += count;
}

static void log_cut(struct node *node, uint64_t from)
{
    if (from >= node->first && from <= node->durable) keep_old(node, from);
    for (; node->last >= from && node->last >= node->first; node->last--)
        free((void *)(uintptr_t)entry_at(node, node->last)->bytes.at);
    node->durable = min_u64(node->durable, node->last);
    node->syncing = min_u64(node->syncing, node->last);
    node->reported = min_u64(node->reported, node->last);
}

static void log_append(struct node *node, uint64_t term, enum entry_kind kind, struct str bytes)
{
    uint64_t count = node->last + 1 - node->first;

    if ((count & (count + 1)) == 0 || !node->log)
        node->log = OR_DIE(realloc(node->log, (2 * count + 2) * sizeof *node->log));
    node->log[count] = (struct node_entry){term, kind, str_from(OR_DIE(str_dup(bytes)))};
    node->log[count].bytes.len = bytes.len;
    node->last++;
}

static void log_forget(struct node *node, uint64_t to)
{
    uint64_t gone = 0;

    for (; node->first + gone <= to && node->first + gone <= node->last; gone++)
        free((void *)(uintptr_t)node->log[gone].bytes.at);
    if (!gone) return;
    memmove(node->log, node->log + gone, (node->last + 1 - node->first - gone) * sizeof *node->log);
    node->first += gone;
}

static uint64_t hash_of(const struct node_entry *entry)
{
    return str_hash(entry->bytes, entry->term * 4 + (uint64_t)entry->kind);
}

static void check_content(struct cluster *cluster, struct node *node, uint64_t index)
{
    const struct node_entry *entry = entry_at(node, index);
    uint64_t hash = hash_of(entry);

    if (index > CLUSTER_INDEX_MAX) abort();
    for (unsigned i = 0; i < cluster->content[index].count; i++) {
        if (cluster->content[index].seen[i].term != entry->term) continue;
        if (cluster->content[index].seen[i].hash != hash)
            cluster_violate(cluster, "log matching: node %llu has another entry %llu of term %llu",
                            (unsigned long long)node->id, (unsigned long long)index,
                            (unsigned long long)entry->term);
        return;
    }
    if (cluster->content[index].count < ARRAY_LEN(cluster->content[index].seen)) {
        unsigned i = cluster->content[index].count++;
        cluster->content[index].seen[i].term = entry->term;
        cluster->content[index].seen[i].hash = hash;
    }
}

/* -- effects -- */

static void handle(struct node *node, enum err err, const struct engine_effects *effects);

static void take_entries(struct node *node, const struct engine_effects *effects)
{
    struct cluster *cluster = node->cluster;
    uint64_t index = effects->entries_index;

    if (index > node->last + 1) {
        cluster_violate(cluster, "gap: node %llu was handed entry %llu after %llu",
                        (unsigned long long)node->id, (unsigned long long)index,
                        (unsigned long long)node->last);
        return;
    }
    if (index <= node->applied || index < node->first) {
        cluster_violate(cluster, "node %llu must replace entry %llu, and %llu is applied",
                        (unsigned long long)node->id, (unsigned long long)index,
                        (unsigned long long)node->applied);
        return;
    }
    if (index <= node->last) cluster->counts.truncations++;
    log_cut(node, index);
    for (size_t i = 0; i < effects->entry_count; i++) {
        const struct raft_entry *entry = &effects->entries[i];
        log_append(node, entry->term, (enum entry_kind)entry->type,
                   str_of(entry->buf.len ? entry->buf.base : "", entry->buf.len));
        check_content(cluster, node, index + i);
    }
}

static void post(struct node *node, const struct raft_message *message)
{
    struct cluster *cluster = node->cluster;
    struct parcel *parcel = OR_DIE(calloc(1, sizeof *parcel));
    struct raft_append_entries *append = &parcel->message.append_entries;

    parcel->from = node->id;
    parcel->to = message->server_id;
    parcel->message = *message;
    parcel->message.server_id = node->id;
    parcel->message.server_address = NULL;
    parcel->at = cluster->now;
    list_init(&parcel->link);
    if (message->type == RAFT_APPEND_ENTRIES && append->n_entries) {
        parcel->entries = OR_DIE(calloc(append->n_entries, sizeof *parcel->entries));
        for (unsigned i = 0; i < append->n_entries; i++) {
            uint64_t index = append->prev_log_index + 1 + i;
            const struct node_entry *entry = entry_at(node, index);
            if (!entry) {
                cluster_violate(cluster, "node %llu must send entry %llu and does not have it",
                                (unsigned long long)node->id, (unsigned long long)index);
                append->n_entries = i;
                break;
            }
            parcel->entries[i] = (struct entry){
                index, entry->term, entry->kind, {OR_DIE(str_dup(entry->bytes)), entry->bytes.len}};
        }
    }
    if (message->type == RAFT_INSTALL_SNAPSHOT) {
        if (message->install_snapshot.last_index != node->snapshot.index)
            cluster_violate(cluster, "node %llu must send snapshot %llu and has %llu",
                            (unsigned long long)node->id,
                            (unsigned long long)message->install_snapshot.last_index,
                            (unsigned long long)node->snapshot.index);
        parcel->mark = node->snapshot;
        parcel->state = node->snapshot_state;
    }
    if (cluster->on_post && !cluster->on_post(cluster, parcel))
        cluster_drop(parcel);
    else
        list_append(&cluster->wire, &parcel->link);
}

static void check_leader(struct node *node)
{
    struct cluster *cluster = node->cluster;
    uint64_t term = engine_term(node->engine);

    if (term >= cluster->leader_terms) {
        uint64_t count = 2 * term + 16;
        cluster->leaders = OR_DIE(realloc(cluster->leaders, count * sizeof *cluster->leaders));
        memset(cluster->leaders + cluster->leader_terms, 0,
               (count - cluster->leader_terms) * sizeof *cluster->leaders);
        cluster->leader_terms = count;
    }
    if (cluster->leaders[term].id)
        cluster_violate(cluster, "nodes %llu and %llu both became leader of term %llu",
                        (unsigned long long)cluster->leaders[term].id, (unsigned long long)node->id,
                        (unsigned long long)term);
    cluster->leaders[term].id = node->id;
    cluster->counts.elections++;
    for (uint64_t i = 1; i <= cluster->applied_max; i++) {
        const struct node_entry *entry = entry_at(node, i);
        if (cluster->applied[i].known_in >= term || i <= node->snapshot.index) continue;
        if (!entry || hash_of(entry) != cluster->applied[i].hash)
            cluster_violate(cluster, "leader %llu of term %llu lacks committed entry %llu",
                            (unsigned long long)node->id, (unsigned long long)term,
                            (unsigned long long)i);
    }
}

static void apply_one(struct node *node)
{
    struct cluster *cluster = node->cluster;
    uint64_t index = node->applied + 1;
    const struct node_entry *entry = entry_at(node, index);
    uint64_t hash, state;
    struct engine_effects effects;

    if (!entry) {
        cluster_violate(cluster, "node %llu must apply entry %llu and was never handed it",
                        (unsigned long long)node->id, (unsigned long long)index);
        node->hold_apply = true;
        return;
    }
    hash = hash_of(entry);
    state = (node->state ^ hash) * 0x9e3779b97f4a7c15u + index;
    if (cluster->applied_max < index) {
        if (cluster->applied_max != index - 1) abort();
        cluster->applied_max = index;
        cluster->applied[index].term = entry->term;
        cluster->applied[index].hash = hash;
        cluster->applied[index].known_in = engine_term(node->engine);
        cluster->applied[index].state = state;
        cluster->counts.commits++;
    }
    if (cluster->applied[index].hash != hash || cluster->applied[index].state != state)
        cluster_violate(cluster, "node %llu applies another entry %llu (term %llu, not %llu)",
                        (unsigned long long)node->id, (unsigned long long)index,
                        (unsigned long long)entry->term,
                        (unsigned long long)cluster->applied[index].term);
    node->state = state;
    node->applied = index;
    if (entry->kind == ENTRY_CHANGE) {
        enum err err =
            engine_configuration(node->engine, cluster->now, index, entry->bytes, &effects);
        handle(node, err, &effects);
    }
}

static void advance(struct node *node)
{
    uint64_t commit = engine_commit(node->engine);

    if (commit < node->commit)
        cluster_violate(node->cluster, "the commit index of node %llu went from %llu to %llu",
                        (unsigned long long)node->id, (unsigned long long)node->commit,
                        (unsigned long long)commit);
    node->commit = commit;
    while (!node->hold_apply && !node->stopped && node->applied < engine_commit(node->engine))
        apply_one(node);
}

static void sync_now(struct node *node)
{
    struct engine_effects effects;
    enum err err;

    if (!node->engine || node->stopped) return;
    if (node->syncing <= node->durable) return;
    node->durable = node->syncing;
    node->syncing = 0;
    forget_old(node);
    if (node->installing || node->durable <= node->reported) return;
    node->reported = node->durable;
    err = engine_persisted(node->engine, node->cluster->now, node->durable, &effects);
    handle(node, err, &effects);
}

static void finish_install(struct node *node)
{
    struct cluster *cluster = node->cluster;
    struct engine_effects effects;
    enum err err;

    node->installing = false;
    log_cut(node, node->first);
    forget_old(node);
    node->syncing = 0;
    node->first = node->install.index + 1;
    node->last = node->durable = node->reported = node->install.index;
    node->snapshot = node->install;
    node->snapshot_state = node->install_state;
    if (node->applied > node->install.index)
        cluster_violate(cluster, "node %llu installs snapshot %llu and has applied %llu",
                        (unsigned long long)node->id, (unsigned long long)node->install.index,
                        (unsigned long long)node->applied);
    node->applied = node->install.index;
    node->state = node->install_state;
    if (cluster->applied[node->applied].state != node->state)
        cluster_violate(cluster, "node %llu has another state after snapshot %llu",
                        (unsigned long long)node->id, (unsigned long long)node->applied);
    cluster->counts.installs++;
    err = engine_installed(node->engine, cluster->now, &node->snapshot, &effects);
    handle(node, err, &effects);
}

static void handle(struct node *node, enum err err, const struct engine_effects *effects)
{
    struct cluster *cluster = node->cluster;
    bool leads;

    if (err) {
        node->stopped = err;
        cluster_violate(cluster, "node %llu stopped: %s", (unsigned long long)node->id,
                        err_text(err));
        return;
    }
    if (effects->flags & ENGINE_VOTE) {
        if (effects->term < node->term ||
            (effects->term == node->term && node->vote && effects->vote != node->vote))
            cluster_violate(cluster, "node %llu changes its vote in term %llu from %llu to %llu",
                            (unsigned long long)node->id, (unsigned long long)effects->term,
                            (unsigned long long)node->vote, (unsigned long long)effects->vote);
        node->term = effects->term;
        node->vote = effects->vote;
    }
    if (effects->flags & ENGINE_INSTALL) {
        node->installing = true;
        node->install = effects->install;
    }
    if (effects->flags & ENGINE_ENTRIES) take_entries(node, effects);
    for (size_t i = 0; i < effects->message_count; i++) post(node, &effects->messages[i]);
    leads = engine_role(node->engine) == REPLICA_LEADER;
    if (leads && !node->was_leader) check_leader(node);
    node->was_leader = leads;
    advance(node);
    if (!node->hold_sync) cluster_sync(cluster, node->id);
    if (node->installing && !node->hold_install && (effects->flags & ENGINE_INSTALL))
        finish_install(node);
}

/* -- life -- */

struct cluster *cluster_open(uint64_t seed)
{
    struct cluster *cluster = OR_DIE(calloc(1, sizeof *cluster));

    prng_seed(&cluster->prng, seed);
    list_init(&cluster->wire);
    cluster->now = (mono_time){1000};
    for (uint64_t id = 1; id <= CLUSTER_NODES; id++) {
        cluster->nodes[id].id = id;
        cluster->nodes[id].cluster = cluster;
        cluster->nodes[id].first = 1;
    }
    return cluster;
}

void cluster_close(struct cluster *cluster)
{
    cluster_drop_all(cluster);
    for (uint64_t id = 1; id <= CLUSTER_NODES; id++) {
        struct node *node = &cluster->nodes[id];
        engine_close(node->engine);
        log_cut(node, node->first);
        forget_old(node);
        free(node->log);
    }
    free(cluster->leaders);
    free(cluster);
}

struct members cluster_members(uint64_t voters, uint64_t learners)
{
    struct members members = {.count = 0};

    for (uint64_t id = 1; id <= voters + learners; id++) {
        struct member *member = &members.at[members.count++];
        member->id = id;
        member->role = id <= voters ? MEMBER_VOTER : MEMBER_LEARNER;
        snprintf(member->address, sizeof member->address, "n%llu", (unsigned long long)id);
    }
    return members;
}

void cluster_start(struct cluster *cluster, uint64_t id)
{
    struct node *node = cluster_node(cluster, id);
    struct engine_options options = {
        .id = id,
        .address = "here",
        .election_ms = CLUSTER_ELECTION_MS,
        .heartbeat_ms = CLUSTER_HEARTBEAT_MS,
        .in_flight_entries = 64,
        .seed = (uint32_t)prng_u64(&cluster->prng),
    };
    struct engine_start start = {.term = node->term, .vote = node->vote};
    struct engine_effects effects;
    struct entry *entries = NULL;
    enum err err;

    assert(!node->engine);
    if (engine_open(&options, &node->engine)) abort();
    node->used = true;
    node->stopped = ERR_OK;
    node->installing = node->was_leader = false;
    node->hold_sync = node->hold_apply = node->hold_install = false;
    node->reported = node->durable = node->last;
    node->applied = node->commit = node->snapshot.index;
    node->state = node->snapshot_state;
    start.snapshot = node->snapshot.index ? &node->snapshot : NULL;
    start.start_index = node->first;
    start.entry_count = node->last + 1 - node->first;
    if (start.entry_count) entries = OR_DIE(calloc(start.entry_count, sizeof *entries));
    for (size_t i = 0; i < start.entry_count; i++)
        entries[i] = (struct entry){node->first + i, node->log[i].term, node->log[i].kind,
                                    node->log[i].bytes};
    start.entries = entries;
    err = engine_begin(node->engine, cluster->now, &start, &effects);
    free(entries);
    handle(node, err, &effects);
}

void cluster_crash(struct cluster *cluster, uint64_t id, uint64_t spare)
{
    struct node *node = cluster_node(cluster, id);

    assert(node->engine);
    engine_close(node->engine);
    node->engine = NULL;
    log_cut(node, max_u64(min_u64(node->durable + spare, node->last), node->snapshot.index) + 1);
    if (node->old_count && node->old_first == node->last + 1 && node->last == node->durable)
        for (uint64_t i = 0; i < node->old_count; i++)
            log_append(node, node->old[i].term, node->old[i].kind, node->old[i].bytes);
    forget_old(node);
    node->durable = node->last;
    node->syncing = 0;
    cluster->counts.crashes++;
}

void cluster_found(struct cluster *cluster, uint64_t id, const struct members *members)
{
    struct node *node = cluster_node(cluster, id);
    struct buf bytes;

    buf_init(&bytes, 65536);
    if (members_encode(members, &bytes)) abort();
    node->term = 1;
    log_append(node, 1, ENTRY_CHANGE, buf_peek(&bytes));
    check_content(cluster, node, 1);
    buf_deinit(&bytes);
    cluster_start(cluster, id);
}

struct cluster *cluster_of(uint64_t voters, uint64_t seed)
{
    struct cluster *cluster = cluster_open(seed);
    struct members members = cluster_members(voters, 0);

    for (uint64_t id = 1; id <= voters; id++) cluster_found(cluster, id, &members);
    return cluster;
}

/* -- events -- */

void cluster_timeout(struct cluster *cluster, uint64_t id)
{
    struct node *node = cluster_node(cluster, id);
    struct engine_effects effects;
    enum err err;

    if (!node->engine || node->stopped) return;
    err = engine_timeout(node->engine, cluster->now, &effects);
    handle(node, err, &effects);
}

void cluster_fire(struct cluster *cluster, uint64_t id)
{
    struct node *node = cluster_node(cluster, id);

    cluster->now.ms = max_u64(cluster->now.ms, engine_due(node->engine).ms);
    cluster_timeout(cluster, id);
}

void cluster_elapse(struct cluster *cluster, uint64_t ms)
{
    cluster->now.ms += ms;
}

static enum err submit(struct cluster *cluster, uint64_t id, enum entry_kind kind, struct str bytes)
{
    struct node *node = cluster_node(cluster, id);
    struct entry entry = {.kind = kind, .bytes = bytes};
    struct engine_effects effects;
    uint64_t first;
    enum err err = engine_submit(node->engine, cluster->now, &entry, 1, &first, &effects);

    if (err) return err;
    if (first != node->last + 1)
        cluster_violate(cluster, "node %llu submits at %llu, its log ends at %llu",
                        (unsigned long long)id, (unsigned long long)first,
                        (unsigned long long)node->last);
    handle(node, ERR_OK, &effects);
    return ERR_OK;
}

enum err cluster_submit(struct cluster *cluster, uint64_t id, const char *command)
{
    cluster->submitted++;
    return submit(cluster, id, ENTRY_COMMAND, str_from(command));
}

enum err cluster_change(struct cluster *cluster, uint64_t id, const struct members *members)
{
    struct buf bytes;
    enum err err;

    buf_init(&bytes, 65536);
    if (members_encode(members, &bytes)) abort();
    err = submit(cluster, id, ENTRY_CHANGE, buf_peek(&bytes));
    if (!err) cluster->counts.changes++;
    buf_deinit(&bytes);
    return err;
}

enum err cluster_transfer(struct cluster *cluster, uint64_t id, uint64_t to)
{
    struct node *node = cluster_node(cluster, id);
    struct engine_effects effects;
    enum err err = engine_transfer(node->engine, cluster->now, to, &effects);

    if (err) return err;
    cluster->counts.transfers++;
    handle(node, ERR_OK, &effects);
    return ERR_OK;
}

void cluster_sync_begin(struct cluster *cluster, uint64_t id)
{
    struct node *node = cluster_node(cluster, id);

    if (node->last > node->durable) node->syncing = node->last;
}

void cluster_sync_end(struct cluster *cluster, uint64_t id)
{
    sync_now(cluster_node(cluster, id));
}

void cluster_sync(struct cluster *cluster, uint64_t id)
{
    cluster_sync_begin(cluster, id);
    cluster_sync_end(cluster, id);
}

void cluster_apply(struct cluster *cluster, uint64_t id)
{
    struct node *node = cluster_node(cluster, id);

    node->hold_apply = false;
    advance(node);
}

void cluster_finish_install(struct cluster *cluster, uint64_t id)
{
    struct node *node = cluster_node(cluster, id);

    if (node->engine && !node->stopped && node->installing) finish_install(node);
}

void cluster_snapshot(struct cluster *cluster, uint64_t id, uint32_t trailing)
{
    struct node *node = cluster_node(cluster, id);
    struct snapshot_mark mark = {.index = node->applied, .term = term_at(node, node->applied)};
    struct engine_effects effects;
    enum err err;

    if (node->installing || mark.index <= node->snapshot.index || mark.index > node->durable)
        return;
    mark.members = node->snapshot.members;
    mark.members_index = node->snapshot.members_index;
    for (uint64_t i = node->first; i <= mark.index; i++) {
        if (entry_at(node, i)->kind != ENTRY_CHANGE || i <= mark.members_index) continue;
        if (members_decode(entry_at(node, i)->bytes, &mark.members)) abort();
        mark.members_index = i;
    }
    err = engine_compacted(node->engine, cluster->now, &mark, trailing, &effects);
    if (err == ERR_CONFLICT) return;
    node->snapshot = mark;
    node->snapshot_state = node->state;
    if (mark.index > trailing && mark.index - trailing >= node->first)
        log_forget(node, mark.index - trailing);
    handle(node, err, &effects);
}

/* -- the wire -- */

struct parcel *cluster_find(struct cluster *cluster, uint64_t from, uint64_t to,
                            enum raft_message_type type)
{
    for (struct list *link = cluster->wire.next; link != &cluster->wire; link = link->next) {
        struct parcel *parcel = CONTAINER_OF(link, struct parcel, link);
        if (parcel->from == from && parcel->to == to && parcel->message.type == type) return parcel;
    }
    return NULL;
}

struct parcel *cluster_take(struct cluster *cluster, uint64_t from, uint64_t to,
                            enum raft_message_type type)
{
    struct parcel *parcel = cluster_find(cluster, from, to, type);

    if (parcel) list_remove(&parcel->link);
    return parcel;
}

struct parcel *cluster_copy(const struct parcel *parcel)
{
    struct parcel *copy = OR_DIE(malloc(sizeof *copy));

    *copy = *parcel;
    list_init(&copy->link);
    if (!parcel->entries) return copy;
    copy->entries = OR_DIE(calloc(parcel->message.append_entries.n_entries, sizeof *copy->entries));
    for (unsigned i = 0; i < parcel->message.append_entries.n_entries; i++) {
        copy->entries[i] = parcel->entries[i];
        copy->entries[i].bytes.at = OR_DIE(str_dup(parcel->entries[i].bytes));
    }
    return copy;
}

void cluster_drop(struct parcel *own_parcel)
{
    if (!own_parcel) return;
    if (own_parcel->entries)
        for (unsigned i = 0; i < own_parcel->message.append_entries.n_entries; i++)
            free((void *)(uintptr_t)own_parcel->entries[i].bytes.at);
    free(own_parcel->entries);
    free(own_parcel);
}

void cluster_drop_all(struct cluster *cluster)
{
    while (!list_empty(&cluster->wire)) {
        struct parcel *parcel = CONTAINER_OF(cluster->wire.next, struct parcel, link);
        list_remove(&parcel->link);
        cluster_drop(parcel);
    }
}

/* Prints every message that arrives, to examine a seed. */
static void trace(const struct cluster *cluster, const struct parcel *parcel)
{
    const struct raft_message *m = &parcel->message;
    char text[160] = "";

    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        snprintf(text, sizeof text, "append term %llu prev %llu(%llu) n %u commit %llu",
                 m->append_entries.term, m->append_entries.prev_log_index,
                 m->append_entries.prev_log_term, m->append_entries.n_entries,
                 m->append_entries.leader_commit);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        snprintf(text, sizeof text, "append result term %llu rejected %llu last %llu",
                 m->append_entries_result.term, m->append_entries_result.rejected,
                 m->append_entries_result.last_log_index);
        break;
    case RAFT_REQUEST_VOTE:
        snprintf(text, sizeof text, "%s term %llu last %llu(%llu)%s",
                 m->request_vote.pre_vote ? "pre-vote" : "vote", m->request_vote.term,
                 m->request_vote.last_log_index, m->request_vote.last_log_term,
                 m->request_vote.disrupt_leader ? " disrupt" : "");
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        snprintf(text, sizeof text, "%s result term %llu %s",
                 m->request_vote_result.pre_vote ? "pre-vote" : "vote", m->request_vote_result.term,
                 m->request_vote_result.vote_granted ? "yes" : "no");
        break;
    case RAFT_INSTALL_SNAPSHOT:
        snprintf(text, sizeof text, "install term %llu last %llu", m->install_snapshot.term,
                 m->install_snapshot.last_index);
        break;
    case RAFT_TIMEOUT_NOW:
        snprintf(text, sizeof text, "timeout now term %llu last %llu", m->timeout_now.term,
                 m->timeout_now.last_log_index);
        break;
    }
    fprintf(stderr, "%llu: %llu to %llu: %s\n", (unsigned long long)cluster->now.ms,
            (unsigned long long)parcel->from, (unsigned long long)parcel->to, text);
}

void cluster_give(struct cluster *cluster, struct parcel *own_parcel)
{
    struct node *node = cluster_node(cluster, own_parcel->to);
    const struct raft_message *message = &own_parcel->message;
    struct engine_effects effects;
    enum err err;

    if (!node->engine || node->stopped) {
        cluster_drop(own_parcel);
        return;
    }
    if (getenv("CLUSTER_TRACE")) trace(cluster, own_parcel);
    if (message->type == RAFT_APPEND_ENTRIES) {
        const struct raft_append_entries *args = &message->append_entries;
        struct engine_append append = {.term = args->term,
                                       .prev_index = args->prev_log_index,
                                       .prev_term = args->prev_log_term,
                                       .commit = args->leader_commit,
                                       .entries = own_parcel->entries,
                                       .entry_count = args->n_entries};
        err =
            engine_receive_append(node->engine, cluster->now, own_parcel->from, &append, &effects);
    } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
        if (!node->installing) node->install_state = own_parcel->state;
        err = engine_offer(node->engine, cluster->now, own_parcel->from,
                           message->install_snapshot.term, &own_parcel->mark, &effects);
    } else {
        err = engine_receive(node->engine, cluster->now, message, &effects);
    }
    handle(node, err, &effects);
    cluster_drop(own_parcel);
}

bool cluster_deliver(struct cluster *cluster, uint64_t from, uint64_t to,
                     enum raft_message_type type)
{
    struct parcel *parcel = cluster_take(cluster, from, to, type);

    if (!parcel) return false;
    cluster_give(cluster, parcel);
    return true;
}

void cluster_deliver_all(struct cluster *cluster)
{
    for (int budget = 100000; !list_empty(&cluster->wire); budget--) {
        struct parcel *parcel = CONTAINER_OF(cluster->wire.next, struct parcel, link);
        list_remove(&parcel->link);
        if (!budget) cluster_violate(cluster, "messages without end");
        if (cluster->violation[0] || cluster->cut[parcel->from][parcel->to])
            cluster_drop(parcel);
        else
            cluster_give(cluster, parcel);
    }
}

void cluster_isolate(struct cluster *cluster, uint64_t id, bool cut)
{
    for (uint64_t other = 1; other <= CLUSTER_NODES; other++)
        cluster->cut[id][other] = cluster->cut[other][id] = cut;
}

bool cluster_elect(struct cluster *cluster, uint64_t id)
{
    struct node *node = cluster_node(cluster, id);

    for (int tries = 0; tries < 8 && engine_role(node->engine) != REPLICA_LEADER; tries++) {
        cluster_fire(cluster, id);
        cluster_deliver_all(cluster);
    }
    return engine_role(node->engine) == REPLICA_LEADER;
}

void cluster_run(struct cluster *cluster, uint64_t ms)
{
    uint64_t until = cluster->now.ms + ms;

    while (cluster->now.ms < until && !cluster->violation[0]) {
        cluster_deliver_all(cluster);
        for (uint64_t id = 1; id <= CLUSTER_NODES; id++) {
            struct node *node = &cluster->nodes[id];
            if (node->engine && !node->stopped && engine_due(node->engine).ms <= cluster->now.ms)
                cluster_timeout(cluster, id);
        }
        cluster_deliver_all(cluster);
        cluster->now.ms++;
    }
}

uint64_t cluster_leader(const struct cluster *cluster)
{
    uint64_t leader = 0, term = 0;

    for (uint64_t id = 1; id <= CLUSTER_NODES; id++) {
        const struct node *node = &cluster->nodes[id];
        if (!node->engine || engine_role(node->engine) != REPLICA_LEADER) continue;
        if (engine_term(node->engine) > term) {
            leader = id;
            term = engine_term(node->engine);
        }
    }
    return leader;
}
