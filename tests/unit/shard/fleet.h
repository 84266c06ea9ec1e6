/* SPDX-License-Identifier: Apache-2.0 */
/* A provider and its operators, made of tables and a clock that is a number: what carries out the
 * effects of a core in tests. It answers at once, late, twice as late, with errors, or never, and
 * remembers what was said to people.
 *
 * The provider is strict: a call that its machine's state does not allow is refused, a token that
 * is not newer is fenced, the same call again is answered as the first was. */
#ifndef TESTS_UNIT_SHARD_FLEET_H
#define TESTS_UNIT_SHARD_FLEET_H
#include "base/prng.h"
#include "model/metadata.h"
#include "shard/core/running_actions.h"

enum fate {
    FATE_DONE,
    FATE_ASYNC,       /* the ack comes at once, the end later */
    FATE_REFUSED,     /* nothing was done */
    FATE_LOST_BEFORE, /* it never reached the provider; no answer in time */
    FATE_LOST_AFTER,  /* done, but the answer was lost */
    FATE_LATE,        /* no answer in time, and done only after that */
    FATE_FENCED,
    FATE_NOT_SUPPORTED,
    FATE_NOT_FOUND,
    FATE_GARBAGE, /* the ack's record breaks its rules */
    FATE_UNSENT,  /* it never left the driver, who says so */
    FATE_NEVER,   /* not even the driver says anything */
    FATE_NO_SESSION,
    FATE_BLOB_TIMEOUT,
    FATE_BLOB_ERROR,
    FATE_BLOB_NO_ROOM,
};
enum { FLEET_TEXT = 160, FLEET_EFFECTS = EFFECT_CYCLE_SOON + 1 };

struct fleet_machine {
    char id[24], cluster[24], error[64];
    enum machine_state state, said; /* said: by the last List; 0: it was not named yet */
    bool changed;                   /* since then, be it forth and back */
    enum capacity_type capacity_type;
    double price;
    uint32_t cpu;
    uint64_t token;     /* newest that was seen */
    uint64_t end_ms;    /* what is under way ends; UINT64_MAX: nothing is */
    bool will_fail;     /* it ends in Failed */
    size_t label_count; /* of shard_metadata */
    char keys[METADATA_MAX][64], values[METADATA_MAX][FLEET_TEXT];
    /* The newest RECLAIM of it. */
    uint64_t order, order_end_ms; /* its action, and when its grace ends */
    uint64_t order_session;       /* of the cluster, in which it was sent */
    bool order_drained;           /* and that was reported */
};
struct fleet_link { /* of a cluster's operator */
    char cluster[24];
    bool open, reports;
    uint64_t session;
};
enum { FLEET_LINKS = 64 };
#define FLEET_EARLIER_ORDER ((uint64_t)1 << 63) /* given by an earlier process */
struct fleet_call {                             /* an effect that is to be answered */
    enum effect_kind kind;
    enum fate fate;
    uint64_t action, token, due_ms, apply_ms; /* UINT64_MAX: never */
    bool applied, answered;
    struct fleet_machine *machine;
    struct fleet_machine was; /* when the call was made */
    char id[24], cluster[24];
    size_t label_count;
    char keys[METADATA_MAX][64], values[METADATA_MAX][FLEET_TEXT];
};

