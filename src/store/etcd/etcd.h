/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's v3 API over the store (spec/coordination.md Part C), with the same keys, leases and
 * revisions as muster.v1.Coordination.
 *
 * Every replica accepts requests. A request that only the leader can answer is forwarded
 * (rpc/forward.h). A serializable read is answered from this replica's applied state. Claims
 * ("muster/...") can be read and watched, but not written.
 *
 * Order of calls, all on the loop's thread:
 *     store_service_open, replica_open, store_service_attach -> etcd_open
 *     -> etcd_methods on each server, before it listens ... etcd_on_change ...
 *     servers closed -> etcd_stop (wait for its done) -> etcd_close -> store_service_close */
#ifndef STORE_ETCD_ETCD_H
#define STORE_ETCD_ETCD_H
#include "store/etcd/access/access.h"
#include "store/service.h"

/* The etcd release that clients see. Clients check the version before they use a feature. */
#define ETCD_VERSION "3.6.5"

struct etcd_api;
struct etcd_member {
    uint64_t id;
    const char *name, *peer, *client; /* addresses; valid during the call */
    const char *join; /* address at which a new member asks to join; valid during the call */
    bool learner;
};
struct etcd_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; the API copies the struct */
    struct store_service *store;
    struct replica *replica;
    /* The leader's gRPC address, "" without a leader; valid during the call. */
    const char *(*leader_address)(void *owner);
    void *owner;
    struct tls_context *tls;       /* for connections to the leader; NULL: plaintext */
    const struct etcd_rule *rules; /* permissions under TLS; must outlive the API */
    size_t rule_count;
    /* A watch with progress_notify is sent the revision after this idle time; 0: 600,000 ms. */
    uint64_t progress_ms;
    uint32_t election_ms; /* ms; 0: 250 */
    /* NULL: member lists are empty */
    size_t (*members)(void *owner, struct etcd_member members[REPLICA_MEMBERS_MAX]);
    const char *version; /* static text: version of etcd that clients see; NULL: ETCD_VERSION */
};
/* ERR_NOMEM, ERR_FULL (timers). */
enum err etcd_open(const struct etcd_options *options, struct etcd_api **ret_api);
/* The same methods may be added to several servers. */
enum err etcd_methods(struct etcd_api *api, struct rpc_server *server, struct note *note);
/* Call after store_service_on_change. */
void etcd_on_change(struct etcd_api *api, const struct replica_status *status);
/* Call after the servers are closed; closes the connection to the leader. Calls done() once, after
 * etcd_stop has returned. */
void etcd_stop(struct etcd_api *api, void (*done)(void *owner), void *owner);
void etcd_close(struct etcd_api *api); /* NULL is fine */
/* The pages /health and /version, for rpc_server_pages(). `api`: a struct etcd_api. */
bool etcd_page(void *api, struct str path, struct rpc_page *page);
/* Clients may ping as often as they like (C1). */
struct rpc_server_limits etcd_server_limits(void);
#endif
