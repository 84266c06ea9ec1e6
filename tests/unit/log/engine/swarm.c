/* SPDX-License-Identifier: Apache-2.0 */
#include "swarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "log/members.h"

enum {
    FAULTY_MS = 4000,
    HEAL_MS = 60 * CLUSTER_ELECTION_MS,    /* until a leader has committed */
    SETTLE_MS = 300 * CLUSTER_ELECTION_MS, /* until the members are the requested ones */
};

struct options { /* drawn per seed; chances are per million, per millisecond or per message */
    bool fifo;
    uint32_t loss, duplicate;
    uint64_t delay_max, sync_max, install_max, apply_max;
    uint32_t crash, crash_in_step, partition, heal, pause, snapshot, change, transfer, death,
        submit;
    uint64_t target; /* voters */
};
struct state { /* of a node, beside cluster.h */
    bool dead; /* for good */
    mono_time start_at, sync_at, install_at, apply_at, paused_until;
};
struct swarm {
    struct cluster *cluster;
    struct prng prng;
    struct options options;
    struct state state[CLUSTER_NODES + 1];
    mono_time arrives[CLUSTER_NODES + 1][CLUSTER_NODES + 1];
    uint64_t next_id;
    uint64_t moves;
    bool calm;
    struct swarm_counts *counts;
};

static bool chance(struct swarm *swarm, uint32_t per_million)
{
    return prng_chance(&swarm->prng, per_million);
}

static uint32_t draw(struct swarm *swarm, uint32_t most)
{
    /* some faults are off entirely in some seeds */
    return chance(swarm, 250000) ? 0 : (uint32_t)prng_below(&swarm->prng, most + 1);
}

static void draw_options(struct swarm *swarm)
{
    struct options *options = &swarm->options;
    static const uint64_t sizes[] = {1, 3, 3, 3, 5};

    options->fifo = chance(swarm, 500000);
    options->loss = draw(swarm, 150000);
    options->duplicate = options->fifo ? 0 : draw(swarm, 150000);
    options->delay_max = 1 + draw(swarm, 40);
    options->sync_max = draw(swarm, 30);
    options->install_max = draw(swarm, 200);
    options->apply_max = draw(swarm, 100);
    options->crash = draw(swarm, 3000);
    options->crash_in_step = draw(swarm, 3000);
    options->partition = draw(swarm, 8000);
    options->heal = 2000 + draw(swarm, 10000);
    options->pause = draw(swarm, 2000);
    options->snapshot = draw(swarm, 20000);
    options->change = draw(swarm, 60000);
    options->transfer = draw(swarm, 5000);
    options->death = draw(swarm, 1500);
    options->submit = 20000 + draw(swarm, 300000);
    options->target = sizes[prng_below(&swarm->prng, ARRAY_LEN(sizes))];
}

static bool is_up(struct swarm *swarm, uint64_t id)
{
    const struct node *node = &swarm->cluster->nodes[id];
    return node->engine && !node->stopped;
}

/* -- messages -- */

static bool on_post(struct cluster *cluster, struct parcel *parcel)
{
    struct swarm *swarm = cluster->owner;
    const struct options *options = &swarm->options;
    mono_time *arrives;

    if (parcel->to > CLUSTER_NODES) abort();
    if (cluster->cut[parcel->from][parcel->to]) return false;
    if (swarm->calm) {
        parcel->at.ms = cluster->now.ms + 1;
    } else {
        if (chance(swarm, options->loss)) return false;
        parcel->at.ms = cluster->now.ms + prng_between(&swarm->prng, 0, options->delay_max);
        if (chance(swarm, 20000)) parcel->at.ms += 3 * CLUSTER_ELECTION_MS; /* very late */
    }
    if (!options->fifo) {
        if (!swarm->calm && chance(swarm, options->duplicate)) {
            struct parcel *copy = cluster_copy(parcel);
            copy->at.ms += prng_between(&swarm->prng, 0, 6 * CLUSTER_ELECTION_MS);
            list_append(&cluster->wire, &copy->link);
        }
        return true;
    }
    arrives = &swarm->arrives[parcel->from][parcel->to];
    parcel->at.ms = max_u64(parcel->at.ms, arrives->ms);
    *arrives = parcel->at;
    return true;
}

