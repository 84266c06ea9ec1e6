/* The store under fire: three replicas with the shipped log, store machine, service and gRPC
 * server, clients that claim, wait, renew, let go, compare-and-set and watch, and a witness.
 *
 * What must hold, whatever happens:   1. an index of the log is the same command and leads to the
 * same state on every replica;   2. holders that stop at their deadline, which counts from before
 * they asked, are never more      than a group has slots, and never two in one slot; a slot's
 * tokens grow;   3. no lease ends before its TTL after the sending of its last acknowledged
 * renewal;   4. what is repeated under one sequence takes effect once, and is answered with that
 * effect; a      revision is replaced by one compare-and-set at most;   5. a watch tells every
 * change after its snapshot once and in order, and PROGRESS leaves none      out;   6. no replica
 * finds its own disk or state damaged. And after everything was healed: every client gets things
 * done, every watch moves on, and when they fall silent all three replicas come to rest in one
 * state.
 *
 * Time is the world's. Clocks may run fast or slow by 5% at most (scenario_draw.c), so a holder's
 * deadline here is 94% of its TTL. */
#ifndef TESTS_SIM_STORE_STORY_H
#define TESTS_SIM_STORE_STORY_H
#include "base/map.h"
#include "log/engine.h"
#include "log/log.h"
#include "sim/scenario.h"
#include "store/core/store.h"

enum {
    STORE_HOSTS = 3,
    STORE_CLIENTS = 4,
    STORE_INDEX_MAX = 300000,
    STORE_CHANGES_MAX = 100000,
    STORE_EFFECTS_MAX = 50000,
    STORE_GROUPS = 2, /* "g0" with one slot, "g1" with two */
    STORE_SLOT_KINDS = STORE_GROUPS * 2,
    STORE_TRUST_PERCENT = 94,
};

/* Planted, one at a time; each must be caught (test_store_bugs.c). */
enum store_bug {
    STORE_NO_BUG,
    STORE_LOSE_RENEWALS,   /* some are answered and never done, as if before their commit */
    STORE_FORGET_REQUESTS, /* a new leader does not know what the last one answered */
    STORE_FAST_CLOCK,      /* the replicated clock runs ahead of every real one */
    STORE_SKIP_AN_EVENT,   /* of a watch */
    STORE_BUG_COUNT
};
extern const char *const store_bug_names[];

/* -- what happened: outlives the processes, and no process looks at it -- */
struct store_seen { /* an index, as its first replica applied it */
    uint64_t command, state;
};
struct store_change { /* of a key, in the order of the log */
    uint64_t revision, key;
};
struct store_effect { /* of a request, by client and sequence */
    uint8_t id[24];   /* its key in the map */
    int code, reason; /* of the last that was not a repeat */
    uint64_t revision, token;
    bool may_be_again; /* it waited: its place may have been lost */
};
struct store_belief { /* a client thinks it holds a slot */
    bool on;
    size_t group;
    uint32_t slot;
    uint64_t token;
    sim_time until;
};
struct store_cas { /* acknowledged: `expected` of `key` was replaced */
    size_t key;
    uint64_t expected;
};
struct store_witness {
    struct store_seen *seen; /* by index */
    uint64_t newest;
    struct store_change *changes;
    size_t change_count;
    struct store_effect *effects;
    size_t effect_count;
    struct map by_request;
    struct store_cas *cas;
    size_t cas_count;
    struct store_belief beliefs[STORE_CLIENTS];
    uint64_t tokens[STORE_SLOT_KINDS]; /* the largest that was believed */
    uint64_t done[STORE_CLIENTS], told[STORE_CLIENTS];
    size_t watched[STORE_CLIENTS]; /* change up to which a client's watch has come */
    uint64_t grants, waited, expired, renewals, resyncs, restores, repeats;
    bool wrong;
    struct note why;
};

struct store_story;
struct store_process;
struct store_host {
    struct store_story *story;
    size_t number;
    struct sim_host *host;
    struct store_process *process;
};
struct store_actor {
    struct store_story *story;
    size_t number;
    struct sim_host *host;
};
struct store_story {
    struct scenario_world *world;
    enum store_bug bug;
    struct store_host hosts[STORE_HOSTS];
    struct store_actor clients[STORE_CLIENTS];
    struct members founders;
    struct store_witness witness;
    bool healed, quiet;
    sim_time healed_at;
    uint64_t done_at_heal[STORE_CLIENTS];
    size_t changes_at_heal;
};
extern const char *const store_addresses[];
extern const struct sim_process_ops store_process_ops, store_client_ops;
extern const struct scenario store_scenario;
/* NULL: none runs there. */
struct replica *store_host_replica(const struct store_host *host);
struct store *store_host_store(const struct store_host *host);

/* -- the witness -- */
enum err store_witness_open(struct store_witness *witness);
void store_witness_close(struct store_witness *witness);
void store_wrong(struct store_story *story, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* After an entry was applied; `before`: the end of keys_changes() before it. */
void store_witness_applied(struct store_story *story, const struct machine_entry *entry,
                           const struct store_command *command, struct str reply,
                           const struct store *store, uint64_t before);
void store_witness_answered(struct store_story *story, const struct store_id *client,
                            uint64_t sequence, int code, int reason, uint64_t revision,
                            uint64_t token);
void store_witness_replaced(struct store_story *story, size_t key, uint64_t expected);
/* A grant or a renewal came: `sent` is when it was asked for. */
void store_witness_holds(struct store_story *story, size_t client, size_t group, uint32_t slot,
                         uint64_t token, sim_time sent, uint64_t ttl_ms);
void store_witness_lets_go(struct store_story *story, size_t client);
/* It was told that its lease is over by its deadline. */
void store_witness_expired(struct store_story *story, size_t client);
/* The next change that a watch tells; false: it is not the next. */
bool store_witness_event(struct store_story *story, size_t *cursor, struct str key,
                         uint64_t revision);
size_t store_witness_after(const struct store_story *story, uint64_t revision);
#endif
