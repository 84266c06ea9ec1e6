/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the faults of a seed. Every fault may be off entirely: in a mild world half of them are, in
 * a harsh one a quarter. */
#include <inttypes.h>

#include "scenario.h"

static const char *const strike_names[SCENARIO_STRIKE_COUNT] = {
    [SCENARIO_POWER_CUT] = "power-cut",
    [SCENARIO_KILL] = "kill",
    [SCENARIO_PAUSE] = "pause",
    [SCENARIO_PARTITION] = "partition",
    [SCENARIO_CLOG] = "clog",
    [SCENARIO_DISK_FULL] = "disk-full",
    [SCENARIO_CLOCK_STEP] = "clock-step",
};
/* Mean time between strikes, drawn from half of it to all of it, and how long each lasts. */
static const struct {
    uint64_t mild_ms, harsh_ms, lasts_mild_ms, lasts_harsh_ms;
} pace[] = {
    [SCENARIO_POWER_CUT] = {5000, 1000, 1000, 2000},
    [SCENARIO_KILL] = {5000, 1500, 500, 1000},
    [SCENARIO_PAUSE] = {10000, 3000, 500, 5000},
    [SCENARIO_PARTITION] = {10000, 4000, 1000, 6000},
    [SCENARIO_CLOG] = {5000, 1000, 200, 2000},
    [SCENARIO_DISK_FULL] = {15000, 5000, 500, 3000},
    [SCENARIO_CLOCK_STEP] = {10000, 2000, 0, 0},
};
static_assert(ARRAY_LEN(pace) == SCENARIO_STRIKE_COUNT, "a pace for every strike");

static uint32_t some(struct prng *prng, bool harsh, uint32_t mild_max, uint32_t harsh_max)
{
    uint32_t max = harsh ? harsh_max : mild_max;
    bool on = prng_chance(prng, harsh ? 750000 : 500000);
    uint32_t value = (uint32_t)prng_between(prng, 1, max); /* also when off: draws do not shift */
    return on ? value : 0;
}

static void draw_link(struct prng *prng, bool harsh, struct sim_link_faults *link)
{
    *link = sim_link_calm;
    link->delay_min_ns = prng_between(prng, 50000, harsh ? 5000000 : 1000000);
    link->delay_spread_ns = prng_between(prng, 10000, harsh ? 5000000 : 500000);
    link->loss_ppm = some(prng, harsh, 5000, 50000);
    link->duplicate_ppm = some(prng, harsh, 5000, 100000);
    link->reorder_ppm = some(prng, harsh, 10000, 200000);
    link->reorder_ns_max = prng_between(prng, 1000000, harsh ? 300000000 : 20000000);
    link->bytes_per_second =
        some(prng, harsh, 1, 3) == 1 ? prng_between(prng, 200000, 10000000) : 0;
}

static void soften(uint32_t *per_million)
{
    *per_million /= 20;
}

/* The profile decides how often a running disk fails, but not what a power cut does to it. */
static void draw_disk(struct prng *prng, bool harsh, struct sim_fs_options *disk)
{
    *disk = (struct sim_fs_options){0};
    sim_fs_draw_faults(prng, disk);
    disk->capacity = SIM_FS_CAPACITY_DEFAULT;
    disk->stall_ns = prng_between(prng, 1, harsh ? 500 : 50) * NS_PER_MS;
    disk->read_flips_per_million = disk->read_misdirected_per_million =
        0; /* damage of synced bytes:
        no process without redundancy survives it; a scenario that has some sets them itself */
    if (harsh) return;
    soften(&disk->read_fails_per_million);
    soften(&disk->write_fails_per_million);
    soften(&disk->sync_fails_per_million);
    soften(&disk->stall_per_million);
}

void scenario_faults_draw(struct prng *prng, enum scenario_profile profile,
                          struct scenario_faults *ret_faults)
{
    bool harsh = profile == SCENARIO_HARSH;
    struct scenario_faults faults = {0};

    draw_link(prng, harsh, &faults.link);
    draw_disk(prng, harsh, &faults.disk);
    for (size_t i = 0; i < SCENARIO_STRIKE_COUNT; i++) {
        uint64_t every = harsh ? pace[i].harsh_ms : pace[i].mild_ms;
        bool on = prng_chance(prng, harsh ? 750000 : 500000);
        uint64_t drawn = prng_between(prng, every / 2, every);
        faults.strikes[i].every_ms = on ? drawn : 0;
        faults.strikes[i].lasts_ms_max = harsh ? pace[i].lasts_harsh_ms : pace[i].lasts_mild_ms;
    }
    faults.down_max = harsh ? (uint32_t)prng_between(prng, 1, SCENARIO_NODES_MAX) : 1;
    faults.clock_ppm_max = (int32_t)some(prng, harsh, 200, 50000);
    faults.clock_step_ms_max = (int64_t)prng_between(prng, 1, harsh ? 3600000 : 2000);
    faults.one_way = prng_chance(prng, 500000);
    *ret_faults = faults;
}

void scenario_faults_text(const struct scenario_faults *faults, struct buf *into)
{
    const struct sim_link_faults *link = &faults->link;
    const struct sim_fs_options *disk = &faults->disk;

    buf_appendf(into,
                "link{delay=%" PRIu64 "+%" PRIu64 "us loss=%u dup=%u reorder=%u/%" PRIu64
                "ms rate=%" PRIu64 "} ",
                (uint64_t)(link->delay_min_ns / NS_PER_US),
                (uint64_t)(link->delay_spread_ns / NS_PER_US), link->loss_ppm, link->duplicate_ppm,
                link->reorder_ppm, (uint64_t)(link->reorder_ns_max / NS_PER_MS),
                link->bytes_per_second);
    buf_appendf(
        into,
        "disk{lost=%u torn=%u names=%u%s read-fails=%u write-fails=%u sync-fails=%u drops=%u "
        "stall=%u} ",
        disk->write_lost_per_million, disk->write_torn_per_million, disk->name_lost_per_million,
        disk->reorder_names ? "/reordered" : "", disk->read_fails_per_million,
        disk->write_fails_per_million, disk->sync_fails_per_million,
        disk->failed_sync_drops_per_million, disk->stall_per_million);
    for (size_t i = 0; i < SCENARIO_STRIKE_COUNT; i++) {
        const struct scenario_rate *rate = &faults->strikes[i];
        if (rate->every_ms) {
            buf_appendf(into, "%s=%" PRIu64 "ms/%" PRIu64 "ms ", strike_names[i], rate->every_ms,
                        rate->lasts_ms_max);
        }
    }
    buf_appendf(into, "down<=%u clock{ppm<=%d step<=%" PRId64 "ms}%s", faults->down_max,
                faults->clock_ppm_max, faults->clock_step_ms_max,
                faults->one_way ? " one-way" : "");
}