static void deliver_due(struct swarm *swarm)
{
    struct cluster *cluster = swarm->cluster;
    bool again = true;

    while (again &&
           !cluster->violation[0]) { /* a delivery may send a message that is due at once */
        again = false;
        LIST_EACH_SAFE(&cluster->wire, link, following)
        {
            struct parcel *parcel = CONTAINER_OF(link, struct parcel, link);
            uint64_t to = parcel->to;
            if (parcel->at.ms > cluster->now.ms ||
                cluster->now.ms < swarm->state[to].paused_until.ms)
                continue;
            list_remove(&parcel->link);
            if (cluster->cut[parcel->from][to]) {
                cluster_drop(parcel);
                continue;
            }
            cluster_give(cluster, parcel);
            if (!swarm->calm && chance(swarm, swarm->options.crash_in_step / 10) &&
                is_up(swarm, to)) {
                cluster_crash(cluster, to, prng_below(&swarm->prng, 3));
                swarm->state[to].start_at.ms = cluster->now.ms + prng_below(&swarm->prng, 300);
            }
            again = true;
            break; /* the list has changed */
        }
    }
}

/* -- members -- */

static void address_of(struct swarm *swarm, uint64_t id, char *text, size_t size)
{
    snprintf(text, size, "n%llu:%llu", (unsigned long long)id, (unsigned long long)++swarm->moves);
}

static void look(struct swarm *swarm, struct node *node, struct members *members,
                 struct members_view *view)
{
    struct engine *engine = node->engine;
    uint64_t commit = engine_commit(engine);
    mono_time now = swarm->cluster->now;

    memset(view, 0, sizeof *view);
    view->self = node->id;
    view->members = members;
    view->commit = commit;
    view->handing_over = engine_transferee(engine) != 0;
    view->own_term_committed = node->applied >= node->first && node->applied <= node->last &&
                               node->log[node->applied - node->first].term == engine_term(engine);
    engine_members(engine, members, &view->uncommitted);
    for (size_t i = 0; i < members->count; i++) {
        uint64_t id = members->at[i].id;
        mono_time heard = engine_heard(engine, id);
        view->match[i] = id == node->id ? node->durable : engine_match(engine, id);
        view->responsive[i] =
            id == node->id || (heard.ms && now.ms - heard.ms < CLUSTER_ELECTION_MS);
    }
}

/* The change that the leader wants: dead members removed, then the requested number of voters. */
static bool choose(struct swarm *swarm, const struct node *leader, const struct members *members,
                   enum member_change_kind *kind, uint64_t *id)
{
    size_t voters = members_voters(members);
    size_t at = prng_below(&swarm->prng, members->count);
    uint64_t learner = 0, dead = 0;

    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->at[i];
        if (swarm->state[member->id].dead)
            dead = member->id;
        else if (member->role == MEMBER_LEARNER)
            learner = member->id;
    }
    *id = members->at[at].id;
    if (!swarm->calm && chance(swarm, 200000)) {
        *kind = chance(swarm, 500000) ? CHANGE_ADDRESS : CHANGE_REMOVE;
        return *kind == CHANGE_ADDRESS || *id != leader->id;
    }
    if (dead) {
        *kind = CHANGE_REMOVE;
        *id = dead;
        /* the last but one voter has no majority after a removal: first add a newcomer */
        if (voters > 1 || members_find(members, dead)->role == MEMBER_LEARNER) return true;
    }
    if (voters < swarm->options.target) {
        *kind = learner ? CHANGE_PROMOTE : CHANGE_ADD;
        *id = learner ? learner : swarm->next_id;
        return *id <= CLUSTER_NODES;
    }
    if (voters > swarm->options.target) {
        *kind = CHANGE_REMOVE;
        return *id != leader->id && members->at[at].role == MEMBER_VOTER;
    }
    if (learner && chance(swarm, 500000)) {
        *kind = CHANGE_REMOVE;
        *id = learner;
        return true;
    }
    return false;
}

/* A leader cannot learn of a death at once. Raft promises nothing about a change that needs the
 * dead member, so the swarm requests none. */
static bool does_without_the_dead(struct swarm *swarm, const struct members *members)
{
    size_t alive = 0;

    for (size_t i = 0; i < members->count; i++)
        if (members->at[i].role == MEMBER_VOTER && !swarm->state[members->at[i].id].dead) alive++;
    return alive > members_voters(members) / 2;
}

