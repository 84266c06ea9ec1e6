/* SPDX-License-Identifier: Apache-2.0 */
/* Whole coordinators in a virtual world: replica, service and server on each of up to three hosts,
 * and clients that call one node and record its answers. */
#ifndef TESTS_UNIT_FLEET_SERVICE_RIG_H
#define TESTS_UNIT_FLEET_SERVICE_RIG_H
#include "fleet/seed.h"
#include "fleet/service.h"
#include "io/tls.h"
#include "lib/test.h"
#include "log/datadir.h"
#include "rpc/client.h"
#include "sim/sim.h"
#include "sim/sim_link.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { RIG_NODES = 3, RIG_CLIENTS = 6, RIG_WAIT_MS = 60000, RIG_TEXT = 1024 };

struct rig_node {
    size_t number;
    struct sim_host *host;
    struct io *io;
    char raft[32], grpc[32];
    struct logger *logger;
    struct log_source log_source;
    struct buf log;
    struct metrics *metrics;
    struct events *events;
    struct fleet_service *service;
    struct state_machine machine;
    struct replica *replica;
    struct rpc_server *server;
    bool server_closed;
};
struct rig_client {
    struct sim_host *host;
    struct rpc_channel *channels[RIG_NODES]; /* opened when first used */
    bool closed[RIG_NODES];
};
struct rig {
    struct sim *sim;
    size_t nodes_count;
    struct rig_node nodes[RIG_NODES];
    struct rig_client clients[RIG_CLIENTS];
    bool tls;
    struct arena arena; /* decoded answers; reset by each call */
};
extern struct rig rig;

struct rig_options {
    size_t nodes;                          /* 0: 1 */
    bool waiting;                          /* no founders: they never lead */
    const struct tls_identity *identities; /* one per client; NULL: plaintext */
    struct fleet_service_limits limits;
    struct fleet_exports exports;
    const struct fleet_seed *seed;
    uint32_t level; /* the level of every node; 0: 1 */
};
void rig_open(struct rig_options options);
void rig_close(void);
void rig_run(uint64_t ms);
/* Waits for a ready leader and returns it. */
struct rig_node *rig_leader(void);
struct rig_node *rig_other(const struct rig_node *node); /* a node that is not this one */
/* Cuts this node off from the other nodes; clients still reach it. */
void rig_cut(const struct rig_node *node, bool cut);

struct rig_answer {
    bool done;
    enum err err; /* the client's verdict */
    enum grpc_status status;
    char text[RIG_TEXT], leader[64], applied[8];
    struct buf bytes;
};
struct rig_call {
    size_t client;               /* which */
    const struct rig_node *node; /* NULL: the leader */
    const char *request_id;      /* may be NULL */
    uint64_t timeout_ms;
};
/* Method: "ReportShard" is bigfleet's, ".AddShard" is muster's. */
void rig_start(struct rig_answer *answer, struct rig_call call, const char *method,
               const ProtobufCMessage *request);
struct rig_answer *rig_call(struct rig_call call, const char *method,
                            const ProtobufCMessage *request);
void rig_wait(struct rig_answer *answer);
void rig_answer_deinit(struct rig_answer *answer);
/* The answer's message; CHECKs that it was OK. */
const void *rig_message(const struct rig_answer *answer, const ProtobufCMessageDescriptor *type);

/* -- common requests to the leader -- */
enum grpc_status rig_assign(const char *key, const char *value, const char *shard);
enum grpc_status rig_unassign(const char *key, const char *value);
enum grpc_status rig_remove(const char *shard);
enum grpc_status rig_add(const char *shard, const char *address);
struct rig_report {
    const char *shard, *address;
    int64_t epoch, cycle;
    int32_t total, free; /* 0: no summary */
    size_t shortfalls;   /* the number of shortfalls, with priorities 1000, 999, ... */
    const char *ack;     /* the acknowledged instruction's id */
    Bigfleet__V1alpha1__InstructAck__Outcome outcome;
    uint64_t process;
    const char *provider; /* shown with a summary */
    Bigfleet__V1alpha1__ShardReport__Scope scope;
    const char *reason;      /* with the ack */
    const char *key, *value; /* the shard's only domain; NULL: not reported */
};
const Bigfleet__V1alpha1__ReportAck *rig_report(struct rig_report report); /* OK */
struct rig_answer *rig_try_report(struct rig_call call, struct rig_report report);
const Bigfleet__V1alpha1__ListShardsResponse *rig_shards(void);
const Bigfleet__V1alpha1__ListShardReportsResponse *rig_reports(const char *shard);
const Muster__V1__ListInstructionsResponse *rig_instructions(const char *shard);
/* Queues an instruction of one of the five kinds; `id` may be "". */
enum grpc_status rig_queue(const char *shard, const char *id);

bool rig_metric(const struct rig_node *node, const char *line, double *ret_value);
/* The number of log lines that contain all of these parts (ended by NULL). */
size_t rig_lines(const struct rig_node *node, const char *const *parts);
#define RIG_LINES(node, ...) rig_lines(node, (const char *const[]){__VA_ARGS__, NULL})
#endif
