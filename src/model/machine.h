/* SPDX-License-Identifier: Apache-2.0 */
/* A machine: its record, the eight states of its life, and which moves between them exist.
 *
 *                   Create              Configure                  Drain
 *   Speculative --> Creating --> Idle --> Configuring --> Configured --> Draining --> Idle
 *        ^                        |  ^         |                                       |
 *        |                        |  +---------+ (rolled back: nothing was done yet)   |
 *        +------- Deleting <------+ <--------------------------------------------------+
 *                                 Delete
 *   Creating, Configuring, Draining, Deleting --> Failed
 *
 * Those are the moves we drive; all else is refused to our own code. A provider, though, reports
 * what is: a spot machine dies while Configured, a lost reply turns out done, a host comes back
 * from Failed. For a machine without an action of ours in flight its word is taken (machine_edge
 * says which kind of surprise it was), because refusing it leaves a dead machine counted as supply.
 *
 * A plain struct of views, for the edges; the shard keeps compact records of its own. */
#ifndef MODEL_MACHINE_H
#define MODEL_MACHINE_H
#include "base/time.h"
#include "model/requirement.h"
#include "model/resource.h"

/* the wire's numbers */
enum machine_state {
    MACHINE_UNSPECIFIED = 0,
    MACHINE_SPECULATIVE = 1, /* a slot of quota: could be created */
    MACHINE_CREATING = 2,
    MACHINE_IDLE = 3, /* a host, and no cluster */
    MACHINE_CONFIGURING = 4,
    MACHINE_CONFIGURED = 5, /* a node of its cluster */
    MACHINE_DRAINING = 6,
    MACHINE_DELETING = 7,
    MACHINE_FAILED = 8, /* last_error says why */
    MACHINE_STATE_COUNT = 9,
};
/* the wire's numbers */
enum capacity_type {
    CAPACITY_UNSPECIFIED = 0,
    CAPACITY_BARE_METAL = 1,
    CAPACITY_RESERVED = 2,
    CAPACITY_ON_DEMAND = 3,
    CAPACITY_SPOT = 4,
    CAPACITY_TYPE_COUNT = 5,
};

/* What a machine was bought for. All zero: nothing. */
struct machine_stamp {
    int32_t priority;
    double interruption_dollars, reclamation_dollars; /* upper bounds of buckets; may be +Inf */
    struct str fingerprint, group;
};
/* The Need for which it is drained, or just was: counted for that Need while Draining, kept for it for
 * a while once Idle. `cluster` empty: none. */
struct machine_promise {
    struct str cluster, fingerprint, group;
    int32_t priority;
    wall_time at; /* when the drain was ordered */
};

struct machine {
    struct str id; /* the same for its whole life */
    enum machine_state state;
    struct str host_provider, host_ref; /* both empty: no host */
    struct str cluster;                 /* it is bound, or being bound, to; empty: none */
    struct attributes attributes;
    enum capacity_type capacity_type;
    struct resources resources;   /* the shape of the hardware */
    struct resources allocatable; /* what workloads get, when that differs; else empty */
    double price_per_hour, interruption_probability;
    struct str last_error;
    struct machine_stamp stamp;
    struct str destination; /* Creating: the cluster it is created for. The state's rules want
                               `cluster` empty there, so the destination is a field of its own */
    struct machine_promise promised;
};

/* The word, or "State(12)", written into `text` when there is none; likewise "CapacityType(0)". */
enum { MACHINE_NAME_CAP = 32 };
const char *machine_state_name(uint32_t state, char text[MACHINE_NAME_CAP]);
const char *capacity_type_name(uint32_t type, char text[MACHINE_NAME_CAP]);
bool machine_state_read(struct str word, enum machine_state *ret_state); /* one of the eight */
bool capacity_type_read(struct str word, enum capacity_type *ret_type);  /* one of the four */

/* How long a machine of this kind is kept Idle before it is let go. */
#define IDLE_HOLD_FOREVER UINT64_MAX
uint64_t capacity_type_idle_hold_ms(enum capacity_type type);

bool machine_state_stable(enum machine_state state); /* Speculative, Idle, Configured */
/* Configuring, Configured and Draining keep the whole stamp; entering any other state clears it
 * (Creating gets fingerprint and group with the order). */
bool machine_state_keeps_stamp(enum machine_state state);

enum machine_edge {
    EDGE_REFUSED,  /* into or out of Unspecified, or no move at all */
    EDGE_DRIVEN,   /* ours: the diagram above */
    EDGE_OBSERVED, /* a provider's: lost, reclaimed, repaired, or an act of ours whose reply was */
    EDGE_FOREIGN,  /* taken too, but nobody of ours can have caused it: somebody else acts on it */
};
enum machine_edge machine_edge(enum machine_state from, enum machine_state to);

/* The capacity that counts: allocatable if it names anything, else resources. */
static inline const struct resources *machine_capacity(const struct machine *m)
{
    return m->allocatable.mask ? &m->allocatable : &m->resources;
}

/* Why a record is refused; also the label of the metric. */
enum machine_fault {
    MACHINE_SOUND,
    MACHINE_FAULT_STRUCTURAL,
    MACHINE_FAULT_PROBABILITY,
    MACHINE_FAULT_PRICE,
};
const char *machine_fault_name(enum machine_fault fault); /* "", "structural", "price" ... */
/* What must hold for a machine in its state: host and cluster set or empty, an error on a Failed
 * one, then probability in [0,1], then a finite price of at least zero. The first violation in that
 * order is answered and named in the note. */
enum machine_fault machine_invariant(const struct machine *m, struct note *note);
/* For records from outside, before anything is kept: ids, texts, enums, sorted labels without
 * repeats, penalties; then machine_invariant. ERR_INVALID or ERR_TOO_LARGE, the field named;
 * *ret_fault (may be NULL) says under which reason to count it. */
enum err machine_check(const struct machine *m, enum machine_fault *ret_fault, struct note *note);
#endif
