/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns partitions to workers by consistent hashing with bounded loads. Invariant: the result
 * depends only on the workers and weights, not on the order in which workers were added. Pure. */
#include "member/core/ring.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member/core/internal.h"

enum { KEY_MAX = MEMBER_ID_MAX + 24 };

struct seat { /* a worker */
    struct seat *next_gone;
    uint64_t hash; /* hash of the id */
    uint32_t number, weight;
    bool placed, gone; /* placed: the worker's points are in `spots` */
    char id[];
};
struct spot {
    uint64_t hash;
    struct seat *seat;
};
struct ring {
    struct ring_options options;
    struct seat **seats; /* sorted bytewise by id; a worker's number is its index */
    size_t count, room;
    struct seat *gone;  /* removed workers; the next build() drops their points */
    struct spot *spots; /* sorted at the last build() */
    size_t spot_count;
    uint64_t *partitions; /* by partition: its hash */
    uint32_t partition_count;
    bool stale;
};

static uint64_t ring_mix(uint64_t h)
{
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

uint64_t ring_hash(struct str key)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < key.len; i++) h = (h ^ (unsigned char)key.at[i]) * 0x100000001b3u;
    return ring_mix(h);
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

static void free_gone(struct ring *ring)
{
    while (ring->gone) {
        struct seat *seat = ring->gone;

        ring->gone = seat->next_gone;
        free(seat);
    }
}

void ring_close(struct ring *ring)
{
    if (!ring) return;
    for (size_t i = 0; i < ring->count; i++) free(ring->seats[i]);
    free_gone(ring);
    free(ring->seats);
    free(ring->spots);
    free(ring->partitions);
    free(ring);
}

/* -- workers -- */

/* The index of the worker, or the index where it would be inserted. */
static size_t find(const struct ring *ring, struct str worker, bool *ret_there)
{
    size_t low = 0, high = ring->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_compare(str_from(ring->seats[middle]->id), worker) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_there = low < ring->count && str_equal(str_from(ring->seats[low]->id), worker);
    return low;
}

enum err ring_add(struct ring *ring, struct str worker)
{
    struct seat *seat;
    bool there;
    size_t at = find(ring, worker, &there);

    if (!member_is_id(worker)) return ERR_INVALID;
    if (there) return ERR_EXISTS;
    if (ring->count == RING_WORKERS_MAX) return ERR_FULL;
    if (ring->count == ring->room) {
        size_t room = ring->room ? 2 * ring->room : 16;
        struct seat **more = realloc(ring->seats, room * sizeof(void *));
        if (!more) return ERR_NOMEM;
        ring->seats = more;
        ring->room = room;
    }
    seat = calloc(1, sizeof *seat + worker.len + 1);
    if (!seat) return ERR_NOMEM;
    seat->hash = ring_hash(worker);
    seat->weight = 1;
    memcpy(seat->id, worker.at, worker.len);
    memmove(ring->seats + at + 1, ring->seats + at, (ring->count - at) * sizeof(void *));
    ring->seats[at] = seat;
    ring->count++;
    ring->stale = true;
    return ERR_OK;
}

bool ring_remove(struct ring *ring, struct str worker)
{
    bool there;
    size_t at = find(ring, worker, &there);
    struct seat *seat = there ? ring->seats[at] : NULL;

    if (!there) return false;
    seat->gone = true;
    seat->next_gone = ring->gone;
    ring->gone = seat;
    ring->count--;
    memmove(ring->seats + at, ring->seats + at + 1, (ring->count - at) * sizeof(void *));
    ring->stale = true;
    return true;
}

bool ring_weigh(struct ring *ring, struct str worker, uint32_t weight)
{
    bool there;
    size_t at = find(ring, worker, &there);

    if (there) ring->seats[at]->weight = weight ? weight : 1;
    return there;
}

size_t ring_workers(const struct ring *ring)
{
    return ring->count;
}

struct str ring_worker(const struct ring *ring, uint32_t number)
{
    return number < ring->count ? str_from(ring->seats[number]->id) : STR_EMPTY;
}

/* -- points -- */

/* equal hashes are ordered by id */
static int by_hash(const void *left, const void *right)
{
    const struct spot *a = left, *b = right;

    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return strcmp(a->seat->id, b->seat->id);
}