static void change_members(struct swarm *swarm, uint64_t leader)
{
    struct node *node = cluster_node(swarm->cluster, leader);
    struct members members, next;
    struct members_view view;
    char address[32];
    enum member_change_kind kind;
    uint64_t id;
    struct note note;

    look(swarm, node, &members, &view);
    if (!choose(swarm, node, &members, &kind, &id)) return;
    address_of(swarm, id, address, sizeof address);
    if (members_change(&view, kind, id, str_from(address), &next, &note)) return;
    if (!does_without_the_dead(swarm, &next)) return;
    if (cluster_change(swarm->cluster, leader, &next)) return;
    switch (kind) {
    case CHANGE_ADD:
        swarm->next_id++;
        cluster_start(swarm->cluster, id);
        cluster_node(swarm->cluster, id)->hold_sync = true;
        cluster_node(swarm->cluster, id)->hold_apply = true;
        cluster_node(swarm->cluster, id)->hold_install = true;
        swarm->counts->adds++;
        break;
    case CHANGE_PROMOTE: swarm->counts->promotions++; break;
    case CHANGE_REMOVE: swarm->counts->removals++; break;
    case CHANGE_ADDRESS:
    case CHANGE_TAKE: swarm->counts->moves++; break;
    }
}

/* A member may die for good only when all configurations, also on disks, are the same and keep a
 * majority without the member: two deaths at once may be more than Raft promises. */
static void die(struct swarm *swarm, uint64_t id)
{
    struct cluster *cluster = swarm->cluster;
    struct members members, first = {.count = 0};
    uint64_t uncommitted;
    size_t alive = 0;

    for (uint64_t i = 1; i < swarm->next_id; i++) {
        if (swarm->state[i].dead) continue;
        if (!is_up(swarm, i)) return;
        engine_members(cluster->nodes[i].engine, &members, &uncommitted);
        if (uncommitted) return;
        if (!first.count) first = members;
        if (members.count != first.count || members_voters(&members) != members_voters(&first))
            return;
        for (size_t k = 0; k < members.count; k++)
            if (members.at[k].id != first.at[k].id || members.at[k].role != first.at[k].role)
                return;
    }
    LIST_EACH(&cluster->wire, link)
    {
        const struct parcel *parcel = CONTAINER_OF(link, struct parcel, link);
        for (unsigned i = 0; parcel->entries && i < parcel->message.append_entries.n_entries; i++)
            if (parcel->entries[i].kind == ENTRY_CHANGE) return;
    }
    for (size_t k = 0; k < first.count; k++)
        if (first.at[k].role == MEMBER_VOTER && !swarm->state[first.at[k].id].dead &&
            first.at[k].id != id)
            alive++;
    if (alive <= members_voters(&first) / 2 || alive < 2) return;
    swarm->state[id].dead = true;
    cluster_crash(cluster, id, 0);
    swarm->counts->deaths++;
}

/* -- one millisecond -- */

static void start(struct swarm *swarm, uint64_t id)
{
    struct node *node = cluster_node(swarm->cluster, id);

    cluster_start(swarm->cluster, id);
    node->hold_sync = node->hold_apply = node->hold_install = true;
    swarm->state[id].sync_at = swarm->state[id].install_at = swarm->state[id].apply_at =
        (mono_time){0};
}

/* Starts an event when there is one, and ends it after a drawn time. */
static bool due(struct swarm *swarm, mono_time *at, bool wanted, uint64_t most)
{
    mono_time now = swarm->cluster->now;

    if (!wanted) {
        at->ms = 0;
        return false;
    }
    if (!at->ms) at->ms = now.ms + (swarm->calm ? 0 : prng_below(&swarm->prng, most + 1));
    return at->ms <= now.ms;
}

static void tick_node(struct swarm *swarm, uint64_t id)
{
    struct cluster *cluster = swarm->cluster;
    const struct options *options = &swarm->options;
    struct node *node = cluster_node(cluster, id);
    struct state *state = &swarm->state[id];

    if (!node->used || state->dead) return;
    if (!node->engine) {
        if (swarm->calm || state->start_at.ms <= cluster->now.ms) start(swarm, id);
        return;
    }
    if (node->stopped) return;
    if (!swarm->calm && cluster->now.ms < state->paused_until.ms) return;
    if (node->last > node->durable && node->syncing <= node->durable)
        cluster_sync_begin(cluster, id);
    if (due(swarm, &state->sync_at, node->syncing > node->durable, options->sync_max)) {
        state->sync_at.ms = 0;
        cluster_sync_end(cluster, id);
    }
    if (!node->stopped && due(swarm, &state->install_at, node->installing, options->install_max))
        cluster_finish_install(cluster, id);
    if (!node->stopped && due(swarm, &state->apply_at, node->applied < engine_commit(node->engine),
                              options->apply_max)) {
        state->apply_at.ms = 0;
        cluster_apply(cluster, id);
        node->hold_apply = true;
    }
    if (!node->stopped && engine_due(node->engine).ms <= cluster->now.ms)
        cluster_timeout(cluster, id);
}

