/* SPDX-License-Identifier: Apache-2.0 */
/* A domain given while memory was short: what is on disk is what the core comes to think. */
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "obs/log.h"
#include "shard/shard.h"
#include "sim/sim.h"

static struct {
    struct sim *sim;
    struct io *io;
    struct logger *logger;
    struct log_source log;
    struct metrics *metrics;
    struct domains *domains;
    struct provider *provider;
    struct shard *shard;
    unsigned changes, answers;
    enum err answer;
    bool closed;
} rig;

static void on_line(void *context, enum log_level level, struct str line)
{
    static const char text[] = "domains of this shard changed";

    (void)context;
    (void)level;
    for (size_t i = 0; i + sizeof text - 1 <= line.len; i++)
        if (!memcmp(line.at + i, text, sizeof text - 1)) rig.changes++;
}

static void on_answer(void *context, enum err err, struct str why)
{
    (void)context;
    (void)why;
    rig.answers++;
    rig.answer = err;
}

static void on_closed(void *owner)
{
    (void)owner;
    rig.closed = true;
}

static void run(uint64_t ms)
{
    CHECK("time goes on", sim_run_for(rig.sim, ms) == SIM_REACHED);
}

static void rig_open(void)
{
    struct note note = {""};
    struct logger_options logger = {.level = LOG_LEVEL_INFO, .sink = on_line};
    struct provider_options provider = {.address = "nobody:1", .shard_id = "s", .epoch = 1};
    struct shard_options shard = {.id = "s", .epoch = 1, .provider_address = "nobody:1"};
    struct sim_host *host;

    memset(&rig, 0, sizeof rig);
    CHECK_OK("sim", sim_open(&(struct sim_options){.seed = 1, .events_max = 1000000}, &rig.sim));
    CHECK_OK("host", sim_host_add(rig.sim, &(struct sim_host_options){.name = "s"}, &host));
    rig.io = sim_host_io(host);
    logger.clock = rig.io->clock;
    CHECK_OK("logger", logger_open(&logger, &rig.logger));
    log_source_init(&rig.log, rig.logger, "shard", (const struct log_field[]){LOG_END});
    CHECK_OK("metrics", metrics_open(&rig.metrics));
    CHECK_OK("dir", fs_make_dirs(rig.io->fs, "d", 0700));
    CHECK_OK(note.text, domains_open(rig.io->fs, "d", &rig.domains, &note));
    provider.io = rig.io;
    CHECK_OK(note.text, provider_open(&provider, &rig.provider, &note));
    shard.io = rig.io;
    shard.log = &rig.log;
    shard.metrics = rig.metrics;
    shard.domains = rig.domains;
    shard.provider = rig.provider;
    CHECK_OK(note.text, shard_open(&shard, &rig.shard, &note));
    run(100);
}

static void rig_close(void)
{
    shard_stop(rig.shard);
    provider_close(rig.provider, on_closed, NULL);
    run(1000);
    CHECK("closed", rig.closed);
    shard_close(rig.shard);
    domains_close(rig.domains);
    metrics_close(rig.metrics);
    logger_close(rig.logger);
    sim_close(rig.sim);
}

TEST(what_is_on_disk_is_told_until_it_is_heard)
{
    struct note note = {""};
    bool fired = true;
    unsigned refused = 0;

    for (uint64_t k = 1; fired; k++) {
        struct shard_view view;
        rig_open();
        view = shard_view(rig.shard);
        /* It is on disk: what is left to fail is the core's to hear. */
        CHECK_OK(note.text, domains_set(rig.domains, STR("rack"), STR("r1"), true, 1, &note));
        fault_alloc_arm(k);
        view.assign(view.shard, STR("rack"), STR("r1"), true, on_answer, NULL);
        run(10);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        CHECK_U64("answered", rig.answers, 1);
        refused += rig.answer != ERR_OK;
        CHECK("a no is why", rig.answer == ERR_OK || rig.answer == ERR_NOMEM);
        run(2000);
        CHECK_U64("answered once", rig.answers, 1);
        if (rig.answer) /* else it was heard at once, and the fault took the line of the log */
            CHECK_U64("and heard in the end, once", rig.changes, 1);
        rig_close();
    }
    CHECK("some were refused", refused > 2);
}
