/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/decide/parking.h"

#include <stdlib.h>

#include "base/map.h"

struct aged {
    struct need_key key;
    struct str text; /* cluster, group and fingerprint in one, for the map */
    uint32_t cycles;
};
/* The ages after one decision. The next builds its own beside it, so that an error loses
 * nothing. */
struct ages {
    struct arena arena;
    struct map by_key;
    struct need_key *parked;
    size_t parked_count;
};
struct parking {
    struct ages now;
    uint64_t seed;
};

#define PARKING_BYTES_MAX ((size_t)1 << 30)

static void ages_init(struct ages *ages, uint64_t seed)
{
    *ages = (struct ages){0};
    arena_init(&ages->arena, PARKING_BYTES_MAX);
    map_init(&ages->by_key, MAP_MOST, seed);
}

static void ages_deinit(struct ages *ages)
{
    map_deinit(&ages->by_key);
    arena_deinit(&ages->arena);
}

enum err parking_open(uint64_t seed, struct parking **ret_parking)
{
    struct parking *parking = calloc(1, sizeof *parking);

    if (!parking) return ERR_NOMEM;
    parking->seed = seed;
    ages_init(&parking->now, seed);
    *ret_parking = parking;
    return ERR_OK;
}

void parking_close(struct parking *parking)
{
    if (!parking) return;
    ages_deinit(&parking->now);
    free(parking);
}

/* Group and fingerprint may hold any byte but their lengths are said first, so no two keys share
 * a text. */
static enum err key_text(struct arena *arena, const struct need_key *key, struct str *ret_text)
{
    size_t lengths[2] = {key->cluster.len, key->group.len};
    size_t len = sizeof lengths + key->cluster.len + key->group.len + key->fingerprint.len;
    char *text = arena_alloc(arena, len), *at = text;

    if (!text) return ERR_NOMEM;
    memcpy(at, lengths, sizeof lengths);
    at += sizeof lengths;
    if (key->cluster.len) memcpy(at, key->cluster.at, key->cluster.len);
    at += key->cluster.len;
    if (key->group.len) memcpy(at, key->group.at, key->group.len);
    at += key->group.len;
    if (key->fingerprint.len) memcpy(at, key->fingerprint.at, key->fingerprint.len);
    *ret_text = str_of(text, len);
    return ERR_OK;
}

/* Copies the key out of its own text. */
static struct need_key key_in(const struct need_key *like, struct str text)
{
    const char *at = text.at + 2 * sizeof(size_t);
    struct need_key key = {.cluster = str_of(at, like->cluster.len)};

    key.group = str_of(at + like->cluster.len, like->group.len);
    key.fingerprint = str_of(key.group.at + like->group.len, like->fingerprint.len);
    return key;
}

static bool is_parked_age(uint32_t cycles)
{
    return cycles >= PARK_AFTER && cycles % PARK_PROBE_EVERY != 0;
}

static bool is_stuck(const struct verdict *verdict)
{
    return verdict->need->gang && !verdict->satisfied && !verdict->satisfiable &&
           verdict->bootstraps + verdict->provisions == 0;
}

static enum err age_one(struct ages *next, const struct ages *before, const struct verdict *verdict)
{
    struct str text;
    const struct aged *old;
    struct aged *aged;
    enum err err = key_text(&next->arena, &verdict->need->key, &text);

    if (err) return err;
    if (map_get(&next->by_key, text)) return ERR_OK; /* two rows of one gang age as one */
    aged = ARENA_NEW(&next->arena, struct aged);
    if (!aged) return ERR_NOMEM;
    old = map_get(&before->by_key, text);
    *aged = (struct aged){key_in(&verdict->need->key, text), text, old ? old->cycles + 1 : 1};
    return map_put(&next->by_key, aged->text, aged);
}

static enum err list_parked(struct ages *ages)
{
    struct map_entry *entry;
    size_t cursor = 0;

    ages->parked = arena_calloc(&ages->arena, map_count(&ages->by_key), sizeof *ages->parked);
    if (!ages->parked) return ERR_NOMEM;
    while ((entry = map_next(&ages->by_key, &cursor))) {
        const struct aged *aged = entry->value;

        if (is_parked_age(aged->cycles)) ages->parked[ages->parked_count++] = aged->key;
    }
    return ERR_OK;
}

enum err parking_note(struct parking *parking, const struct decision *decision)
{
    struct ages next;
    enum err err = ERR_OK;

    ages_init(&next, parking->seed);
    for (size_t i = 0; i < decision->verdict_count && !err; i++)
        if (is_stuck(&decision->verdicts[i]))
            err = age_one(&next, &parking->now, &decision->verdicts[i]);
    if (!err) err = list_parked(&next);
    if (err) {
        ages_deinit(&next);
        return err;
    }
    ages_deinit(&parking->now);
    parking->now = next;
    return ERR_OK;
}

const struct need_key *parking_parked(const struct parking *parking, size_t *ret_count)
{
    *ret_count = parking->now.parked_count;
    return parking->now.parked;
}

uint32_t parking_age(const struct parking *parking, const struct need_key *key)
{
    struct arena scratch;
    struct str text;
    const struct aged *aged = NULL;

    arena_init(&scratch, PARKING_BYTES_MAX);
    if (key_text(&scratch, key, &text) == ERR_OK) aged = map_get(&parking->now.by_key, text);
    arena_deinit(&scratch);
    return aged ? aged->cycles : 0;
}
