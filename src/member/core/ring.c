/* SPDX-License-Identifier: Apache-2.0 */
#include "member/core/ring.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKER_MAX = 128, KEY_MAX = WORKER_MAX + 24 };

/* Points name their worker by a slot that it keeps for as long as it is there, so that who comes
 * and goes does not rename the points of the others: a change is one pass over them. */
struct seat {
    char *id;
    uint64_t hash; /* of the id */
    uint32_t slot, weight;
};
struct spot {
    uint64_t hash;
    uint32_t slot, number;
};
struct ring {
    struct ring_options options;
    struct seat *workers; /* sorted bytewise by id; their number is their place */
    size_t count, room;
    uint32_t *numbers; /* by slot; RING_NOBODY: free */
    bool *placed;      /* by slot: its points are among `spots` */
    size_t slots;
    struct spot *spots; /* of those who are placed, and of free slots until the next pass */
    size_t spot_count;
    uint64_t *partitions; /* their hashes */
    uint32_t partition_count;
    bool stale;
};

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

uint64_t ring_hash(struct str key)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < key.len; i++) h = (h ^ (unsigned char)key.at[i]) * 0x100000001b3u;
    return mix(h);
}

enum err ring_open(const struct ring_options *options, struct ring **ret_ring)
{
    struct ring *ring;

    if (options->virtual_nodes < 1 || options->virtual_nodes > RING_VIRTUAL_NODES_MAX ||
        !(options->epsilon >= 0) || isinf(options->epsilon))
        return ERR_INVALID;
    ring = calloc(1, sizeof *ring);
    if (!ring) return ERR_NOMEM;
    ring->options = *options;
    *ret_ring = ring;
    return ERR_OK;
}

void ring_close(struct ring *ring)
{
    if (!ring) return;
    for (size_t i = 0; i < ring->count; i++) free(ring->workers[i].id);
    free(ring->workers);
    free(ring->numbers);
    free(ring->placed);
    free(ring->spots);
    free(ring->partitions);
    free(ring);
}

/* -- who is on it -- */

static bool is_worker(struct str id)
{
    if (id.len == 0 || id.len > WORKER_MAX) return false;
    for (size_t i = 0; i < id.len; i++)
        if (id.at[i] < 0x21 || id.at[i] > 0x7e) return false;
    return true;
}

/* Where it stands, or would. */
static size_t find(const struct ring *ring, struct str worker, bool *ret_there)
{
    size_t low = 0, high = ring->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_compare(str_from(ring->workers[middle].id), worker) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_there = low < ring->count && str_equal(str_from(ring->workers[low].id), worker);
    return low;
}

/* A slot whose points are gone; as many as workers ever were there at once. */
static enum err take_slot(struct ring *ring, uint32_t *ret_slot)
{
    size_t slots = ring->slots ? 2 * ring->slots : 16;
    uint32_t *numbers;
    bool *placed;

    for (size_t i = 0; i < ring->slots; i++)
        if (ring->numbers[i] == RING_NOBODY && !ring->placed[i]) {
            *ret_slot = (uint32_t)i;
            return ERR_OK;
        }
    if (!(numbers = realloc(ring->numbers, slots * sizeof *numbers))) return ERR_NOMEM;
    ring->numbers = numbers;
    if (!(placed = realloc(ring->placed, slots * sizeof *placed))) return ERR_NOMEM;
    ring->placed = placed;
    for (size_t i = ring->slots; i < slots; i++) {
        numbers[i] = RING_NOBODY;
        placed[i] = false;
    }
    *ret_slot = (uint32_t)ring->slots;
    ring->slots = slots;
    return ERR_OK;
}

enum err ring_add(struct ring *ring, struct str worker)
{
    struct seat seat = {.weight = 1};
    bool there;
    size_t at = find(ring, worker, &there);
    enum err err;

    if (!is_worker(worker)) return ERR_INVALID;
    if (there) return ERR_EXISTS;
    if (ring->count == RING_WORKERS_MAX) return ERR_FULL;
    if (ring->count == ring->room) {
        size_t room = ring->room ? 2 * ring->room : 16;
        struct seat *more = realloc(ring->workers, room * sizeof *more);
        if (!more) return ERR_NOMEM;
        ring->workers = more;
        ring->room = room;
    }
    if ((err = take_slot(ring, &seat.slot))) return err;
    seat.id = str_dup(worker);
    seat.hash = ring_hash(worker);
    if (!seat.id) return ERR_NOMEM;
    memmove(ring->workers + at + 1, ring->workers + at, (ring->count - at) * sizeof *ring->workers);
    ring->workers[at] = seat;
    ring->numbers[seat.slot] = 0; /* taken; which it is follows */
    ring->count++;
    ring->stale = true;
    return ERR_OK;
}

