/* SPDX-License-Identifier: Apache-2.0 */
/* The table of clusters. Decide thread. */
#include "shard/core/clients.h"

#include <stdlib.h>

#include "shard/core/running_actions.h"

void clients_init(struct clients *clients, size_t max, uint64_t seed)
{
    map_init(&clients->by_name, max, seed);
}

static void client_free(struct cluster_client *client)
{
    map_free(&client->hints.by_kind);
    map_free(&client->waits);
    map_free(&client->statuses);
    map_free(&client->blob_rests);
    occupancy_free(client->occupancy);
    free(client);
}

void clients_deinit(struct clients *clients)
{
    struct map_entry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&clients->by_name, &cursor))) client_free(entry->value);
    map_deinit(&clients->by_name);
}

struct cluster_client *client_find(const struct clients *clients, struct str name)
{
    return map_get(&clients->by_name, name);
}

enum err client_make(struct clients *clients, struct str name, mono_time now,
                     struct cluster_client **ret_client)
{
    struct cluster_client *client = map_make(&clients->by_name, name, sizeof *client);

    if (!client) return map_count(&clients->by_name) == clients->by_name.max ? ERR_FULL : ERR_NOMEM;
    if (!client->name.at) {
        client->name = str_of((const char *)(client + 1), name.len);
        client->seen = now;
        map_init(&client->hints.by_kind, MAP_MOST, clients->by_name.seed);
        map_init(&client->waits, MAP_MOST, clients->by_name.seed);
        map_init(&client->statuses, MAP_MOST, clients->by_name.seed);
        blob_rests_init(&client->blob_rests, clients->by_name.seed);
    }
    *ret_client = client;
    return ERR_OK;
}

static void client_drop(struct clients *clients, struct cluster_client *client)
{
    map_remove(&clients->by_name, client->name);
    client_free(client);
}

bool core_has_session(const struct core *core, struct str cluster)
{
    const struct cluster_client *client = cluster.len ? client_find(&core->clients, cluster) : NULL;

    return client && client->session;
}

static bool has_machines(const struct core *core, struct str cluster)
{
    for (int state = 1; state < MACHINE_STATE_COUNT; state++)
        if (inventory_cluster_count(core->inventory, cluster, (enum machine_state)state))
            return true;
    return false;
}

void clients_sweep(struct core *core)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (mono_elapsed_ms(core->clients.swept, core->now) < CLIENTS_SWEEP_MS) return;
    /* Views of an older cycle may point to the names, so no cluster is removed yet. */
    if (core->views.cycle + 1 < core->counts.cycles) return;
    core->clients.swept = core->now;
    while ((entry = map_next(&core->clients.by_name, &cursor))) {
        struct cluster_client *client = entry->value;
        blob_rests_sweep(&client->blob_rests, core->now);
        if (client->session || client->quarantine.accepted_rows ||
            has_machines(core, client->name)) {
            client->seen = core->now;
        } else if (mono_elapsed_ms(client->seen, core->now) >= CLIENT_FORGET_MS) {
            needs_forget(core->needs, client->name);
            client_drop(&core->clients, client);
        }
    }
}

/* A new session knows no machine, so it is sent the state of every machine bound to the cluster. */
static enum err resync(struct core *core, struct str cluster)
{
    struct inventory_entry entry;
    struct str *ids;
    size_t count;
    enum err err = inventory_bound(core->inventory, cluster, &core->scratch, &ids, &count);

    for (size_t i = 0; i < count && !err; i++) {
        err = core_get(core, ids[i], &entry);
        if (!err) err = core_send_state(core, cluster, &entry.machine);
    }
    return err;
}

enum err core_session(struct core *core, struct str cluster, enum operator_link link, mono_time now,
                      struct effects *out)
{
    bool open = link != OPERATOR_AWAY;
    size_t before = out->count;
    struct cluster_client *client = client_find(&core->clients, cluster);
    bool known = client != NULL, had = known && client->session;
    enum err err = ERR_OK;

    core_begin(core, now, out);
    if (!open && !known) return ERR_OK;
    if (!known) err = client_make(&core->clients, cluster, now, &client);
    if (err) return err;
    client->seen = now;
    client->session = open;
    if (open) err = resync(core, cluster);
    if (err) { /* undo the event */
        out->count = before;
        client->session = had;
        if (!known) client_drop(&core->clients, client);
        return err;
    }
    hints_forget(client); /* a new session has received no hints and no statuses */
    statuses_forget(client);
    if (open) {
        blob_rests_forget(&client->blob_rests); /* the operator may have another template */
        client->met = true;
        client->reports_drains = link >= OPERATOR_REPORTS_DRAINS;
        client->takes_status = link == OPERATOR_TAKES_STATUS;
    } else if (had) {
        client->left = now;
    }
    drains_session(core, cluster, link);
    core_end(core);
    return ERR_OK;
}

enum err core_clusters(const struct core *core, struct arena *arena,
                       struct cluster_counts **ret_clusters, size_t *ret_count)
{
    size_t count = 0, cursor = 0;
    struct cluster_counts *all =
        arena_alloc(arena, map_count(&core->clients.by_name) * sizeof *all);
    struct map_entry *entry;

    if (!all) return ERR_NOMEM;
    while ((entry = map_next(&core->clients.by_name, &cursor))) {
        const struct cluster_client *client = entry->value;
        struct cluster_counts *counts = &all[count++];
        counts->holds = client->quarantine.holds;
        counts->rejected = client->rejected;
        if (text_copy(arena, client->name, &counts->cluster)) return ERR_NOMEM;
    }
    *ret_clusters = all;
    *ret_count = count;
    return ERR_OK;
}