static void disturb(struct swarm *swarm)
{
    struct cluster *cluster = swarm->cluster;
    const struct options *options = &swarm->options;
    uint64_t id = prng_between(&swarm->prng, 1, swarm->next_id - 1);
    uint64_t other = prng_between(&swarm->prng, 1, swarm->next_id - 1);

    if (chance(swarm, options->partition)) {
        if (chance(swarm, 300000))
            cluster->cut[id][other] = true;
        else
            cluster_isolate(cluster, id, true);
    }
    if (chance(swarm, options->heal)) memset(cluster->cut, 0, sizeof cluster->cut);
    if (!is_up(swarm, id)) return;
    if (chance(swarm, options->pause))
        swarm->state[id].paused_until.ms =
            cluster->now.ms + prng_below(&swarm->prng, 4 * CLUSTER_ELECTION_MS);
    if (chance(swarm, options->snapshot))
        cluster_snapshot(cluster, id, (uint32_t)prng_below(&swarm->prng, 8));
    if (chance(swarm, options->death))
        die(swarm, id);
    else if (chance(swarm, options->crash)) {
        cluster_crash(cluster, id, prng_below(&swarm->prng, 4));
        swarm->state[id].start_at.ms = cluster->now.ms + prng_below(&swarm->prng, 500);
    }
}

static void lead(struct swarm *swarm)
{
    struct cluster *cluster = swarm->cluster;
    const struct options *options = &swarm->options;

    for (uint64_t id = 1; id < swarm->next_id; id++) { /* all that believe to lead */
        if (!is_up(swarm, id) || engine_role(cluster->nodes[id].engine) != REPLICA_LEADER) continue;
        if (chance(swarm, swarm->calm ? 100000 : options->submit)) {
            char command[32];
            snprintf(command, sizeof command, "%llu", (unsigned long long)cluster->submitted);
            for (uint64_t n = prng_between(&swarm->prng, 1, 4); n > 0; n--)
                cluster_submit(cluster, id, command);
        }
        if (chance(swarm, swarm->calm ? 50000 : options->change)) change_members(swarm, id);
        if (!swarm->calm && chance(swarm, options->transfer))
            cluster_transfer(
                cluster, id,
                chance(swarm, 500000) ? 0 : prng_between(&swarm->prng, 1, swarm->next_id - 1));
    }
}

static bool tick(struct swarm *swarm)
{
    struct cluster *cluster = swarm->cluster;

    if (!swarm->calm) disturb(swarm);
    deliver_due(swarm);
    for (uint64_t id = 1; id < swarm->next_id && !cluster->violation[0]; id++) tick_node(swarm, id);
    if (!cluster->violation[0]) lead(swarm);
    cluster->now.ms++;
    return !cluster->violation[0] && cluster->applied_max + 64 < CLUSTER_INDEX_MAX;
}

/* -- a life -- */

/* Every live member has applied everything up to `index`. */
static bool caught_up(struct swarm *swarm, uint64_t index)
{
    struct members members;
    uint64_t uncommitted, leader = cluster_leader(swarm->cluster);

    if (!leader) return false;
    engine_members(cluster_node(swarm->cluster, leader)->engine, &members, &uncommitted);
    for (size_t i = 0; i < members.count; i++) {
        uint64_t id = members.at[i].id;
        if (!swarm->state[id].dead && cluster_node(swarm->cluster, id)->applied < index)
            return false;
    }
    return true;
}

static bool settled(struct swarm *swarm)
{
    struct members members;
    uint64_t uncommitted, leader = cluster_leader(swarm->cluster);

    if (!leader) return false;
    engine_members(cluster_node(swarm->cluster, leader)->engine, &members, &uncommitted);
    if (uncommitted || members_voters(&members) != swarm->options.target) return false;
    for (size_t i = 0; i < members.count; i++)
        if (swarm->state[members.at[i].id].dead) return false;
    return true;
}

