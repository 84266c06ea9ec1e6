/* SPDX-License-Identifier: Apache-2.0 */
/* Counts for how many cycles each gang made no progress. Each decision builds a new list, so that
 * an error leaves the previous list unchanged. */
#include "shard/decide/parking.h"

#include <stdlib.h>

struct aged {
    struct need_key key;
    uint32_t cycles;
};
struct parking {
    struct arena arena;
    struct aged *aged; /* sorted by key, without duplicates */
    struct need_key *parked;
    size_t aged_count, parked_count;
};

#define PARKING_BYTES_MAX ((size_t)1 << 30)

enum err parking_open(struct parking **ret_parking)
{
    struct parking *parking = calloc(1, sizeof *parking);

    if (!parking) return ERR_NOMEM;
    arena_init(&parking->arena, PARKING_BYTES_MAX);
    *ret_parking = parking;
    return ERR_OK;
}

void parking_close(struct parking *parking)
{
    if (!parking) return;
    arena_deinit(&parking->arena);
    free(parking);
}

static int aged_compare(const void *left, const void *right)
{
    const struct aged *a = left, *b = right;

    return need_key_compare(&a->key, &b->key);
}

static bool is_parked_age(uint32_t cycles)
{
    return cycles >= PARK_AFTER && cycles % PARK_PROBE_EVERY != 0;
}

static bool is_stuck(const struct need_verdict *verdict)
{
    return verdict->need->gang && !verdict->satisfied && !verdict->satisfiable &&
           verdict->bootstraps + verdict->provisions == 0;
}

static const struct aged *aged_find(const struct parking *parking, const struct need_key *key)
{
    const struct aged like = {.key = *key};

    return parking->aged_count
               ? bsearch(&like, parking->aged, parking->aged_count, sizeof like, aged_compare)
               : NULL;
}

static enum err key_copy(struct arena *arena, struct need_key *key)
{
    struct str *const texts[] = {&key->cluster, &key->fingerprint, &key->group};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        texts[i]->at = arena_dup(arena, *texts[i]);
        if (!texts[i]->at) return ERR_NOMEM;
    }
    return ERR_OK;
}

static enum err stuck_collect(struct parking *next, const struct decision *decision)
{
    size_t most = 0;
    enum err err = ERR_OK;

    for (size_t i = 0; i < decision->verdict_count; i++) most += is_stuck(&decision->verdicts[i]);
    next->aged = arena_calloc(&next->arena, most, sizeof *next->aged);
    next->parked = arena_calloc(&next->arena, most, sizeof *next->parked);
    if (!next->aged || !next->parked) return ERR_NOMEM;
    for (size_t i = 0; !err && i < decision->verdict_count; i++) {
        if (!is_stuck(&decision->verdicts[i])) continue;
        next->aged[next->aged_count].key = decision->verdicts[i].need->key;
        err = key_copy(&next->arena, &next->aged[next->aged_count++].key);
    }
    if (!err && most) qsort(next->aged, most, sizeof *next->aged, aged_compare);
    return err;
}

/* Two rows of one gang count once. */
static void ages_count(struct parking *next, const struct parking *before)
{
    size_t count = 0;

    for (size_t i = 0; i < next->aged_count; i++) {
        struct aged *aged = &next->aged[count];
        const struct aged *old;
        if (count && aged_compare(&next->aged[i], aged - 1) == 0) continue;
        aged->key = next->aged[i].key;
        old = aged_find(before, &aged->key);
        aged->cycles = old ? old->cycles + 1 : 1;
        if (is_parked_age(aged->cycles)) next->parked[next->parked_count++] = aged->key;
        count++;
    }
    next->aged_count = count;
}

enum err parking_note(struct parking *parking, const struct decision *decision)
{
    struct parking next = {0};
    enum err err;

    arena_init(&next.arena, PARKING_BYTES_MAX);
    err = stuck_collect(&next, decision);
    if (err) {
        arena_deinit(&next.arena);
        return err;
    }
    ages_count(&next, parking);
    arena_deinit(&parking->arena);
    *parking = next;
    return ERR_OK;
}

const struct need_key *parking_parked(const struct parking *parking, size_t *ret_count)
{
    *ret_count = parking->parked_count;
    return parking->parked;
}

uint32_t parking_age(const struct parking *parking, const struct need_key *key)
{
    const struct aged *aged = aged_find(parking, key);

    return aged ? aged->cycles : 0;
}
