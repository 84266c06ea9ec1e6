/* SPDX-License-Identifier: Apache-2.0 */
/* The provider behind gRPC with the shard's own client, over a virtual network: Lists for readers
 * that stop reading, other calls meanwhile, and many Lists at once. */
#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "provider/client.h"
#include "provider/host/cloud.h"
#include "provider/host/service.h"
#include "provider/list.h"
#include "sim/sim.h"

enum { MACHINES = 20000, PATIENCE_MS = 60000, PIECE_AND_MORE = 128 << 10 };

static const char catalogue[] = "zones = [\"z\"]\n[[pool]]\nname = \"p\"\ntype = \"t\"\n"
                                "capacity = \"on-demand\"\nresources = { cpu = \"2\" }\n";

struct world {
    struct sim *sim;
    struct sim_host *server_host, *client_host;
    struct host *host;
    struct rpc_server *server;
    struct host_service *service;
    struct provider *provider;
    bool server_closed, client_closed;
    /* A List while it is read. */
    struct provider_fetch *fetch;
    struct provider_chunk *held[64];
    size_t held_count;
    bool holding, ended;
    enum provider_end end;
    struct buf bytes;
    uint64_t answered, done;
};

static void set_true(void *owner)
{
    *(bool *)owner = true;
}

static bool is_true(void *context)
{
    return *(bool *)context;
}

static void world_open(struct world *w)
{
    struct host_options options = {.name = "test"};
    struct cloud_options cloud = {.path = "/cloud.toml", .seed_count = MACHINES};
    struct rpc_server_options server = {0};
    struct provider_options client = {.address = "server:7770", .shard_id = "s", .epoch = 1};
    struct note note = {.text = ""};

    *w = (struct world){0};
    buf_init(&w->bytes, 64 << 20);
    CHECK_OK("sim", sim_open(&(struct sim_options){.seed = 3}, &w->sim));
    CHECK_OK("host",
             sim_host_add(w->sim, &(struct sim_host_options){.name = "server"}, &w->server_host));
    CHECK_OK("host",
             sim_host_add(w->sim, &(struct sim_host_options){.name = "client"}, &w->client_host));
    options.io = cloud.io = server.io = sim_host_io(w->server_host);
    client.io = sim_host_io(w->client_host);
    CHECK_OK("file", fs_publish(options.io->fs, "/cloud.toml", str_from(catalogue), 0644, 1));
    CHECK_OK("cloud", cloud_open(&cloud, &options.own_backend, &note));
    CHECK_OK("host", host_open(&options, &w->host, &note));
    host_server_limits(&server.limits);
    CHECK_OK("server", rpc_server_open(&server, &w->server, &note));
    CHECK_OK("service", host_service_open(w->host, w->server, &w->service, &note));
    CHECK_OK("start", host_start(w->host, &note));
    CHECK_OK("listen", rpc_server_listen(w->server, "server:7770", NULL, &note));
    CHECK_OK("client", provider_open(&client, &w->provider, &note));
    (void)sim_run_for(w->sim, 3000);
}

static void world_close(struct world *w)
{
    provider_close(w->provider, set_true, &w->client_closed);
    CHECK_U32("closed", sim_wait(w->sim, is_true, &w->client_closed, PATIENCE_MS), SIM_REACHED);
    rpc_server_close(w->server, set_true, &w->server_closed);
    CHECK_U32("closed", sim_wait(w->sim, is_true, &w->server_closed, PATIENCE_MS), SIM_REACHED);
    host_service_close(w->service);
    host_close(w->host);
    sim_close(w->sim);
    buf_deinit(&w->bytes);
}

static void on_chunk(void *context, struct provider_chunk *own_chunk)
{
    struct world *w = context;

    CHECK_OK("kept", buf_append(&w->bytes, own_chunk->bytes));
    if (w->holding && w->held_count < ARRAY_LEN(w->held))
        w->held[w->held_count++] = own_chunk;
    else
        provider_chunk_done(own_chunk);
}

static void on_end(void *context, const struct provider_answer *answer)
{
    struct world *w = context;

    w->ended = true;
    w->end = answer->end;
}

static void begin_list(struct world *w, bool holding)
{
    static const struct provider_fetch_events events = {on_chunk, on_end};

    w->holding = holding;
    w->ended = false;
    buf_clear(&w->bytes);
    CHECK_OK("fetch", provider_fetch_start(w->provider,
                                           &(struct provider_fetch_request){.chunk_bytes = 16 << 10,
                                                                            .chunks_max = 4},
                                           &events, w, &w->fetch));
}

