/* SPDX-License-Identifier: Apache-2.0 */
/* Applies committed entries to the state machines, in order and in slices. The bulk thread reads
 * back entries that are no longer in memory.
 *
 * A replica stops before an entry that this program cannot decode. The members exchange state
 * hashes at every multiple of hash_every. A replica whose hash differs from a majority of voters
 * stops, because none of its responses can be trusted. */
#include "log/replica_internal.h"

#include <stdlib.h>

/* -- state hashes -- */

/* An empty machine counts like an absent machine, so that releases with and without the machine
 * agree until the machine is used. */
static uint64_t state_hash(const struct replica *replica)
{
    uint64_t parts[REPLICA_MACHINES_MAX + 1] = {meta_hash(&replica->meta)};

    for (uint32_t id = 1; id <= REPLICA_MACHINES_MAX; id++) {
        const struct state_machine *machine = &replica->machines[id];
        if (machine->ops) parts[id] = machine->ops->hash(machine->state) ^ replica->empty_hash[id];
    }
    return str_hash(str_of(parts, sizeof parts), 0);
}

static struct replica_hash *hash_slot(struct replica *replica, uint64_t index)
{
    uint64_t turn = index / replica->limits.hash_every;
    struct replica_hash *slot = &replica->apply.hashes[turn % REPLICA_HASHES_KEPT];

    if (index == 0 || index % replica->limits.hash_every != 0 || slot->index > index) return NULL;
    if (slot->index < index) *slot = (struct replica_hash){.index = index};
    return slot;
}

static void judge_hash(struct replica *replica, const struct replica_hash *slot)
{
    const struct members *members = &replica->change.newest;
    size_t against = 0;
    struct note note = {""};

    if (!slot->own_known) return;
    for (size_t i = 0; i < slot->count; i++) {
        size_t same = 0;

        if (slot->said[i].hash == slot->own) continue;
        for (size_t k = 0; k < slot->count; k++) {
            const struct member *member = members_find(members, slot->said[k].id);
            if (slot->said[k].hash == slot->said[i].hash && member && member->role == MEMBER_VOTER)
                same++;
        }
        if (same > against) against = same;
    }
    if (against < members_voters(members) / 2 + 1) return;
    note_set(&note, "state after entry %llu has hash %016llx, a majority of voters has another",
             (unsigned long long)slot->index, (unsigned long long)slot->own);
    replica_fail(replica, ERR_CORRUPT, &note);
}

void replica_apply_hash(struct replica *replica, uint64_t from, const struct frame_hash *hash)
{
    struct replica_hash *slot = hash_slot(replica, hash->index);

    if (!slot) return;
    for (size_t i = 0; i < slot->count; i++)
        if (slot->said[i].id == from) return; /* a restarted replica's second hash */
    if (slot->count == REPLICA_MEMBERS_MAX) return;
    slot->said[slot->count].id = from;
    slot->said[slot->count].hash = hash->hash;
    slot->count++;
    judge_hash(replica, slot);
}

static void compare_state(struct replica *replica, uint64_t index, uint64_t term)
{
    struct replica_hash *slot = hash_slot(replica, index);
    struct peer_frame frame = {.kind = FRAME_HASH};

    if (!slot) return;
    slot->own = state_hash(replica);
    slot->own_known = true;
    frame.u.hash = (struct frame_hash){.index = index, .term = term, .hash = slot->own};
    replica_send_all(replica, &frame, false);
    judge_hash(replica, slot);
}

/* -- applying -- */

static enum err check_command(const struct replica *replica, const struct log_envelope *envelope,
                              struct note *note)
{
    if (envelope->level > replica->speaks)
        return note_fail(note, ERR_VERSION,
                         "it was written at cluster level %u, this program speaks %u",
                         envelope->level, replica->speaks);
    if (envelope->machine == ENVELOPE_MACHINE_META) return ERR_OK;
    if (envelope->machine > REPLICA_MACHINES_MAX || !replica->machines[envelope->machine].ops)
        return note_fail(note, ERR_VERSION,
                         "it is for machine %u, which this program does not have",
                         envelope->machine);
    if (envelope->version > replica->machines[envelope->machine].version)
        return note_fail(note, ERR_VERSION,
                         "it is a command of version %u for machine %s, which knows %u",
                         envelope->version, replica->machines[envelope->machine].name,
                         replica->machines[envelope->machine].version);
    return ERR_OK;
}

