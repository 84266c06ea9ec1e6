/* SPDX-License-Identifier: Apache-2.0 */
/* A whole use of the library over mem:, with the 1st, 2nd, ... allocation failing: every call
 * returns, every granted lease works, nothing is freed twice or leaked. */
#include <stdlib.h>
#include <string.h>

#include <muster/coord.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"

#define TEXT(literal) ((coord_str){"" literal, sizeof(literal) - 1})

/* OK, or an honest no. */
static bool fine(coord_result result)
{
    if (result.code == COORD_OK) { return true; }
    CHECK_I64(result.text, result.code, COORD_UNAVAILABLE);
    CHECK_I64(result.text, result.reason, COORD_R_MEMORY);
    return false;
}

static void on_lost(void *arg, coord_lease *lease, int reason)
{
    (void)arg;
    (void)lease;
    (void)reason;
}

static void on_done(void *arg, coord_done *done)
{
    int *count = arg;
    (*count)++;
    if (done->result.reason != COORD_R_CLOSED) { (void)fine(done->result); }
    coord_entry_free(done->entry);
}

static void use_lease(coord_store *store, coord_lease *lease)
{
    char blob[512];
    coord_lease *taken = NULL, *moved = NULL;
    bool second = fine(coord_create_under(lease, NULL, TEXT("b/two"), TEXT("2")));
    (void)fine(coord_keep(lease, on_lost, NULL));
    size_t len = coord_lease_export(lease, blob, sizeof blob);
    CHECK("it is alive, and can be exported", len > 0 && len <= sizeof blob);
    if (fine(coord_lease_import(store, NULL, blob, len, &taken))) {
        (void)fine(coord_renew(taken, NULL));
        coord_lease_unref(taken);
    }
    CHECK_I64("alive", coord_check(lease), COORD_OK);
    if (second) {
        (void)fine(coord_release_key(lease, NULL, TEXT("b/two")));
        /* The key may still be listed, because there was no memory to remove it; then the store
         * reports that. */
        coord_result renewed = coord_renew(lease, NULL);
        if (renewed.code != COORD_EXPIRED) { (void)fine(renewed); }
    }
    coord_entry *entry = NULL;
    if (coord_check(lease) == COORD_OK &&
        fine(coord_get(store, NULL, TEXT("b/one"), COORD_LATEST, &entry))) {
        (void)fine(coord_compare_and_set(store, NULL, TEXT("b/one"), entry->revision, TEXT("3"),
                                         30000, NULL, lease, &moved));
        coord_lease_unref(moved);
    }
    coord_entry_free(entry);
    coord_lease_unref(lease);
}

static void use(coord_store *store)
{
    coord_lease *lease = NULL;
    coord_watch *watch = NULL;
    coord_holders *holders = NULL;
    int answers = 0;
    (void)fine(coord_watch_open(store, NULL, TEXT("b"), COORD_WATCH_BUCKET, &watch));
    if (fine(coord_create_if_absent(store, NULL, TEXT("b/one"), TEXT("1"), 60000, "me", &lease))) {
        use_lease(store, lease);
    }
    lease = NULL;
    coord_slot_request slot = COORD_SLOT_REQUEST_INIT;
    slot.group = TEXT("g");
    slot.owner = "me";
    slot.ttl_ms = 60000;
    if (fine(coord_acquire_slot(store, NULL, &slot, &lease))) {
        if (fine(coord_list_holders(store, NULL, TEXT("g"), &holders))) {
            CHECK_SIZE("one holder", holders->count, 1);
        }
        coord_holders_free(holders);
        (void)fine(coord_release(lease, NULL));
        coord_lease_unref(lease);
    } else {
        CHECK("no handle without a grant", lease == NULL);
    }
    coord_request request = {.op = COORD_OP_CREATE, .key = TEXT("c"), .value = TEXT("4")};
    bool started = fine(coord_start(store, &request, on_done, &answers));
    coord_event event;
    while (watch != NULL && coord_watch_next(watch, 0, &event) == 1) {}
    coord_watch_close(watch);
    coord_close(store);
    CHECK_I64("answered exactly when it was taken", answers, started ? 1 : 0);
}

TEST(every_allocation_may_fail)
{
    FAULT_SWEEP_ALLOC(k)
    {
        coord_store *store = NULL;
        if (fine(coord_open("mem:", NULL, &store))) { use(store); }
    }
}

TEST(every_allocation_may_fail_under_a_trace_and_faults)
{
    FAULT_SWEEP_ALLOC(k)
    {
        coord_store *store = NULL;
        coord_result opened =
            coord_open("trace+fault+mem:?trace=/dev/null&fault_seed=1", NULL, &store);
        if (fine(opened)) { use(store); }
    }
}
