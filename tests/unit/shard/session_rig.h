/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions on a server in a virtual world, an owner that does what a test asks and writes down
 * what it hears, and operators that say exactly what they are asked to. */
#ifndef TESTS_UNIT_SHARD_SESSION_RIG_H
#define TESTS_UNIT_SHARD_SESSION_RIG_H
#include "lib/test.h"
#include "rpc/client.h"
#include "shard/sessions.h"
#include "sim/sim.h"
#include "sim/sim_link.h"
#include "wire/pb/bigfleet_v1alpha1_shard.pb-c.h"

enum { RIG_OPERATORS = 4, RIG_HELD = 8, RIG_TEXT_MAX = 4 << 20 };

struct op {
    struct sim_host *host;
    struct rpc_channel *channel;
    struct rpc_client_call *call; /* NULL once it has ended */
    struct buf heard;             /* one line per frame, see session_rig.c */
    char request_id[32];          /* of the last bootstrap request */
    char instruction_id[64];      /* of the last reclaim */
    bool ended, channel_closed;
    enum grpc_status status;
    char text[256];
};
struct session_rig {
    struct sim *sim;
    struct sim_host *host;
    struct rpc_server *server;
    struct sessions *sessions;
    struct buf owner_events; /* one line per event of the owner */
    struct buf log;
    struct logger *logger;
    struct rollup *held[RIG_HELD]; /* given by on_rollup, not done yet */
    size_t held_count;
    bool hold; /* roll-ups are not done at once */
    bool server_closed;
    struct op operators[RIG_OPERATORS];
};

/* Options but for io, events, owner and log; identities: one per operator, NULL: plaintext. */
void session_rig_open(struct session_rig *rig, const struct sessions_options *options,
                      const struct tls_identity *const *identities);
void session_rig_close(struct session_rig *rig);
void session_rig_run(struct session_rig *rig, uint64_t ms);
void rollup_done(struct session_rig *rig, size_t index, enum rollup_end end);
/* Asks for a blob; the answer is an event. */
enum err rig_ask(struct session_rig *rig, const char *cluster, uint64_t action,
                 uint64_t timeout_ms);
bool rig_has(const struct session_rig *rig, const char *cluster); /* a session */
struct sessions_stats session_stats(const struct session_rig *rig);

struct op *operator_connect(struct session_rig *rig, size_t index); /* a stream, no Hello */
struct op *operator_hello(struct session_rig *rig, size_t index, const char *cluster);
void operator_say(struct op *o, const Bigfleet__V1alpha1__OperatorMessage *message);
void operator_say_hello(struct op *o, const char *cluster);
void operator_say_hello_as(struct op *o, const char *cluster, bool reports_drains);
void operator_say_report(struct op *o, const char *instruction, const char *machine, bool drained,
                         int64_t left_seconds, const char *error);
void operator_say_bytes(struct op *o, struct str bytes);
/* A roll-up that names `cluster`, with one row whose group has `padding` bytes. */
void operator_say_rollup(struct op *o, const char *cluster, size_t padding);
void operator_say_blob(struct op *o, const char *request_id, const char *data, const char *error);
void operator_hang_up(struct op *o); /* cancels */
const char *heard(struct op *o);
const char *owner_log(struct session_rig *rig);
const char *logged(struct session_rig *rig);
void forget(struct session_rig *rig); /* what was reported and heard so far */
/* CHECKs that it ended so. */
void check_ended(struct op *o, const char *why, enum grpc_status status);

/* A machine's state as the deciding thread would write it. */
void node_state(struct session_rig *rig, const char *cluster, const char *machine,
                enum machine_state state);
extern const struct profile plain_profile; /* one requirement, with a fingerprint */
#endif
