/* SPDX-License-Identifier: Apache-2.0 */
/* At most two at a time: four threads share two slots. A process more would share them, too.
 *   ./slots URL */
#include <muster/coord.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { SLOTS = 2, WORKERS = 4 };

static coord_store *store;
static atomic_int inside, most, failed;

static void *work(void *arg)
{
    coord_lease *lease = NULL;
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = (coord_str){"demo/gpu", 8};
    request.slot_count = SLOTS;
    request.owner = arg;
    request.ttl_ms = 5000;
    request.wait_ms = 30000; /* until one is free */
    coord_result result = coord_acquire_slot(store, NULL, &request, &lease);
    if (result.code != COORD_OK) {
        fprintf(stderr, "%s: %s: %s\n", (char *)arg, coord_code_name(result.code), result.text);
        failed = 1;
        return NULL;
    }
    int now = ++inside;
    if (now > most) { most = now; }
    printf("%s works in slot %u\n", (char *)arg, coord_lease_slot(lease));
    usleep(20000);
    inside--;
    coord_release(lease, NULL);
    coord_lease_unref(lease);
    return NULL;
}

int main(int argc, char **argv)
{
    static char names[WORKERS][16];
    pthread_t threads[WORKERS];
    if (argc < 2) {
        fprintf(stderr, "usage: slots URL\n");
        return 2;
    }
    coord_result result = coord_open(argv[1], NULL, &store);
    if (result.code != COORD_OK) {
        fprintf(stderr, "open: %s\n", result.text);
        return 1;
    }
    for (int i = 0; i < WORKERS; i++) {
        snprintf(names[i], sizeof names[i], "worker-%d", i);
        pthread_create(&threads[i], NULL, work, names[i]);
    }
    for (int i = 0; i < WORKERS; i++) { pthread_join(threads[i], NULL); }
    coord_close(store);
    printf("at most %d at a time\n", most);
    return failed || most > SLOTS;
}
