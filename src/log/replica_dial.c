/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which replicas to dial, and stores what each replica announced.
 *
 * A replica dials the members of its newest configuration and the replicas that recently sent a
 * hello, because its configuration may lack a member or its leader. If a member's configured and
 * announced addresses differ and there is no connection, both are tried in turn. */
#include "log/replica_internal.h"

#include <string.h>

enum { SILENT_MS = 60000 }; /* how long a replica that is no member is remembered */
static_assert((int)REPLICA_KNOWN_MAX <= (int)PEERS_MAX - (int)REPLICA_MEMBERS_MAX,
              "members and all others that are known can be dialed");

static struct replica_known *find_known(const struct replica *replica, uint64_t id)
{
    const struct replica_dial *dial = &replica->dial;

    for (size_t i = 0; i < dial->known_count; i++)
        if (dial->known[i].id == id) return (struct replica_known *)&dial->known[i];
    return NULL;
}

static const struct member *find_member(const struct replica *replica, uint64_t id)
{
    return members_find(&replica->change.newest, id);
}

/* In a full table a member replaces the longest silent non-member. */
static struct replica_known *add_known(struct replica *replica, uint64_t id)
{
    struct replica_dial *dial = &replica->dial;
    struct replica_known *known = NULL;

    if (dial->known_count < REPLICA_KNOWN_MAX) {
        known = &dial->known[dial->known_count++];
    } else {
        for (size_t i = 0; i < dial->known_count; i++) {
            struct replica_known *other = &dial->known[i];
            if (find_member(replica, other->id)) continue;
            if (!known || other->said_at.ms < known->said_at.ms) known = other;
        }
    }
    if (known) *known = (struct replica_known){.id = id};
    return known;
}

static bool is_elsewhere(const struct replica_known *known, const struct member *member)
{
    return known && member && known->address[0] && strcmp(known->address, member->address) != 0;
}

const char *replica_dial_address(const struct replica *replica, uint64_t id)
{
    const struct member *member = find_member(replica, id);
    const struct replica_known *known = find_known(replica, id);

    if (is_elsewhere(known, member) && known->use_said) return known->address;
    return member ? member->address : known ? known->address : "";
}

uint32_t replica_dial_level(const struct replica *replica, uint64_t id)
{
    const struct replica_known *known = find_known(replica, id);

    return id == replica->id ? replica->speaks : known ? known->level : 0;
}

void replica_dial_hello(void *owner, uint64_t from, uint32_t level, struct str address)
{
    struct replica *replica = owner;
    struct replica_dial *dial = &replica->dial;
    struct replica_known *known = find_known(replica, from);

    if (from == replica->id || replica->stopped) return;
    if (!known) known = add_known(replica, from);
    if (!known) return; /* no room for a non-member */
    known->level = level;
    known->said_at = replica_now(replica);
    replica->change.level_dirty = true;
    replica_wake(replica);
    /* Stores only an address that can be dialed. */
    if (str_equal(str_from(known->address), address) || members_check_address(address, NULL))
        return;
    memcpy(known->address, address.at, address.len);
    known->address[address.len] = '\0';
    dial->due = true;
}

static void dial_all(struct replica *replica)
{
    struct replica_dial *dial = &replica->dial;
    const struct members *members = &replica->change.newest;
    struct peer_where where[PEERS_MAX];
    size_t count = 0;
    enum err err;

    dial->due = false;
    dial->look_at = MONO_NEVER;
    for (size_t i = 0; i < members->count; i++) {
        uint64_t id = members->at[i].id;

        if (id == replica->id) continue;
        where[count++] = (struct peer_where){id, replica_dial_address(replica, id)};
        if (is_elsewhere(find_known(replica, id), &members->at[i]))
            dial->look_at = mono_after(replica_now(replica), 2 * (uint64_t)replica->election_ms);
    }
    for (size_t i = 0; i < dial->known_count; i++) {
        const struct replica_known *known = &dial->known[i];
        if (known->address[0] && !find_member(replica, known->id))
            where[count++] = (struct peer_where){known->id, known->address};
    }
    err = peers_set(replica->peers, where, count);
    if (!err) return;
    LOG_WARN(&replica->log, "could not update the list of replicas: retrying", log_err("err", err));
    dial->due = true;
    dial->look_at = mono_after(replica_now(replica), replica->election_ms);
}

static void try_other_addresses(struct replica *replica)
{
    struct replica_dial *dial = &replica->dial;

    if (!mono_due(dial->look_at, replica_now(replica))) return;
    dial->look_at = mono_after(replica_now(replica), 2 * (uint64_t)replica->election_ms);
    for (size_t i = 0; i < dial->known_count; i++) {
        struct replica_known *known = &dial->known[i];

        if (!is_elsewhere(known, find_member(replica, known->id)) ||
            peers_connected(replica->peers, known->id))
            continue;
        known->use_said = !known->use_said;
        dial->due = true;
    }
}

/* Forgets replicas that are no members and are silent. A removed replica would otherwise be dialed
 * for ever. */
static void sweep(struct replica *replica)
{
    struct replica_dial *dial = &replica->dial;
    mono_time now = replica_now(replica);
    size_t kept = 0;

    if (mono_elapsed_ms(dial->swept_at, now) < SILENT_MS) return;
    dial->swept_at = now;
    for (size_t i = 0; i < dial->known_count; i++) {
        const struct replica_known *known = &dial->known[i];

        if (find_member(replica, known->id) || peers_connected(replica->peers, known->id) ||
            mono_elapsed_ms(known->said_at, now) < SILENT_MS)
            dial->known[kept++] = *known;
    }
    if (kept < dial->known_count) dial->due = true;
    dial->known_count = kept;
}

mono_time replica_dial_due(const struct replica *replica)
{
    return replica->dial.look_at;
}

void replica_dial_pump(struct replica *replica)
{
    sweep(replica);
    try_other_addresses(replica);
    if (replica->dial.due) dial_all(replica);
}

void replica_dial_open(struct replica *replica)
{
    replica->dial.look_at = MONO_NEVER;
    replica->dial.due = true;
}
