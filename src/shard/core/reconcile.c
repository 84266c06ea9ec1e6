/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts the provider's records: a List record by record, and single machines (Get). Most records
 * match the known state and cost one lookup. Other records:
 *
 *   1. A record of a machine with a pending action is ignored, because it may be older than the
 *      answer of the action's call. Exception: a drain that waits for its operator has made no call
 *      yet, so it ends when the provider reports that the machine is not Configured any more.
 *   2. An invalid record is refused and counted. The old record stays.
 *   3. A record must not make a machine available during its back-off, or while an unanswered call
 *      may still be executed.
 *   4. A known machine takes the fields that the provider owns. The machine keeps the shard's
 *      fields while its cluster is the same. A change of state that this shard did not order is
 *      accepted and logged.
 *   5. An unknown machine in the shard's domains is inserted with the data from its metadata.
 *
 * Machines missing from a full List are removed. If suspiciously many are missing, three complete
 * Lists in a row must lack them, because a provider that lost its table must not remove the
 * fleet. */
#include <stdio.h>

#include "model/metadata.h"
#include "shard/core/running_actions.h"

enum {
    REMOVALS_MIN = 10,         /* fewer removals are never suspicious */
    REMOVAL_CONFIRMATIONS = 3, /* Lists in a row that must lack the machines */
    LIST_LINES_MOST = 20,      /* refused records with their own log line, per List */
    SPOILT_MOST = 6,           /* at most 2^6 Lists between two full Lists with refused records */
};

void core_list_begin(struct core *core, enum list_kind kind)
{
    struct listing *l = &core->listing;

    arena_reset(&core->scratch);
    l->number = inventory_list_begin(core->inventory, kind == LIST_FULL);
    l->kind = kind;
    l->failed = false;
    l->settles = core->running->settle_due;
    l->records = l->refused = l->surprises = l->nameless = l->untaken = 0;
    if (kind == LIST_FULL) { /* first, because new domains during this List set the flag */
        l->owed = l->owed || core->full_list_wanted;
        core->full_list_wanted = false;
    }
    running_list_begin(core, kind);
}

bool core_listed(const struct core *core)
{
    return core->listing.listed;
}

static bool is_bare(const struct core *core)
{
    return inventory_counts(core->inventory).machines == 0;
}

/* True before the first complete List, and while machines appear after an empty List. A decision
 * that knows only some machines would buy the other machines again. */
bool reconcile_is_blind(const struct core *core)
{
    return !core->listing.listed || (core->listing.empty && !is_bare(core));
}

bool core_wants_full_list(const struct core *core)
{
    return core->full_list_wanted;
}

/* --- refusals --- */

static void record_refuse(struct core *core, struct str id, enum machine_fault fault,
                          const char *why)
{
    core->counts.machines_rejected[fault]++;
    if (core->listing.refused++ < LIST_LINES_MOST)
        core_log(core, CORE_WARN, "provider machine rejected at ingest",
                 "machine=%.*s reason=%s error=\"%s\"", STR_ARG(id), machine_fault_name(fault),
                 why);
}

void core_list_refused(struct core *core, struct str id, const char *why, struct effects *out)
{
    struct machine named = {.id = id};

    core_begin(core, core->now, out);
    core->listing.records++;
    core->listing.untaken++;
    if (id.len && id.len <= ID_MAX)
        (void)inventory_list_record(core->inventory, &named); /* invalid, but the machine exists */
    else
        core->listing.nameless++;
    record_refuse(core, id.len <= ID_MAX ? id : STR_EMPTY, MACHINE_FAULT_STRUCTURAL, why);
}

static bool record_is_sound(struct core *core, const struct machine *machine)
{
    enum machine_fault fault;
    struct note note;

    if (!machine_check(machine, &fault, &note)) return true;
    core->listing.untaken++;
    record_refuse(core, machine->id.len <= ID_MAX ? machine->id : STR_EMPTY, fault, note.text);
    return false;
}

/* --- one record --- */

/* Restores from its metadata the Need for which the machine was bought. Invalid entries are
 * ignored. */
static void record_restore(struct core *core, struct machine *machine, const struct label *metadata,
                           size_t count)
{
    struct machine_metadata ours = {0};
    struct note note;

    if (metadata_decode(metadata, count, &ours, &note) && core->listing.refused++ < LIST_LINES_MOST)
        core_log(core, CORE_WARN, "shard_metadata decode failed at ingest",
                 "machine=%.*s error=\"%s\"", STR_ARG(machine->id), note.text);
    machine->stamp = ours.stamp;
    machine->destination = ours.destination;
    machine->promised = ours.promised;
}

