/* SPDX-License-Identifier: Apache-2.0 */
/* A machine: its record, its eight states, and the transitions between them.
 *
 *                   Create              Configure                  Drain
 *   Speculative --> Creating --> Idle --> Configuring --> Configured --> Draining --> Idle
 *        ^                        |  ^         |                                       |
 *        |                        |  +---------+ (rolled back: nothing was done yet)   |
 *        +------- Deleting <------+ <--------------------------------------------------+
 *                                 Delete
 *   Creating, Configuring, Draining, Deleting --> Failed
 *
 * Our code may make only these transitions. A provider may report others: a spot machine is lost
 * while Configured, an action whose reply was lost has succeeded, a host returns from Failed. If
 * no action of ours is in flight for the machine, the report is accepted, because rejecting it
 * would leave a dead machine counted as supply. machine_edge() classifies such transitions.
 *
 * struct machine is a plain struct of views for interfaces. The shard stores compact records. */
#ifndef MODEL_MACHINE_H
#define MODEL_MACHINE_H
#include "base/time.h"
#include "model/requirement.h"
#include "model/resource.h"

/* The numbers are those of the wire format. */
enum machine_state {
    MACHINE_UNSPECIFIED = 0,
    MACHINE_SPECULATIVE = 1, /* a slot of quota; can be created */
    MACHINE_CREATING = 2,
    MACHINE_IDLE = 3, /* a host without a cluster */
    MACHINE_CONFIGURING = 4,
    MACHINE_CONFIGURED = 5, /* the machine is a node of its cluster */
    MACHINE_DRAINING = 6,
    MACHINE_DELETING = 7,
    MACHINE_FAILED = 8, /* last_error contains the reason */
    MACHINE_STATE_COUNT = 9,
};
/* The numbers are those of the wire format. */
enum capacity_type {
    CAPACITY_UNSPECIFIED = 0,
    CAPACITY_BARE_METAL = 1,
    CAPACITY_RESERVED = 2,
    CAPACITY_ON_DEMAND = 3,
    CAPACITY_SPOT = 4,
    CAPACITY_TYPE_COUNT = 5,
};

/* What a machine was bought for. All fields are zero if it was bought for no Need. */
struct machine_stamp {
    int32_t priority;
    double interruption_dollars, reclamation_dollars; /* upper bounds of buckets; may be +Inf */
    struct str fingerprint, group;
};
/* The Need that a machine is or was drained for; `cluster` is empty if there is none. A Draining
 * machine counts for this Need. An Idle machine is kept for this Need for a while. */
struct machine_promise {
    struct str cluster, fingerprint, group;
    int32_t priority;
    wall_time at; /* when the drain was ordered */
};

struct machine {
    struct str id; /* never changes */
    enum machine_state state;
    struct str host_provider, host_ref; /* both are empty if there is no host */
    struct str cluster;                 /* bound or being bound to this cluster; empty if none */
    struct attributes attributes;
    enum capacity_type capacity_type;
    struct resources resources;   /* amounts of the hardware */
    struct resources allocatable; /* for workloads, if different from `resources`; else empty */
    double price_per_hour, interruption_probability;
    struct str last_error;
    struct machine_stamp stamp;
    struct str destination; /* while Creating: the machine's future cluster (`cluster` is empty) */
    struct machine_promise promised;
};

/* Return the name, or write "State(12)" or "CapacityType(0)" for an unknown number into `text`. */
enum { MACHINE_NAME_CAP = 32 };
const char *machine_state_name(uint32_t state, char text[MACHINE_NAME_CAP]);
const char *capacity_type_name(uint32_t type, char text[MACHINE_NAME_CAP]);

/* Returns how long a machine of this capacity type is kept Idle before it is deleted. */
#define IDLE_HOLD_FOREVER UINT64_MAX
uint64_t capacity_type_idle_hold_ms(enum capacity_type type);

bool machine_state_stable(enum machine_state state); /* true for Speculative, Idle, Configured */
/* Configuring, Configured and Draining keep the whole stamp. Entering any other state clears the
 * stamp, but Creating gets fingerprint and group from the action. */
bool machine_state_keeps_stamp(enum machine_state state);

enum machine_edge {
    EDGE_REFUSED,  /* a transition into or out of Unspecified, or to the same state */
    EDGE_DRIVEN,   /* one of our transitions, see the diagram above */
    EDGE_OBSERVED, /* caused by the provider (host lost, repaired), or by us with a lost reply */
    EDGE_FOREIGN,  /* accepted, but not caused by us: another program acts on the machine */
};
enum machine_edge machine_edge(enum machine_state from, enum machine_state to);

/* Returns the capacity that counts: allocatable if it names any dimension, else resources. */
static inline const struct resources *machine_capacity(const struct machine *m)
{
    return m->allocatable.mask ? &m->allocatable : &m->resources;
}

/* Why a machine's record is rejected; also a label of the metric. */
enum machine_fault {
    MACHINE_SOUND,
    MACHINE_FAULT_STRUCTURAL,
    MACHINE_FAULT_PROBABILITY,
    MACHINE_FAULT_PRICE,
};
const char *machine_fault_name(enum machine_fault fault); /* "", "structural", "price" and so on */
/* Checks in this order: host and cluster are set or empty as the state requires, and a Failed
 * machine has an error; the probability is in [0,1]; the price is finite and at least zero. Returns
 * the first violation and names it in the note. */
enum machine_fault machine_invariant(const struct machine *m, struct note *note);
/* Checks a record from outside before any of it is kept: ids, texts, enums, labels sorted and
 * without repeats, penalties; then machine_invariant(). ERR_INVALID or ERR_TOO_LARGE with the field
 * in the note. *ret_fault (may be NULL) is the reason for the metric. */
enum err machine_check(const struct machine *m, enum machine_fault *ret_fault, struct note *note);
#endif
