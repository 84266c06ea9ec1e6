/* SPDX-License-Identifier: Apache-2.0 */
/* Worker membership as a service of the coordinator: rollout's Heartbeat, Control and Work, and
 * muster.v1.Membership (proto/muster/v1/member.proto).
 *
 * core/member.h is the replicated registry of workers, core/local.h the leader's failure detector.
 * The service does their I/O. A follower forwards calls to the leader, many heartbeats in one call.
 * A heartbeat is acknowledged after a leadership round that began after its arrival, and always
 * answered within reply_max_ms.
 *
 * A new leader treats every worker as if it had just sent a heartbeat, so a change of leaders fails
 * no worker.
 *
 * Order of life, all on the loop's thread:
 *     member_service_open -> replica_open with its machine -> member_service_attach
 *     -> member_service_methods with each server -> rpc_server_listen
 *     ... member_service_on_change from replica_events.on_change ...
 *     rpc_server_close of each (wait) -> replica_close -> member_service_stop (wait)
 *     -> member_service_close */
#ifndef MEMBER_SERVICE_H
#define MEMBER_SERVICE_H
#include "base/ulid.h"
#include "io/io.h"
#include "io/tls.h"
#include "log/log.h"
#include "member/core/local.h"
#include "member/machine.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "rpc/server.h"

struct member_service;
struct member_events;
struct member_ledger;
struct member_service_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; the service copies the struct */
    struct metrics *metrics;      /* may be NULL; a registry can have only one service */
    /* The leader's gRPC address, "" if unknown; valid during the call. */
    const char *(*leader_address)(void *owner);
    void *owner;
    struct tls_context *tls; /* for connections to the leader; NULL: plaintext */
    const char *name;        /* of this replica; copied */
    struct member_options member;
    /* False: the service applies the log but serves no calls. */
    bool enabled;
    struct ulid run;
    bool any_run;       /* also accept heartbeats of other runs */
    bool bind_identity; /* a certificate may only act for the worker that it names */
    struct member_rules rules;
    struct member_local_options local;
    uint32_t max_keys_per_partition;
    uint64_t reply_max_ms;        /* ms for answering a heartbeat; 0: 200 */
    bool at_most_once;            /* never write an event twice, but possibly lose events */
    struct member_events *events; /* may be NULL */
    struct member_ledger *ledger; /* may be NULL */
};
/* ERR_NOMEM, ERR_FULL (timers), ERR_INVALID, and the errors of metrics_add(). */
enum err member_service_open(const struct member_service_options *options,
                             struct member_service **ret_service, struct note *note);
struct member_machine *member_service_machine(struct member_service *service);
void member_service_attach(struct member_service *service, struct replica *replica);
/* `workers`: only rollout's three services and the methods that workers call. Returns the errors of
 * rpc_server_add(). */
enum err member_service_methods(struct member_service *service, struct rpc_server *server,
                                bool workers, struct note *note);
void member_service_on_change(struct member_service *service, const struct replica_status *status);
/* Replaces the settings of checkpoints and of the failure detector, except the detector's kind and
 * the transport times. ERR_INVALID: nothing was changed. */
enum err member_service_reload(struct member_service *service,
                               const struct member_local_options *local);
/* Call after the servers and the replica are closed. Calls done() when the connections to the
 * leader are closed, too. */
void member_service_stop(struct member_service *service, void (*done)(void *owner), void *owner);
void member_service_close(struct member_service *service); /* NULL is allowed */

/* -- for the status pages; on the loop's thread -- */
enum member_health { MEMBER_HEALTH_OK, MEMBER_HEALTH_DEGRADED, MEMBER_HEALTH_UNAVAILABLE };
/* The JSON of /health (workers.md 14); *ret_health is its `status`. */
enum err member_health_write(const struct member_service *service, const char *version,
                             struct buf *into, enum member_health *ret_health);
/* The JSON of /status, /workers or /partitions. /workers and /partitions have one object per line,
 * ordered by id. */
enum err member_status_write(const struct member_service *service, struct buf *into);
enum err member_workers_write(const struct member_service *service, struct buf *into);
enum err member_partitions_write(const struct member_service *service, struct buf *into);
#endif
