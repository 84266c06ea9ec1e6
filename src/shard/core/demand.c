/* SPDX-License-Identifier: Apache-2.0 */
/* Applies roll-ups, and measures how long each profile waits for a machine. */
#include <stdlib.h>

#include "shard/core/core_internal.h"
#include "shard/state/kinds.h"

static void rollup_reject(struct core *core, struct cluster_client *client, struct str cluster,
                          const char *why)
{
    core->counts.rollups_rejected++;
    if (client) client->rejected++;
    core_log(core, CORE_ERROR, "rollup rejected at ingest validation", "cluster=%.*s error=\"%s\"",
             STR_ARG(cluster), why);
}

void core_rollup_refused(struct core *core, struct str cluster, const char *why,
                         struct effects *out)
{
    core_begin(core, core->now, out);
    rollup_reject(core, client_find(&core->clients, cluster), cluster, why);
}

/* Before the first List nobody knows which machines serve the cluster, so its empty first roll-up
 * waits: the operator repeats it. */
static enum quarantine_verdict rollup_admit(const struct core *core, struct str cluster,
                                            struct quarantine *q, size_t count)
{
    uint32_t serving = inventory_cluster_count(core->inventory, cluster, MACHINE_CONFIGURED);

    if (core->options.rollup_guard && !core_listed(core) && !q->accepted && !count)
        return QUARANTINE_HELD;
    if (core->options.rollup_guard) return quarantine_admit(q, (uint32_t)count, serving, core->now);
    *q = (struct quarantine){.accepted_rows = (uint32_t)count};
    return QUARANTINE_ACCEPTED;
}

enum err core_rollup(struct core *core, struct str cluster, const struct need *rows, size_t count,
                     mono_time now, enum rollup_verdict *ret_verdict, struct effects *out,
                     struct note *note)
{
    struct cluster_client *client = client_find(&core->clients, cluster);
    enum quarantine_verdict verdict;
    struct quarantine before, after;
    struct note own = {{0}};
    enum err err = ERR_OK;

    core_begin(core, now, out);
    assert(count <= NEEDS_ROWS_MOST);
    if (!client) err = client_make(&core->clients, cluster, now, &client);
    if (err) goto rejected;
    client->seen = now;
    before = after = client->quarantine;
    verdict = rollup_admit(core, client->name, &after, count);
    if (verdict == QUARANTINE_HELD) {
        /* A held roll-up counts as a report, unless the old rows are unknown. */
        if (before.accepted_rows) err = needs_mark_reported(core->needs, cluster);
    } else {
        err = needs_replace(core->needs, client->name, rows, count, &own);
        /* If memory runs out, only the waits of profiles are not measured. */
        if (!err) (void)waits_update(core, client);
    }
    if (err) goto rejected;
    client->quarantine = after;
    if (verdict == QUARANTINE_HELD && after.holds)
        core_log(core, CORE_WARN, "rollup quarantined: full-replacement demand drop held",
                 "cluster=%.*s rows=%zu accepted=%u said=%u of=%d", STR_ARG(cluster), count,
                 before.accepted_rows, after.holds, QUARANTINE_CONFIRMATIONS);
    if (verdict == QUARANTINE_CONFIRMED)
        core_log(core, CORE_WARN, "quarantined rollup accepted", "cluster=%.*s rows=%zu was=%u",
                 STR_ARG(cluster), count, before.accepted_rows);
    *ret_verdict = verdict == QUARANTINE_HELD ? ROLLUP_HELD : ROLLUP_APPLIED;
    return ERR_OK;

rejected:
    if (!own.text[0]) note_set(&own, "%s", err_text(err));
    rollup_reject(core, client, cluster, own.text);
    if (note) *note = own;
    return err;
}

/* --- how long profiles wait for a machine --- */

static struct str wait_key(const uint32_t *kind_slot)
{
    return str_of((const char *)kind_slot, sizeof *kind_slot);
}

enum err waits_update(struct core *core, struct cluster_client *client)
{
    const struct demand_cluster *demand = needs_cluster(core->needs, client->name);
    uint32_t rows = demand ? demand->set.row_count : 0;
    uint32_t round = ++client->waits_round;
    struct map_entry *entry;
    size_t cursor = 0;

    for (uint32_t i = 0; i < rows; i++) {
        const struct kind *kind = demand->set.rows[i].kind;
        struct latency_wait *wait = map_make(&client->waits, wait_key(&kind->slot), sizeof *wait);
        if (!wait) return ERR_NOMEM;
        if (!wait->round || wait->kind_birth != kind->birth ||
            (wait->ended && wait->round != round))
            *wait = (struct latency_wait){
                .kind_slot = kind->slot, .kind_birth = kind->birth, .since = core->now};
        wait->round = round;
    }
    while ((entry = map_next(&client->waits, &cursor)))
        if (((const struct latency_wait *)entry->value)->round != round)
            free(map_remove(&client->waits, entry->key));
    return ERR_OK;
}

static void wait_end(struct core *core, struct latency_wait *wait)
{
    if (wait->ended) return;
    wait->ended = true;
    effects_observe(core->out, OBSERVE_PROVISIONING_LATENCY, wait->since, core->now);
}

void waits_over(struct core *core, const struct machine *machine)
{
    struct cluster_client *client = client_find(&core->clients, machine->cluster);
    const struct kind *kind = client && map_count(&client->waits)
                                  ? kind_find(core->needs, machine->stamp.fingerprint)
                                  : NULL;
    struct latency_wait *direct = kind ? map_get(&client->waits, wait_key(&kind->slot)) : NULL;
    struct map_entry *entry;
    size_t cursor = 0;

    if (direct && direct->kind_birth == kind->birth) wait_end(core, direct);
    if (!kind || kind->same) return;
    /* A gang may have been folded into the profile, so its wait ends too. */
    while ((entry = map_next(&client->waits, &cursor))) {
        struct latency_wait *wait = entry->value;
        const struct kind *gang = slot_map_get(&core->needs->kind_slots, wait->kind_slot);
        if (gang && gang->birth == wait->kind_birth && gang->stripped == kind) wait_end(core, wait);
    }
}
