/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails while a client makes calls of every kind and a List, to a provider
 * whose allocations fail, too. After any failure every started call ends once, nothing leaks, a
 * call that was applied is not reported as unsent, and a List that ends well is whole. */
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "provider/client.h"
#include "rpc/server.h"
#include "sim/sim.h"

enum { CALLS = 8, RUN_MS = 100000, LIST_BYTES = 20000 };

struct called {
    bool started;
    unsigned ends, applied;
    enum provider_end end;
    enum grpc_status status;
};
static struct called called[CALLS + 1]; /* the last one is the List */
static struct provider_chunk *chunks[64];
static size_t chunk_count, chunk_bytes;
static struct sim *sim;
static struct rpc_server *server;
static struct provider *provider;
static bool provider_closed, server_closed;
static char list[LIST_BYTES];

/* --- the provider: machines are named by one digit --- */

static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    (void)service, (void)message;
    if (bytes.len >= 3 && bytes.at[0] == 0x0a) called[bytes.at[2] - '0'].applied++;
    rpc_reply_bytes(call, STR("ack"));
}

static void on_list(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                    struct str bytes)
{
    (void)service, (void)message, (void)bytes;
    rpc_reply_bytes(call, str_of(list, sizeof list));
}

static void serve(struct io *io)
{
    static const struct rpc_handler any = {.on_message = on_message},
                                    lister = {.on_message = on_list};
    static const char *const paths[] = {"/bigfleet.v1alpha1.CapacityProvider/Create",
                                        "/bigfleet.v1alpha1.CapacityProvider/Configure",
                                        "/bigfleet.v1alpha1.CapacityProvider/Drain",
                                        "/bigfleet.v1alpha1.CapacityProvider/Delete",
                                        "/bigfleet.v1alpha1.CapacityProvider/Get",
                                        "/bigfleet.v1alpha1.CapacityProvider/List"};

    CHECK_OK("a server", rpc_server_open(&(struct rpc_server_options){.io = io}, &server, NULL));
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        CHECK_OK("a method", rpc_server_add(server,
                                            &(struct rpc_method){.path = paths[i],
                                                                 .handler = i < 5 ? &any : &lister},
                                            NULL));
    CHECK_OK("listens", rpc_server_listen(server, "s0:7000", NULL, NULL));
}

/* --- the client --- */

static void on_done(void *context, const struct provider_answer *answer)
{
    struct called *c = context;

    c->ends++;
    c->end = answer->end;
    c->status = answer->status;
    if (answer->end == PROVIDER_DONE && c < &called[CALLS])
        CHECK_STR("the whole ack", answer->bytes, STR("ack"));
}

static void on_chunk(void *context, struct provider_chunk *own_chunk)
{
    (void)context;
    chunk_bytes += own_chunk->bytes.len;
    if (chunk_count < 3)
        chunks[chunk_count++] = own_chunk; /* until the end */
    else
        provider_chunk_done(own_chunk);
}

static void start(void)
{
    static const struct provider_fetch_events events = {on_chunk, on_done};
    static const struct label metadata[] = {{{"k", 1}, {"v", 1}}};
    static const char *const ids[CALLS] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    static char blob[3000];
    struct provider_fetch *fetch;

    for (size_t i = 0; i < CALLS; i++)
        called[i].started = !provider_call(
            provider,
            &(struct provider_request){.verb = (enum provider_verb)(i % 5),
                                       .machine = str_from(ids[i]),
                                       .cluster = STR("c"),
                                       .blob = str_of(blob, i > 4 ? sizeof blob : 10),
                                       .metadata = metadata,
                                       .metadata_count = 1},
            on_done, &called[i]);
    called[CALLS].started =
        !provider_fetch_start(provider, &(struct provider_fetch_request){.chunk_bytes = 1000},
                              &events, &called[CALLS], &fetch);
}

static bool all_ended(void *context)
{
    (void)context;
    for (size_t i = 0; i <= CALLS; i++)
        if (called[i].started && !called[i].ends) return false;
    return true;
}

static bool all_closed(void *context)
{
    (void)context;
    return provider_closed && server_closed;
}

static void on_closed(void *owner)
{
    *(bool *)owner = true;
}

static void check(void)
{
    for (size_t i = 0; i <= CALLS; i++) {
        if (!called[i].started) continue;
        CHECK_U64("each ends once", called[i].ends, 1);
        if (i % 5 != PROVIDER_GET)
            CHECK("a mutating call is applied once at most", called[i].applied <= 1);
        if (called[i].end == PROVIDER_UNSENT) CHECK_U64("unsent is not done", called[i].applied, 0);
    }
    if (called[CALLS].started && called[CALLS].end == PROVIDER_DONE)
        CHECK_SIZE("a List that is done is whole", chunk_bytes, LIST_BYTES);
}

static void run_once(uint64_t k)
{
    struct sim_host *client, *host;

    fault_alloc_arm(0);
    memset(called, 0, sizeof called);
    chunk_count = chunk_bytes = 0;
    provider_closed = true;
    server_closed = false;
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 3}, &sim));
    CHECK_OK("client", sim_host_add(sim, &(struct sim_host_options){.name = "c"}, &client));
    CHECK_OK("host", sim_host_add(sim, &(struct sim_host_options){.name = "s0"}, &host));
    serve(sim_host_io(host));
    fault_alloc_arm(k);
    if (provider_open(&(struct provider_options){.io = sim_host_io(client),
                                                 .address = "s0:7000",
                                                 .shard_id = "s",
                                                 .epoch = 1,
                                                 .list_timeout_ms = 30000},
                      &provider, NULL) == ERR_OK) {
        start();
        (void)sim_wait(sim, all_ended, NULL, RUN_MS);
        CHECK("nobody is forgotten", all_ended(NULL));
        check();
        provider_closed = false;
        provider_close(provider, on_closed, &provider_closed);
    }
    rpc_server_close(server, on_closed, &server_closed);
    (void)sim_wait(sim, all_closed, NULL, RUN_MS);
    CHECK("all is gone", all_closed(NULL));
    while (chunk_count > 0) provider_chunk_done(chunks[--chunk_count]);
    (void)sim_run_for(sim, 1000); /* the loop frees what a failed open left */
    sim_close(sim);
}

TEST(whatever_allocation_fails_calls_and_lists_end_once_and_rightly)
{
    FAULT_SWEEP_ALLOC(k) run_once(k);
    /* The last round had no fault. */
    for (size_t i = 0; i <= CALLS; i++)
        CHECK("started and done", called[i].started && called[i].end == PROVIDER_DONE);
}
