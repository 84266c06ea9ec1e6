/* SPDX-License-Identifier: Apache-2.0 */
/* Three servers, one of them the leader, and three clients, under faults. A witness sees both
 * sides.
 *
 * A client makes operations, each one call. Only the leader applies; the others name it, or forward
 * the call (drawn per world). Servers report every application to the witness, clients every
 * result; the witness outlives both. Invariants:
 *   1. a call ends once, and every call ends;
 *   2. ERR_OK means applied, and the answer belongs to this operation;
 *   3. a refused operation was never applied and never will be;
 *   4. a plain operation is applied at most once, whatever was lost; one with an id takes effect
 *      once; one that may be repeated may be applied several times;
 *   5. ERR_UNKNOWN is only returned for a call that was sent, and for a reason: see is_explained in
 *      rpc_client_actor.c;
 *   6. the answers of a stream come in order and without gaps, all of them before a good end. */
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

/* Planted bugs, one at a time; test_rpc_bugs.c must find each. */
enum rpc_bug {
    RPC_NO_BUG,
    RPC_REPEAT_A_PLAIN_CALL,     /* the client takes a plain call for one that may be repeated */
    RPC_UNKNOWN_AS_NO,           /* ERR_UNKNOWN is reported as not done */
    RPC_END_TWICE,               /* an end is reported twice */
    RPC_FORGET_AN_END,           /* an end is not reported */
    RPC_ANSWER_ANOTHER,          /* the server mixes up two answers */
    RPC_FORGET_REQUEST_IDS,      /* the server applies a repeat again */
    RPC_ANSWER_WITHOUT_APPLYING, /* the server answers ERR_OK and does not apply */
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

/* -- history: outlives the processes, and no process reads it -- */
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
/* The world has been healed for so long that everybody has noticed earlier failures. */
bool rpc_story_is_calm(const struct rpc_story *story);
extern const char *const rpc_server_addresses[RPC_SERVERS + 1];
extern const struct sim_process_ops rpc_server_ops, rpc_client_ops;
#endif