bool ring_remove(struct ring *ring, struct str worker)
{
    bool there;
    size_t at = find(ring, worker, &there);

    if (!there) return false;
    ring->numbers[ring->workers[at].slot] = RING_NOBODY;
    free(ring->workers[at].id);
    ring->count--;
    memmove(ring->workers + at, ring->workers + at + 1, (ring->count - at) * sizeof *ring->workers);
    ring->stale = true;
    return true;
}

bool ring_weigh(struct ring *ring, struct str worker, uint32_t weight)
{
    bool there;
    size_t at = find(ring, worker, &there);

    if (there) ring->workers[at].weight = weight ? weight : 1;
    return there;
}

size_t ring_workers(const struct ring *ring)
{
    return ring->count;
}

struct str ring_worker(const struct ring *ring, uint32_t number)
{
    return number < ring->count ? str_from(ring->workers[number].id) : STR_EMPTY;
}

/* -- its points -- */

static int by_hash(const void *left, const void *right)
{
    const struct spot *a = left, *b = right;

    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    if (a->slot != b->slot) return a->slot < b->slot ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Workers are numbered by their ids' order, so numbers settle ties as ids would. */
static bool is_before(const struct ring *ring, const struct spot *a, const struct spot *b)
{
    if (a->hash != b->hash) return a->hash < b->hash;
    if (a->slot != b->slot) return ring->numbers[a->slot] < ring->numbers[b->slot];
    return a->number < b->number;
}

/* Equal hashes are next to none, and stand by slot so far. */
static void settle_ties(const struct ring *ring, struct spot *spots, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && spots[j].hash == spots[j - 1].hash &&
                           is_before(ring, &spots[j], &spots[j - 1]);
             j--) {
            struct spot spot = spots[j];
            spots[j] = spots[j - 1];
            spots[j - 1] = spot;
        }
}

/* The points of those who came, sorted. */
static struct spot *new_spots(const struct ring *ring, size_t *ret_count)
{
    size_t each = ring->options.virtual_nodes, count = 0;
    struct spot *spots;
    char key[KEY_MAX];

    *ret_count = 0;
    for (size_t w = 0; w < ring->count; w++) count += ring->placed[ring->workers[w].slot] ? 0 : 1;
    spots = malloc((count * each + 1) * sizeof *spots);
    if (!spots) return NULL;
    for (size_t w = 0; w < ring->count; w++) {
        const struct seat *seat = &ring->workers[w];

        for (uint32_t i = 0; !ring->placed[seat->slot] && i < each; i++) {
            int len = snprintf(key, sizeof key, "%s-vnode-%u", seat->id, i);
            spots[(*ret_count)++] =
                (struct spot){ring_hash(str_of(key, (size_t)len)), seat->slot, i};
        }
    }
    if (*ret_count) qsort(spots, *ret_count, sizeof *spots, by_hash);
    return spots;
}

/* One pass: those of who left are dropped, those of who came are put between. */
static enum err build(struct ring *ring)
{
    size_t fresh_count, at = 0, fresh = 0, count = 0;
    struct spot *came, *spots;

    if (!ring->stale) return ERR_OK;
    for (uint32_t w = 0; w < ring->count; w++) ring->numbers[ring->workers[w].slot] = w;
    came = new_spots(ring, &fresh_count);
    spots = came ? malloc((ring->spot_count + fresh_count + 1) * sizeof *spots) : NULL;
    if (!spots) {
        free(came);
        return ERR_NOMEM;
    }
    while (at < ring->spot_count || fresh < fresh_count) {
        const struct spot *old = at < ring->spot_count ? &ring->spots[at] : NULL;

        if (old && ring->numbers[old->slot] == RING_NOBODY)
            at++;
        else if (old && (fresh == fresh_count || old->hash <= came[fresh].hash))
            spots[count++] = ring->spots[at++];
        else
            spots[count++] = came[fresh++];
    }
    settle_ties(ring, spots, count);
    for (size_t i = 0; i < ring->slots; i++) ring->placed[i] = ring->numbers[i] != RING_NOBODY;
    free(came);
    free(ring->spots);
    ring->spots = spots;
    ring->spot_count = count;
    ring->stale = false;
    return ERR_OK;
}

