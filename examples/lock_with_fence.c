/* SPDX-License-Identifier: Apache-2.0 */
/* A holder that was asleep for too long still believes that it holds the lock. The resource knows
 * better: it refuses a token smaller than one that it has seen.
 *   ./lock_with_fence URL */
#include <muster/coord.h>
#include <stdio.h>

/* The protected thing, wherever it lives: it keeps one fence. */
struct account {
    coord_fence fence;
    long balance;
};

static int deposit(struct account *account, uint64_t token, long amount)
{
    if (!coord_fence_admit(&account->fence, token)) { return 0; }
    account->balance += amount;
    return 1;
}

static coord_lease *lock(coord_store *store, const char *owner, uint32_t flags)
{
    coord_lease *lease = NULL;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = (coord_str){"demo/account", 12};
    request.owner = owner;
    request.ttl_ms = 5000;
    request.flags = flags;
    coord_result result = coord_acquire_slot(store, NULL, &request, &lease);
    if (result.code != COORD_OK) { fprintf(stderr, "%s: %s\n", owner, result.text); }
    return lease;
}

int main(int argc, char **argv)
{
    struct account account = {{0}, 0};
    coord_store *store;
    if (argc < 2) {
        fprintf(stderr, "usage: lock_with_fence URL\n");
        return 2;
    }
    coord_result result = coord_open(argv[1], NULL, &store);
    if (result.code != COORD_OK) {
        fprintf(stderr, "open: %s\n", result.text);
        return 1;
    }
    coord_lease *old = lock(store, "teller", 0);
    if (old == NULL) { return 1; }
    int first = deposit(&account, coord_lease_token(old), 100);
    /* It crashes here, and is started again under its name: a new lease, a larger token. */
    coord_lease *anew = lock(store, "teller", COORD_TAKEOVER_SAME_OWNER);
    if (anew == NULL) { return 1; }
    int second = deposit(&account, coord_lease_token(anew), 10);
    /* A write of the crashed one was still under way. */
    int late = deposit(&account, coord_lease_token(old), 1000);
    printf("deposits: %s, %s, %s; balance %ld\n", first ? "taken" : "refused",
           second ? "taken" : "refused", late ? "taken" : "refused", account.balance);
    coord_release(anew, NULL);
    coord_lease_unref(old);
    coord_lease_unref(anew);
    coord_close(store);
    return !(first && second && !late && account.balance == 110);
}
