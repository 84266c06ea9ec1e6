/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the next victim from a fixed table, kills or pauses it, and waits until the fleet has
 * recovered. At most one victim at a time. Runs on the loop's thread. */
#include "muster/dev_chaos.h"

#include <stdio.h>

enum {
    PAUSE_TENTHS_MIN = 3, /* of every_ms */
    PAUSE_TENTHS_MAX = 8,
    HEARD_WITHIN_MS = 2000, /* a replica heard this recently counts as alive */
    DEV_CHAOS_TEXT_CAP = 160,
};

/* The victims in turn, again and again. A kind of process that does not exist is skipped. */
enum who { LEADER, FOLLOWER, WORKER, SHARD, PROVIDER, OPERATOR };
static const struct misfortune {
    enum dev_deed deed;
    enum who who;
} misfortunes[] = {
    {DEV_KILL, LEADER},   {DEV_PAUSE, WORKER}, {DEV_KILL, SHARD},    {DEV_PAUSE, FOLLOWER},
    {DEV_KILL, PROVIDER}, {DEV_PAUSE, LEADER}, {DEV_KILL, WORKER},   {DEV_PAUSE, PROVIDER},
    {DEV_KILL, OPERATOR}, {DEV_PAUSE, SHARD},  {DEV_KILL, FOLLOWER}, {DEV_PAUSE, OPERATOR},
};
static const enum dev_part part_of[] = {
    [LEADER] = DEV_COORDINATOR, [FOLLOWER] = DEV_COORDINATOR, [WORKER] = DEV_WORKER,
    [SHARD] = DEV_SHARD,        [PROVIDER] = DEV_PROVIDER,    [OPERATOR] = DEV_OPERATOR,
};
static const char *const words_of[] = {
    [LEADER] = ", the leader",
    [FOLLOWER] = ", a follower",
    [WORKER] = "",
    [SHARD] = "",
    [PROVIDER] = "",
    [OPERATOR] = "",
};

void dev_chaos_init(struct dev_chaos *chaos, const struct dev_chaos_options *options, mono_time now)
{
    *chaos = (struct dev_chaos){.options = *options};
    prng_seed(&chaos->prng, options->seed);
    chaos->next = mono_after(now, options->every_ms);
}

/* The victim's number among the processes of its kind; SIZE_MAX: none. */
static size_t chaos_choose(struct dev_chaos *chaos, enum who who, size_t leader)
{
    size_t count = chaos->options.count[part_of[who]], number;

    if (who == LEADER) return leader < count ? leader : SIZE_MAX;
    if (who == FOLLOWER) {
        if (count < 2 || leader >= count) return SIZE_MAX;
        number = (size_t)prng_below(&chaos->prng, count - 1);
        return number < leader ? number : number + 1;
    }
    return count ? (size_t)prng_below(&chaos->prng, count) : SIZE_MAX;
}

static void chaos_strike(struct dev_chaos *chaos, const struct misfortune *m, size_t number,
                         mono_time now)
{
    enum dev_part part = part_of[m->who];
    struct dev_child *victim = chaos->options.children[chaos->options.first[part] + number];
    uint64_t tenths = prng_between(&chaos->prng, PAUSE_TENTHS_MIN, PAUSE_TENTHS_MAX);
    uint64_t ms = chaos->options.every_ms * tenths / 10;
    char text[DEV_CHAOS_TEXT_CAP];

    chaos->pid = dev_child_pid(victim);
    if (!chaos->pid) return; /* not running: try later */
    if (m->deed == DEV_KILL)
        dev_child_kill(victim);
    else if (!dev_child_pause(victim))
        return;
    chaos->victim = victim;
    chaos->replica = part == DEV_COORDINATOR ? number : SIZE_MAX;
    chaos->deed = m->deed;
    chaos->hit = now;
    chaos->since = (mono_time){0};
    chaos->next = mono_after(now, ms);
    if (m->deed == DEV_KILL)
        snprintf(text, sizeof text, "killed %s%s (pid %d)", dev_child_name(victim),
                 words_of[m->who], chaos->pid);
    else
        snprintf(text, sizeof text, "paused %s%s, for %.1f s (pid %d)", dev_child_name(victim),
                 words_of[m->who], (double)ms / 1000, chaos->pid);
    chaos->options.say(chaos->options.owner, text);
}

static void chaos_act(struct dev_chaos *chaos, size_t leader, mono_time now)
{
    const struct misfortune *m = &misfortunes[chaos->turn++ % ARRAY_LEN(misfortunes)];
    size_t number = chaos_choose(chaos, m->who, leader);

    if (number != SIZE_MAX) chaos_strike(chaos, m, number, now);
}

/* True if the paused victim runs again or another process has replaced the killed one. */
static bool chaos_is_back(struct dev_chaos *chaos, mono_time now)
{
    int pid = dev_child_pid(chaos->victim);

    if (chaos->since.ms) return pid != 0;
    if (chaos->deed == DEV_PAUSE && pid == chaos->pid) {
        if (!mono_due(chaos->next, now)) return false;
        dev_child_resume(chaos->victim);
    } else if (!pid || pid == chaos->pid) {
        return false;
    }
    chaos->since = now;
    return true;
}

/* True if a check that began after the victim's return found the fleet complete. */
static bool chaos_has_healed(const struct dev_chaos *chaos, const struct dev_sight *sight)
{
    if (!sight->whole || !mono_due(chaos->since, sight->began)) return false;
    return chaos->replica == SIZE_MAX || mono_due(chaos->since, sight->heard[chaos->replica]);
}

/* Other causes may also have stopped a replica, so all must have been heard recently. */
static bool chaos_all_replicas_there(const struct dev_chaos *chaos, const struct dev_sight *sight)
{
    for (size_t i = 0; i < chaos->options.count[DEV_COORDINATOR]; i++)
        if (!mono_due(sight->began, mono_after(sight->heard[i], HEARD_WITHIN_MS))) return false;
    return true;
}

void dev_chaos_look(struct dev_chaos *chaos, const struct dev_sight *sight, mono_time now)
{
    char text[DEV_CHAOS_TEXT_CAP];

    if (!chaos->victim) {
        if (sight->whole && mono_due(chaos->next, now) && chaos_all_replicas_there(chaos, sight))
            chaos_act(chaos, sight->leader, now);
        return;
    }
    if (!chaos_is_back(chaos, now) || !chaos_has_healed(chaos, sight)) return;
    snprintf(text, sizeof text, "%s is back and all is well, after %.1f s",
             dev_child_name(chaos->victim), (double)mono_elapsed_ms(chaos->hit, now) / 1000);
    chaos->victim = NULL;
    chaos->next = mono_after(now, chaos->options.every_ms);
    chaos->options.say(chaos->options.owner, text);
}
