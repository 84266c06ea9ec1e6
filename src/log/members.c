/* SPDX-License-Identifier: Apache-2.0 */
/* Rules R1, R2, R2b and R3 of docs/raft-guards.md for membership changes. Stateless: the leader
 * checks the rules before it writes a change. */
#include "log/members.h"

#include <string.h>

#include "io/net.h"

/* A learner has caught up if it lacks at most this many entries. Under load the newest entries
 * are always in transit, and a learner gets only committed entries (guard 16). Safety does not
 * depend on this number, because rule R2b does not count the new voter. */
enum { CATCH_UP_ENTRIES = 4096 };

static size_t find(const struct members *members, uint64_t id)
{
    size_t at = 0;
    while (at < members->count && members->at[at].id != id) at++;
    return at;
}

/* True if the member has every committed entry and responded recently. A dead member keeps its
 * match index. */
static bool is_sound(const struct members_view *view, size_t at)
{
    return view->match[at] >= view->commit &&
           (view->responsive[at] || view->members->at[at].id == view->self);
}

static size_t sound_voters(const struct members_view *view, size_t besides)
{
    size_t count = 0;
    for (size_t i = 0; i < view->members->count; i++) {
        if (i == besides || view->members->at[i].role != MEMBER_VOTER) continue;
        count += is_sound(view, i);
    }
    return count;
}

static bool is_majority(size_t count, size_t of)
{
    return count > of / 2;
}

static enum err about(struct note *note, enum err err, uint64_t id, const char *what)
{
    return note_fail(note, err, "replica %016llx %s", (unsigned long long)id, what);
}

/* First part of rule R2: only one change runs at a time, after this leader has committed an
 * entry of its own term. Otherwise changes of two leaders could both take effect. */
static enum err may_change_now(const struct members_view *view, struct note *note)
{
    if (view->handing_over)
        return note_fail(note, ERR_NOT_READY, "leadership is being handed over");
    if (!view->own_term_committed)
        return note_fail(note, ERR_NOT_READY,
                         "this leader has not committed an entry of its own term yet");
    if (view->uncommitted)
        return note_fail(note, ERR_NOT_READY, "the change at index %llu is not committed yet",
                         (unsigned long long)view->uncommitted);
    return ERR_OK;
}

/* Second part of rule R2: a majority of the remaining voters is sound. `leaving`: a position, or
 * none. */
static enum err may_do_without(const struct members_view *view, size_t leaving, struct note *note)
{
    size_t staying = members_voters(view->members), sound = sound_voters(view, leaving);

    if (leaving < view->members->count && view->members->at[leaving].role == MEMBER_VOTER)
        staying--;
    if (is_majority(sound, staying)) return ERR_OK;
    return note_fail(
        note, ERR_NOT_READY,
        "of the %zu voters that stay, %zu are reachable and hold all that is committed: "
        "no majority",
        staying, sound);
}

enum err members_check_address(struct str address, struct note *note)
{
    struct address_parts parts;
    char text[REPLICA_ADDRESS_MAX + 1];

    if (address.len == 0 || address.len > REPLICA_ADDRESS_MAX || str_has(address, '\0'))
        return note_fail(note, ERR_INVALID, "an address of 1 to %u bytes is needed",
                         (unsigned)REPLICA_ADDRESS_MAX);
    memcpy(text, address.at, address.len);
    text[address.len] = '\0';
    if (address_split(text, &parts, note)) return ERR_INVALID;
    if (!parts.is_unix && (parts.host.len == 0 || parts.port == 0))
        return note_fail(note, ERR_INVALID, "%s: nobody can be reached there", text);
    return ERR_OK;
}

static enum err take_address(struct str address, char ret_text[REPLICA_ADDRESS_MAX + 1],
                             struct note *note)
{
    enum err err = members_check_address(address, note);

    if (err) return err;
    memset(ret_text, 0, REPLICA_ADDRESS_MAX + 1);
    memcpy(ret_text, address.at, address.len);
    return ERR_OK;
}

/* Refuses another member's address, because one of the two members would be unreachable. */
static enum err check_free(const struct members *members, const struct member *wishing,
                           struct note *note)
{
    for (size_t i = 0; i < members->count; i++) {
        const struct member *other = &members->at[i];
        if (other->id == wishing->id || strcmp(other->address, wishing->address) != 0) continue;
        return note_fail(note, ERR_EXISTS, "replica %016llx is a member at %s: remove it first",
                         (unsigned long long)other->id, other->address);
    }
    return ERR_OK;
}

static enum err add(const struct members_view *view, uint64_t id, struct str address,
                    struct members *next, struct note *note)
{
    struct member *member;
    enum err err;

    if (find(next, id) < next->count) return about(note, ERR_EXISTS, id, "is a member");
    if (next->count == REPLICA_MEMBERS_MAX)
        return note_fail(note, ERR_FULL, "there are %u members already",
                         (unsigned)REPLICA_MEMBERS_MAX);
    member = &next->at[next->count];
    *member = (struct member){.id = id, .role = MEMBER_LEARNER};
    err = take_address(address, member->address, note);
    if (!err) err = check_free(next, member, note);
    if (!err) err = may_do_without(view, SIZE_MAX, note);
    if (!err) next->count++;
    return err;
}

