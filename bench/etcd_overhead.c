/* SPDX-License-Identifier: Apache-2.0 */
/* The overhead of libmuster over etcd: compare-and-set through coord_compare_and_set, beside the
 * very same transaction sent over src/rpc by a loop that does nothing else. Rounds alternate, so
 * that both meet the same neighbours. Run by bench_etcd.py, which starts the server.
 *
 *   etcd_overhead HOST:PORT ROUNDS CALLS */
#include <string.h>

#include <muster/coord.h>

#include "bench.h"
#include "io/real.h"
#include "latency.h"
#include "prim/envelope.h"
#include "prim/etcd/internal.h"
#include "prim/etcd/reply.h"
#include "rpc/client.h"

static const char value[128];

static uint64_t now_ns(void)
{
    return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

/* -- bare -- */

struct bare {
    struct real_io *real;
    struct rpc_channel *channel;
    uint64_t revision;
    bool answered, closed;
};

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct bare *b = owner;
    Etcdserverpb__TxnResponse *txn;

    (void)call;
    MUST(outcome->err == ERR_OK);
    txn = etcdserverpb__txn_response__unpack(NULL, message.len, (const uint8_t *)message.at);
    MUST(txn && txn->succeeded);
    b->revision = (uint64_t)txn->header->revision;
    etcdserverpb__txn_response__free_unpacked(txn, NULL);
    b->answered = true;
}

static void bare_cas(struct bare *b)
{
    const struct h2_header leader = {STR("hasleader"), STR("true")};
    const struct claim_envelope envelope = {.request_id = {{1}},
                                            .value = str_of(value, sizeof value)};
    struct str key = STR("muster/bench/bare");
    struct buf stored;
    struct etcd_txn txn;

    buf_init(&stored, 4096);
    MUST(!envelope_encode(&envelope, &stored));
    etcd_txn_init(&txn);
    etcd_if(&txn, key, ETCD_MODIFIED, (int64_t)b->revision);
    etcd_if(&txn, key, ETCD_LEASED, 0);
    etcd_put(&txn, key, buf_peek(&stored), 0);
    etcd_range(&txn, true, key, STR_EMPTY);
    MUST(!txn.err);
    b->answered = false;
    MUST(!rpc_unary(b->channel,
                    &(struct rpc_call_options){.path = "/etcdserverpb.KV/Txn",
                                               .timeout_ms = 5000,
                                               .wait_for_ready = true,
                                               .metadata = &leader,
                                               .metadata_count = 1,
                                               .untraced = true},
                    buf_peek(&txn.request), on_answer, b, NULL));
    while (!b->answered) real_io_turn(b->real, true);
    buf_deinit(&stored);
    etcd_txn_deinit(&txn);
}

static void on_closed(void *owner)
{
    ((struct bare *)owner)->closed = true;
}

/* -- through libmuster -- */

static uint64_t muster_cas(coord_store *store, uint64_t revision)
{
    coord_result result =
        coord_compare_and_set(store, NULL, (coord_str){"bench/muster", 12}, revision,
                              (coord_str){value, sizeof value}, 0, NULL, NULL, NULL);

    MUST(result.code == COORD_OK);
    return result.revision;
}

static void claims(coord_store *store, unsigned calls)
{
    static struct latency acquire, release, renew;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_lease *lease;
    uint64_t began;

    request.group = (coord_str){"bench/group", 11};
    request.owner = "bench";
    request.ttl_ms = 10000;
    for (unsigned i = 0; i < calls; i++) {
        began = now_ns();
        MUST(coord_acquire_slot(store, NULL, &request, &lease).code == COORD_OK);
        latency_add(&acquire, now_ns() - began);
        began = now_ns();
        MUST(coord_renew(lease, NULL).code == COORD_OK);
        latency_add(&renew, now_ns() - began);
        began = now_ns();
        MUST(coord_release(lease, NULL).code == COORD_OK);
        latency_add(&release, now_ns() - began);
        coord_lease_unref(lease);
    }
    printf("  acquire (read, grant, txn)  p50 %6.0f us  p99 %6.0f us\n",
           (double)latency_at(&acquire, 0.5) / 1e3, (double)latency_at(&acquire, 0.99) / 1e3);
    printf("  renew (keep-alive + look)   p50 %6.0f us  p99 %6.0f us\n",
           (double)latency_at(&renew, 0.5) / 1e3, (double)latency_at(&renew, 0.99) / 1e3);
    printf("  release                     p50 %6.0f us  p99 %6.0f us\n",
           (double)latency_at(&release, 0.5) / 1e3, (double)latency_at(&release, 0.99) / 1e3);
}

int main(int argc, char **argv)
{
    static struct latency bare_times, muster_times;
    const char *addresses[] = {argv[1], NULL};
    struct bare b = {0};
    coord_store *store;
    char url[200];
    uint64_t began, revision = 0, bare_p50, muster_p50;
    unsigned rounds, calls;

    MUST(argc == 4);
    rounds = (unsigned)atoi(argv[2]);
    calls = (unsigned)atoi(argv[3]);
    (void)snprintf(url, sizeof url, "etcd://%s", argv[1]);
    MUST(coord_open(url, NULL, &store).code == COORD_OK);
    MUST(!real_io_open(&b.real));
    MUST(!rpc_channel_open(
        &(struct rpc_channel_options){.io = real_io_io(b.real), .addresses = addresses}, &b.channel,
        NULL));
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < calls; i++) {
            began = now_ns();
            bare_cas(&b);
            if (round > 0) latency_add(&bare_times, now_ns() - began);
        }
        for (unsigned i = 0; i < calls; i++) {
            began = now_ns();
            revision = muster_cas(store, revision);
            if (round > 0) latency_add(&muster_times, now_ns() - began);
        }
    }
    bare_p50 = latency_at(&bare_times, 0.5);
    muster_p50 = latency_at(&muster_times, 0.5);
    printf("  bare transaction, src/rpc   p50 %6.0f us  p99 %6.0f us  mean %6.0f us\n",
           (double)bare_p50 / 1e3, (double)latency_at(&bare_times, 0.99) / 1e3,
           bare_times.sum_ns / (double)bare_times.count / 1e3);
    printf("  coord_compare_and_set       p50 %6.0f us  p99 %6.0f us  mean %6.0f us\n",
           (double)muster_p50 / 1e3, (double)latency_at(&muster_times, 0.99) / 1e3,
           muster_times.sum_ns / (double)muster_times.count / 1e3);
    printf("  we add %.1f %% (p50), %.1f %% (mean)\n",
           100.0 * ((double)muster_p50 / (double)bare_p50 - 1),
           100.0 * (muster_times.sum_ns / (double)muster_times.count /
                        (bare_times.sum_ns / (double)bare_times.count) -
                    1));
    claims(store, calls);
    rpc_channel_close(b.channel, on_closed, &b);
    while (!b.closed) real_io_turn(b.real, true);
    real_io_close(b.real);
    coord_close(store);
    return 0;
}
