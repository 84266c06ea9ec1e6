/* SPDX-License-Identifier: Apache-2.0 */
/* The clusters this shard serves: who has a session, what was last accepted of whom, since when
 * each profile waits, what was last said about capacity.
 *
 * Bounded by clusters_max. A cluster without session, demand and machines is forgotten after an
 * hour, so that clusters that come and go leave nothing behind. */
#ifndef SHARD_CORE_CLIENTS_H
#define SHARD_CORE_CLIENTS_H
#include "base/map.h"
#include "shard/core/core.h"
#include "shard/state/demand.h"

enum { CLIENT_FORGET_MS = 3600 * 1000, CLIENTS_SWEEP_MS = 60 * 1000 };

/* One profile of the last roll-up, known by its place in the needs table (slot and birth), which is
 * never looked into: the profile may be gone. */
struct latency_wait {
    uint32_t kind_slot;
    bool ended;     /* a machine came; the next roll-up begins anew */
    uint32_t round; /* of the client, that last named the profile */
    uint64_t kind_birth;
    mono_time since;
};
/* The last word about one profile. */
struct capacity_hint {
    bool made;
    uint32_t kind_slot;
    uint32_t set_slot; /* of its requirements, which decide what there is to say */
    uint64_t kind_birth;
    uint32_t round; /* of capacity_note() that last met the profile in the demand */
    mono_time sent;
    struct capacity_offer said; /* without the profile; no confidence: nothing said yet */
};
struct hints {
    struct map by_kind; /* by slot */
    uint32_t met;       /* in this round */
    size_t from;        /* cursor of the hint whose turn is next */
    uint32_t unsaid;    /* nothing was said of so many yet */
    uint64_t version;   /* of the demand they are for */
};

struct cluster_client { /* behind it its name: map_make() */
    struct str name;
    bool session;
    bool met;            /* there was a session since the start */
    bool reports_drains; /* the last session's operator does */
    mono_time left;      /* when the last session ended */
    struct quarantine quarantine;
    uint64_t rejected; /* roll-ups */
    mono_time seen;    /* the last time it had a session, demand or machines */
    struct map waits;  /* latency_wait, by slot */
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
/* ERR_FULL, ERR_NOMEM. */
enum err client_make(struct clients *clients, struct str name, mono_time now,
                     struct cluster_client **ret_client);

/* demand.c: a roll-up was applied. New profiles wait since now, known ones as they did, absent ones
 * no more. ERR_NOMEM: as it was. */
enum err waits_update(struct core *core, struct cluster_client *client);
/* A machine that was bought for this profile is a node now: its wait is observed, once. */
void waits_over(struct core *core, const struct machine *machine);
/* capacity.c */
void hints_forget(struct cluster_client *client);
#endif
