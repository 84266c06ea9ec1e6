/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes an etcd store: URL, probes of version, cluster and members, capabilities.
 * Caller's thread. Opening fails without a cluster id or a linearizable read. */
#include <stdio.h>
#include <stdlib.h>

#include "prim/change.h"
#include "prim/etcd/internal.h"
#include "prim/stores.h"
#include "prim/url.h"

enum {
    PREFIX_MAX = 200,
    VERSION_MAJOR = 3,
    VERSION_MINOR = 4, /* first version with LEASE compares and client-chosen watch ids */
};

/* -- capabilities -- */

static coord_caps backend_capabilities(struct prim_backend *base)
{
    return etcd_of(base)->caps;
}

static void etcd_backend_fill_caps(struct etcd_backend *b, const char *version, size_t members)
{
    bool raw = b->space.raw;

    b->caps = (coord_caps){
        .bits = COORD_CAP_CREATE | COORD_CAP_CAS | COORD_CAP_TTL | COORD_CAP_STORE_ORDER |
                COORD_CAP_LIST_ATOMIC | COORD_CAP_MULTI_KEY | COORD_CAP_DURABLE |
                COORD_CAP_DURABLE_LEASED | COORD_CAP_FORCE | COORD_CAP_STALE_READ |
                (raw ? 0 : COORD_CAP_SLOTS | COORD_CAP_SHRINK) | (members >= 3 ? COORD_CAP_HA : 0),
        .scope = COORD_SCOPE_CLUSTER,
        .watch = COORD_WATCH_RESUMABLE,
        .token = COORD_TOKEN_STORE,
        .replay = raw ? COORD_REPLAY_NONE : COORD_REPLAY_LAST,
        .note = "an ended claim may stay visible for a second or two; after a leader change it "
                "may last a TTL longer; two simultaneous calls of one owner may get two slots"};
    (void)snprintf(b->caps.server, sizeof b->caps.server, "etcd %.60s", version);
}

/* -- opening -- */

static bool version_is_enough(const char *version)
{
    struct str rest = str_from(version), part;
    uint64_t major, minor;

    if (!str_split(&rest, '.', &part) || str_to_u64(part, &major)) return false;
    if (!str_split(&rest, '.', &part) || str_to_u64(part, &minor)) return false;
    return major > VERSION_MAJOR || (major == VERSION_MAJOR && minor >= VERSION_MINOR);
}

static coord_result etcd_backend_probe_status(struct etcd_backend *b, int64_t deadline_ns,
                                              char version[64])
{
    Etcdserverpb__StatusRequest request = ETCDSERVERPB__STATUS_REQUEST__INIT;
    const Etcdserverpb__StatusResponse *status;
    ProtobufCMessage *message = NULL;
    struct arena arena;
    coord_result result =
        etcd_ask(b, deadline_ns,
                 &(struct etcd_ask){.path = "/etcdserverpb.Maintenance/Status",
                                    .request = &request.base,
                                    .type = &etcdserverpb__status_response__descriptor,
                                    .hurried = true},
                 &arena, &message);

    if (result.code == COORD_OK && message) {
        status = (Etcdserverpb__StatusResponse *)message;
        (void)snprintf(version, 64, "%.60s", status->version);
        if (!status->header || !status->header->cluster_id)
            result = etcd_corrupt("a server without a cluster id");
        else if (!version_is_enough(version))
            result =
                prim_answer(COORD_UNSUPPORTED, COORD_R_SERVER,
                            "etcd %s is too old: 3.4 is the oldest that is supported", version);
        else
            b->cluster_id = status->header->cluster_id;
    }
    arena_deinit(&arena);
    return result;
}

/* Voting members. 0: unknown, so COORD_CAP_HA is not set (C3). */
static size_t probe_members(struct etcd_backend *b, int64_t deadline_ns)
{
    Etcdserverpb__MemberListRequest request = ETCDSERVERPB__MEMBER_LIST_REQUEST__INIT;
    ProtobufCMessage *message = NULL;
    struct arena arena;
    size_t members = 0;
    coord_result result =
        etcd_ask(b, deadline_ns,
                 &(struct etcd_ask){.path = "/etcdserverpb.Cluster/MemberList",
                                    .request = &request.base,
                                    .type = &etcdserverpb__member_list_response__descriptor,
                                    .hurried = true},
                 &arena, &message);

    if (result.code == COORD_OK && message) {
        const Etcdserverpb__MemberListResponse *list = (Etcdserverpb__MemberListResponse *)message;
        for (size_t i = 0; i < list->n_members; i++)
            if (!list->members[i]->islearner) members++;
    }
    arena_deinit(&arena);
    return members;
}

