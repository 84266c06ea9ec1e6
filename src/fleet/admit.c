/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of admission. Pure: each function decides or leaves the decision to the next one. */
#include "fleet/admit.h"

#include <inttypes.h>
#include <string.h>

static const struct replica_member *find_member(const struct admit_view *view, uint64_t id)
{
    for (size_t i = 0; i < view->member_count; i++)
        if (view->members[i].id == id) return &view->members[i];
    return NULL;
}

static const struct replica_member *at_address(const struct admit_view *view, const char *address,
                                               uint64_t but)
{
    for (size_t i = 0; i < view->member_count; i++)
        if (view->members[i].id != but && strcmp(view->members[i].address, address) == 0)
            return &view->members[i];
    return NULL;
}

/* How long a member has been silent since this leader's election. */
static uint64_t member_silence(const struct admit_view *view, const struct replica_member *member)
{
    return member->self ? 0 : min_u64(member->silent_ms, view->leading_ms);
}

static bool member_is_dead(const struct admit_view *view, const struct replica_member *member)
{
    return member_silence(view, member) >= ADMIT_SILENT_MS;
}

static bool is_older(const struct roster_entry *entry, const struct admit_request *request)
{
    return entry->id != request->entry.id && strcmp(entry->name, request->entry.name) == 0;
}

static const struct roster_entry *next_older(const struct admit_view *view,
                                             const struct admit_request *request, size_t *cursor)
{
    const struct roster_entry *entries;
    size_t count = roster_entries(view->roster, &entries);

    while (*cursor < count) {
        const struct roster_entry *entry = &entries[(*cursor)++];
        if (is_older(entry, request)) return entry;
    }
    return NULL;
}

static struct admit_step step_change(enum member_change_kind change, uint64_t id)
{
    return (struct admit_step){.kind = ADMIT_CHANGE, .change = change, .id = id};
}

static struct admit_step admit_refuse(enum err err, const char *why)
{
    struct admit_step step = {.kind = ADMIT_REFUSE, .err = err};
    note_set(&step.note, "%s", why);
    return step;
}

/* -- the rules, in the order of their evaluation -- */

/* True: *step refuses the request. */
static bool request_is_wrong(const struct admit_view *view, const struct admit_request *request,
                             struct admit_step *step)
{
    if (!roster_entry_valid(&request->entry)) {
        *step =
            admit_refuse(ERR_INVALID, "an identity, a node name of 1 to 63 visible characters and "
                                      "addresses of at most 255 are needed");
        return true;
    }
    if (!request->raft[0]) {
        *step = admit_refuse(ERR_INVALID, "a Raft address is needed");
        return true;
    }
    if (request->cluster_id == 0 || request->cluster_id == view->cluster_id) return false;
    *step = admit_refuse(ERR_PRECONDITION, "");
    note_set(&step->note,
             "its data directory belongs to cluster %016" PRIx64 ", this is %016" PRIx64
             "; if this cluster was restored or forced since, or is to take the replica in: stop "
             "the replica, run `muster coordinator rejoin DIR --yes`, start it; its old data are "
             "put aside",
             request->cluster_id, view->cluster_id);
    return true;
}

/* True if another replica of this name still responds. One of the two is a mistake. */
static bool name_is_held(const struct admit_view *view, const struct admit_request *request,
                         struct admit_step *step)
{
    const struct roster_entry *older;

    for (size_t cursor = 0; (older = next_older(view, request, &cursor));) {
        const struct replica_member *member = find_member(view, older->id);
        if (!member || member_is_dead(view, member)) continue;
        *step = (struct admit_step){.kind = ADMIT_WAIT};
        note_set(&step->note,
                 "replica %016" PRIx64 " of the same name, %s, was heard %" PRIu64
                 " ms ago; two nodes must not share a name",
                 older->id, older->name, member_silence(view, member));
        return true;
    }
    return false;
}

static bool roster_lacks(const struct admit_view *view, const struct admit_request *request,
                         struct admit_step *step)
{
    const struct roster_entry *known = roster_find(view->roster, request->entry.id), *entries;
    size_t count = roster_entries(view->roster, &entries);

