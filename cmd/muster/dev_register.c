/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the requests that register the fleet of `muster dev` one after the other. A later
 * dev_register_go() repeats a failed request. Loop's thread. */
#include "muster/dev_register.h"

#include <stdio.h>

#include "wire/pack.h"

enum { REQUEST_MAX = 4096, TIMEOUT_MS = 5000, ZONE_QUOTA = 400, SHARD_CAP = 32 };
#define DEV_CLOUD  "cloud"
#define DEV_REGION "eu-1"

static struct str register_shard(size_t shard, char text[SHARD_CAP])
{
    snprintf(text, SHARD_CAP, "shard-%zu", shard);
    return str_from(text);
}

/* Most requests have up to three texts, in the fields 1 to 3. */
static void register_pack_texts(struct pack *pack, struct str one, struct str two, struct str three)
{
    pack_text(pack, 1, one);
    pack_text(pack, 2, two);
    pack_text(pack, 3, three);
}

/* UpsertProviderRequest: one ProviderEntry. */
static void register_pack_provider(const struct dev_register *r, struct pack *pack)
{
    struct buf bytes;
    char address[32];

    dev_address(address, r->parts->ports.provider_grpc);
    buf_init(&bytes, REQUEST_MAX);
    struct pack entry = pack_begin(&bytes);
    register_pack_texts(&entry, STR(DEV_CLOUD), str_from(address), STR(DEV_REGION));
    pack_row(pack, 1, &entry);
    buf_deinit(&bytes);
}

/* A quota slice for each shard, by the number of its zones. Coordinators only show quotas; the
 * provider enforces them. */
static void register_pack_quota(const struct dev_register *r, struct pack *pack)
{
    struct buf bytes;
    char id[SHARD_CAP];

    register_pack_texts(pack, STR(DEV_CLOUD), STR(DEV_REGION), STR_EMPTY);
    buf_init(&bytes, REQUEST_MAX);
    for (size_t i = 0; i < r->parts->shards; i++) {
        struct pack slice = pack_begin(&bytes);
        size_t zones = 0;

        for (size_t zone = 0; zone < DEV_ZONES; zone++)
            zones += dev_zone_shard(zone, r->parts->shards) == i;
        pack_text(&slice, 1, register_shard(i, id));
        pack_u64(&slice, 2, zones * ZONE_QUOTA);
        pack_row(pack, 3, &slice);
    }
    buf_deinit(&bytes);
}

enum { ASK_DOMAINS, ADD_SHARD, ASSIGN_DOMAIN, BIND_CLUSTER, UPSERT_PROVIDER, SET_QUOTA, REQUESTS };

/* Packs the request of the current step and returns its path; NULL: all steps are done. The first
 * step asks whether the fleet is registered already. */
static const char *register_request(const struct dev_register *r, struct pack *pack)
{
    const size_t shards = r->parts->shards;
    const struct {
        const char *path;
        size_t count;
    } requests[REQUESTS] = {
        [ASK_DOMAINS] = {"/bigfleet.v1alpha1.Coordinator/ListDomainAssignments", 1},
        [ADD_SHARD] = {"/muster.v1.Fleet/AddShard", shards},
        [ASSIGN_DOMAIN] = {"/bigfleet.v1alpha1.Coordinator/AssignDomain", DEV_ZONES},
        [BIND_CLUSTER] = {"/muster.v1.Fleet/BindCluster", DEV_OPERATORS},
        [UPSERT_PROVIDER] = {"/muster.v1.Fleet/UpsertProvider", 1},
        [SET_QUOTA] = {"/muster.v1.Fleet/SetQuota", 1},
    };
    size_t n = r->step, which = 0;
    char id[SHARD_CAP], address[32];

    while (which < REQUESTS && n >= requests[which].count) n -= requests[which++].count;
    switch (which) {
    case ADD_SHARD:
        dev_address(address, r->parts->ports.shards[n].grpc);
        register_pack_texts(pack, register_shard(n, id), str_from(address), STR_EMPTY);
        break;
    case ASSIGN_DOMAIN:
        register_pack_texts(pack, STR(DEV_ZONE_KEY), str_from(dev_zone(n)),
                            register_shard(dev_zone_shard(n, shards), id));
        break;
    case BIND_CLUSTER:
        register_pack_texts(pack, str_from(dev_cluster(n)),
                            register_shard(dev_cluster_shard(n, shards), id), STR_EMPTY);
        break;
    case UPSERT_PROVIDER: register_pack_provider(r, pack); break;
    case SET_QUOTA: register_pack_quota(r, pack); break;
    default: break;
    }
    return which < REQUESTS ? requests[which].path : NULL;
}

static void register_on_answer(void *owner, const struct rpc_client_call *,
                               const struct rpc_outcome *outcome, struct str bytes)
{
    struct dev_register *r = owner;

    r->asking = false;
    if (outcome->err && outcome->err != ERR_EXISTS) {
        LOG_WARN(r->log, "fleet could not be registered at the coordinators: retrying",
                 log_u64("step", r->step), log_err("err", outcome->err),
                 log_str("why", outcome->text));
        return;
    }
    if (r->step++ == 0 && bytes.len > 0) /* ListDomainAssignmentsResponse: not empty */
        r->known = true;
    else
        dev_register_go(r);
}

void dev_register_go(struct dev_register *r)
{
    struct rpc_call_options call = {.timeout_ms = TIMEOUT_MS, .idempotent = true};
    struct buf request;

    if (r->known || r->asking) return;
    buf_init(&request, REQUEST_MAX);
    struct pack pack = pack_begin(&request);
    call.path = register_request(r, &pack);
    r->known = !call.path;
    if (call.path && !pack.err)
        r->asking =
            rpc_unary(r->channel, &call, buf_peek(&request), register_on_answer, r, NULL) == ERR_OK;
    buf_deinit(&request);
}
