/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a fleet as its parts report it now: the coordinators' tables, and each shard at its
 * own address. For commands that show or judge the whole.
 *
 * Fails soft: a part that does not answer is missing, with the reason in words, and the others are
 * there. The surprising rule: shards that were listed once are asked again when no coordinator
 * answers any more. They work on then, and that is worth seeing.
 *
 * Shards are asked side by side, each by a thread of its own that is over when the round is: all
 * that hang together take one --timeout. */
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
    SURVEY_CLAIMS,    /* RangeResponse below "muster/", keys only, at most 200 */
    SURVEY_OWNERSHIP, /* ListOwnershipIssuesResponse */
    SURVEY_PARTS,
};
enum { SURVEY_SHARDS_MAX = 64, SURVEY_ID_CAP = 256, SURVEY_ADDRESS_CAP = 280 };
#define SURVEY_CLAIMS_PREFIX "muster/"

struct survey_shard {
    char id[SURVEY_ID_CAP], address[SURVEY_ADDRESS_CAP];
    const struct conf *conf;                     /* the survey's */
    struct remote *remote;                       /* kept from one round to the next */
    struct arena memory;                         /* of its answer: shards are asked side by side */
    const Muster__V1__ShardStatusResponse *said; /* NULL: it did not answer */
    enum err err;                                /* then */
    struct note why;
};
struct ctl_survey {
    const struct conf *conf;
    struct remote *remote; /* to the coordinators; NULL: ctl_survey_open failed */
    struct arena memory;   /* of the answers, until the next round */
    union {                /* NULL: it was not answered */
        const ProtobufCMessage *said[SURVEY_PARTS];
        struct { /* the same by their types */
            const Muster__V1__ListReplicasResponse *replicas;
            const Bigfleet__V1alpha1__ListShardsResponse *listed;
            const Muster__V1__ClusterStatusResponse *members;
            const Muster__V1__ListWorkersResponse *workers;
            const Muster__V1__StatusResponse *store;
            const Muster__V1__RangeResponse *claims;
            const Muster__V1__ListOwnershipIssuesResponse *ownership;
        };
    };
    struct note why[SURVEY_PARTS]; /* then */
    struct survey_shard shards[SURVEY_SHARDS_MAX];
    size_t shard_count, shards_left_out;
};

/* Reads the options of CTL_CONNECTION_OPTIONS. The errors of remote_open; close it in any case. */
enum err ctl_survey_open(struct ctl_survey *survey, const struct conf *conf, struct note *note);
void ctl_survey_close(struct ctl_survey *survey);
/* Asks everybody once. Answers of the round before are gone. */
void ctl_survey_ask(struct ctl_survey *survey);
/* Only shards: the one of the option "shard", an address or a name that the coordinators know, or all
 * that they list. ERR_NOT_FOUND: no shard has that name. What the coordinators, or the first shard,
 * failed with when they, or no shard at all, answered; each with a note. */
enum err ctl_survey_ask_shards(struct ctl_survey *survey, struct note *note);
/* It can be asked more; a shard of the original has no status. */
bool ctl_survey_answers(const struct survey_shard *shard);

/* -- small facts of the answers -- */
uint64_t ctl_survey_count(size_t count, Muster__V1__NamedCount *const *counts, const char *name);
const Muster__V1__Replica *ctl_survey_leader(
    const Muster__V1__ListReplicasResponse *list); /* or NULL */
/* Entries that it is behind the furthest voter. */
uint64_t ctl_survey_lag(const Muster__V1__ListReplicasResponse *list,
                        const Muster__V1__Replica *of);
#endif
