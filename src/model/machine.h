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
 * Our code makes only these transitions. A provider may report others, for example when a spot
 * machine is lost. Such a report is accepted if no action of ours is in flight for the machine,
 * because a dead machine must not count as supply. machine_edge() classifies transitions. */
#ifndef MODEL_MACHINE_H
#define MODEL_MACHINE_H
#include "base/time.h"
#include "model/requirement.h"
#include "model/resource.h"

/* The wire format's numbers. */
enum machine_state {
    MACHINE_UNSPECIFIED = 0,
    MACHINE_SPECULATIVE = 1, /* a slot of quota; can be created */
    MACHINE_CREATING = 2,
    MACHINE_IDLE = 3, /* a host without a cluster */
    MACHINE_CONFIGURING = 4,
    MACHINE_CONFIGURED = 5, /* a node of its cluster */
    MACHINE_DRAINING = 6,
    MACHINE_DELETING = 7,
    MACHINE_FAILED = 8, /* last_error contains the reason */
    MACHINE_STATE_COUNT = 9,
};
/* The wire format's numbers. */
enum capacity_type {
    CAPACITY_UNSPECIFIED = 0,
    CAPACITY_BARE_METAL = 1,
    CAPACITY_RESERVED = 2,
    CAPACITY_ON_DEMAND = 3,
    CAPACITY_SPOT = 4,
    CAPACITY_TYPE_COUNT = 5,
};

/* What a machine was bought for. All zero: for no Need. */
struct machine_stamp {
    int32_t priority;
    double interruption_dollars, reclamation_dollars; /* upper bounds of buckets; may be +Inf */
    struct str fingerprint, group;
};
/* The Need that a machine was drained for; `cluster` is empty if there is none. A Draining machine
 * counts for this Need, and an Idle machine is kept for this Need for a while. */
struct machine_promise {
    struct str cluster, fingerprint, group;
    int32_t priority;
    wall_time at; /* when the drain was ordered */
};

/* What an operator of the shard ordered for the machine. */
enum machine_cordon {
    CORDON_NONE,
    CORDON_KEEP,  /* no new use; a Configured machine keeps serving its cluster */
    CORDON_EMPTY, /* drained, then no use */
    CORDON_COUNT
};

struct machine {
    struct str id; /* never changes */
    enum machine_state state;
    struct str host_provider, host_ref; /* empty if there is no host */
    struct str cluster;                 /* bound or being bound to this cluster; may be empty */
    struct attributes attributes;
    enum capacity_type capacity_type;
    struct resources resources;   /* amounts of the hardware */
    struct resources allocatable; /* for workloads; empty: the same as `resources` */
    double price_per_hour, interruption_probability;
    struct str last_error;
    struct machine_stamp stamp;
    struct str destination; /* while Creating: the future cluster (`cluster` is empty) */
    struct machine_promise promised;
    enum machine_cordon cordon; /* never from a provider */
};

/* Return the name, or write "State(12)" or "CapacityType(0)" into `text` for an unknown number. */
enum { MACHINE_NAME_CAP = 32 };
const char *machine_state_name(uint32_t state, char text[MACHINE_NAME_CAP]);
const char *machine_cordon_name(enum machine_cordon cordon); /* "", "cordon", "drain" */
const char *capacity_type_name(uint32_t type, char text[MACHINE_NAME_CAP]);

/* How long a machine is kept Idle before it is deleted. */
#define IDLE_HOLD_FOREVER UINT64_MAX
uint64_t capacity_type_idle_hold_ms(enum capacity_type type);

bool machine_state_stable(enum machine_state state); /* true for Speculative, Idle, Configured */
/* Configuring, Configured and Draining keep the stamp. Any other state clears the stamp on entry,
 * except that Creating keeps the fingerprint and group of its action. */
bool machine_state_keeps_stamp(enum machine_state state);

enum machine_edge {
    EDGE_REFUSED,  /* into or out of Unspecified, or to the same state */
    EDGE_DRIVEN,   /* an arrow of the diagram above */
    EDGE_OBSERVED, /* by the provider, or by our action whose reply was lost */
    EDGE_FOREIGN,  /* accepted: another program acts on the machine */
};
enum machine_edge machine_edge(enum machine_state from, enum machine_state to);

/* Returns `allocatable` if it names a dimension, else `resources`. */
static inline const struct resources *machine_capacity(const struct machine *m)
{
    return m->allocatable.mask ? &m->allocatable : &m->resources;
}

/* Why a machine's record is rejected. Also a label of the metric. */
enum machine_fault {
    MACHINE_SOUND,
    MACHINE_FAULT_STRUCTURAL,
    MACHINE_FAULT_PROBABILITY,
    MACHINE_FAULT_PRICE,
};
const char *machine_fault_name(enum machine_fault fault); /* "", "structural", "price" ... */
/* Returns the first violation and describes it in the note:
 * - host and cluster are set or empty as the state requires, and a Failed machine has an error
 * - the probability is in [0,1]
 * - the price is finite and at least zero */
enum machine_fault machine_invariant(const struct machine *m, struct note *note);
/* Checks a record from outside: ids, texts, enums, labels sorted without repeats, penalties; then
 * machine_invariant(). ERR_INVALID or ERR_TOO_LARGE with the field in the note. *ret_fault may be
 * NULL. */
enum err machine_check(const struct machine *m, enum machine_fault *ret_fault, struct note *note);
#endif
