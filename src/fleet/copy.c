/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a copy of the fleet tables: current meta data, and a writer of the state. Loop's thread. */
#include "fleet/copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool fleet_copy_is_empty(const struct fleet *fleet)
{
    struct fleet_counts counts = fleet_counts(fleet);

    for (unsigned t = 0; t < FLEET_TABLES; t++)
        if (counts.of[t] > 0) return false;
    return true;
}

static void name_servers(struct fleet_meta *meta, const struct replica *replica,
                         const struct roster *roster)
{
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(replica, members);

    static_assert((int)REPLICA_MEMBERS_MAX <= (int)FLEET_META_SERVERS_MAX, "every member fits");
    meta->server_count = count;
    for (size_t i = 0; i < count; i++) {
        struct fleet_meta_server *server = &meta->servers[i];
        const struct roster_entry *entry = roster ? roster_find(roster, members[i].id) : NULL;
        server->suffrage = members[i].role == MEMBER_VOTER ? FLEET_VOTER : FLEET_NON_VOTER;
        if (entry)
            snprintf(server->id, sizeof server->id, "%s", entry->name);
        else
            snprintf(server->id, sizeof server->id, "%016" PRIx64, members[i].id);
        snprintf(server->address, sizeof server->address, "%s", members[i].address);
    }
}

enum err fleet_copy_open(struct fleet_copy *copy, struct fleet *fleet,
                         const struct replica *replica, const struct roster *roster, wall_time now)
{
    struct replica_status status = replica_status(replica);

    /* A ready leader has applied an entry of its own term, so the last entry has this term. */
    copy->meta = (struct fleet_meta){.index = status.applied,
                                     .term = status.term,
                                     .configuration_index = status.applied,
                                     .created_ms = now.ms};
    name_servers(&copy->meta, replica, roster);
    return fleet_state_write_open(
        fleet,
        (struct fleet_state_style){.heartbeats = true, .sealed = true, .index = copy->meta.index},
        &copy->writer);
}

void fleet_copy_close(struct fleet_copy *copy)
{
    fleet_state_write_close(copy->writer);
    copy->writer = NULL;
}
