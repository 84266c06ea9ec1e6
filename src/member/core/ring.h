/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns partitions to workers by a consistent hash ring. Pure.
 *
 * Each worker is on the ring at `virtual_nodes` points; a partition belongs to the first point
 * clockwise from its own hash. The owner table depends only on the set of workers.
 *
 * With `bounded` no worker has more than its share plus epsilon: the search skips full workers.
 * With `rendezvous` a partition belongs to the worker with the greatest hash of worker and
 * partition. */
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

/* 64-bit FNV-1a and a final mix. Without the mix, similar keys would go to one worker. */
uint64_t ring_hash(struct str key);

struct ring;
struct ring_options {
    uint32_t virtual_nodes; /* 1..RING_VIRTUAL_NODES_MAX */
    bool bounded, rendezvous;
    double epsilon; /* if `bounded`: excess over the mean that a worker may have; 0 or more */
};
/* ERR_INVALID: options out of bounds. ERR_NOMEM. */
enum err ring_open(const struct ring_options *options, struct ring **ret_ring);
void ring_close(struct ring *ring); /* NULL is allowed */

/* Copies the worker's id. ERR_EXISTS. ERR_INVALID: the id is empty, longer than 128 bytes or has
 * bytes outside 0x21..0x7E. ERR_FULL, ERR_NOMEM. */
enum err ring_add(struct ring *ring, struct str worker);
bool ring_remove(struct ring *ring, struct str worker); /* false: the worker was not on the ring */
/* The weight is initially 1; 0 counts as 1. With `bounded`, a worker's share is proportional to its
 * weight. False: the worker is not on the ring. */
bool ring_weigh(struct ring *ring, struct str worker, uint32_t weight);
size_t ring_workers(const struct ring *ring);

/* Writes the owner of every partition as a number for ring_worker(); RING_NOBODY: the ring is
 * empty. Numbers are valid until the ring changes. ERR_INVALID: no partition, or too many;
 * ERR_NOMEM. */
enum err ring_place(struct ring *ring, uint32_t partitions, uint32_t *ret_owners);
struct str ring_worker(const struct ring *ring, uint32_t number);
#endif
