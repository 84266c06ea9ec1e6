/* SPDX-License-Identifier: Apache-2.0 */
/* Who may bootstrap a cluster: the decisions of fleet/bootstrap.h, without I/O.
 *
 * Invariant: of N replicas that keep their data directories, at most one bootstraps a cluster by
 * itself, where N > 1 is the number of replicas (--bootstrap-expect).
 *
 *   1. Only ordinal 0 over an empty directory bootstraps. It draws the identities of the cluster
 *      and of its replica once and stores them in DIR/BOOTSTRAP before it asks anybody.
 *   2. It bootstraps only when N - 1 other replicas, distinguished by identity and by name, answered
 *      in one round that they have no log and have promised. A peer that is silent or unclear is
 *      never taken for an empty one. One silent address is allowed beyond the N - 1 promises, since
 *      a name of all replicas is also a name of the asking one.
 *   3. A replica stores its promise in DIR/PROMISE, durably, before it answers. While it has no log
 *      it promises to no other bootstrap, and it never bootstraps: only ordinal 0 does.
 *
 * Two bootstraps would need the promise of one replica twice. What ends a promise: the replica
 * belongs to a cluster, and then it answers "has a log"; or an administrator replaces it (musterctl
 * replica bootstrap). Neither time nor the founder's name ends one: a replaced founder and a second
 * process with the same name look alike from here, and the first may have bootstrapped and serve
 * clients that the promising replica cannot see.
 *
 *   founder crashes before it bootstraps    it finds BOOTSTRAP and asks again; promises are renewed
 *   founder loses its disk before it does   it waits and names the older bootstrap: musterctl
 *   two processes of ordinal 0              the second gets no promise
 *   promising replica restarts              it finds PROMISE
 *   promising replica loses its disk        it promises again, the others still hold theirs */
#ifndef FLEET_BOOTSTRAP_RULES_H
#define FLEET_BOOTSTRAP_RULES_H
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"

enum {
    BOOTSTRAP_SILENCE_MS = 3000, /* expect 1 only: how long silent peers are waited for */
    BOOTSTRAP_AGAIN_MS = 250,    /* between two rounds */
    BOOTSTRAP_CALL_MS = 2000,    /* one question; the peer syncs its disk before it answers */
    BOOTSTRAP_PEERS_MAX = 32,
    BOOTSTRAP_EXPECT_MAX = 7,     /* voters */
    BOOTSTRAP_EXPECT_DEFAULT = 3, /* with join addresses */
    BOOTSTRAP_NAME_CAP = 64,
};

/* -- at the start, over a data directory or none -- */
enum bootstrap_start {
    BOOTSTRAP_NOT,   /* joins, or goes on */
    BOOTSTRAP_ALONE, /* at once: it has no peers */
    BOOTSTRAP_ASK,   /* asks the others first */
};
struct bootstrap_facts {
    bool has_directory, allowed, has_join_address;
    uint64_t ordinal; /* with a join address */
};
enum bootstrap_start bootstrap_start(const struct bootstrap_facts *facts);

/* -- the founder: after each round of questions -- */
enum bootstrap_answer {
    BOOTSTRAP_SILENT,
    BOOTSTRAP_UNCLEAR, /* it answers, but not the question: it may have a log */
    BOOTSTRAP_SELF,
    BOOTSTRAP_REFUSED, /* no log, and no promise for us */
    BOOTSTRAP_PROMISED,
    BOOTSTRAP_HAS_LOG,
};
struct bootstrap_peer {
    enum bootstrap_answer answer;
    uint64_t replica_id;           /* of one that promised */
    char name[BOOTSTRAP_NAME_CAP]; /* too */
};
struct bootstrap_round {
    const struct bootstrap_peer *peers; /* every address that was asked */
    size_t count;
    const char *name; /* ours */
    uint32_t expect;
    bool by_hand; /* musterctl replica bootstrap */
    uint64_t asking_ms;
};
enum bootstrap_verdict { BOOTSTRAP_WAIT, BOOTSTRAP_JOIN, BOOTSTRAP_NOW };
enum bootstrap_verdict bootstrap_decide(const struct bootstrap_round *round);
size_t bootstrap_promises(const struct bootstrap_round *round); /* of different replicas */

/* -- the others: what is answered to a founder -- */
struct bootstrap_identity { /* of one bootstrap; cluster 0: none */
    uint64_t cluster_id, replica_id;
};
struct promise_facts {
    uint64_t replica_id;              /* ours */
    bool has_log;                     /* or belongs to a cluster */
    bool waits;                       /* it wants to bootstrap a cluster itself */
    struct bootstrap_identity stored; /* our promise */
    struct bootstrap_identity asked;  /* who asks now */
    bool replace;                     /* by an administrator's order */
};
enum promise_verdict {
    PROMISE_INVALID,
    PROMISE_SELF, /* we ask ourselves */
    PROMISE_HAS_LOG,
    PROMISE_RIVAL, /* we wait to bootstrap, too */
    PROMISE_TAKEN, /* by another bootstrap */
    PROMISE_KEEP,  /* already stored */
    PROMISE_STORE, /* durably, then answer */
};
enum promise_verdict promise_decide(const struct promise_facts *facts);
#endif
