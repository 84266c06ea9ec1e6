/* SPDX-License-Identifier: Apache-2.0 */
/* The world of the replicated log: what a seed decides, and what progress means. See
 * log_story.h. */
#include <stdio.h>
#include <stdlib.h>

#include "log_story.h"

enum {
    FAULTS_MS = 12000, /* drawn: short worlds are many, long ones go deep */
    FAULTS_MS_MIN = 1000,
    HEAL_MS = 120000,
    OK_IN_CALM = 100, /* writes that must be done after the healing, and again after the resize */
};

static void draw(struct log_settings *settings, struct prng *prng)
{
    settings->limits = (struct replica_limits){
        .cache_bytes = prng_between(prng, 4 << 10, 1 << 20),
        /* Small ones are soon full, sealed and recycled, and cheap to copy. */
        .segment_bytes = (64ull << 10) << prng_below(prng, prng_chance(prng, 100000) ? 6 : 3),
        .disk_reserve_bytes = 1 << 20,
        .snapshot_entries_min = (uint32_t)prng_between(prng, 20, 2000),
        .snapshot_every_ms = prng_between(prng, 100, 3000),
        .snapshot_chunk_bytes = prng_between(prng, 256, 64 << 10),
        .trailing_entries = (uint32_t)prng_between(prng, 1, 1000),
        .hash_every = (uint32_t)prng_between(prng, 8, 512),
        .peer_queue_bytes = prng_chance(prng, 300000) ? 128 << 10 : 4 << 20,
    };
    settings->heartbeat_ms = 50;
    settings->election_ms = 250;
    settings->poll_ms = (uint32_t)prng_between(prng, 2, 40);
    settings->busy_max = (uint32_t)prng_between(prng, 1, 8);
    settings->value_max = (uint32_t)prng_between(prng, 1, 600);
    settings->read_percent = (uint32_t)prng_between(prng, 5, 60);
    settings->give_up_ms = (uint32_t)prng_between(prng, 150, 4000);
    settings->members = prng_chance(prng, 750000);
    settings->wipes = prng_chance(prng, 500000);
    settings->levels = prng_chance(prng, 500000);
    settings->transfers = prng_chance(prng, 500000);
    settings->wild_clocks = prng_chance(prng, 300000);
    settings->addresses = prng_chance(prng, 300000);
}

static enum err story_open(struct scenario_world *world, void **ret_state)
{
    struct log_story *story = calloc(1, sizeof *story);
    struct prng *prng = scenario_prng(world);
    size_t founders;
    enum err err;

    if (!story) return ERR_NOMEM;
    *ret_state = story; /* the runner closes it, also after an error */
    story->world = world;
    draw(&story->settings, prng);
    founders = prng_chance(prng, 600000) ? 3 : 5;
    story->cluster_id = prng_u64(prng) | 1;
    err = log_witness_open(&story->witness);
    for (size_t i = 0; i < LOG_HOSTS; i++) {
        struct log_host *host = &story->hosts[i];
        *host = (struct log_host){.story = story, .number = i, .port = 7791, .level = 1};
        if (!story->settings.levels) host->level = 2;
        if (i >= founders) continue;
        host->founder = true;
        host->id = i + 1 + 0x1000 * prng_below(prng, 1000);
        story->founders.at[i].id = host->id;
        story->founders.at[i].role = MEMBER_VOTER;
        snprintf(story->founders.at[i].address, sizeof story->founders.at[i].address, "h%zu:7791",
                 i);
        story->founders.count++;
    }
    for (size_t i = 0; !err && i < LOG_HOSTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "h%zu", i);
        err = scenario_add_node(world, name, &log_process_ops, &story->hosts[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE | SCENARIO_MAY_FILL,
                                &story->hosts[i].host);
    }
    /* In some worlds clock rates differ wildly: nothing may depend on them. */
    for (size_t i = 0; !err && i < LOG_HOSTS; i++) {
        int32_t ppm = (int32_t)prng_below(prng, 900000) - 450000;
        if (story->settings.wild_clocks) sim_host_clock_rate(story->hosts[i].host, ppm);
    }
    for (size_t i = 0; i < LOG_CLIENTS; i++)
        story->clients[i] = (struct log_client){
            .number = i, .target = prng_below(prng, founders), .restless = i % 2};
    if (!err) err = steward_open(story);
    return err;
}

static bool story_safe(void *state, struct note *why)
{
    const struct log_story *story = state;

    if (story->witness.wrong) *why = story->witness.why;
    return !story->witness.wrong;
}

static bool story_done(void *state)
{
    struct log_story *story = state;
    uint64_t done = story->witness.writes_ok;

    if (!story->healed) {
        story->healed = true;
        story->healed_at = sim_now(scenario_sim(story->world));
        story->ok_at_heal = done;
        if (story->settings.members) sim_event_in(&story->steward.event, NS_PER_MS);
    }
    if (done < story->ok_at_heal + OK_IN_CALM || !steward_settled(story)) return false;
    if (!story->resized) {
        story->resized = true;
        story->steward.voters_wanted = story->steward.voters_wanted == 3 ? 5 : 3;
        story->ok_at_resize = done;
        return false;
    }
    return done >= story->ok_at_resize + OK_IN_CALM;
}

static void story_close(void *state)
{
    struct log_story *story = state;

    log_witness_close(&story->witness);
    free(story);
}

const struct scenario log_scenario = {
    .name = "log",
    .about = "the replicated log: nothing acknowledged is lost, no read is stale, and it goes on",
    .faults_ms = FAULTS_MS,
    .faults_ms_min = FAULTS_MS_MIN,
    .heal_ms = HEAL_MS,
    .open = story_open,
    .safe = story_safe,
    .done = story_done,
    .close = story_close,
};
