/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue backend in virtual time: durations, failures, preemptions, and a catalogue that
 * changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "provider/host/cloud.h"
#include "provider/host/host.h"
#include "sim/sim.h"

#define FILE_NAME "/cloud.toml"
#define CALM                                                                                       \
    "zones = [\"a\", \"b\"]\nrepair = \"1m\"\n[latency]\ncreate = \"10s..20s\"\n"                  \
    "configure = \"1s\"\ndrain = \"30s\"\ndelete = \"1s\"\n"
#define POOL(name, capacity)                                                                       \
    "[[pool]]\nname = \"" name "\"\ntype = \"t-" name "\"\ncapacity = \"" capacity "\"\n"          \
    "resources = { cpu = \"2\" }\n"

struct world {
    struct sim *sim;
    struct sim_host *machine;
    struct host *host;
    struct book *book;
};

static void put_file(struct world *w, const char *text)
{
    static uint64_t unique;
    CHECK_OK("file",
             fs_publish(sim_host_io(w->machine)->fs, FILE_NAME, str_from(text), 0644, ++unique));
}

static void nothing(struct task *task)
{
    (void)task;
}

/* Runs one turn of the loop, like an arriving call. */
static void turn(struct world *w)
{
    struct task task;

    task_init(&task, nothing);
    loop_defer(sim_host_io(w->machine)->loop, &task);
    (void)sim_run_for(w->sim, 1);
}

static void world_open(struct world *w, const char *catalogue, uint64_t machines)
{
    struct host_options options = {.name = "test"};
    struct cloud_options cloud = {.path = FILE_NAME, .seed_count = machines};
    struct note note = {.text = ""};

    *w = (struct world){0};
    CHECK_OK("sim", sim_open(&(struct sim_options){.seed = 5}, &w->sim));
    CHECK_OK("host", sim_host_add(w->sim, &(struct sim_host_options){.name = "p"}, &w->machine));
    put_file(w, catalogue);
    options.io = cloud.io = sim_host_io(w->machine);
    check_err(note.text, cloud_open(&cloud, &options.own_backend, &note), ERR_OK, "cloud", __FILE__,
              __LINE__);
    CHECK_OK("open", host_open(&options, &w->host, &note));
    CHECK_OK("start", host_start(w->host, &note));
    w->book = host_book(w->host);
    turn(w);
}

static void world_close(struct world *w)
{
    host_close(w->host);
    sim_close(w->sim);
}

static enum grpc_status ask(struct world *w, enum operation_kind kind, const char *id,
                            uint64_t grace_ms)
{
    const struct book_request request = {.kind = kind,
                                         .machine_id = str_from(id),
                                         .shard = STR_EMPTY,
                                         .cluster = STR("c1"),
                                         .blob = STR_EMPTY,
                                         .grace_ms = grace_ms};
    struct book_answer answer;
    struct note note;
    struct buf bytes;

    buf_init(&bytes, 1 << 20);
    answer = host_ask(w->host, &request, &bytes, &note);
    buf_deinit(&bytes);
    return answer.status;
}

static enum grpc_status call(struct world *w, enum operation_kind kind, const char *id,
                             uint64_t grace_ms)
{
    enum grpc_status status = ask(w, kind, id, grace_ms);

    turn(w);
    return status;
}

static uint64_t count(const struct world *w, enum machine_state state)
{
    return book_stats(w->book).machines[state];
}

static void check_list(const struct world *w, const char *why, const char *want)
{
    struct listing listing;

    library_list(w->book, &(struct book_filter){0}, &listing);
    CHECK_STR(why, buf_peek(&listing.text), str_from(want));
    listing_free(&listing);
}

TEST(machines_are_offered_by_pool_and_zone)
{
    struct world w;

    world_open(&w, CALM POOL("x", "on-demand") POOL("y", "reserved") "share = 3\n", 8);
    check_list(&w, "a quarter and three",
               "x-a-000001 Speculative (t-x) | x-b-000001 Speculative (t-x) | "
               "y-a-000001 Speculative (t-y) | y-a-000002 Speculative (t-y) | "
               "y-a-000003 Speculative (t-y) | y-b-000001 Speculative (t-y) | "
               "y-b-000002 Speculative (t-y) | y-b-000003 Speculative (t-y) | ");
    world_close(&w);
}

