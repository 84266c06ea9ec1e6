/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's v3 API over the store (spec/coordination.md Part C): the same keys, leases and revisions
 * that muster.v1.Coordination has, as etcd's clients speak of them.
 *
 * Any replica may be asked: what only the leader can answer is passed on to it (rpc/forward.h),
 * serializable reads are answered from what is applied here. Claims ("muster/...") can be read and
 * watched, and not written.
 *
 * Order of life, all on the loop's thread:
 *     store_service_open, replica_open, store_service_attach -> etcd_open
 *     -> etcd_methods on each server, before it listens ... etcd_on_change ...
 *     servers closed -> etcd_stop (wait for its done) -> etcd_close -> store_service_close */
#ifndef STORE_ETCD_ETCD_H
#define STORE_ETCD_ETCD_H
#include "store/etcd/access/access.h"
#include "store/service.h"

/* The release whose behaviour this is: clients check it before they use a feature. */
#define ETCD_VERSION "3.6.5"

struct etcd_api;
struct etcd_member {
    uint64_t id;
    const char *name, *peer, *client; /* addresses; valid during the call */
    const char *join;                 /* where a newcomer asks for its place; the same */
    bool learner;
};
struct etcd_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct store_service *store;
    struct replica *replica;
    /* Where the leader serves gRPC, "" without a leader; valid during the call. */
    const char *(*leader_address)(void *owner);
    void *owner;
    struct tls_context *tls;       /* how it is reached; NULL: plaintext */
    const struct etcd_rule *rules; /* permissions under TLS; for the life of the API */
    size_t rule_count;
    /* Watches with progress_notify are sent the revision after so long without events; 0: 600,000. */
    uint64_t progress_ms;
    uint32_t election_ms; /* of the replica; 0: 250 */
    /* The members, and where each serves this API. NULL: lists are empty. */
    size_t (*members)(void *owner, struct etcd_member members[REPLICA_MEMBERS_MAX]);
    const char *version; /* of etcd, as sent to clients; NULL: ETCD_VERSION; static */
};
/* ERR_NOMEM, ERR_FULL (timers). */
enum err etcd_open(const struct etcd_options *options, struct etcd_api **ret_api);
/* What rpc_server_add answers. The same methods may be added to several servers. */
enum err etcd_methods(struct etcd_api *api, struct rpc_server *server, struct note *note);
/* After store_service_on_change. */
void etcd_on_change(struct etcd_api *api, const struct replica_status *status);
/* After the servers are closed: the way to the leader goes. done() once, never from inside. */
void etcd_stop(struct etcd_api *api, void (*done)(void *owner), void *owner);
void etcd_close(struct etcd_api *api); /* NULL is fine */
/* A page for rpc_server_pages, with the API as its owner: /health and /version. */
bool etcd_page(void *api, struct str path, struct rpc_page *page);
/* What a server for etcd's clients allows: pings as often as they send them (C1). Streams are
 * limited as on every server: etcd's clients put their watches on few streams. */
struct rpc_server_limits etcd_server_limits(void);
#endif
