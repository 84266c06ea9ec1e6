/* SPDX-License-Identifier: Apache-2.0 */
/* cmd/muster/dev_chaos.h: one fault at a time, and the next only after the last victim has
 * recovered. The processes are rows of a table. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "muster/dev_chaos.h"

enum { REPLICAS = 3, WORKERS = 2, SHARDS = 2, CHILDREN = 32, EVERY_MS = 1000, LOOK_MS = 100 };

struct dev_child {
    char name[32];
    int pid; /* 0: it is away */
    bool paused;
    mono_time back; /* the time of its restart */
};
static struct dev_child table[CHILDREN];
static struct dev_child *children[CHILDREN];
static size_t first[DEV_PARTS], count[DEV_PARTS];
static int pids;
static mono_time now;
static size_t faults, heals;
static char last[200];

int dev_child_pid(const struct dev_child *child)
{
    return child->pid;
}

const char *dev_child_name(const struct dev_child *child)
{
    return child->name;
}

void dev_child_kill(struct dev_child *child)
{
    child->pid = 0;
    child->back = mono_after(now, 3 * LOOK_MS);
}

bool dev_child_pause(struct dev_child *child)
{
    child->paused = child->pid != 0;
    return child->paused;
}

void dev_child_resume(struct dev_child *child)
{
    child->paused = false;
}

static void say(void *owner, const char *text)
{
    (void)owner;
    snprintf(last, sizeof last, "%s", text);
    if (strstr(text, " is back "))
        heals++;
    else
        faults++;
}

static void add(enum dev_part part, const char *name, size_t number)
{
    size_t at = first[part] + number;

    snprintf(table[at].name, sizeof table[at].name, "%s-%zu", name, number);
    table[at].pid = ++pids;
    children[at] = &table[at];
    count[part] = number + 1;
}

static void begin(struct dev_chaos *chaos, uint64_t seed)
{
    struct dev_chaos_options options = {.seed = seed,
                                        .every_ms = EVERY_MS,
                                        .children = children,
                                        .first = first,
                                        .count = count,
                                        .say = say};

    memset(table, 0, sizeof table);
    memset(count, 0, sizeof count);
    faults = heals = 0;
    now = (mono_time){1000000};
    first[DEV_COORDINATOR] = 0;
    first[DEV_WORKER] = 8;
    first[DEV_SHARD] = 16;
    first[DEV_PROVIDER] = 24;
    for (size_t i = 0; i < REPLICAS; i++) add(DEV_COORDINATOR, "node", i);
    for (size_t i = 0; i < WORKERS; i++) add(DEV_WORKER, "worker", i);
    for (size_t i = 0; i < SHARDS; i++) add(DEV_SHARD, "shard", i);
    add(DEV_PROVIDER, "provider", 0); /* no operator: its turns are skipped */
    dev_chaos_init(chaos, &options, now);
}

static struct dev_sight seen(bool whole)
{
    struct dev_sight sight = {.whole = whole, .leader = 1, .began = now};

    for (size_t i = 0; i < REPLICAS; i++) sight.heard[i] = now;
    return sight;
}

static size_t in_trouble(size_t from, size_t to)
{
    size_t number = 0;

    for (size_t i = from; i < to; i++)
        if (children[i] && (table[i].paused || !table[i].pid)) number++;
    return number;
}

/* Runs until `wanted` faults were injected; a process that ended is restarted. */
static void run_until(struct dev_chaos *chaos, size_t wanted)
{
    for (int turns = 0; turns < 1000 && faults < wanted; turns++) {
        struct dev_sight sight = seen(true);
        dev_chaos_look(chaos, &sight, now);
        now = mono_after(now, LOOK_MS);
        for (size_t i = 0; i < CHILDREN; i++)
            if (children[i] && !table[i].pid && mono_due(table[i].back, now)) table[i].pid = ++pids;
    }
    CHECK_SIZE("faults", faults, wanted);
}

TEST(no_fault_comes_early_or_to_a_fleet_that_is_not_whole)
{
    struct dev_sight sight;
    struct dev_chaos chaos;

    begin(&chaos, 1);
    sight = seen(true);
    now = mono_after(now, EVERY_MS - 1);
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("too early", faults, 0);
    now = mono_after(now, 100 * EVERY_MS);
    sight = seen(false);
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("not whole", faults, 0);
    sight = seen(true);
    sight.heard[2] = (mono_time){now.ms - 60000};
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("a replica that the user killed", faults, 0);
    sight = seen(true);
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("now", faults, 1);
    CHECK_TEXT("the leader first", last, "killed node-1, the leader (pid 2)");
}

TEST(a_replica_has_recovered_when_it_answers_after_its_restart)
{
    struct dev_sight sight;
    struct dev_chaos chaos;
    mono_time hit;

    begin(&chaos, 1);
    now = mono_after(now, EVERY_MS);
    hit = now;
    sight = seen(true);
    dev_chaos_look(&chaos, &sight, now);
    CHECK_I64("killed", table[1].pid, 0);
    now = mono_after(now, LOOK_MS);
    sight = seen(true);
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("it is away", heals, 0);
    table[1].pid = ++pids;
    sight = seen(true);
    sight.heard[1] = hit;
    dev_chaos_look(&chaos, &sight, mono_after(now, 1));
    now = mono_after(now, LOOK_MS);
    sight = seen(true);
    sight.heard[1] = hit;
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("its process runs, but no replica has had contact", heals, 0);
    sight = seen(false);
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("it answers, but another process is missing", heals, 0);
    sight = seen(true);
    sight.began = hit;
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("an observation from before does not count", heals, 0);
    sight = seen(true);
    dev_chaos_look(&chaos, &sight, now);
    CHECK_SIZE("back", heals, 1);
    CHECK_SIZE("and nothing else was done", faults, 1);
}

TEST(one_fault_at_a_time_and_every_process_has_its_turn)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct dev_chaos chaos;
        bool hit[CHILDREN] = {false};

        begin(&chaos, seed);
        for (size_t fault = 1; fault <= 60; fault++) {
            run_until(&chaos, fault);
            CHECK_SIZE("healed before", heals, fault - 1);
            CHECK_SIZE("one", in_trouble(0, CHILDREN), 1);
            for (size_t i = 0; i < CHILDREN; i++) hit[i] = hit[i] || &table[i] == chaos.victim;
        }
        CHECK("a leader", hit[1]);
        CHECK("followers", hit[0] && hit[2]);
        CHECK("the provider", hit[24]);
    }
}

TEST(a_paused_process_continues_even_while_another_is_down)
{
    struct dev_chaos chaos;
    struct dev_sight sight;

    begin(&chaos, 3);
    run_until(&chaos, 2);
    CHECK("a worker is paused", strncmp(last, "paused worker-", 14) == 0);
    for (int turns = 0; turns < 20; turns++) {
        now = mono_after(now, LOOK_MS);
        sight = seen(false);
        dev_chaos_look(&chaos, &sight, now);
    }
    CHECK_SIZE("nobody any more", in_trouble(0, CHILDREN), 0);
    CHECK_SIZE("but it has not healed", heals, 1);
}