TEST(operations_take_the_time_the_catalogue_says)
{
    struct world w;

    world_open(&w, CALM POOL("x", "on-demand") "zones = [\"a\"]\n", 1);
    CHECK_U32("create", call(&w, OPERATION_CREATE, "x-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 9900);
    CHECK_U64("not before", count(&w, MACHINE_CREATING), 1);
    (void)sim_run_for(w.sim, 10200);
    check_list(&w, "created", "x-a-000001 Idle host-x-a-000001 (t-x) | ");
    CHECK_U32("configure", call(&w, OPERATION_CONFIGURE, "x-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 1100);
    CHECK_U64("configured", count(&w, MACHINE_CONFIGURED), 1);
    CHECK_U32("drain", call(&w, OPERATION_DRAIN, "x-a-000001", 5000), GRPC_OK);
    (void)sim_run_for(w.sim, 4900);
    CHECK_U64("until the grace ends", count(&w, MACHINE_DRAINING), 1);
    (void)sim_run_for(w.sim, 200);
    CHECK_U64("and no longer", count(&w, MACHINE_IDLE), 1);
    CHECK_U32("delete", call(&w, OPERATION_DELETE, "x-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 1100);
    CHECK_U64("a slot again", count(&w, MACHINE_SPECULATIVE), 1);
    world_close(&w);
}

TEST(failures_are_repaired)
{
    struct world w;

    world_open(&w, CALM "[fails]\ncreate = 1.0\n" POOL("x", "on-demand") "zones = [\"a\"]\n", 1);
    CHECK_U32("create", call(&w, OPERATION_CREATE, "x-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 20100);
    CHECK_U64("failed", count(&w, MACHINE_FAILED), 1);
    (void)sim_run_for(w.sim, 61000);
    CHECK_U64("can be created again", count(&w, MACHINE_SPECULATIVE), 1);
    CHECK_U32("create", call(&w, OPERATION_CREATE, "x-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 20100);
    CHECK_U32("deleted", call(&w, OPERATION_DELETE, "x-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 1100);
    CHECK_U64("at once, without a repair", count(&w, MACHINE_SPECULATIVE), 1);
    (void)sim_run_for(w.sim, 48800); /* past the ten seconds after which a repair would run */
    CHECK_U32("create", call(&w, OPERATION_CREATE, "x-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 9900);
    CHECK_U64("no old repair comes between", count(&w, MACHINE_CREATING), 1);
    world_close(&w);
}

TEST(quotas_and_what_stays)
{
    struct world w;

    world_open(&w,
               CALM POOL("x", "on-demand") "zones = [\"a\"]\nquota = 0.5\n" POOL(
                   "m", "bare-metal") "zones = [\"a\"]\ndelete = false\n",
               4);
    CHECK_U32("one of two", ask(&w, OPERATION_CREATE, "x-a-000001", 0), GRPC_OK);
    CHECK_U32("the quota, in the same turn", ask(&w, OPERATION_CREATE, "x-a-000002", 0),
              GRPC_RESOURCE_EXHAUSTED);
    turn(&w);
    CHECK_U32("metal", call(&w, OPERATION_CREATE, "m-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 21000);
    CHECK_U32("still", call(&w, OPERATION_CREATE, "x-a-000002", 0), GRPC_RESOURCE_EXHAUSTED);
    CHECK_U32("metal stays", call(&w, OPERATION_DELETE, "m-a-000001", 0), GRPC_UNIMPLEMENTED);
    CHECK_U32("the other goes", call(&w, OPERATION_DELETE, "x-a-000001", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 2000);
    CHECK_U32("and makes room", call(&w, OPERATION_CREATE, "x-a-000002", 0), GRPC_OK);
    world_close(&w);
}

TEST(interruptions_come_about_as_often_as_they_are_reported)
{
    struct world w;
    uint64_t failed;

    world_open(&w,
               CALM POOL("s", "spot") "zones = [\"a\"]\ninterruption = 0.5\nlatency = { create = "
                                      "\"0s\" }\n",
               400);
    for (int i = 1; i <= 400; i++) {
        char id[32];
        snprintf(id, sizeof id, "s-a-%06d", i);
        (void)call(&w, OPERATION_CREATE, id, 0);
    }
    put_file(&w, "repair = \"10d\"\n" CALM); /* wrong: two zones, no pool */
    (void)sim_run_for(w.sim, 5000);
    CHECK_U64("a wrong catalogue changes nothing", book_stats(w.book).total, 400);
    (void)sim_run_for(w.sim, 30 * 60 * 1000);
    failed = count(&w, MACHINE_FAILED) + count(&w, MACHINE_SPECULATIVE);
    CHECK("a quarter in half an hour, within reason", failed > 40 && failed < 180);
    world_close(&w);
}

TEST(a_changed_catalogue_is_applied_without_losing_a_machine)
{
    struct world w;

    world_open(&w, CALM POOL("x", "on-demand") "zones = [\"a\"]\ncount = 3\n", 0);
    CHECK_U32("create", call(&w, OPERATION_CREATE, "x-a-000003", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 21000);
    put_file(&w, CALM POOL("x", "spot") "zones = [\"a\"]\ncount = 1\nprice = 2.0\n" POOL(
                     "new", "reserved") "zones = [\"b\"]\ncount = 1\n");
    (void)sim_run_for(w.sim, 2000);
    check_list(&w, "the slot goes, the host stays",
               "new-b-000001 Speculative (t-new) | x-a-000001 Speculative (t-x) | "
               "x-a-000003 Idle host-x-a-000003 (t-x) | ");
    CHECK_U32("delete", call(&w, OPERATION_DELETE, "x-a-000003", 0), GRPC_OK);
    (void)sim_run_for(w.sim, 2000);
    check_list(&w, "gone as soon as nobody has it",
               "new-b-000001 Speculative (t-new) | x-a-000001 Speculative (t-x) | ");
    world_close(&w);
}

TEST(the_same_seed_is_the_same_cloud)
{
    struct buf dumps[2];

    for (int run = 0; run < 2; run++) {
        struct world w;

        world_open(&w,
                   "seed = 9\n" CALM "[fails]\ncreate = 0.5\n" POOL(
                       "x", "spot") "zones = [\"a\"]\ninterruption = 1.0\n",
                   50);
        for (int i = 1; i <= 50; i++) {
            char id[32];
            snprintf(id, sizeof id, "x-a-%06d", i);
            (void)call(&w, OPERATION_CREATE, id, 0);
        }
        (void)sim_run_for(w.sim, 5 * 60 * 1000);
        {
            struct listing listing;
            library_list(w.book, &(struct book_filter){0}, &listing);
            dumps[run] = listing.text;
        }
        world_close(&w);
    }
    CHECK_STR("the same", buf_peek(&dumps[1]), buf_peek(&dumps[0]));
    CHECK_HAS("with failures", dumps[0].data, "Failed");
    buf_deinit(&dumps[0]);
    buf_deinit(&dumps[1]);
}
