/* SPDX-License-Identifier: Apache-2.0 */
/* A catalogue describes what a simulated cloud sells and how it behaves. Read from TOML. Pure.
 *
 * examples/catalogue.toml documents the format, and catalogue_usual() returns the same bytes. A
 * catalogue is checked when it is opened; an unknown key is refused with its line. */
#ifndef PROVIDER_HOST_CATALOGUE_H
#define PROVIDER_HOST_CATALOGUE_H
#include "base/arena.h"
#include "provider/host/backend.h"

enum {
    CATALOGUE_BYTES_MAX = 1 << 20,
    CATALOGUE_POOLS_MAX = 256,
    CATALOGUE_ZONES_MAX = 64,
    CATALOGUE_NAME_MAX = 100, /* bytes; a machine id contains the names of its pool and zone */
    CATALOGUE_MACHINES_MAX = 4 << 20,
    CATALOGUE_MILLION = 1000000, /* a share is a number of millionths */
};

struct catalogue_span {
    uint64_t least_ms, most_ms;
};
struct catalogue_behaviour {
    struct catalogue_span latency[OPERATION_KINDS];
    uint32_t fails[OPERATION_KINDS]; /* failures per million operations, indexed by kind */
};
struct catalogue_pool {
    struct str name;
    struct offer offer; /* offer of each machine of the pool, without zone and rack */
    const struct str *zones;
    size_t zone_count;
    struct catalogue_behaviour behaviour;
    uint64_t share, count; /* if count is UINT64_MAX, the pool gets its share */
    uint32_t quota;        /* part of the pool's machines that may have a host, in millionths */
    uint32_t rack_size;    /* 0 means no racks */
    bool deletes;
};
struct catalogue {
    uint64_t seed;
    struct str region;
    struct catalogue_span repair; /* only least_ms is used */
    const struct str *zones;      /* zones of each pool that names none */
    size_t zone_count;
    struct catalogue_behaviour usual; /* behaviour of each pool that does not state its own */
    const struct json *tables; /* TOML tables of the pools; set only while the catalogue is read */
    const struct catalogue_pool *pools;
    size_t pool_count;
    struct arena memory;
};
/* Reads a catalogue. ERR_PARSE, ERR_INVALID, ERR_TOO_LARGE with a note on the place. ERR_NOMEM. */
enum err catalogue_open(struct str toml, struct catalogue **ret_catalogue, struct note *note);
void catalogue_close(struct catalogue *catalogue); /* NULL is allowed */
struct str catalogue_usual(void);                  /* the catalogue used without --catalogue */

/* Returns the number of the pool's machines in zone number `zone` when `seed_count` machines are
 * distributed. The counts of all pools and zones add up to `seed_count`. */
uint64_t catalogue_count(const struct catalogue *catalogue, uint64_t seed_count, size_t pool,
                         size_t zone);
#endif