    if (known && roster_entry_equal(known, &request->entry)) return false;
    *step = (struct admit_step){.kind = ADMIT_ENTER};
    if (known || count < ROSTER_ENTRIES_MAX) return true;
    for (size_t i = 0; i < count; i++) { /* frees a roster entry whose replica never joined */
        if (find_member(view, entries[i].id)) continue;
        *step = (struct admit_step){.kind = ADMIT_FORGET, .id = entries[i].id};
        break;
    }
    return true;
}

static bool is_met_at(const struct replica_member *member, const char *address)
{
    return strcmp(member->met_at, address) == 0;
}

/* True: a member is listed at the requested address, and *step removes it, swaps the two addresses
 * or waits. They are swapped if the leader reaches only the requesting replica at this address.
 * Without a swap, two replicas that exchange addresses would wait forever. */
static bool address_is_taken(const struct admit_view *view, const struct admit_request *request,
                             struct admit_step *step)
{
    const struct replica_member *other = at_address(view, request->raft, request->entry.id);
    const struct replica_member *member = find_member(view, request->entry.id);
    const struct roster_entry *entry = other ? roster_find(view->roster, other->id) : NULL;

    if (!other) return false;
    if (entry && is_older(entry, request) && member_is_dead(view, other)) {
        *step = step_change(CHANGE_REMOVE, other->id);
        return true;
    }
    if (member && is_met_at(member, request->raft) && !is_met_at(other, request->raft)) {
        *step = step_change(CHANGE_TAKE, member->id);
        return true;
    }
    *step = (struct admit_step){.kind = ADMIT_WAIT};
    note_set(&step->note,
             "replica %016" PRIx64 " (%s) is a member at %s: move it or remove it first", other->id,
             entry ? entry->name : "no name", other->address);
    return true;
}

static bool dead_one_is_left(const struct admit_view *view, const struct admit_request *request,
                             struct admit_step *step)
{
    const struct roster_entry *older;

    for (size_t cursor = 0; (older = next_older(view, request, &cursor));) {
        const struct replica_member *member = find_member(view, older->id);
        if (!member || !member_is_dead(view, member)) continue;
        *step = step_change(CHANGE_REMOVE, older->id);
        return true;
    }
    return false;
}

static bool member_lags(const struct admit_view *view, const struct replica_member *member,
                        struct admit_step *step)
{
    if (member->silent_ms != UINT64_MAX &&
        add_sat_u64(member->match, ADMIT_CATCH_UP_MAX) >= view->commit)
        return false;
    *step = (struct admit_step){.kind = ADMIT_WAIT};
    note_set(&step->note, "it has %" PRIu64 " of %" PRIu64 " entries", member->match, view->commit);
    return true;
}

static struct admit_step admit_clean_up(const struct admit_view *view,
                                        const struct admit_request *request)
{
    const struct roster_entry *older;
    struct admit_step step = {.kind = ADMIT_DONE};

    if (dead_one_is_left(view, request, &step)) return step;
    for (size_t cursor = 0; (older = next_older(view, request, &cursor));)
        if (!find_member(view, older->id))
            return (struct admit_step){.kind = ADMIT_FORGET, .id = older->id};
    return step;
}

struct admit_step admit_next(const struct admit_view *view, const struct admit_request *request)
{
    const struct replica_member *member = find_member(view, request->entry.id);
    struct admit_step step = {.kind = ADMIT_WAIT};

    if (request_is_wrong(view, request, &step)) return step;
    if ((!member || member->role != MEMBER_VOTER) && name_is_held(view, request, &step))
        return step; /* also for a learner: the older replica may return */
    if (roster_lacks(view, request, &step)) return step;
    if (!member || strcmp(member->address, request->raft) != 0) {
        if (address_is_taken(view, request, &step)) return step;
        return step_change(member ? CHANGE_ADDRESS : CHANGE_ADD, request->entry.id);
    }
    if (member->role == MEMBER_VOTER) return admit_clean_up(view, request);
    if (member_lags(view, member, &step)) return step;
    if (dead_one_is_left(view, request, &step)) return step;
    return step_change(CHANGE_PROMOTE, request->entry.id);
}
