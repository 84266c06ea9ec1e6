/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker a partition belongs to: a consistent hash ring. Pure.
 *
 * Each worker is on the ring at `virtual_nodes` points; a partition belongs to the first point
 * clockwise from its own hash. The owner table is a function of the SET of workers alone: the order
 * in which they came never shows, so replicas agree without saying a word.
 *
 * When a worker leaves, only its partitions move; when one comes, partitions move only to it. With
 * `bounded` no worker has more than its share and a bit: the walk goes on past who is full, and a
 * few more partitions may move than must. By rendezvous there is no ring at all: a partition
 * belongs to the worker whose hash with it is the greatest, which balances best and costs a hash
 * for every pair. */
#ifndef MEMBER_CORE_RING_H
#define MEMBER_CORE_RING_H
#include "base/err.h"
#include "base/str.h"

enum {
    RING_VIRTUAL_NODES = 128,
    RING_VIRTUAL_NODES_MAX = 4096,
    RING_PARTITIONS = 128,
    RING_PARTITIONS_MAX = 1 << 20,
    RING_WORKERS_MAX = 1 << 20,
};
#define RING_NOBODY UINT32_MAX

/* FNV-1a of 64 bits, and a mix behind it without which the keys below all fall on one worker. */
uint64_t ring_hash(struct str key);

struct ring;
struct ring_options {
    uint32_t virtual_nodes; /* 1..RING_VIRTUAL_NODES_MAX */
    bool bounded, rendezvous;
    double epsilon; /* with `bounded`: how much more than the mean one may have; 0 or more */
};
/* ERR_INVALID: options out of bounds. ERR_NOMEM. */
enum err ring_open(const struct ring_options *options, struct ring **ret_ring);
void ring_close(struct ring *ring); /* NULL is fine */

/* Copies the id. ERR_EXISTS: it is there, nothing changed; ERR_INVALID: empty, longer than 128
 * bytes, or with bytes outside of 0x21..0x7E; ERR_FULL, ERR_NOMEM. */
enum err ring_add(struct ring *ring, struct str worker);
bool ring_remove(struct ring *ring, struct str worker); /* false: it was not there */
/* With `bounded`: its share is in proportion to it; 1 at first, 0 counts as 1. False: not there. */
bool ring_weigh(struct ring *ring, struct str worker, uint32_t weight);
size_t ring_workers(const struct ring *ring);

/* The owner of every partition as a number to be handed to ring_worker(): RING_NOBODY on an empty
 * ring. Numbers are valid until the ring changes. Costs log(points) for each partition, and after
 * changes one pass over the points. ERR_INVALID: no partition, or too many; ERR_NOMEM. */
enum err ring_place(struct ring *ring, uint32_t partitions, uint32_t *ret_owners);
struct str ring_worker(const struct ring *ring, uint32_t number);
#endif
