/* SPDX-License-Identifier: Apache-2.0 */
/* Observed expiry (sights.h). The store's lock guards all sights. A sight keeps the time when
 * its (uid, version) was first seen. */
#include "prim/kube/sights.h"

#include <stdlib.h>

#include "prim/backend.h"

enum { SECOND_MS = 1000 };

struct sight {
    struct list node;
    char uid[LEASE_UID_CAP], version[KUBE_VERSION_CAP];
    int64_t first_ns;
    bool absent;
    struct doc kept; /* last written object of a lease of this process */
    struct str key;
};

static void sight_free(struct sight *sight)
{
    kube_doc_deinit(&sight->kept);
    free(sight);
}

void kube_sights_init(struct sights *sights, uint64_t seed)
{
    map_init(&sights->by_key, SIGHTS_MAX, seed);
    list_init(&sights->by_age);
}

void kube_sights_deinit(struct sights *sights)
{
    struct map_entry *entry;

    for (size_t cursor = 0; (entry = map_next(&sights->by_key, &cursor));) sight_free(entry->value);
    map_deinit(&sights->by_key);
    list_init(&sights->by_age);
}

static struct sight *sights_find(const struct sights *sights, struct str key)
{
    return map_get(&sights->by_key, key);
}

/* NULL: out of memory. */
static struct sight *sights_touch(struct sights *sights, struct str key)
{
    struct sight *sight = sights_find(sights, key);

    if (!sight && map_count(&sights->by_key) == SIGHTS_MAX) {
        struct sight *oldest = CONTAINER_OF(list_pop(&sights->by_age), struct sight, node);
        (void)map_remove(&sights->by_key, oldest->key);
        sight_free(oldest);
    }
    if (sight)
        list_remove(&sight->node);
    else if ((sight = map_make(&sights->by_key, key, sizeof *sight)))
        sight->key = str_of(sight + 1, key.len);
    if (!sight) return NULL;
    list_init(&sight->node);
    list_append(&sights->by_age, &sight->node);
    return sight;
}

static bool same(const struct sight *sight, const struct kube_lease_view *view)
{
    return !sight->absent && strcmp(sight->uid, view->uid) == 0 &&
           strcmp(sight->version, view->version) == 0;
}

void kube_sights_note(struct sights *sights, struct str key, const struct kube_lease_view *view,
                      int64_t got_ns)
{
    struct sight *sight = sights_touch(sights, key);

    if (!sight || same(sight, view)) return;
    memcpy(sight->uid, view->uid, sizeof sight->uid);
    memcpy(sight->version, view->version, sizeof sight->version);
    sight->first_ns = got_ns;
    sight->absent = false;
}

void kube_sights_note_absent(struct sights *sights, struct str key, int64_t got_ns)
{
    struct sight *sight = sights_find(sights, key);

    if (!sight || sight->absent) return;
    sight->absent = true;
    sight->first_ns = got_ns;
}

bool kube_sights_knows(const struct sights *sights, struct str key)
{
    return sights_find(sights, key) != NULL;
}

int64_t kube_sights_grace_ms(int64_t ttl_ms)
{
    return ttl_ms / 10 > SECOND_MS ? ttl_ms / 10 : SECOND_MS;
}

int64_t kube_sights_left_ms(const struct sights *sights, struct str key,
                            const struct kube_lease_view *view, int64_t at_ns)
{
    const struct sight *sight = sights_find(sights, key);
    int64_t ttl_ms = (int64_t)view->duration_s * 1000,
            whole = ttl_ms + kube_sights_grace_ms(ttl_ms);

    if (!sight || !same(sight, view) || at_ns < sight->first_ns) return whole;
    int64_t seen_ms = (at_ns - sight->first_ns) / PRIM_NS_PER_MS;
    return seen_ms >= whole ? 0 : whole - seen_ms;
}

int64_t kube_sights_create_wait_ms(const struct sights *sights, struct str key, int64_t at_ns)
{
    const struct sight *sight = sights_find(sights, key);

    /* Returns the time until a new object gets a later creation second than the deleted object. */
    if (!sight || !sight->absent) return 0;
    int64_t since_ms = (at_ns - sight->first_ns) / PRIM_NS_PER_MS;
    return since_ms > SECOND_MS ? 0 : SECOND_MS + 1 - since_ms;
}

void kube_sights_keep(struct sights *sights, struct str key, struct doc *own_doc)
{
    struct sight *sight = sights_touch(sights, key);

    if (sight) { /* without a sight the next renewal reads the object */
        kube_doc_deinit(&sight->kept);
        sight->kept = *own_doc;
        *own_doc = (struct doc){0};
    }
    kube_doc_deinit(own_doc);
}

bool kube_sights_take(struct sights *sights, struct str key, const coord_id *lease_id,
                      struct doc *ret_doc)
{
    struct sight *sight = sights_find(sights, key);

    if (!sight || !sight->kept.present ||
        memcmp(&sight->kept.view.envelope.lease_id, lease_id, sizeof *lease_id) != 0)
        return false;
    *ret_doc = sight->kept;
    sight->kept = (struct doc){0};
    return true;
}
