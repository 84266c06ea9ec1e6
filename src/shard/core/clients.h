/* SPDX-License-Identifier: Apache-2.0 */
/* The clusters of this shard. For each cluster: its session, the demand last accepted from it, how
 * long each profile has been waiting, and the capacity hints last sent.
 *
 * Bounded by clusters_max. A cluster without session, demand and machines is forgotten after an
 * hour, so that the table does not grow with clusters that no longer exist. */
#ifndef SHARD_CORE_CLIENTS_H
#define SHARD_CORE_CLIENTS_H
#include "base/map.h"
#include "shard/core/core.h"
#include "shard/state/demand.h"

enum { CLIENT_FORGET_MS = 3600 * 1000, CLIENTS_SWEEP_MS = 60 * 1000 };

/* A profile of the last roll-up that waits for a machine. The profile is identified by its slot and
 * birth in the needs table. The table entry is never read, because it may be freed already. */
struct latency_wait {
    uint32_t kind_slot;
    bool ended;     /* a machine arrived; the next roll-up starts a new wait */
    uint32_t round; /* value of waits_round when a roll-up last named the profile */
    uint64_t kind_birth;
    mono_time since;
};
/* The last capacity hint sent for one profile. */
struct capacity_hint {
    bool made;
    uint32_t kind_slot;
    uint32_t set_slot; /* slot of the profile's requirements, which determine the hint */
    uint64_t kind_birth;
    uint32_t round; /* round of capacity_note() that last found the profile in the demand */
    mono_time sent;
    struct capacity_offer said; /* last hint without its profile; confidence 0: no hint was sent */
};
struct hints {
    struct map by_kind; /* struct capacity_hint, keyed by kind slot */
    uint32_t met;       /* hints found in this round */
    size_t from;        /* map cursor: position of the next hint to send */
    uint32_t unsaid;    /* number of hints that were never sent */
    uint64_t version;   /* version of the demand that the hints were made for */
};

struct cluster_client { /* map_make() places the name behind the struct */
    struct str name;
    bool session;
    bool met;            /* the cluster had a session since the start */
    bool reports_drains; /* the operator of the last session reports drains */
    mono_time left;      /* when the last session ended */
    struct quarantine quarantine;
    uint64_t rejected; /* number of roll-ups rejected */
    mono_time seen;    /* when the cluster last had a session, demand or machines */
    struct map waits;  /* struct latency_wait, keyed by kind slot */
    uint32_t waits_round;
    struct hints hints;
};
struct clients {
    struct map by_name;
    mono_time swept;
};
void clients_init(struct clients *clients, size_t max, uint64_t seed);
void clients_deinit(struct clients *clients);

struct cluster_client *client_find(const struct clients *clients, struct str name); /* NULL: none */
/* Finds or creates the client. ERR_FULL, ERR_NOMEM. */
enum err client_make(struct clients *clients, struct str name, mono_time now,
                     struct cluster_client **ret_client);

/* Updates the waits after a roll-up was applied (demand.c). New profiles start to wait now, known
 * profiles keep their start time, absent profiles are removed. ERR_NOMEM: nothing changed. */
enum err waits_update(struct core *core, struct cluster_client *client);
/* Records once how long the machine's profile waited, because the machine is now a node. */
void waits_over(struct core *core, const struct machine *machine);
/* Forgets all hints sent to the client (capacity.c). */
void hints_forget(struct cluster_client *client);
#endif