struct fleet {
    struct core *core;
    struct core_options options;
    struct arena arena; /* of demand */
    struct fleet_machine *machines;
    size_t machine_count;
    struct fleet_call *calls; /* in the order they were made; answered ones are dropped */
    size_t call_count, call_cap;
    uint64_t now_ms, token;
    enum fate fate[FLEET_EFFECTS];      /* of the calls to come ... */
    uint64_t latency_ms[FLEET_EFFECTS]; /* ... and how long they take; 0: answered at once */
    uint64_t async_ms;                  /* until an asynchronous end */
    struct prng *random;                /* set: fates and latencies are drawn */
    uint32_t faults_per_million;
    /* what was seen */
    uint64_t seen[FLEET_EFFECTS], observed[OBSERVE_COUNT];
    double last_seconds[OBSERVE_COUNT];
    char audit[8 * FLEET_TEXT]; /* the newest: "kind machine cluster outcome reason grace error" */
    char log[1200];             /* the newest: "level text details" */
    char logs[1 << 14];         /* all, until it is full */
    struct effect last[FLEET_EFFECTS]; /* texts of it are gone; numbers are good */
    uint64_t executed[FLEET_EFFECTS];  /* calls that the provider carried out */
    uint64_t abuses;                   /* mutations of a machine that had another one under way */
    bool deltas;                       /* Lists are deltas unless the core wants a full one */
    bool old_gets;                     /* Get answers with what was when it was sent */
    bool faulty;                       /* events may run out of memory */
    bool unsure; /* what is known of the machines is older than calls: overtakes are not counted */
    bool reports_drains; /* operators of sessions to come do */
    struct fleet_link links[FLEET_LINKS];
    uint64_t
        overtakes; /* mutations of a machine while another of an earlier time is still applied */
    uint64_t cordoned_uses; /* a cordoned machine was taken */
    uint64_t early_drains;  /* calls before the operator had drained and the grace had ended */
    uint64_t digest;        /* of all effects in their order: kind, machine, cluster, action */
    bool soon;              /* EFFECT_CYCLE_SOON was seen */
    const char *trace;      /* effects of the last event, in order: "RECLAIM NODE_STATE DRAIN " */
    char trace_text[4096];
};

void fleet_open(struct fleet *f, const struct core_options *options, size_t machines_max);
void fleet_close(struct fleet *f);
/* The shard is killed and started again: what it asked for may still be done, its answers are lost.
 * It knows nothing until it lists. */
void fleet_restart(struct fleet *f);
/* The domain of instance types that are ours; NULL: all. */
void fleet_scope(struct fleet *f, const char *type);
/* Takes machines out of use, also after a restart. `rules` are borrowed. */
void fleet_cordon(struct fleet *f, const struct cordon_rule *rules, size_t count);
/* Adds machines prefix-000 and on, 4 cpu each, on demand; `cluster` for those that are bound. */
void fleet_add(struct fleet *f, const char *prefix, size_t count, enum machine_state state,
               const char *cluster);
struct fleet_machine *fleet_machine(struct fleet *f, const char *id);
/* The cluster has a session and wants `units` machines at this priority; 0: nothing. */
void fleet_demand(struct fleet *f, const char *cluster, int32_t priority, uint32_t units);
/* The same as one gang under a key. */
void fleet_gang(struct fleet *f, const char *cluster, const char *key, uint32_t units);
void fleet_session(struct fleet *f, const char *cluster, bool open);
void fleet_hold(struct fleet *f, enum core_hold why);
/* The machine's operator has drained it by the newest order, of this process or an earlier one. */
void fleet_drained(struct fleet *f, struct fleet_machine *m);
/* The cluster's operator says how far it has drained the machine by this RECLAIM effect. */
void fleet_report(struct fleet *f, const char *cluster, const char *machine, uint64_t action,
                  bool drained, uint64_t left_ms);
/* What the provider lists: everything, or, `deltas` set, what changed since the last List. */
void fleet_list(struct fleet *f);
void fleet_list_kind(struct fleet *f, enum list_kind kind);
/* Of a List that the test began: one record without metadata, and its end. */
void fleet_say(struct fleet *f, const struct machine *machine);
void fleet_list_end(struct fleet *f);
/* List, cycle, and every answer that is due; the clock stops. */
void fleet_cycle(struct fleet *f);
/* Just the cycle. */
void fleet_decide(struct fleet *f);
/* Time goes on: answers and ends that are due by then come, in their order. */
void fleet_run(struct fleet *f, uint64_t ms);
/* Cycles every 10 s. */
void fleet_cycles(struct fleet *f, size_t count);
enum machine_state fleet_state(struct fleet *f, const char *id);
/* The core's record. */
struct machine fleet_record(struct fleet *f, const char *id);
size_t fleet_count(struct fleet *f, enum machine_state state); /* in the core */
void fleet_check(struct fleet *f); /* all promises that hold at any time */
mono_time fleet_now(const struct fleet *f);
#endif
