/* SPDX-License-Identifier: Apache-2.0 */
/* Exactly one of the processes that run this does the work; the others say who does.
 *   ./singleton URL [rounds]        e.g. file:///var/lib/demo, etcd://localhost:2379 */
#include <muster/coord.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int lost;

static void on_lost(void *arg, coord_lease *lease, int reason)
{
    (void)arg;
    (void)lease;
    (void)reason;
    lost = 1; /* be quick here: this is the keeper's thread */
}

static int fail(const char *what, const coord_result *result)
{
    fprintf(stderr, "%s: %s/%s: %s\n", what, coord_code_name(result->code),
            coord_reason_name(result->reason), result->text);
    return 1;
}

int main(int argc, char **argv)
{
    coord_store *store;
    coord_lease *lease = NULL;
    char owner[64];
    int rounds = argc > 2 ? atoi(argv[2]) : 3;
    if (argc < 2) {
        fprintf(stderr, "usage: singleton URL [rounds]\n");
        return 2;
    }
    coord_result result = coord_open(argv[1], NULL, &store);
    if (result.code != COORD_OK) { return fail("open", &result); }

    snprintf(owner, sizeof owner, "pid-%d", (int)getpid());
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = (coord_str){"demo/indexer", 12};
    request.owner = owner;
    request.ttl_ms = 5000;
    result = coord_acquire_slot(store, NULL, &request, &lease);
    if (result.code == COORD_EXISTS) {
        printf("somebody else is at work: %s\n", result.text);
        coord_close(store);
        return 0;
    }
    if (result.code != COORD_OK) { return fail("acquire", &result); }

    result = coord_keep(lease, on_lost, NULL); /* renewed from now on */
    if (result.code != COORD_OK) { return fail("keep", &result); }
    for (int i = 0; i < rounds && !lost; i++) {
        if (coord_check(lease) != COORD_OK) {
            break;
        } /* before each side effect; it costs nothing */
        printf("at work, round %d, token %llu\n", i + 1,
               (unsigned long long)coord_lease_token(lease));
        usleep(10000);
    }
    coord_release(lease, NULL); /* the next one may start at once */
    coord_lease_unref(lease);
    coord_close(store);
    return 0;
}