/* Counts and logs a change of state that this shard did not order. */
static void record_surprise(struct core *core, const struct machine *is, enum machine_state was,
                            enum machine_edge edge, const char *cluster_was)
{
    /* A machine leaves a stable state only by an order, and this shard gave no order. */
    bool foreign = edge == EDGE_FOREIGN || (edge == EDGE_DRIVEN && machine_state_stable(was));
    char from[MACHINE_NAME_CAP], to[MACHINE_NAME_CAP];

    if (!foreign && edge != EDGE_OBSERVED) return;
    if (foreign)
        core->counts.foreign_edges++;
    else
        core->counts.observed_edges++;
    if (core->listing.surprises++ >= LIST_LINES_MOST) return;
    core_log(core, CORE_WARN,
             foreign ? "another program acts on a machine of this shard"
                     : "provider reports a change that this shard did not order",
             "machine=%.*s from=%s to=%s cluster_was=%s cluster=%.*s error=\"%.*s\"",
             STR_ARG(is->id), machine_state_name(was, from), machine_state_name(is->state, to),
             cluster_was, STR_ARG(is->cluster), (int)min_size(is->last_error.len, 200),
             is->last_error.at);
}

struct record {
    const struct machine *machine;
    const struct label *metadata;
    size_t metadata_count;
    bool got; /* the answer of a Get, which may end a back-off */
};

/* True if a decision could use the machine. */
static bool reconcile_is_free(enum machine_state state)
{
    return state == MACHINE_IDLE || state == MACHINE_SPECULATIVE;
}

/* Sets the fields that the shard owns. True if the machine's cluster changed. */
static bool record_bind(struct core *core, const struct record *record, const struct machine *was,
                        struct machine *to)
{
    bool rebound, kept;

    /* Some providers do not report the cluster during a Configure. */
    if (to->state == MACHINE_CONFIGURING && was->state == MACHINE_CONFIGURING && !to->cluster.len)
        to->cluster = was->cluster;
    rebound = to->cluster.len && !str_equal(to->cluster, was->cluster);
    kept = machine_state_keeps_stamp(was->state) && !rebound;
    if (machine_state_keeps_stamp(to->state) && !kept) {
        /* An unanswered call or another process bound the machine. The metadata names the Need. */
        record_restore(core, to, record->metadata, record->metadata_count);
    } else {
        to->stamp = was->stamp;
        to->destination = was->destination;
        to->promised = was->promised;
    }
    /* An asynchronous Create is done: keep the machine for its Need (decision.md § 2). */
    if (was->state == MACHINE_CREATING && to->state == MACHINE_IDLE)
        to->promised = (struct machine_promise){.cluster = was->destination,
                                                .fingerprint = was->stamp.fingerprint,
                                                .group = was->stamp.group,
                                                .priority = was->stamp.priority};
    return rebound && was->cluster.len;
}

static enum err record_known(struct core *core, const struct record *record)
{
    struct machine to = *record->machine;
    struct inventory_entry was;
    enum machine_edge edge;
    char cluster_was[ID_MAX + 1];
    struct note note;
    bool rebound;
    enum err err = core_get(core, to.id, &was);

    if (err) return err;
    if (!record->got && was.machine.state == MACHINE_FAILED && reconcile_is_free(to.state) &&
        core_rests(core, to.id))
        return ERR_OK;
    if (!record->got && running_call_may_run(core, to.id, to.state)) return ERR_OK;
    rebound = record_bind(core, record, &was.machine, &to);
    if (!record_is_sound(core, &to)) return ERR_OK; /* metadata may be invalid too */
    (void)snprintf(cluster_was, sizeof cluster_was, "%.*s", STR_ARG(was.machine.cluster));
    err = core_move(core, &to, INVENTORY_OBSERVED, &edge, &note);
    if (err) return err;
    if (rebound && edge == EDGE_REFUSED) edge = EDGE_FOREIGN; /* the state did not change */
    if (edge != EDGE_REFUSED) record_surprise(core, &to, was.machine.state, edge, cluster_was);
    return ERR_OK;
}

static enum err record_unknown(struct core *core, const struct record *record)
{
    struct machine to = *record->machine;

    if (!scope_has(core, &to.attributes)) return ERR_OK;
    record_restore(core, &to, record->metadata, record->metadata_count);
    if (!record_is_sound(core, &to)) return ERR_OK;
    return core_admit(core, &to, NULL);
}

/* Returns a record. An Idle or Deleting machine serves no cluster, so its record is copied to
 * `room` without the cluster that the provider reported. */
