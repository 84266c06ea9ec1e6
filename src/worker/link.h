/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's calls to the service: beats, registration, assignments, acknowledgements, over one
 * channel that keeps a second connection warm at another coordinator.
 *
 * Knows the wire and nothing of what it means. Every call has a time limit, so nothing is ever
 * waited for by who has to go on: a beat that is not answered within it counts as lost, and the
 * next one goes to another coordinator. Whoever is asked answers for the leader. */
#ifndef WORKER_LINK_H
#define WORKER_LINK_H
#include "io/io.h"
#include "io/tls.h"
#include "rpc/client.h"
#include "worker/checkpoint.h"
#include "worker/core/life.h"
#include "worker/core/tenure.h"

enum { LINK_INSTANCE_CAP = 33, LINK_ID_CAP = 129 };

struct link_beat_answer {
    enum err err; /* ERR_OK: acknowledged */
    enum grpc_status status;
    struct str text;
    bool has_epoch; /* coordinators that are not ours say none */
    uint64_t coord_epoch, incarnation, assignment_epoch, next_beat_ms;
    uint64_t fence_ms; /* the leader's worker_self_fence_timeout; 0: not said */
    bool reset;
    bool in_use; /* refused: another process has this worker id */
    /* pending_control */
    bool drain;
    uint64_t drain_deadline_ms;
    uint64_t checkpoint_round; /* 0: none */
};
struct link_registration {
    enum err err;
    enum grpc_status status;
    struct str text;
    uint64_t incarnation, assignment_epoch, coord_epoch;
    struct life_terms terms;
};
struct link_assignment { /* lists are borrowed during the call */
    uint64_t assignment_epoch, coord_epoch, incarnation, checkpoint_round;
    bool reset;
    struct grant *grants;
    size_t grant_count;
};
enum link_call { LINK_LEAVE, LINK_ACK_REVOKE, LINK_ACK_CHECKPOINT, LINK_CALLS };
struct link_options {
    struct io *io;
    const char *const *addresses; /* ends with NULL; copied */
    struct tls_context *tls;
    const char *tls_name;
    struct rpc_client_metrics *metrics;
    const char *worker_id, *run_id; /* copied */
    struct worker_host *host;
};
struct link;
/* -- host.c: what is heard; never from inside a call of this header -- */
void host_beat_answered(struct worker_host *host, boot_time sent, uint64_t lease_ms,
                        const struct link_beat_answer *answer);
void host_registered(struct worker_host *host, uint64_t lease_ms,
                     const struct link_registration *answer);
void host_assigned(struct worker_host *host, const struct link_assignment *assignment);
void host_answered(struct worker_host *host, enum link_call call, enum err err);

/* Errors as rpc_channel_open. */
enum err link_open(const struct link_options *options, struct link **ret_link, struct note *note);
/* No event from here on; done() once nothing is left. NULL is fine. */
void link_close(struct link *link, void (*done)(void *owner), void *owner);
const char *link_peer(const struct link *link); /* connected to, or "" */

/* Who speaks: what requests carry beside their own. */
struct link_self {
    char instance[LINK_INSTANCE_CAP]; /* 32 hex digits */
    uint64_t incarnation;             /* 0: not known */
    uint64_t coord_epoch, assignment_epoch;
};
/* One at a time: false while one is under way, nothing is sent then. */
bool link_beat(struct link *link, const struct link_self *self, enum life_phase phase,
               boot_time now, uint64_t lease_ms, uint64_t timeout_ms, double load);
bool link_beating(const struct link *link);
bool link_register(struct link *link, const struct link_self *self, uint64_t lease_ms);
bool link_leave(struct link *link, const struct link_self *self, const char *reason);
/* Opens the stream of assignments if it is not open, and keeps it: a fresh registration begins with
 * what holds now. link_unwatch ends it. */
void link_watch(struct link *link, const struct link_self *self);
void link_unwatch(struct link *link);

struct link_checkpoint {
    uint32_t partition;
    uint64_t token;
    char reference[CHECKPOINT_REFERENCE_CAP]; /* may be empty */
};
bool link_ack_revoke(struct link *link, const struct link_self *self,
                     const struct link_checkpoint *list, size_t count);
/* `error` empty: all of them are there. */
bool link_ack_checkpoint(struct link *link, const struct link_self *self, uint64_t round,
                         const struct link_checkpoint *list, size_t count, const char *error);
#endif
