/* A replica's own part in forming the quorum, as pure decisions: whether to found a cluster, and
 * when to ask for its place. coordinator.md 13 with its Decision.
 *
 * Founding. Over an existing directory nobody founds. Without a join address --bootstrap decides
 * alone; with one, only ordinal 0 founds, and only after it has asked the others: one that has a
 * log means a cluster exists and ours is a lost disk, so join it.
 *
 * Joining. Until a leader is known and the replica is a voter at exactly its own addresses, ask:
 * the leader of itself, everybody else at the join addresses; then wait 1, 2, 4, 8, 15, 15 ... s,
 * whatever the answer was. A replica that becomes the leader looks at its own entry at once. The
 * surprising rule: a replica that had its place and lost it does not ask again unless it is still
 * a member, so that one that was removed on purpose stays out until it is started anew. */
#ifndef FLEET_JOIN_H
#define FLEET_JOIN_H
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"

enum {
    JOIN_WAIT_FIRST_MS = 1000,
    JOIN_WAIT_MAX_MS = 15000,
    JOIN_CALL_MS = 10000, /* one request for a place */
    FOUND_LOOK_MS = 3000, /* how long silent peers are waited for before founding */
    FOUND_AGAIN_MS = 250, /* between two looks */
    FOUND_CALL_MS = 1000, /* one look at one peer */
    FOUND_PEERS_MAX = 32,
};

/* The decimal number after the last '-'. ERR_INVALID with a note. */
enum err join_ordinal(struct str id, uint64_t *ret_ordinal, struct note *note);

/* -- founding -- */
enum found_verdict { FOUND_JOIN, FOUND_BOOTSTRAP, FOUND_ASK_FIRST, FOUND_ASK_AGAIN };
struct found_facts {
    bool has_directory, bootstrap, has_join_address;
    uint64_t ordinal; /* with a join address */
};
enum found_verdict found_begin(const struct found_facts *facts);
enum found_answer {
    FOUND_SILENT,
    FOUND_EMPTY,
    FOUND_UNCLEAR, /* it answers, but does not say: it may hold the log of a cluster */
    FOUND_HAS_LOG,
};
/* After one look at every peer. Beside one that is unclear nothing is founded, however long. */
enum found_verdict found_look(const enum found_answer *answers, size_t count, uint64_t looking_ms);

/* -- joining -- */
struct join_view { /* what this replica knows of itself now */
    bool leader_known, leads, ready;
    bool member, voter;
    bool in_place; /* its address in the configuration and its entry in the roster are right */
};
struct join { /* zeroed: the beginning */
    uint64_t wait_ms;
    mono_time ask_at;
    bool asking, settled, had_place, removed, led;
};
enum join_event { JOIN_LOOK, JOIN_ANSWERED };
struct join_effects {
    bool ask;          /* for our place, at the join addresses; JOIN_ANSWERED follows */
    bool fix;          /* we lead: bring our own entry in order; JOIN_ANSWERED follows */
    bool settled;      /* just now: a voter in place */
    bool removed;      /* just now: no member any more */
    mono_time wake_at; /* JOIN_LOOK then, and whenever the view changes */
};
struct join_effects join_step(struct join *join, enum join_event event,
                              const struct join_view *view, mono_time now);
#endif
