/* SPDX-License-Identifier: Apache-2.0 */
/* D12: two hundred busy threads beside the keeper. Leases may be lost then, but never silently:
 * when the store has ended a lease, its holder's lease is over and on_lost was called. The holder
 * has only its own clock: the store notifies nobody, and every second renewal fails. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <muster/coord.h>

#include "lib/test.h"

enum { BUSY = 200, LEASES = 50, TTL_MS = 300, SECONDS = 10 };

static atomic_bool stop;

static void *burn(void *arg)
{
    volatile unsigned long spins = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) { spins++; }
    return arg;
}

struct held {
    char key[16];
    coord_lease *lease;
    atomic_int lost;
    bool kept;
};

static void on_lost(void *arg, coord_lease *lease, int reason)
{
    struct held *held = arg;
    (void)lease;
    (void)reason;
    atomic_fetch_add(&held->lost, 1);
}

/* Asks the store first, then the handle: a key that is gone there must be over here. */
static bool is_gone(coord_store *store, struct held *held)
{
    coord_entry *entry = NULL;
    coord_str key = {held->key, strlen(held->key)};
    coord_result result = coord_get(store, NULL, key, COORD_LATEST, &entry);
    bool gone = result.code == COORD_NOT_FOUND ||
                (result.code == COORD_OK && entry->token != coord_lease_token(held->lease));
    coord_entry_free(entry);
    return gone;
}

TEST(a_starved_keeper_loses_leases_but_never_silently)
{
    static struct held held[LEASES];
    static pthread_t busy[BUSY];
    coord_store *store;
    CHECK_I64(
        "opens",
        coord_open("fault+mem:?fault_deaf=1&fault_ops=renew&fault_refuse=500", NULL, &store).code,
        COORD_OK);
    for (int i = 0; i < BUSY; i++) { (void)pthread_create(&busy[i], NULL, burn, NULL); }
    for (int i = 0; i < LEASES; i++) {
        (void)snprintf(held[i].key, sizeof held[i].key, "k%d", i);
        coord_str key = {held[i].key, strlen(held[i].key)};
        coord_result made = coord_create_if_absent(store, NULL, key, (coord_str){"", 0}, TTL_MS,
                                                   "me", &held[i].lease);
        CHECK_I64("granted", made.code, COORD_OK);
        /* Fails when this thread was starved for too long. */
        held[i].kept = coord_keep(held[i].lease, on_lost, &held[i]).code == COORD_OK;
    }
    time_t until = time(NULL) + SECONDS;
    int looks = 0;
    while (time(NULL) < until) {
        for (int i = 0; i < LEASES; i++, looks++) {
            if (is_gone(store, &held[i])) {
                CHECK_I64("over here, too", coord_check(held[i].lease), COORD_EXPIRED);
            }
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < BUSY; i++) { (void)pthread_join(busy[i], NULL); }
    int lost = 0;
    for (int i = 0; i < LEASES; i++) {
        if (is_gone(store, &held[i]) && held[i].kept) {
            while (atomic_load(&held[i].lost) == 0) { (void)usleep(1000); }
            lost++;
        }
    }
    coord_close(store);
    for (int i = 0; i < LEASES; i++) {
        CHECK("once", atomic_load(&held[i].lost) <= 1);
        coord_lease_unref(held[i].lease);
    }
    print_message("%d looks, %d of %d leases lost\n", looks, lost, LEASES);
}