enum err ring_points(struct ring *ring, struct ring_point **ret_points, size_t *ret_count)
{
    enum err err = build(ring);
    struct ring_point *points = err ? NULL : malloc((ring->spot_count + 1) * sizeof *points);

    if (!points) return err ? err : ERR_NOMEM;
    for (size_t i = 0; i < ring->spot_count; i++)
        points[i] = (struct ring_point){ring->spots[i].hash, ring->numbers[ring->spots[i].slot],
                                        ring->spots[i].number};
    *ret_points = points;
    *ret_count = ring->spot_count;
    return ERR_OK;
}

/* -- placing -- */

static enum err hash_partitions(struct ring *ring, uint32_t count)
{
    uint64_t *hashes;

    if (count <= ring->partition_count) return ERR_OK;
    hashes = realloc(ring->partitions, count * sizeof *hashes);
    if (!hashes) return ERR_NOMEM;
    ring->partitions = hashes;
    for (uint32_t p = ring->partition_count; p < count; p++) {
        char key[24];
        int len = snprintf(key, sizeof key, "partition-%u", p);

        hashes[p] = ring_hash(str_of(key, (size_t)len));
    }
    ring->partition_count = count;
    return ERR_OK;
}

/* The first point at the hash or behind it; past the last one the first. */
static size_t first_at(const struct ring *ring, uint64_t hash)
{
    size_t low = 0, high = ring->spot_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ring->spots[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low == ring->spot_count ? 0 : low;
}

/* Partitions in ascending number, each to the first who is not full: there always is one, since all
 * of them together have room for every partition. */
static enum err place_bounded(const struct ring *ring, uint32_t partitions, uint32_t *ret_owners)
{
    uint32_t *room = calloc(ring->count, sizeof *room);
    double weights = 0; /* each is 1 at least */

    if (!room) return ERR_NOMEM;
    assert(ring->count > 0 && ring->spot_count > 0);
    for (size_t w = 0; w < ring->count; w++) weights += ring->workers[w].weight;
    for (size_t w = 0; w < ring->count; w++) {
        double share = (1 + ring->options.epsilon) * partitions * ring->workers[w].weight / weights;

        room[w] = share >= partitions ? partitions : (uint32_t)ceil(share - 1e-9);
    }
    for (uint32_t p = 0; p < partitions; p++) {
        size_t at = first_at(ring, ring->partitions[p]);
        while (!room[ring->numbers[ring->spots[at].slot]]) at = (at + 1) % ring->spot_count;
        ret_owners[p] = ring->numbers[ring->spots[at].slot];
        room[ret_owners[p]]--;
    }
    free(room);
    return ERR_OK;
}

/* Who has the greatest hash with it; of equals the first id. */
static void place_rendezvous(const struct ring *ring, uint32_t partitions, uint32_t *ret_owners)
{
    for (uint32_t p = 0; p < partitions; p++) {
        uint64_t most = 0;

        ret_owners[p] = 0;
        for (uint32_t w = 0; w < ring->count; w++) {
            uint64_t hash = mix(ring->workers[w].hash ^ ring->partitions[p] * 0x9e3779b97f4a7c15u);

            if (hash <= most && w) continue;
            most = hash;
            ret_owners[p] = w;
        }
    }
}

enum err ring_place(struct ring *ring, uint32_t partitions, uint32_t *ret_owners)
{
    enum err err;

    if (partitions < 1 || partitions > RING_PARTITIONS_MAX) return ERR_INVALID;
    if ((err = hash_partitions(ring, partitions))) return err;
    if (ring->count == 0) {
        for (uint32_t p = 0; p < partitions; p++) ret_owners[p] = RING_NOBODY;
        return ERR_OK;
    }
    if (ring->options.rendezvous) {
        place_rendezvous(ring, partitions, ret_owners);
        return ERR_OK;
    }
    if ((err = build(ring))) return err;
    if (ring->options.bounded) return place_bounded(ring, partitions, ret_owners);
    assert(ring->spot_count > 0);
    for (uint32_t p = 0; p < partitions; p++)
        ret_owners[p] = ring->numbers[ring->spots[first_at(ring, ring->partitions[p])].slot];
    return ERR_OK;
}
