/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a nats:// store. Caller's thread. */
#include <stdio.h>
#include <stdlib.h>

#include "prim/nats/store.h"
#include "prim/stores.h"

static coord_caps nats_capabilities(struct prim_backend *backend)
{
    struct jet_store *store = jet_of(backend);
    (void)pthread_mutex_lock(&store->lock);
    coord_caps caps = store->caps;
    (void)pthread_mutex_unlock(&store->lock);
    return caps;
}

static void nats_store_free(struct jet_store *store)
{
    struct jet_pipe_guard guard;
    jet_check_stop(store);
    jet_pipe_guard_begin(&guard);
    natsConnection_Destroy(store->link.connection);
    jet_pipe_guard_end(&guard);
    nats_ReleaseThreadMemory();
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

static void close_store(struct prim_backend *backend)
{
    nats_store_free(jet_of(backend));
}

static const struct prim_backend_ops ops = {
    .name = "nats",
    .guards_max = 256,
    .guards_alone = 4, /* each watch is a consumer and a thread */
    .capabilities = nats_capabilities,
    PRIM_CHANGE_OPS,
    .create = prim_change_create,
    .cas = prim_change_cas,
    .renew = prim_change_renew,
    .release = prim_change_release,
    .adopt = jet_adopt,
    .watch = jet_watch,
    .unwatch = jet_unwatch,
    .close = close_store,
    .ways = &jet_ways,
};

coord_result prim_nats_open(const struct prim_open *in, struct prim_backend **ret_backend)
{
    struct str bucket = str_from(in->url->path);
    bucket = str_tail(bucket, bucket.len > 0 ? 1 : 0);
    if (!jet_bucket_is_valid(bucket)) {
        return prim_answer(
            COORD_INVALID, COORD_R_URL,
            "nats: nats://host:port/bucket, the bucket 1-%d bytes of A-Z a-z 0-9 - _",
            JET_BUCKET_MAX);
    }
    struct jet_store *store = calloc(1, sizeof *store);
    if (store == NULL) return prim_no_memory();
    prim_backend_init(&store->backend, &ops, in, (coord_limits){.key_max = 0});
    (void)pthread_mutex_init(&store->lock, NULL);
    (void)snprintf(store->bucket, sizeof store->bucket, "%.*s", STR_ARG(bucket));
    (void)snprintf(store->stream, sizeof store->stream, "KV_%s", store->bucket);
    (void)snprintf(store->get_subject, sizeof store->get_subject, "$JS.API.STREAM.MSG.GET.%s",
                   store->stream);
    coord_result result = jet_link_open(&store->link, in);
    if (result.code == COORD_OK) result = jet_stream_open(store, in);
    if (result.code == COORD_OK) result = jet_check_start(store);
    if (result.code != COORD_OK) {
        nats_store_free(store);
        return result;
    }
    *ret_backend = &store->backend;
    return result;
}
