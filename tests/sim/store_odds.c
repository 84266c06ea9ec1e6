/* SPDX-License-Identifier: Apache-2.0 */
#include "store_odds.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 2, SLOTS_MAX = 4, COOLDOWN_MS = 300, BLOB_MAX = 2048 };
static const char group[] = "o/g";

static uint64_t below(const struct odds *o, uint64_t bound)
{
    return entropy_u64(o->io->entropy) % bound;
}

static coord_str text(const char *c_string)
{
    return (coord_str){c_string, strlen(c_string)};
}

static coord_call call_of(const struct odds *o)
{
    return (coord_call){.timeout_ms = 200 + (int64_t)below(o, 1500)};
}

static const char *draw_key(const struct odds *o, char name[24])
{
    if (below(o, 3))
        (void)snprintf(name, 24, "o/x%u", (unsigned)below(o, KEYS));
    else
        (void)snprintf(name, 24, "%s/slot-%04u", group, (unsigned)below(o, SLOTS_MAX));
    return name;
}

static int64_t draw_ttl(const struct odds *o)
{
    return 500 + 10 * (int64_t)below(o, 150);
}

static void take(struct odds *o, coord_lease *lease)
{
    if (!lease) return;
    coord_lease_unref(o->lease);
    o->lease = lease;
}

static void claim(struct odds *o, coord_store *store)
{
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    coord_call call = call_of(o);
    coord_lease *lease = NULL;
    coord_result result;

    request.group = text(group);
    request.slot_count = o->slot_count ? o->slot_count : 2;
    request.flags = below(o, 3) ? 0 : COORD_TAKEOVER_SAME_OWNER;
    request.prefer_slot = below(o, 2) ? COORD_NO_SLOT : (uint32_t)below(o, SLOTS_MAX);
    request.owner = o->owner;
    request.ttl_ms = draw_ttl(o);
    request.wait_ms = below(o, 2) ? (int64_t)below(o, 800) : 0;
    request.cooldown_ms = COOLDOWN_MS;
    result = coord_acquire_slot(store, &call, &request, &lease);
    if (result.code == COORD_CONFLICT) o->slot_count = result.slot_count;
    take(o, lease);
}

static void resize(struct odds *o, coord_store *store, const bool *dead)
{
    coord_call call = call_of(o);
    coord_holders *holders = NULL;
    uint32_t count = 1 + (uint32_t)below(o, SLOTS_MAX);

    if (coord_list_holders(store, &call, text(group), &holders).code != COORD_OK) return;
    for (size_t i = 1; !*dead && i < holders->count; i++)
        if (holders->rows[i].slot <= holders->rows[i - 1].slot ||
            holders->rows[i].token == holders->rows[i - 1].token)
            store_wrong(o->story, "holders of one slot twice");
    if (coord_resize_group(store, &call, text(group), holders->revision, count).code == COORD_OK)
        o->slot_count = count;
    coord_holders_free(holders);
}

static void leased_key(struct odds *o, coord_store *store)
{
    coord_call call = call_of(o);
    coord_lease *lease = NULL;
    char name[24];

    (void)coord_create_if_absent(store, &call, text(draw_key(o, name)), text("odd"), draw_ttl(o),
                                 o->owner, &lease);
    take(o, lease);
}

static void change_key(struct odds *o, coord_store *store)
{
    coord_call call = call_of(o);
    coord_lease *lease = NULL;
    coord_entry *entry = NULL;
    int64_t ttl_ms = below(o, 3) ? COORD_TTL_KEEP : below(o, 2) ? draw_ttl(o) : 0;
    char name[24];

    if (coord_get(store, &call, text(draw_key(o, name)), COORD_LATEST, &entry).code == COORD_OK)
        (void)coord_compare_and_set(store, &call, text(name), entry->revision, text("odder"),
                                    o->lease ? ttl_ms : COORD_TTL_KEEP, NULL, o->lease, &lease);
    coord_entry_free(entry);
    take(o, lease);
}

static void travel(struct odds *o, coord_store *store)
{
    char blob[BLOB_MAX];
    coord_call call = call_of(o);
    coord_lease *lease = NULL;
    size_t len = coord_lease_export(o->lease, blob, sizeof blob);

    if (len == 0 || len > sizeof blob) return;
    (void)coord_lease_import(store, &call, blob, len, &lease);
    take(o, lease);
}

static void on_done(void *arg, coord_done *done)
{
    ++*(uint64_t *)arg;
    coord_lease_unref(done->lease);
    coord_entry_free(done->entry);
    coord_holders_free(done->holders);
}

/* Asynchronously; coord_close ends a call that is still open. */
static void later(struct odds *o, coord_store *store)
{
    coord_request request = {.op = below(o, 2) ? COORD_OP_CREATE : COORD_OP_GET,
                             .call = call_of(o),
                             .value = text("later"),
                             .owner = o->owner,
                             .ttl_ms = draw_ttl(o)};
    struct pollfd ready = {.fd = coord_fd(store), .events = POLLIN};
    char name[24];

    request.key = text(draw_key(o, name));
    if (coord_start(store, &request, on_done, &o->counts->done).code != COORD_OK) return;
    o->counts->started++;
    if (poll(&ready, 1, (int)below(o, 1000)) > 0) (void)coord_dispatch(store);
}

void odds_step(struct odds *o, coord_store *store, const bool *dead)
{
    coord_call call = call_of(o);
    char name[24];

    switch (below(o, 11)) {
    case 0:
    case 1:
    case 2: claim(o, store); break;
    case 3: resize(o, store, dead); break;
    case 4: leased_key(o, store); break;
    case 5: change_key(o, store); break;
    case 6:
        if (o->lease)
            (void)coord_create_under(o->lease, &call, text(draw_key(o, name)), text("under"));
        break;
    case 7:
        if (o->lease) (void)coord_release_key(o->lease, &call, text(draw_key(o, name)));
        break;
    case 8:
        (void)coord_delete(store, &call, text(draw_key(o, name)),
                           below(o, 2) ? COORD_FORCE : COORD_ANY, o->lease);
        break;
    case 9:
        if (o->lease && below(o, 2))
            travel(o, store);
        else if (o->lease)
            (void)coord_release(o->lease, &call);
        break;
    case 10: later(o, store); break;
    }
}

void odds_end(struct odds *o)
{
    coord_lease_unref(o->lease);
    o->lease = NULL;
}
