/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which replica may bootstrap a cluster, for fleet/bootstrap.h. Does no I/O.
 *
 * Invariant: of N > 1 replicas (--bootstrap-expect) that keep their data directories, at most one
 * bootstraps a cluster by itself.
 *
 * 1. Only the founder bootstraps: the replica with ordinal 0 and an empty directory. The founder
 *    draws the identities of the cluster and of itself once, and stores them in DIR/BOOTSTRAP.
 * 2. The founder bootstraps only when, in one round, N - 1 other replicas have promised, which
 *    differ in identity and name. A silent or unclear peer does not count. One silent address is
 *    allowed beyond the promises, because a name for all replicas also resolves to the founder.
 * 3. A replica without a log stores its promise in DIR/PROMISE before it answers, and makes no
 *    second promise. A replica with another ordinal never bootstraps.
 *
 * A promise ends when the replica joins a cluster and then answers "has a log", or when an
 * administrator replaces the promise (musterctl replica bootstrap). A promise does not expire,
 * because the founder may have bootstrapped out of sight of this replica.
 *
 *   founder crashes before it bootstraps    reads BOOTSTRAP and asks again; promises are renewed
 *   founder loses its disk before it does   waits and names the older bootstrap: musterctl
 *   two processes of ordinal 0              the second gets no promise
 *   promising replica restarts              reads PROMISE
 *   promising replica loses its disk        promises again; the others still have their promises */
#ifndef FLEET_BOOTSTRAP_RULES_H
#define FLEET_BOOTSTRAP_RULES_H
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"

enum {
    BOOTSTRAP_SILENCE_MS = 3000, /* with expect 1: how long to wait for silent peers */
    BOOTSTRAP_AGAIN_MS = 250,    /* pause between two rounds */
    BOOTSTRAP_CALL_MS = 2000,    /* timeout of a query; the peer syncs its disk */
    BOOTSTRAP_PEERS_MAX = 32,
    BOOTSTRAP_EXPECT_MAX = 7,     /* highest number of voters in a cluster */
    BOOTSTRAP_EXPECT_DEFAULT = 3, /* voters expected if join addresses are given */
    BOOTSTRAP_NAME_CAP = 64,
};

/* -- at the start -- */
enum bootstrap_start {
    BOOTSTRAP_NOT,   /* join a cluster, or continue with the log */
    BOOTSTRAP_ALONE, /* no peers: bootstrap now */
    BOOTSTRAP_ASK,   /* ask the other replicas first */
};
struct bootstrap_facts {
    bool has_directory, allowed, has_join_address;
    uint64_t ordinal; /* set if has_join_address */
};
enum bootstrap_start bootstrap_start(const struct bootstrap_facts *facts);

/* -- the founder decides after each round of queries -- */
enum bootstrap_answer {
    BOOTSTRAP_SILENT,
    BOOTSTRAP_UNCLEAR, /* an unexpected answer: the peer may have a log */
    BOOTSTRAP_SELF,
    BOOTSTRAP_REFUSED, /* the peer has no log, but refused to promise */
    BOOTSTRAP_PROMISED,
    BOOTSTRAP_HAS_LOG,
};
struct bootstrap_peer {
    enum bootstrap_answer answer;
    uint64_t replica_id;           /* of a peer that promised */
    char name[BOOTSTRAP_NAME_CAP]; /* of a peer that promised */
};
struct bootstrap_round {
    const struct bootstrap_peer *peers; /* one for every address asked */
    size_t count;
    const char *name;
    uint32_t expect;
    bool by_hand; /* ordered by musterctl replica bootstrap */
    uint64_t asking_ms;
};
enum bootstrap_verdict { BOOTSTRAP_WAIT, BOOTSTRAP_JOIN, BOOTSTRAP_NOW };
enum bootstrap_verdict bootstrap_decide(const struct bootstrap_round *round);
/* The number of different replicas that promised. */
size_t bootstrap_promises(const struct bootstrap_round *round);

/* -- the other replicas answer a founder's request for a promise -- */
struct bootstrap_identity { /* one bootstrap; cluster_id 0: none */
    uint64_t cluster_id, replica_id;
};
struct promise_facts {
    uint64_t replica_id;
    bool has_log; /* has a log or belongs to a cluster */
    bool waits;   /* this replica waits to bootstrap a cluster itself */
    struct bootstrap_identity stored;
    struct bootstrap_identity asked;
    bool replace; /* an administrator ordered to replace `stored` */
};
enum promise_verdict {
    PROMISE_INVALID,
    PROMISE_SELF, /* the replica asked itself */
    PROMISE_HAS_LOG,
    PROMISE_RIVAL, /* this replica is itself waiting to bootstrap */
    PROMISE_TAKEN, /* already promised to another bootstrap */
    PROMISE_KEEP,  /* the promise is already stored */
    PROMISE_STORE, /* store the promise durably, then answer */
};
enum promise_verdict promise_decide(const struct promise_facts *facts);
#endif
