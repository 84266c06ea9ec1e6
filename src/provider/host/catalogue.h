/* SPDX-License-Identifier: Apache-2.0 */
/* A catalogue: what a simulated cloud sells and how it behaves, read from TOML. Pure.
 *
 * examples/catalogue.toml is the manual, and catalogue_usual() returns the same bytes. A catalogue
 * is checked when it is opened; an unknown key is refused with its line. */
#ifndef PROVIDER_HOST_CATALOGUE_H
#define PROVIDER_HOST_CATALOGUE_H
#include "base/arena.h"
#include "provider/host/backend.h"

enum {
    CATALOGUE_BYTES_MAX = 1 << 20,
    CATALOGUE_POOLS_MAX = 256,
    CATALOGUE_ZONES_MAX = 64,
    CATALOGUE_NAME_MAX = 100, /* pool and zone: an id has both and a number */
    CATALOGUE_MACHINES_MAX = 4 << 20,
    CATALOGUE_MILLION = 1000000, /* shares are parts of it */
};

struct catalogue_span {
    uint64_t least_ms, most_ms;
};
struct catalogue_behaviour {
    struct catalogue_span latency[OPERATION_KINDS];
    uint32_t fails[OPERATION_KINDS]; /* per million */
};
struct catalogue_pool {
    struct str name;
    struct offer offer; /* without zone and rack */
    const struct str *zones;
    size_t zone_count;
    struct catalogue_behaviour behaviour;
    uint64_t share, count; /* count UINT64_MAX: by share */
    uint32_t quota;        /* per million of its machines that may have a host; a million: all */
    uint32_t rack_size;    /* 0: no racks */
    bool deletes;
};
struct catalogue {
    uint64_t seed;
    struct str region;
    struct catalogue_span repair; /* its least counts */
    const struct str *zones;      /* of pools that name none */
    size_t zone_count;
    struct catalogue_behaviour usual; /* of pools that do not state theirs */
    const struct json *tables;        /* of the pools, while the catalogue is read */
    const struct catalogue_pool *pools;
    size_t pool_count;
    struct arena memory;
};
/* ERR_PARSE, ERR_INVALID, ERR_TOO_LARGE with the place in the note; ERR_NOMEM. */
enum err catalogue_open(struct str toml, struct catalogue **ret_catalogue, struct note *note);
void catalogue_close(struct catalogue *catalogue); /* NULL is fine */
struct str catalogue_usual(void);                  /* used without --catalogue */

/* How many machines the pool has in its zone number `zone`, when `seed_count` are shared out: the
 * counts of all pools and zones add up to it. */
uint64_t catalogue_count(const struct catalogue *catalogue, uint64_t seed_count, size_t pool,
                         size_t zone);
#endif