static struct record record_of(const struct machine *said, const struct label *metadata,
                               size_t metadata_count, bool got, struct machine *room)
{
    if (said->cluster.len && (said->state == MACHINE_IDLE || said->state == MACHINE_DELETING)) {
        *room = *said;
        room->cluster = STR_EMPTY;
        said = room;
    }
    return (struct record){said, metadata, metadata_count, got};
}

/* True if the record is accepted although the machine is pending. */
static bool record_overtakes(struct core *core, const struct record *record)
{
    enum machine_fault fault;
    struct note note;

    return running_waits_for_operator(core, record->machine->id) &&
           !machine_check(record->machine, &fault, &note) &&
           running_overtaken(core, record->machine->id, record->machine);
}

enum err core_list_machine(struct core *core, const struct machine *machine,
                           const struct label *metadata, size_t metadata_count, mono_time now,
                           struct effects *out)
{
    struct machine unbound;
    struct record record = record_of(machine, metadata, metadata_count, false, &unbound);
    enum listed_as sight;
    enum err err;

    core_begin(core, now, out);
    core->listing.records++;
    if (core->listing.kind == LIST_DELTA) running_listed(core, machine->id, machine->state);
    sight = inventory_list_record(core->inventory, record.machine);
    if (sight == LISTED_SAME) return ERR_OK;
    if (sight == LISTED_AGAIN) {
        core->counts.duplicate_records++;
        record_refuse(core, machine->id, MACHINE_FAULT_STRUCTURAL, "this List named it before");
        return ERR_OK;
    }
    if (core_is_pending(core, machine->id) && !record_overtakes(core, &record)) {
        running_listed(core, machine->id, machine->state);
        return ERR_OK;
    }
    if (sight != LISTED_NEW && !record_is_sound(core, record.machine)) return ERR_OK;
    err = sight == LISTED_NEW ? record_unknown(core, &record) : record_known(core, &record);
    if (!err && sight == LISTED_NEW) (void)inventory_list_record(core->inventory, record.machine);
    if (err) core->listing.failed = true;
    return err;
}

enum err reconcile_got(struct core *core, const struct call_answer *answer)
{
    struct machine unbound;
    struct record record =
        record_of(answer->machine, answer->metadata, answer->metadata_count, true, &unbound);
    struct inventory_entry was;
    enum err err;

    if (!record_is_sound(core, record.machine)) return ERR_INVALID;
    err = core_get(core, record.machine->id, &was);
    if (err == ERR_NOT_FOUND) return record_unknown(core, &record);
    return err ? err : record_known(core, &record);
}

/* --- removed machines --- */

void reconcile_gone(struct core *core, struct str machine)
{
    (void)core_drop(core, machine, "gone: the provider does not know it any more");
}

void core_list_gone(struct core *core, struct str id, mono_time now, struct effects *out)
{
    core_begin(core, now, out);
    core->listing.records++;
    if (core_is_pending(core, id) && !running_overtaken(core, id, NULL)) {
        core->full_list_wanted = true; /* only a full List shows the removal again */
        return;
    }
    reconcile_gone(core, id);
}

/* Returns the machines that no List since number `since` contained, without pending machines. */
static enum err machines_missing(struct core *core, uint32_t since, struct str **ret_ids,
                                 size_t *ret_count)
{
    struct str *ids;
    size_t count, kept = 0;
    enum err err = inventory_unseen(core->inventory, since, &core->scratch, &ids, &count);

    if (err) return err;
    for (size_t i = 0; i < count; i++)
        if (!core_is_pending(core, ids[i]) || running_waits_for_operator(core, ids[i]))
            ids[kept++] = ids[i];
        else
            core->full_list_wanted = true; /* only a full List shows missing machines */
    *ret_ids = ids;
    *ret_count = kept;
    return ERR_OK;
}

static bool removal_is_suspicious(const struct core *core, size_t count)
{
    uint32_t machines = inventory_counts(core->inventory).machines;

    if (!count) return false;
    if (!core->listing.records) return true;
    return count >= REMOVALS_MIN && (double)count > core->options.removal_fraction * machines;
}

static void machines_remove(struct core *core, const struct str *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i < LIST_LINES_MOST)
            core_log(core, CORE_INFO, "machine gone from the provider's List", "machine=%.*s",
                     STR_ARG(ids[i]));
        (void)running_overtaken(core, ids[i], NULL);
        if (core_drop(core, ids[i], "gone: the provider does not list it any more")) {
            core_log(core, CORE_WARN, "inventory remove failed", "left=%zu", count - i);
            return; /* the next List finds these machines again */
        }
    }
    if (count > LIST_LINES_MOST)
        core_log(core, CORE_INFO, "machines gone from the provider's List", "count=%zu", count);
}

