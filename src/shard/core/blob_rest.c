/* SPDX-License-Identifier: Apache-2.0 */
/* Back-off of blob requests per cluster and profile, after an operator answered with an error. The
 * machine does not rest, because it is sound: other profiles and clusters may use it now.
 *
 * The pause doubles with each error that ends a pause. A blob or a new session of the operator ends
 * the back-off. */
#include <stdlib.h>

#include "shard/core/running_actions.h"

enum {
    BLOB_REST_FIRST_MS = 5 * 1000,
    BLOB_REST_MOST_MS = 300 * 1000,
    BLOB_RESTS_MAX = 4096, /* per cluster; further profiles have no back-off */
};

struct blob_rest {
    uint64_t ms; /* the last pause */
    mono_time until;
};

void blob_rests_init(struct map *rests, uint64_t seed)
{
    map_init(rests, BLOB_RESTS_MAX, seed);
}

void blob_rests_forget(struct map *rests)
{
    uint64_t seed = rests->seed;

    map_free(rests);
    blob_rests_init(rests, seed);
}

void blob_rests_sweep(struct map *rests, mono_time now)
{
    struct map_entry *entry;
    size_t cursor = 0;

    while ((entry = map_next(rests, &cursor))) {
        const struct blob_rest *rest = entry->value;
        if (mono_due(mono_after(rest->until, BLOB_REST_MOST_MS), now))
            free(map_remove(rests, entry->key));
    }
}

bool blob_rests(const struct core *core, const struct need_key *key)
{
    const struct cluster_client *client = client_find(&core->clients, key->cluster);
    const struct blob_rest *rest = client && map_count(&client->blob_rests)
                                       ? map_get(&client->blob_rests, key->fingerprint)
                                       : NULL;

    return rest && !mono_due(rest->until, core->now);
}

void blob_rests_note(struct core *core, const struct need_key *key, bool failed)
{
    struct cluster_client *client = client_find(&core->clients, key->cluster);
    struct blob_rest *rest;

    if (!client) return;
    if (!failed) {
        free(map_remove(&client->blob_rests, key->fingerprint));
        return;
    }
    rest = map_make(&client->blob_rests, key->fingerprint, sizeof *rest);
    /* Requests that were sent together fail together. */
    if (!rest || (rest->ms && !mono_due(rest->until, core->now))) return;
    rest->ms = rest->ms ? min_u64(2 * rest->ms, BLOB_REST_MOST_MS) : BLOB_REST_FIRST_MS;
    rest->until = mono_after(core->now, rest->ms);
}
