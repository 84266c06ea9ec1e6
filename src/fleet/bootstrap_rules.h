/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which replica may bootstrap a cluster, for fleet/bootstrap.h. Does no I/O.
 *
 * Invariant: of N replicas that keep their data directories, at most one bootstraps a cluster by
 * itself, where N > 1 is the number of replicas (--bootstrap-expect).
 *
 *   1. Only the replica with ordinal 0 and an empty directory bootstraps: the founder. Once, it
 *      draws the identities of the cluster and of itself, and stores them in DIR/BOOTSTRAP.
 *   2. The founder bootstraps only when, in one round, N - 1 other replicas have answered that
 *      they have no log and have promised. They must differ in identity and in name. A silent or
 *      unclear peer never counts as empty. One silent address is allowed beyond the N - 1
 *      promises, because a name that resolves to all replicas also resolves to the founder.
 *   3. A replica stores its promise durably in DIR/PROMISE before it answers. A replica without a
 *      log promises to no second bootstrap. A replica with another ordinal never bootstraps.
 *
 * Two bootstraps would need two promises of one replica. A promise ends in two ways: the replica
 * joins a cluster, and then answers "has a log"; or an administrator replaces the promise
 * (musterctl replica bootstrap). A promise does not expire. A process with the founder's name does
 * not end it either, because that process may be a second one beside the founder. The founder may
 * have bootstrapped and serve clients that the promising replica cannot see.
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
    BOOTSTRAP_SILENCE_MS = 3000, /* if expect is 1: how long to wait for silent peers */
    BOOTSTRAP_AGAIN_MS = 250,    /* pause between two rounds */
    BOOTSTRAP_CALL_MS = 2000,    /* timeout of a query, during which the peer syncs its disk */
    BOOTSTRAP_PEERS_MAX = 32,
    BOOTSTRAP_EXPECT_MAX = 7,     /* highest number of voters in a cluster */
    BOOTSTRAP_EXPECT_DEFAULT = 3, /* voters expected if join addresses are given */
    BOOTSTRAP_NAME_CAP = 64,
};

/* -- at the start -- */
enum bootstrap_start {
    BOOTSTRAP_NOT,   /* the replica joins a cluster or continues with its log */
    BOOTSTRAP_ALONE, /* the replica bootstraps at once, because it has no peers */
    BOOTSTRAP_ASK,   /* the replica first asks the other replicas */
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
    uint64_t replica_id;           /* identity of the peer, if it promised */
    char name[BOOTSTRAP_NAME_CAP]; /* name of a replica that promised */
};
struct bootstrap_round {
    const struct bootstrap_peer *peers; /* one for every address asked */
    size_t count;
    const char *name; /* name of this replica */
    uint32_t expect;
    bool by_hand; /* musterctl replica bootstrap ordered the round */
    uint64_t asking_ms;
};
enum bootstrap_verdict { BOOTSTRAP_WAIT, BOOTSTRAP_JOIN, BOOTSTRAP_NOW };
enum bootstrap_verdict bootstrap_decide(const struct bootstrap_round *round);
/* Returns the number of different replicas that promised. */
size_t bootstrap_promises(const struct bootstrap_round *round);

/* -- the other replicas answer a founder's request for a promise -- */
struct bootstrap_identity { /* identifies one bootstrap; cluster_id 0: none */
    uint64_t cluster_id, replica_id;
};
struct promise_facts {
    uint64_t replica_id;              /* id of this replica */
    bool has_log;                     /* the replica has a log or belongs to a cluster */
    bool waits;                       /* the replica waits to bootstrap a cluster itself */
    struct bootstrap_identity stored; /* the promise that the replica has stored */
    struct bootstrap_identity asked;  /* the bootstrap that asks for a promise */
    bool replace;                     /* an administrator ordered to replace `stored` */
};
enum promise_verdict {
    PROMISE_INVALID,
    PROMISE_SELF, /* the replica asked itself */
    PROMISE_HAS_LOG,
    PROMISE_RIVAL, /* this replica is itself waiting to bootstrap */
    PROMISE_TAKEN, /* the replica has promised to another bootstrap */
    PROMISE_KEEP,  /* the asked promise is already stored */
    PROMISE_STORE, /* store the promise durably, then answer */
};
enum promise_verdict promise_decide(const struct promise_facts *facts);
#endif