/* META_RECOVER comes from force-config. */
static void replica_apply_recover(struct replica *replica, uint64_t index, struct str command)
{
    struct machine_recovery recovery;

    if (!meta_recovery(command, &recovery)) return;
    recovery.index = index;
    recovery.clock_ns = replica->meta.clock_ns;
    for (uint32_t id = 1; id <= REPLICA_MACHINES_MAX; id++) {
        const struct state_machine *machine = &replica->machines[id];
        if (machine->ops && machine->ops->recover) machine->ops->recover(machine->state, &recovery);
    }
    LOG_INFO(&replica->log, "applied the recovery entry of force-config", log_u64("index", index),
             log_u64("floor", recovery.floor));
}

/* Stops at a cluster level that this program does not understand, not at the level's first
 * entry. Otherwise the replica could lead and write such entries. */
static enum err apply_meta(struct replica *replica, uint64_t index,
                           const struct log_envelope *envelope, struct note *note)
{
    uint32_t before = replica->meta.level;
    enum err err = meta_apply(&replica->meta, envelope->command, note);

    if (!err && replica->meta.level != before) replica_changed(replica);
    if (!err && replica->meta.level <= replica->speaks)
        replica_apply_recover(replica, index, envelope->command);
    if (err || replica->meta.level <= replica->speaks) return err;
    return note_fail(note, ERR_VERSION, "it raises the cluster to level %u, this program speaks %u",
                     replica->meta.level, replica->speaks);
}

static enum err apply_command(struct replica *replica, const struct entry *entry, struct note *note)
{
    struct log_envelope envelope;
    const struct state_machine *machine;
    enum err err = envelope_parse(entry->bytes, &envelope, note);

    if (!err) err = check_command(replica, &envelope, note);
    if (err) return err;
    meta_advance(&replica->meta, &envelope);
    if (envelope.machine == ENVELOPE_MACHINE_META)
        return apply_meta(replica, entry->index, &envelope, note);
    machine = &replica->machines[envelope.machine];
    err = machine->ops->apply(machine->state,
                              &(struct machine_entry){
                                  .index = entry->index,
                                  .term = entry->term,
                                  .clock_ns = replica->meta.clock_ns,
                                  .version = envelope.version,
                                  .level = replica->meta.level,
                                  .actor = envelope.actor,
                                  .request_id = envelope.request_id,
                                  .command = envelope.command,
                              },
                              &replica->apply.reply, note);
    if (err)
        note_prefix(note, "machine %s", machine->name);
    else if (machine->ops->apply_more &&
             machine->ops->apply_more(machine->state, &replica->apply.reply))
        replica->apply.part = machine;
    return err;
}

static void entry_applied(struct replica *replica, uint64_t index, uint64_t term, bool is_change)
{
    replica->applied = index;
    replica->applied_term = term;
    if (replica->stopped) return;
    if (index % replica->limits.hash_every == 0) compare_state(replica, index, term);
    if (replica->stopped) return; /* the state cannot be trusted */
    /* Called last, so that a done() sees the replica's state after this entry. */
    if (is_change) replica_change_applied(replica, index, term);
    replica_propose_applied(replica, index, term, buf_peek(&replica->apply.reply));
}

/* False: the entry also needs the next turn. */
static bool part_applied(struct replica *replica)
{
    struct replica_apply_state *apply = &replica->apply;

    if (apply->part->ops->apply_more(apply->part->state, &apply->reply)) return false;
    apply->part = NULL;
    entry_applied(replica, replica->applied + 1, apply->part_term, false);
    return true;
}

static void apply_entry(struct replica *replica, const struct entry *entry)
{
    struct replica_apply_state *apply = &replica->apply;
    struct note note = {""};
    enum err err = ERR_OK;

    assert(entry->index == replica->applied + 1);
    buf_clear(&apply->reply);
    if (entry->kind == ENTRY_COMMAND) err = apply_command(replica, entry, &note);
    if (err) {
        note_prefix(&note, "entry %llu of term %llu cannot be applied",
                    (unsigned long long)entry->index, (unsigned long long)entry->term);
        replica_fail(replica, err == ERR_PARSE ? ERR_CORRUPT : err, &note);
        return;
    }
    apply->part_term = entry->term;
    if (apply->part) return;
    if (entry->kind == ENTRY_CHANGE) {
        struct engine_effects effects = {0};
        replica->applied = entry->index;
        replica->applied_term = entry->term;
        err = engine_configuration(replica->engine, replica_now(replica), entry->index,
                                   entry->bytes, &effects);
        replica_effects(replica, err, &effects);
    }
    entry_applied(replica, entry->index, entry->term, entry->kind == ENTRY_CHANGE);
}