static void heal(struct swarm *swarm)
{
    struct cluster *cluster = swarm->cluster;
    uint64_t index;
    int ms;

    swarm->calm = true;
    memset(cluster->cut, 0, sizeof cluster->cut);
    memset(swarm->arrives, 0, sizeof swarm->arrives);
    for (uint64_t id = 1; id < swarm->next_id; id++) swarm->state[id].paused_until.ms = 0;
    index = cluster->applied_max + 1;
    for (ms = 0; ms < HEAL_MS && !caught_up(swarm, index); ms++)
        if (!tick(swarm)) return;
    if (ms == HEAL_MS) {
        cluster_violate(cluster, cluster_leader(cluster) ? "no progress after healing"
                                                         : "no leader after healing");
        return;
    }
    if (swarm->next_id > CLUSTER_NODES - 6) return; /* no ids left for member changes */
    swarm->options.target = swarm->options.target == 3 ? 5 : 3;
    for (ms = 0; ms < SETTLE_MS && !settled(swarm); ms++)
        if (!tick(swarm)) return;
    if (ms == SETTLE_MS) {
        cluster_violate(cluster, "the members never became %llu",
                        (unsigned long long)swarm->options.target);
        return;
    }
    index = cluster->applied_max + 1;
    for (ms = 0; ms < HEAL_MS && !caught_up(swarm, index); ms++)
        if (!tick(swarm)) return;
    if (ms == HEAL_MS) cluster_violate(cluster, "no progress after the last change");
}

/* Prints the state of all nodes, to examine a seed. */
static void dump(struct swarm *swarm)
{
    for (uint64_t id = 1; id < swarm->next_id; id++) {
        struct node *node = cluster_node(swarm->cluster, id);
        struct members members = {.count = 0};
        uint64_t uncommitted = 0;
        fprintf(stderr,
                "  %llu:%s term %llu vote %llu log %llu..%llu (term %llu) durable %llu applied "
                "%llu snapshot %llu",
                (unsigned long long)id, swarm->state[id].dead ? " dead" : "",
                (unsigned long long)node->term, (unsigned long long)node->vote,
                (unsigned long long)node->first, (unsigned long long)node->last,
                (unsigned long long)(node->last >= node->first
                                         ? node->log[node->last - node->first].term
                                         : node->snapshot.term),
                (unsigned long long)node->durable, (unsigned long long)node->applied,
                (unsigned long long)node->snapshot.index);
        if (node->engine) {
            fprintf(stderr, " role %d commit %llu leader %llu%s", (int)engine_role(node->engine),
                    (unsigned long long)engine_commit(node->engine),
                    (unsigned long long)engine_leader(node->engine),
                    engine_installing(node->engine) ? " installing" : "");
            engine_members(node->engine, &members, &uncommitted);
        }
        for (size_t i = 0; i < members.count; i++)
            fprintf(stderr, "%s%llu%s", i ? "," : " members ", (unsigned long long)members.at[i].id,
                    members.at[i].role == MEMBER_VOTER ? "" : "l");
        fprintf(stderr, " uncommitted %llu\n", (unsigned long long)uncommitted);
    }
}

bool swarm_run(uint64_t seed, struct swarm_counts *counts)
{
    struct swarm swarm = {.counts = counts};
    struct members members;
    bool sound;

    prng_seed(&swarm.prng, seed);
    draw_options(&swarm);
    swarm.cluster = cluster_open(seed);
    swarm.cluster->owner = &swarm;
    swarm.cluster->on_post = on_post;
    members = cluster_members(swarm.options.target, 0);
    for (size_t i = 0; i < members.count; i++)
        address_of(&swarm, members.at[i].id, members.at[i].address, sizeof members.at[i].address);
    for (uint64_t id = 1; id <= members.count; id++) {
        cluster_found(swarm.cluster, id, &members);
        swarm.cluster->nodes[id].hold_sync = true;
        swarm.cluster->nodes[id].hold_apply = true;
        swarm.cluster->nodes[id].hold_install = true;
    }
    swarm.next_id = members.count + 1;
    for (int ms = 0; ms < FAULTY_MS && tick(&swarm); ms++)
        if (ms % 1000 == 999 && chance(&swarm, 500000))
            swarm.options.target = swarm.options.target == 3 ? 5 : 3;
    if (!swarm.cluster->violation[0]) heal(&swarm);
    sound = !swarm.cluster->violation[0];
    if (!sound)
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, swarm.cluster->violation);
    if (!sound && getenv("SWARM_DUMP")) dump(&swarm);
    counts->seeds++;
    counts->commits += swarm.cluster->counts.commits;
    counts->elections += swarm.cluster->counts.elections;
    counts->crashes += swarm.cluster->counts.crashes;
    counts->installs += swarm.cluster->counts.installs;
    counts->truncations += swarm.cluster->counts.truncations;
    counts->transfers += swarm.cluster->counts.transfers;
    cluster_close(swarm.cluster);
    return sound;
}