/* Counts machines that no List since number `since` contained, including pending machines. Returns
 * `unknown` if memory runs out. */
static size_t list_left_out(struct core *core, uint32_t since, size_t unknown)
{
    struct str *ids;
    size_t count = 0;

    if (inventory_unseen(core->inventory, since, &core->scratch, &ids, &count)) return unknown;
    return count;
}

/* An incomplete List proves nothing about missing machines. But if it contains a machine that held
 * Lists lacked, those Lists were wrong, and their count restarts. */
static void list_cut(struct core *core)
{
    struct listing *l = &core->listing;

    if (l->holds && list_left_out(core, l->first_held, 0) < l->left_out) l->holds = 0;
}

static void list_remove_missing(struct core *core)
{
    struct listing *l = &core->listing;
    struct str *ids = NULL;
    size_t count = 0, left_out;

    if (l->nameless) {
        core_log(core, CORE_WARN, "provider List contains machines that cannot be decoded",
                 "records=%u: nothing is removed", l->nameless);
        return;
    }
    if (inventory_unseen_count(core->inventory) &&
        machines_missing(core, l->number, &ids, &count)) {
        core_log(core, CORE_WARN, "inventory remove failed", "out of memory");
        core->full_list_wanted = true;
        return;
    }
    if (!removal_is_suspicious(core, count)) {
        l->holds = 0;
        machines_remove(core, ids, count);
        return;
    }
    if (l->holds++ == 0) l->first_held = l->number;
    if (l->holds < REMOVAL_CONFIRMATIONS) {
        l->left_out = list_left_out(core, l->first_held, SIZE_MAX);
        core->counts.lists_held++;
        core->full_list_wanted = true; /* only a full List confirms missing machines */
        core_log(core, CORE_WARN, "provider List held back: too many machines are missing from it",
                 "missing=%zu machines=%u records=%u said=%u of=%d", count,
                 inventory_counts(core->inventory).machines, l->records, l->holds,
                 REMOVAL_CONFIRMATIONS);
        return;
    }
    l->holds = 0;
    left_out = count;
    if (machines_missing(core, l->first_held, &ids, &count)) {
        core->full_list_wanted = true;
        return;
    }
    if (count < left_out) core->full_list_wanted = true; /* a delta shows no missing machines */
    core_log(core, CORE_WARN, "held provider List accepted", "missing=%zu in every one of %d",
             count, REMOVAL_CONFIRMATIONS);
    machines_remove(core, ids, count);
}

/* Requests a full List after refused records, which may be valid next time. The requests become
 * rare while full Lists still contain refused records. */
static void list_ask_again(struct core *core)
{
    struct listing *l = &core->listing;

    if (l->kind == LIST_FULL) {
        l->full_in = 0;
        if (!l->untaken)
            l->spoilt = 0;
        else if (l->spoilt <= SPOILT_MOST)
            l->spoilt++;
    }
    if (l->untaken && !l->full_in) l->full_in = l->spoilt ? 1u << (l->spoilt - 1) : 1;
    if (l->full_in && --l->full_in == 0) core->full_list_wanted = true;
}

void core_list_end(struct core *core, bool whole, mono_time now, struct effects *out)
{
    struct listing *l = &core->listing;

    core_begin(core, now, out);
    if (l->refused > LIST_LINES_MOST)
        core_log(core, CORE_WARN, "provider machines rejected at ingest", "count=%u", l->refused);
    if (l->surprises > LIST_LINES_MOST)
        core_log(core, CORE_WARN, "provider reports changes that this shard did not order",
                 "count=%u", l->surprises);
    inventory_list_end(core->inventory, whole && !l->failed);
    if (whole && !l->failed) {
        if (l->kind == LIST_FULL) list_remove_missing(core);
        if (l->kind == LIST_FULL) l->owed = false;
        if (l->kind == LIST_FULL) l->empty = !l->records && is_bare(core);
        /* The provider may not have loaded its table yet, and deltas would not show the table's
         * machines. */
        if (l->empty) core->full_list_wanted = true;
        list_ask_again(core);
        if (!l->holds) l->listed = true; /* a held List is not trusted */
        if (!l->holds && l->settles) core->running->settled = true;
    } else {
        if (l->kind == LIST_FULL) list_cut(core);
        if (l->owed) core->full_list_wanted = true; /* the full List is still wanted */
    }
    running_list_end(core);
    core_end(core);
}