/* sorted points of added workers */
static struct spot *new_spots(const struct ring *ring, size_t *ret_count)
{
    size_t each = ring->options.virtual_nodes, count = 0;
    struct spot *spots;
    char key[KEY_MAX];

    *ret_count = 0;
    for (size_t w = 0; w < ring->count; w++) count += !ring->seats[w]->placed;
    spots = malloc((count * each + 1) * sizeof *spots);
    if (!spots) return NULL;
    for (size_t w = 0; w < ring->count; w++) {
        struct seat *seat = ring->seats[w];

        for (uint32_t i = 0; !seat->placed && i < each; i++) {
            int len = snprintf(key, sizeof key, "%s-vnode-%u", seat->id, i);
            spots[(*ret_count)++] = (struct spot){ring_hash(str_of(key, (size_t)len)), seat};
        }
    }
    if (*ret_count) qsort(spots, *ret_count, sizeof *spots, by_hash);
    return spots;
}

static enum err build(struct ring *ring)
{
    size_t fresh_count, at = 0, fresh = 0, count = 0;
    struct spot *came, *spots;

    if (!ring->stale) return ERR_OK;
    came = new_spots(ring, &fresh_count);
    spots = came ? malloc((ring->spot_count + fresh_count + 1) * sizeof *spots) : NULL;
    if (!spots) {
        free(came);
        return ERR_NOMEM;
    }
    while (at < ring->spot_count || fresh < fresh_count) {
        const struct spot *old = at < ring->spot_count ? &ring->spots[at] : NULL;

        if (old && old->seat->gone)
            at++;
        else if (old && (fresh == fresh_count || by_hash(old, &came[fresh]) <= 0))
            spots[count++] = ring->spots[at++];
        else
            spots[count++] = came[fresh++];
    }
    for (uint32_t w = 0; w < ring->count; w++) {
        ring->seats[w]->number = w;
        ring->seats[w]->placed = true;
    }
    free_gone(ring);
    free(came);
    free(ring->spots);
    ring->spots = spots;
    ring->spot_count = count;
    ring->stale = false;
    return ERR_OK;
}

/* -- placement -- */

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

/* The first point at or after the hash; after the last point, the first of all. */
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

/* Each partition goes to the first worker that is not full. All workers together have room for
 * every partition. */
static enum err place_bounded(const struct ring *ring, uint32_t partitions, uint32_t *ret_owners)
{
    uint32_t *room = calloc(ring->count, sizeof *room);
    double weights = 0; /* each weight is at least 1 */

    if (!room) return ERR_NOMEM;
    assert(ring->count > 0 && ring->spot_count > 0);
    for (size_t w = 0; w < ring->count; w++) weights += ring->seats[w]->weight;
    for (size_t w = 0; w < ring->count; w++) {
        double share = (1 + ring->options.epsilon) * partitions * ring->seats[w]->weight / weights;

        room[w] = share >= partitions ? partitions : (uint32_t)share;
        if (share - room[w] > 1e-9 && room[w] < partitions) room[w]++; /* rounded up */
    }
    for (uint32_t p = 0; p < partitions; p++) {
        size_t at = first_at(ring, ring->partitions[p]);
        while (!room[ring->spots[at].seat->number]) at = (at + 1) % ring->spot_count;
        ret_owners[p] = ring->spots[at].seat->number;
        room[ret_owners[p]]--;
    }
    free(room);
    return ERR_OK;
}

/* The worker with the greatest hash of worker and partition gets the partition; ties go to the
 * first id. */
static void place_rendezvous(const struct ring *ring, uint32_t partitions, uint32_t *ret_owners)
{
    for (uint32_t p = 0; p < partitions; p++) {
        uint64_t most = 0;

        ret_owners[p] = 0;
        for (uint32_t w = 0; w < ring->count; w++) {
            uint64_t hash =
                ring_mix(ring->seats[w]->hash ^ ring->partitions[p] * 0x9e3779b97f4a7c15u);

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
        ret_owners[p] = ring->spots[first_at(ring, ring->partitions[p])].seat->number;
    return ERR_OK;
}
