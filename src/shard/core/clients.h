/* SPDX-License-Identifier: Apache-2.0 */
/* The clusters of this shard, with their sessions, accepted demand and capacity hints. Bounded by
 * clusters_max. A cluster without session, demand and machines is forgotten after an hour. */
#ifndef SHARD_CORE_CLIENTS_H
#define SHARD_CORE_CLIENTS_H
#include "base/map.h"
#include "shard/core/core.h"
#include "shard/core/occupancy.h"
#include "shard/state/demand.h"

enum { CLIENT_FORGET_MS = 3600 * 1000, CLIENTS_SWEEP_MS = 60 * 1000 };

/* A profile that waits for a machine. Slot and birth identify the profile in the needs table,
 * because the table may free its entry during the wait. */
struct latency_wait {
    uint32_t kind_slot;
    bool ended;     /* a machine arrived; the next roll-up starts a new wait */
    uint32_t round; /* waits_round when a roll-up last contained the profile */
    uint64_t kind_birth;
    mono_time since;
};
/* The last capacity hint sent for one profile. */
struct capacity_hint {
    bool made;
    uint32_t kind_slot;
    uint32_t set_slot; /* slot of the profile's requirement set */
    uint64_t kind_birth;
    uint32_t round; /* last round in which the profile was in the demand */
    mono_time sent;
    struct capacity_offer said; /* the last hint; confidence 0: none was sent */
};
struct hints {
    struct map by_kind; /* struct capacity_hint, keyed by kind slot */
    uint32_t met;       /* hints whose profile is in the demand of this round */
    size_t from;        /* map cursor: where the next cycle continues */
    uint32_t unsaid;    /* number of profiles without a first hint */
    uint64_t version;   /* version of the demand when the hints were made */
};

struct cluster_client { /* map_make() places the name behind the struct */
    struct str name;
    bool session;
    bool met;            /* had a session since the start */
    bool reports_drains; /* the operator reports finished drains */
    bool takes_status;   /* the operator takes the status of its Needs */
    mono_time left;      /* end of the last session */
    struct quarantine quarantine;
    uint64_t rejected;
    mono_time seen;   /* last time with a session, demand or machines */
    struct map waits; /* struct latency_wait, keyed by kind slot */
    uint32_t waits_round;
    struct hints hints;
    struct map blob_rests;   /* of blob_rest.c, by fingerprint */
    struct map statuses;     /* what need_status.c sent, keyed by fingerprint NUL group */
    mono_time occupancy_due; /* until then a pending report withholds reclaims; 0: none does */
    struct occupancy_table *occupancy; /* NULL: the last roll-up had no reports */
};
struct clients {
    struct map by_name;
    mono_time swept;
};
void clients_init(struct clients *clients, size_t max, uint64_t seed);
void clients_deinit(struct clients *clients);

struct cluster_client *client_find(const struct clients *clients, struct str name); /* NULL: none */
/* ERR_FULL, ERR_NOMEM. */
enum err client_make(struct clients *clients, struct str name, mono_time now,
                     struct cluster_client **ret_client);

/* Call after a roll-up was applied. New profiles start to wait now, known profiles keep their
 * start, absent profiles are removed. ERR_NOMEM: nothing changed. */
enum err waits_update(struct core *core, struct cluster_client *client);
/* Records how long the machine's profile waited. Call when the machine has become a node. */
void waits_over(struct core *core, const struct machine *machine);
void hints_forget(struct cluster_client *client);
void statuses_forget(struct cluster_client *client);
void blob_rests_init(struct map *rests, uint64_t seed);
void blob_rests_forget(struct map *rests);
void blob_rests_sweep(struct map *rests, mono_time now);
#endif
