/* SPDX-License-Identifier: Apache-2.0 */
#include "store/etcd/asks.h"

static struct str bytes_of(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

/* -- leases -- */

enum etcd_error ask_grant_check(const Etcdserverpb__LeaseGrantRequest *m)
{
    return m->ttl > ETCD_TTL_MAX_S ? ETCD_LEASE_TTL : ETCD_OK;
}

int64_t ask_grant_ttl(const Etcdserverpb__LeaseGrantRequest *m)
{
    return m->ttl < ETCD_TTL_MIN_S ? ETCD_TTL_MIN_S : m->ttl;
}

struct store_command ask_grant(const Etcdserverpb__LeaseGrantRequest *m, int64_t drawn)
{
    return (struct store_command){.kind = STORE_LEASE_GRANT,
                                  .prefer_slot = STORE_NO_SLOT,
                                  .lease = store_plain_lease(m->id ? m->id : drawn),
                                  .ttl_ms = ask_grant_ttl(m) * 1000};
}

enum etcd_error ask_revoke_check(const Etcdserverpb__LeaseRevokeRequest *m)
{
    return m->id == 0 ? ETCD_LEASE_NOT_FOUND : ETCD_OK;
}

struct store_command ask_revoke(const Etcdserverpb__LeaseRevokeRequest *m)
{
    return (struct store_command){.kind = STORE_LEASE_REVOKE,
                                  .prefer_slot = STORE_NO_SLOT,
                                  .lease = store_plain_lease(m->id)};
}

/* -- watches -- */

static void create(struct feed_stream *stream, const Etcdserverpb__WatchCreateRequest *m,
                   ask_watch_fn *refusal, void *owner)
{
    struct feed_create create = {.range = {bytes_of(m->key), bytes_of(m->range_end)},
                                 .start_revision = m->start_revision,
                                 .id = m->watch_id,
                                 .prev_kv = m->prev_kv,
                                 .fragment = m->fragment,
                                 .progress_notify = m->progress_notify};

    if (create.range.from.len == 0) create.range.from = str_of("", 1); /* the least key there is */
    create.refusal = refusal(owner, create.range);
    for (size_t i = 0; i < m->n_filters; i++)
        if (m->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT)
            create.no_put = true;
        else if (m->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE)
            create.no_delete = true;
    feed_create(stream, &create);
}

void ask_watch(struct feed_stream *stream, const Etcdserverpb__WatchRequest *m,
               ask_watch_fn *refusal, void *owner)
{
    switch (m->request_union_case) {
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST:
        create(stream, m->create_request, refusal, owner);
        break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST:
        feed_cancel(stream, m->cancel_request->watch_id);
        break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST: feed_progress(stream); break;
    default: break; /* of a later release: etcd passes over it, too */
    }
}
