/* SPDX-License-Identifier: Apache-2.0 */
/* The current state of a fleet: the coordinators' tables, and each shard's own status. For commands
 * that show or judge the whole fleet.
 *
 * A part that does not answer is NULL, with the reason in words. Shards that were listed once are
 * asked even if no coordinator answers any more. Each shard is asked by a thread of its own, so all
 * hung shards together take one --timeout. */
#ifndef CTL_SURVEY_H
#define CTL_SURVEY_H
#include "conf/conf.h"
#include "ctl/remote.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"
#include "wire/pb/muster_v1_member.pb-c.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

enum survey_part {
    SURVEY_REPLICAS,  /* ListReplicasResponse */
    SURVEY_SHARDS,    /* ListShardsResponse */
    SURVEY_MEMBERS,   /* ClusterStatusResponse */
    SURVEY_WORKERS,   /* ListWorkersResponse, at most 1,000 */
    SURVEY_STORE,     /* StatusResponse */
    SURVEY_CLAIMS,    /* RangeResponse of "muster/", keys only, at most 200 */
    SURVEY_OWNERSHIP, /* ListOwnershipIssuesResponse */
    SURVEY_PARTS,
};
enum { SURVEY_SHARDS_MAX = 64, SURVEY_ID_CAP = 256, SURVEY_ADDRESS_CAP = 280 };
#define SURVEY_CLAIMS_PREFIX "muster/"

struct survey_shard {
    char id[SURVEY_ID_CAP], address[SURVEY_ADDRESS_CAP];
    const struct conf *conf; /* the survey's */
    struct remote *remote;   /* kept between rounds */
    struct arena memory;
    const Muster__V1__ShardStatusResponse *said; /* NULL: the shard did not answer */
    enum err err;
    struct note why;
};
struct ctl_survey {
    const struct conf *conf;
    struct remote *remote; /* the coordinators' channel; NULL if not open */
    struct arena memory;   /* holds the answers until the next round */
    union {                /* an element is NULL if its request was not answered */
        const ProtobufCMessage *said[SURVEY_PARTS];
        struct { /* the same messages with their types */
            const Muster__V1__ListReplicasResponse *replicas;
            const Bigfleet__V1alpha1__ListShardsResponse *listed;
            const Muster__V1__ClusterStatusResponse *members;
            const Muster__V1__ListWorkersResponse *workers;
            const Muster__V1__StatusResponse *store;
            const Muster__V1__RangeResponse *claims;
            const Muster__V1__ListOwnershipIssuesResponse *ownership;
        };
    };
    struct note why[SURVEY_PARTS]; /* why a request was not answered; indexed like `said` */
    struct survey_shard shards[SURVEY_SHARDS_MAX];
    size_t shard_count, shards_left_out;
};

/* Reads CTL_CONNECTION_OPTIONS. Returns remote_open's errors. Must be closed in any case. */
enum err ctl_survey_open(struct ctl_survey *survey, const struct conf *conf, struct note *note);
void ctl_survey_close(struct ctl_survey *survey);
/* Asks the coordinators and all shards once. Frees the answers of the previous round. */
void ctl_survey_ask(struct ctl_survey *survey);
/* Asks only shards: the one in the option "shard" (an address, or a name that the coordinators
 * know), or all that the coordinators list. Without coordinators, the last list is used, which is
 * kept in the user's cache. ERR_NOT_FOUND: no shard has that name. Returns the
 * error of the coordinators, or of the first shard if no shard answered, with a note. */
enum err ctl_survey_ask_shards(struct ctl_survey *survey, struct note *note);
/* True if this shard can answer more questions. BigFleet's shards have no status. */
bool ctl_survey_answers(const struct survey_shard *shard);

uint64_t ctl_survey_count(size_t count, Muster__V1__NamedCount *const *counts, const char *name);
const Muster__V1__Replica *ctl_survey_leader(
    const Muster__V1__ListReplicasResponse *list); /* or NULL */
/* How many log entries the replica is behind the furthest voter. */
uint64_t ctl_survey_lag(const Muster__V1__ListReplicasResponse *list,
                        const Muster__V1__Replica *of);
#endif