static coord_result etcd_backend_probe(struct etcd_backend *b, int64_t deadline_ns)
{
    const struct prim_call call = {.deadline_ns = deadline_ns};
    struct prim_seen seen;
    struct arena arena;
    char version[64];
    coord_result result;

    do {
        result = etcd_backend_probe_status(b, deadline_ns, version);
        if (result.code == COORD_OK) {
            result = etcd_read(b, &call, STR(".open"), false, &arena, &seen);
            arena_deinit(&arena);
        }
    } while (grpc_now(&b->client.grpc_thread) < deadline_ns && grpc_worth_another_probe(&result));
    if (result.code != COORD_OK) return result;
    etcd_backend_fill_caps(b, version, probe_members(b, deadline_ns));
    uint64_t place = str_hash(str_of(b->space.prefix, b->space.prefix_len), b->space.raw);
    for (size_t i = 0; i < 8; i++) {
        b->base.id.b[i] = (uint8_t)(b->cluster_id >> (56 - 8 * i));
        b->base.id.b[8 + i] = (uint8_t)(place >> (56 - 8 * i));
    }
    return result;
}

static coord_result set_space(const struct prim_open *in, struct etcd_space *space)
{
    const char *prefix = prim_url_param(in->url, "prefix");
    struct str path = str_from(in->url->path);
    int64_t raw = 0;
    coord_result result = prim_url_number(in->url, "raw", 0, 1, &raw);

    if (result.code != COORD_OK) return result;
    if (prefix && path.len > 1)
        return prim_answer(COORD_INVALID, COORD_R_URL,
                           "etcd: a path and prefix= are the same: give one");
    if (prefix) path = str_from(prefix);
    while (path.len > 0 && path.at[0] == '/') path = str_tail(path, 1);
    while (path.len > 0 && path.at[path.len - 1] == '/') path.len--;
    if (path.len > PREFIX_MAX)
        return prim_answer(COORD_INVALID, COORD_R_URL, "etcd: the prefix is longer than 200 bytes");
    for (size_t i = 0; i < path.len; i++)
        if (path.at[i] < 0x21 || path.at[i] > 0x7e)
            return prim_answer(COORD_INVALID, COORD_R_URL,
                               "etcd: the prefix may hold bytes 0x21 to 0x7e only");
    space->raw = raw != 0;
    space->prefix_len =
        (size_t)snprintf(space->prefix, sizeof space->prefix, "%s%.*s%s",
                         space->raw ? "" : "muster/", STR_ARG(path), path.len > 0 ? "/" : "");
    assert(space->prefix_len < sizeof space->prefix);
    return prim_ok(COORD_R_NONE);
}

static coord_result open_client(const struct prim_open *in, struct etcd_backend *b)
{
    struct grpc_servers servers;
    struct etcd_client_options client = {.servers = &servers,
                                         .user = in->url->user,
                                         .password = in->url->password,
                                         .clock = in->clock};
    coord_result result = grpc_servers_read(in, &etcd_scheme, &servers);
    struct note note = {""};
    enum err err;

    if (result.code == COORD_OK) result = set_space(in, &b->space);
    if (result.code != COORD_OK) return result;
    err = etcd_client_open(&b->client, &client, &note);
    if (err == ERR_NOMEM) return prim_no_memory();
    if (err)
        return prim_answer(COORD_INVALID, COORD_R_URL, "etcd: %s",
                           note.text[0] ? note.text : err_text(err));
    return result;
}

/* -- open and close -- */

static void close_backend(struct prim_backend *base)
{
    struct etcd_backend *b = etcd_of(base);

    etcd_lease_drain(b);
    etcd_client_close(&b->client);
    free(b);
}

static const struct prim_backend_ops etcd_ops = {
    .name = "etcd",
    .guards_max = 64 * 1024,
    .guards_alone = 4, /* each watch is a stream */
    .capabilities = backend_capabilities,
    PRIM_CHANGE_OPS,
    .create = prim_change_create,
    .cas = etcd_cas,
    .renew = etcd_renew,
    .release = etcd_release,
    .adopt = etcd_adopt,
    .watch = etcd_watch,
    .unwatch = etcd_unwatch,
    .close = close_backend,
    .ways = &etcd_ways,
};

coord_result prim_etcd_open(const struct prim_open *in, struct prim_backend **ret_backend)
{
    struct etcd_backend *b = calloc(1, sizeof *b);
    coord_result result;

    if (!b) return prim_no_memory();
    prim_backend_init(&b->base, &etcd_ops, in,
                      prim_limits(ETCD_TTL_MIN_MS, PRIM_CHANGE_TTL_STEP_MS, PRIM_VALUE_MAX));
    result = open_client(in, b);
    if (result.code != COORD_OK) {
        free(b);
        return result;
    }
    list_init(&b->revokes.waiting);
    result = etcd_backend_probe(b, in->deadline_ns);
    if (result.code != COORD_OK) {
        close_backend(&b->base);
        return result;
    }
    *ret_backend = &b->base;
    return result;
}