static void read_on(struct world *w)
{
    w->holding = false;
    for (size_t i = 0; i < w->held_count; i++) provider_chunk_done(w->held[i]);
    w->held_count = 0;
    CHECK_U32("it ends", sim_wait(w->sim, is_true, &w->ended, PATIENCE_MS), SIM_REACHED);
}

static void on_answer(void *context, const struct provider_answer *answer)
{
    struct world *w = context;

    w->answered++;
    w->done += answer->end == PROVIDER_DONE;
}

static void create(struct world *w, unsigned number)
{
    struct provider_request request = {.verb = PROVIDER_CREATE};
    char id[32];

    snprintf(id, sizeof id, "p-z-%06u", number);
    request.machine = str_from(id);
    CHECK_OK("call", provider_call(w->provider, &request, on_answer, w));
}

struct counted {
    uint64_t machines, speculative;
};

static enum err count_machine(void *context, const struct machine_record *record)
{
    struct counted *counted = context;

    counted->machines++;
    counted->speculative += record->machine.state == MACHINE_SPECULATIVE;
    return ERR_OK;
}

static void refuse(void *context, struct str id, const char *why)
{
    (void)context;
    (void)id;
    CHECK(why, false);
}

static struct counted count_list(const struct world *w)
{
    static const struct provider_list_events events = {count_machine, refuse, NULL};
    struct counted counted = {0};
    struct dimensions dimensions;
    struct machine_reader *reader = NULL;
    struct provider_list *list = NULL;
    struct provider_list_end end;
    struct note note;

    dimensions_init(&dimensions);
    CHECK_OK("reader", machine_reader_open(&dimensions, &reader));
    CHECK_OK("list", provider_list_open(reader, &events, &counted, &list));
    CHECK_OK("feed", provider_list_feed(list, buf_peek(&w->bytes), &note));
    CHECK_OK("finish", provider_list_finish(list, &end, &note));
    CHECK("whole", end.whole && end.cursor.len > 0);
    provider_list_close(list);
    machine_reader_close(reader);
    dimensions_deinit(&dimensions);
    return counted;
}

TEST(a_reader_that_stops_does_not_block_others_and_gets_its_own_snapshot)
{
    struct world w;
    struct counted counted;
    size_t before;

    world_open(&w);
    begin_list(&w, true);
    (void)sim_run_for(w.sim, 2000);
    before = w.bytes.len;
    CHECK("it has begun", before > 0 && !w.ended);
    CHECK("the server holds a piece of it", rpc_server_stats(w.server).buffered < PIECE_AND_MORE);
    CHECK("and not because it is short", before < book_stats(host_book(w.host)).list_bytes / 2);
    for (unsigned i = 1; i <= 500; i++) create(&w, i * 40); /* across the whole list */
    (void)sim_run_for(w.sim, 2000);
    CHECK_U64("calls go on", w.done, 500);
    CHECK_SIZE("it still waits for its reader", w.bytes.len, before);
    read_on(&w);
    CHECK_U32("well", w.end, PROVIDER_DONE);
    counted = count_list(&w);
    CHECK_U64("all machines", counted.machines, MACHINES);
    CHECK_U64("as they were when it was asked for", counted.speculative, MACHINES);
    world_close(&w);
}

TEST(a_reader_that_goes_leaves_nothing_behind)
{
    struct world w;

    world_open(&w);
    for (int i = 0; i < 3 * BOOK_WALKS_MAX; i++) {
        begin_list(&w, true);
        (void)sim_run_for(w.sim, 100);
        provider_fetch_cancel(w.fetch);
        read_on(&w);
        (void)sim_run_for(w.sim, 100);
    }
    begin_list(&w, false);
    read_on(&w);
    CHECK_U32("there is room for another", w.end, PROVIDER_DONE);
    CHECK_U64("all machines", count_list(&w).machines, MACHINES);
    world_close(&w);
}

TEST(thousands_of_calls_at_once_are_each_answered_once)
{
    struct world w;

    world_open(&w);
    for (unsigned i = 1; i <= 5000; i++) create(&w, i);
    (void)sim_run_for(w.sim, 20000);
    CHECK_U64("answered", w.answered, 5000);
    CHECK_U64("done", w.done, 5000);
    CHECK_U64("in the book", book_stats(host_book(w.host)).machines[MACHINE_SPECULATIVE],
              MACHINES - 5000);
    world_close(&w);
}