static enum err promote(const struct members_view *view, size_t at, struct members *next,
                        struct note *note)
{
    size_t after = members_voters(next) + 1, sound = sound_voters(view, SIZE_MAX);
    enum err err;

    if (next->at[at].role == MEMBER_VOTER)
        return about(note, ERR_EXISTS, next->at[at].id, "is a voter");
    if (after > REPLICA_VOTERS_MAX)
        return note_fail(note, ERR_FULL, "there are %u voters already",
                         (unsigned)REPLICA_VOTERS_MAX);
    err = may_do_without(view, SIZE_MAX, note);
    if (err) return err;
    if (!view->responsive[at])
        return about(note, ERR_NOT_READY, next->at[at].id, "does not answer");
    if (add_sat_u64(view->match[at], CATCH_UP_ENTRIES) < view->commit)
        return note_fail(note, ERR_NOT_READY, "replica %016llx has not caught up: %llu of %llu",
                         (unsigned long long)next->at[at].id, (unsigned long long)view->match[at],
                         (unsigned long long)view->commit);
    /* R2b: the other voters could decide without the new voter. In a cluster of three with a
     * dead member, remove the dead member first. The step from one voter to two cannot satisfy
     * R2b and is allowed. */
    if (after > 2 && !is_majority(sound, after))
        return note_fail(
            note, ERR_NOT_READY,
            "%zu voters are reachable and hold all that is committed, no majority of the %zu "
            "there would be: remove a dead one first",
            sound, after);
    next->at[at].role = MEMBER_VOTER;
    return ERR_OK;
}

static enum err leave(const struct members_view *view, size_t at, struct members *next,
                      struct note *note)
{
    enum err err;

    if (next->at[at].id == view->self) {
        if (members_voters(next) == 1)
            return note_fail(note, ERR_INVALID, "the last voter cannot be removed");
        return note_fail(note, ERR_NOT_LEADER,
                         "a leader is removed by the next one: leadership is handed over first");
    }
    err = may_do_without(view, at, note);
    if (err) return err;
    /* Keeps the order of members, as the engine's progress array does. */
    memmove(&next->at[at], &next->at[at + 1], (next->count - at - 1) * sizeof next->at[0]);
    next->count--;
    return ERR_OK;
}

/* Gives the old address of member `at` to the member that has its new address. One entry has
 * both changes, so two members that swapped addresses never wait for each other. */
static void make_way(const struct members_view *view, size_t at, struct members *next)
{
    for (size_t i = 0; i < next->count; i++)
        if (i != at && strcmp(next->at[i].address, next->at[at].address) == 0)
            memcpy(next->at[i].address, view->members->at[at].address, sizeof next->at[i].address);
}

static enum err move_to(const struct members_view *view, size_t at, struct str address, bool take,
                        struct members *next, struct note *note)
{
    enum err err = take_address(address, next->at[at].address, note);

    if (err) return err;
    if (strcmp(next->at[at].address, view->members->at[at].address) == 0)
        return note_fail(note, ERR_EXISTS, "that is its address");
    if (take) make_way(view, at, next);
    err = check_free(next, &next->at[at], note);
    return err ? err : may_do_without(view, SIZE_MAX, note);
}

enum err members_change(const struct members_view *view, enum member_change_kind kind, uint64_t id,
                        struct str address, struct members *ret_next, struct note *note)
{
    struct members next = *view->members;
    size_t at = find(&next, id);
    enum err err;

    assert(next.count <= REPLICA_MEMBERS_MAX);
    if (id == 0) return note_fail(note, ERR_INVALID, "0 is no replica's identity");
    /* The order matters: ERR_EXISTS and ERR_NOT_FOUND must not refer to a configuration that may be
     * rolled back. */
    err = may_change_now(view, note);
    if (err) return err;
    if (kind != CHANGE_ADD && at == next.count)
        return about(note, ERR_NOT_FOUND, id, "is not a member");
    switch (kind) {
    case CHANGE_ADD: err = add(view, id, address, &next, note); break;
    case CHANGE_PROMOTE: err = promote(view, at, &next, note); break;
    case CHANGE_REMOVE: err = leave(view, at, &next, note); break;
    case CHANGE_ADDRESS: err = move_to(view, at, address, false, &next, note); break;
    case CHANGE_TAKE: err = move_to(view, at, address, true, &next, note); break;
    default: note_set(note, "no such kind of change"); return ERR_INVALID;
    }
    if (err) return err;
    assert(members_voters(&next) >= 1 && members_voters(&next) <= REPLICA_VOTERS_MAX);
    *ret_next = next;
    return ERR_OK;
}

uint64_t members_heir(const struct members_view *view)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < view->members->count; i++) {
        const struct member *member = &view->members->at[i];
        if (member->id == view->self || member->role != MEMBER_VOTER) continue;
        if (!view->responsive[i]) continue;
        if (best == SIZE_MAX || view->match[i] > view->match[best]) best = i;
    }
    return best == SIZE_MAX ? 0 : view->members->at[best].id;
}
