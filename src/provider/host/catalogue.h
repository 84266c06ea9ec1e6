/* SPDX-License-Identifier: Apache-2.0 */
/* A catalogue describes what a simulated cloud sells and how it behaves. Read from TOML. Pure.
 *
 * examples/catalogue.toml documents the format; catalogue_usual() returns the same bytes. An
 * unknown key is refused with its line. */
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
    CATALOGUE_MILLION = 1000000, /* a share is in millionths */
};

struct catalogue_span {
    uint64_t least_ms, most_ms;
};
struct catalogue_behaviour {
    struct catalogue_span latency[OPERATION_KINDS];
    uint32_t fails[OPERATION_KINDS]; /* per million operations */
};
struct catalogue_pool {
    struct str name;
    struct offer offer; /* the offer of each machine, without zone and rack */
    const struct str *zones;
    size_t zone_count;
    struct catalogue_behaviour behaviour;
    uint64_t share, count; /* count UINT64_MAX: use the share */
    uint32_t quota;        /* millionths of the machines that may have a host */
    uint32_t rack_size;    /* 0: no racks */
    bool deletes;
};
struct catalogue {
    uint64_t seed;
    struct str region;
    struct catalogue_span repair;
    const struct str *zones; /* default of pools */
    size_t zone_count;
    struct catalogue_behaviour usual; /* default of pools */
    const struct json *tables;
    const struct catalogue_pool *pools;
    size_t pool_count;
    struct arena memory;
};
/* ERR_PARSE, ERR_INVALID, ERR_TOO_LARGE with a note on the place. ERR_NOMEM. */
enum err catalogue_open(struct str toml, struct catalogue **ret_catalogue, struct note *note);
void catalogue_close(struct catalogue *catalogue); /* NULL is allowed */
struct str catalogue_usual(void);                  /* the catalogue used without --catalogue */

/* The number of machines in the pool's zone number `zone`. The parts of all pools and zones add up
 * to `seed_count`. */
uint64_t catalogue_count(const struct catalogue *catalogue, uint64_t seed_count, size_t pool,
                         size_t zone);
#endif
