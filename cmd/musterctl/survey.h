/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a fleet say of themselves now: the coordinators' tables, and each shard at its
 * own address. For commands that show or judge the whole.
 *
 * Fails soft: a part that does not answer is missing, with the reason in words, and the others are
 * there. The surprising rule: shards that were listed once are asked again when no coordinator
 * answers any more. They work on then, and that is worth seeing.
 *
 * Shards are asked side by side, each by a thread of its own that is over when the round is: all
 * that hang together take one --timeout. */
#ifndef MUSTERCTL_SURVEY_H
#define MUSTERCTL_SURVEY_H
#include "conf/conf.h"
#include "musterctl/remote.h"
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
    struct remote *remote;                       /* kept from one round to the next */
    struct arena memory;                         /* of its answer: shards are asked side by side */
    const Muster__V1__ShardStatusResponse *said; /* NULL: it did not answer */
    struct note why;                             /* then */
};
struct survey {
    const struct conf *conf;
    struct remote *remote;                      /* to the coordinators; NULL: survey_open failed */
    struct arena memory;                        /* of the answers, until the next round */
    const ProtobufCMessage *said[SURVEY_PARTS]; /* NULL: it was not answered */
    struct note why[SURVEY_PARTS];              /* then */
    struct survey_shard shards[SURVEY_SHARDS_MAX];
    size_t shard_count, shards_left_out;
};

/* Reads the options of CTL_CONNECTION_OPTIONS. What remote_open answers; close it in any case. */
enum err survey_open(struct survey *survey, const struct conf *conf, struct note *note);
void survey_close(struct survey *survey);
/* Asks everybody once. Answers of the round before are gone. */
void survey_ask(struct survey *survey);
void survey_ask_shards(struct survey *survey); /* only which there are, and each of them */

/* -- the answers by their types; NULL: why[] says it -- */
const Muster__V1__ListReplicasResponse *survey_replicas(const struct survey *survey);
const Bigfleet__V1alpha1__ListShardsResponse *survey_shards(const struct survey *survey);
const Muster__V1__ClusterStatusResponse *survey_members(const struct survey *survey);
const Muster__V1__ListWorkersResponse *survey_workers(const struct survey *survey);
const Muster__V1__StatusResponse *survey_store(const struct survey *survey);
const Muster__V1__RangeResponse *survey_claims(const struct survey *survey);
const Muster__V1__ListOwnershipIssuesResponse *survey_ownership(const struct survey *survey);

/* -- small facts of the answers -- */
uint64_t survey_count(size_t count, Muster__V1__NamedCount *const *counts, const char *name);
const Muster__V1__Replica *survey_leader(
    const Muster__V1__ListReplicasResponse *list); /* or NULL */
/* How far behind the furthest voter. */
uint64_t survey_lag(const Muster__V1__ListReplicasResponse *list, const Muster__V1__Replica *of);
#endif
