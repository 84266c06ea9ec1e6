/* SPDX-License-Identifier: Apache-2.0 */
/* Calls under fire: three servers of which one leads, three clients, and a witness that sees both
 * sides.
 *
 * A client makes operations, each one call. Only the leader applies; the others name it, or pass
 * the call on (drawn per world). The witness is told of every application by the servers and of
 * every end by the clients, and it outlives both. What must hold:
 *   1. a call ends once, and none is forgotten;
 *   2. done means applied, and the answer is the one that was given to this operation;
 *   3. "was not" means never applied, not before it was said and not after;
 *   4. a plain operation is applied at most once, whatever was lost; one with an id takes effect
 *      once; one that may be repeated may be;
 *   5. "don't know" is only said of what was sent, and for a reason that can be named: see
 *      is_explained in rpc_client_actor.c;
 *   6. a stream's answers come in order and without gaps, and all of them before a good end. */
#ifndef TESTS_SIM_RPC_STORY_H
#define TESTS_SIM_RPC_STORY_H
#include "rpc/client.h"
#include "rpc/forward.h"
#include "rpc/server.h"
#include "scenario.h"

enum {
    RPC_SERVERS = 3,
    RPC_CLIENTS = 3,
    RPC_OPS_MAX = 12000,
    RPC_STREAM_MAX = 20, /* messages of one stream */
};

/* Planted, one at a time; each must be caught (test_rpc_bugs.c). */
enum rpc_bug {
    RPC_NO_BUG,
    RPC_REPEAT_A_PLAIN_CALL,     /* the client takes a plain call for one that may be repeated */
    RPC_UNKNOWN_AS_NO,           /* a "don't know" is reported as "was not" */
    RPC_END_TWICE,               /* an end is told twice */
    RPC_FORGET_AN_END,           /* an end is not told */
    RPC_ANSWER_ANOTHER,          /* the server mixes up two answers */
    RPC_FORGET_REQUEST_IDS,      /* the server applies a repeat anew */
    RPC_ANSWER_WITHOUT_APPLYING, /* the server says done, and it is not */
    RPC_SKIP_A_MESSAGE,          /* the server leaves out an answer of a stream */
    RPC_BUG_COUNT
};
extern const char *const rpc_bug_names[]; /* from RPC_REPEAT_A_PLAIN_CALL on, then NULL */

enum rpc_op_kind {
    RPC_PLAIN,
    RPC_REPEATABLE,
    RPC_WITH_ID,
    RPC_STREAM,
    RPC_REFUSED_OP,
    RPC_OP_KINDS
};
struct rpc_op {
    enum rpc_op_kind kind;
    uint32_t applied; /* times it took effect */
    uint32_t ends;
    bool said_no, client_died;
};

/* -- what happened: outlives the processes, and no process looks at it -- */
struct rpc_witness {
    struct rpc_op *ops;
    uint32_t count;
    uint64_t done[RPC_CLIENTS];
    uint64_t open; /* started, not ended, and their client lives */
    uint64_t unknown_applied, unknown_not, no, good;
    bool wrong;
    struct note why;
};
void witness_wrong(struct rpc_witness *w, uint32_t op, const char *what);
void witness_applied(struct rpc_witness *w, uint32_t op);
void witness_ended(struct rpc_witness *w, uint32_t op, const struct rpc_outcome *outcome,
                   bool right_answer);

struct rpc_story;
struct rpc_actor {
    struct rpc_story *story;
    uint32_t number;
    struct sim_host *host;
};
struct rpc_story {
    struct scenario_world *world;
    enum rpc_bug bug;
    struct rpc_actor servers[RPC_SERVERS], clients[RPC_CLIENTS];
    struct rpc_witness witness;
    uint32_t leader;
    bool forwards, warm, healed;
    struct sim_event election;
    uint64_t done_before[RPC_CLIENTS]; /* the calm */
    uint32_t count_at_heal;
    sim_time healed_at;
};
/* Healed for so long that what broke before has been noticed by everybody. */
bool rpc_story_is_calm(const struct rpc_story *story);
extern const char *const rpc_server_addresses[RPC_SERVERS + 1];
extern const struct sim_process_ops rpc_server_ops, rpc_client_ops;
#endif