/* -- entries that are not in memory -- */

static void replica_apply_old_done(struct replica_job *job)
{
    struct replica_old *old = CONTAINER_OF(job, struct replica_old, job);
    struct replica *replica = job->replica;

    /* Only a snapshot install may remove unapplied entries. Otherwise a segment is missing. */
    if (job->err == ERR_NOT_FOUND && !engine_installing(replica->engine) &&
        replica->applied + 1 == old->first)
        job->err = ERR_CORRUPT;
    if (job->err == ERR_CORRUPT || job->err == ERR_IO) {
        note_prefix(&job->note, "read the log back");
        replica_fail(replica, job->err, &job->note);
        return;
    }
    /* Temporary errors: a snapshot released the segment, or memory is short. */
    if (job->err) {
        old->count = 0;
        replica_again(replica);
    }
    replica_wake(replica);
}

/* First entry that is not applied. False: it is being read from disk. */
static bool next_entry(struct replica *replica, struct entry *ret_entry)
{
    struct replica_old *old = &replica->apply.old;
    const struct entry *read;
    uint64_t index = replica->applied + 1;
    struct note note = {""};
    struct wal_place place;

    if (old->job.busy) return false;
    if (!entries_get(replica->entries, index, ret_entry, &place)) {
        note_set(&note, "entry %llu is committed and not here", (unsigned long long)index);
        replica_fail(replica, ERR_INTERNAL, &note);
        return false;
    }
    if (ret_entry->bytes.at) return true;
    read = replica_old_entry(old, index);
    if (read && read->index == index && read->term == ret_entry->term) {
        *ret_entry = *read;
        return true;
    }
    if (!replica_old_read(old, index, engine_commit(replica->engine))) replica_again(replica);
    return false;
}

/* Sums the machines' work, because a short entry can be expensive: it may end or free much. */
static uint64_t work_of(const struct replica *replica)
{
    uint64_t work = 0;

    for (uint32_t id = 1; id <= REPLICA_MACHINES_MAX; id++) {
        const struct state_machine *machine = &replica->machines[id];
        if (machine->ops && machine->ops->work) work += machine->ops->work(machine->state);
    }
    return work;
}

void replica_apply_pump(struct replica *replica)
{
    size_t entries = 0, bytes = 0;
    uint64_t work = work_of(replica);

    if (replica->apply.sliced) return;
    /* Guard 10: during an install the commit index may cover entries that the engine never
     * returned. */
    while (replica_may_step(replica) && !engine_installing(replica->engine) &&
           replica->applied < engine_commit(replica->engine)) {
        struct entry entry;

        if (entries >= REPLICA_APPLY_ENTRIES || bytes >= REPLICA_APPLY_BYTES ||
            work_of(replica) - work >= REPLICA_APPLY_WORK) {
            replica->apply.sliced = true;
            replica_again(replica);
            break;
        }
        if (replica->apply.part) {
            entries += part_applied(replica);
            continue;
        }
        if (!next_entry(replica, &entry)) break;
        entries++;
        bytes += entry.bytes.len;
        apply_entry(replica, &entry);
    }
    if (entries == 0 || replica->stopped) return;
    entries_trim(replica->entries, min_u64(replica->disk.durable, replica->applied));
    replica_wake(replica); /* runs the pump's parts before apply again */
}

void replica_apply_jump(struct replica *replica, uint64_t index, uint64_t term)
{
    assert(index >= replica->applied);
    replica->apply.part = NULL; /* the snapshot replaced the machine's state */
    replica->applied = index;
    replica->applied_term = term;
    replica_propose_skipped(replica, index);
    replica_change_skipped(replica, index);
    replica_changed(replica);
}

/* -- life cycle -- */

enum err replica_apply_open(struct replica *replica)
{
    struct replica_apply_state *apply = &replica->apply;

    buf_init(&apply->reply, REPLICA_REPLY_MAX);
    return replica_old_open(&apply->old, replica, replica_apply_old_done);
}

void replica_apply_close(struct replica *replica)
{
    struct replica_apply_state *apply = &replica->apply;

    buf_deinit(&apply->reply);
    replica_old_close(&apply->old);
}
