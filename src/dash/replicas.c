/* SPDX-License-Identifier: Apache-2.0 */
/* Values that only each replica itself knows, for example its disk. Each replica is queried at its
 * own address. If a replica does not answer, its last values are shown with the reason. */
#include <stdio.h>

#include "dash/dash_internal.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { REPLICAS_MAX = 16 };

struct replica_link {
    struct link base;
    bool known;
    uint64_t snapshot, first, applied, log_bytes, disk_free;
    wall_time snapshot_at; /* when this process first saw the snapshot */
};

void replicas_listed(struct dash *dash, uint64_t id, const char *address)
{
    char text[DASH_ID_CAP];

    dash_id_text(id, text);
    links_listed(&dash->replicas, text, address);
}

/* -- queries -- */

static void replica_took(void *owner, const ProtobufCMessage *answer)
{
    struct replica_link *link = owner;
    const Muster__V1__StateHashResponse *said = (const void *)answer;
    char text[DASH_ID_CAP];

    dash_id_text(said->replica_id, text);
    if (strcmp(text, link->base.id) != 0) {
        snprintf(link->base.question.why, WHY_CAP, "another replica answers at its address");
        return;
    }
    if (!link->known || link->snapshot != said->snapshot)
        link->snapshot_at = clock_wall(link->base.links->dash->io->clock);
    link->known = true;
    link->snapshot = said->snapshot;
    link->first = said->first;
    link->applied = said->applied;
    link->log_bytes = said->log_bytes;
    link->disk_free = said->disk_free;
}

static const struct question_kind replicas_question = {
    .path = "/muster.v1.Fleet/StateHash",
    .answer = &muster__v1__state_hash_response__descriptor,
    .topic = TOPIC_RAFT,
    .every_ms = DASH_EVERY_MS,
    .attempts_max = 1,
    .took = replica_took};

/* -- publishing, opening -- */

void replicas_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    if (topic != TOPIC_RAFT) return;
    ndjson_open_array(json, STR("disks"));
    for (const struct replica_link *link = NULL; (link = links_next(&dash->replicas, link));) {
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("replica_id"), link->base.id);
        ndjson_c_string(json, STR("why"),
                        link->base.question.why[0] ? link->base.question.why : NULL);
        if (link->known) {
            ndjson_u64(json, STR("snapshot"), link->snapshot);
            ndjson_u64(json, STR("snapshot_seen_ms"), link->snapshot ? link->snapshot_at.ms : 0);
            ndjson_u64(json, STR("first"), link->first);
            ndjson_u64(json, STR("applied"), link->applied);
            ndjson_u64(json, STR("log_bytes"), link->log_bytes);
            ndjson_u64(json, STR("disk_free"), link->disk_free);
        }
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
}

enum err replicas_open(struct dash *dash)
{
    dash->replicas = (struct links){.dash = dash,
                                    .kind = &replicas_question,
                                    .row_size = sizeof(struct replica_link),
                                    .count = REPLICAS_MAX,
                                    .peer = PEER_REPLICA};
    return links_open(&dash->replicas);
}
