/* The race the library was written for: two processes start the same singleton at once, again and
 * again, and exactly one of them wins each time.
 *   coord_race --url URL [--rounds N]        (prints TAP)
 * Even rounds are for a group that never was, odd ones for one that its last holder released. */
#include <muster/coord.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 2, ROUNDS_MAX = 100000, TTL_MS = 60000 };

/* Between the processes. */
struct table {
    pthread_barrier_t barrier;
    int failed;
    uint8_t won[PROCESSES][ROUNDS_MAX];
    uint64_t tokens[ROUNDS_MAX]; /* of the winner */
};

static void complain(struct table *table, const char *what, const coord_result *result)
{
    fprintf(stderr, "%s: %s/%s: %s\n", what, coord_code_name(result->code),
            coord_reason_name(result->reason), result->text);
    table->failed = 1;
}

static void play(struct table *table, coord_store *store, const char *prefix, int me, long rounds)
{
    for (long i = 0; i < rounds; i++) {
        char group[64], owner[32];
        coord_slot_request request = COORD_SLOT_REQUEST_INIT;
        coord_call call = {.timeout_ms = 30000};
        coord_lease *lease = NULL;
        if (i % 2 == 0)
            snprintf(group, sizeof group, "%s/%ld", prefix, i);
        else
            snprintf(group, sizeof group, "%s/again", prefix);
        snprintf(owner, sizeof owner, "process-%d", me);
        request.group = (coord_str){group, strlen(group)};
        request.owner = owner;
        request.ttl_ms = TTL_MS;
        pthread_barrier_wait(&table->barrier);
        coord_result result = coord_acquire_slot(store, &call, &request, &lease);
        if (result.code == COORD_OK) {
            table->won[me][i] = 1;
            table->tokens[i] = result.token;
        } else if (result.code != COORD_EXISTS || result.reason != COORD_R_FULL) {
            complain(table, "acquire", &result);
        }
        pthread_barrier_wait(&table->barrier);
        if (!lease) continue;
        result = coord_release(lease, &call);
        if (result.code != COORD_OK) complain(table, "release", &result);
        coord_lease_unref(lease);
    }
}

static int child(struct table *table, const char *url, const char *prefix, int me, long rounds)
{
    coord_store *store = NULL;
    coord_result result = coord_open(url, NULL, &store);

    if (result.code != COORD_OK) complain(table, "open", &result);
    pthread_barrier_wait(&table->barrier); /* nobody waits alone for one who did not come */
    if (!table->failed) play(table, store, prefix, me, rounds);
    coord_close(store);
    return table->failed;
}

static int judge(const struct table *table, long rounds)
{
    long none = 0, both = 0, smaller = 0;

    for (long i = 0; i < rounds; i++) {
        int winners = table->won[0][i] + table->won[1][i];
        none += winners == 0;
        both += winners == 2;
        /* The group of the odd rounds is one and the same. */
        if (i % 2 && i > 1) smaller += table->tokens[i] <= table->tokens[i - 2];
    }
    printf("%s 1 - exactly one of two wins, %ld times (none %ld, both %ld)\n",
           none || both || table->failed ? "not ok" : "ok", rounds, none, both);
    printf("%s 2 - tokens of the group that is used again rise (%ld did not)\n",
           smaller || table->failed ? "not ok" : "ok", smaller);
    printf("1..2\n");
    return none || both || smaller || table->failed;
}

int main(int argc, char **argv)
{
    const char *url = NULL;
    long rounds = 100;
    char prefix[32];
    pthread_barrierattr_t shared;
    struct table *table =
        mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--url") == 0) url = argv[i + 1];
        if (strcmp(argv[i], "--rounds") == 0) rounds = strtol(argv[i + 1], NULL, 10);
    }
    if (!url || rounds < 1 || rounds > ROUNDS_MAX || table == MAP_FAILED) {
        fprintf(stderr, "usage: coord_race --url URL [--rounds 1..%d]\n", ROUNDS_MAX);
        return 2;
    }
    snprintf(prefix, sizeof prefix, "race%ld", (long)getpid());
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&table->barrier, &shared, PROCESSES);
    for (int me = 0; me < PROCESSES; me++)
        if (fork() == 0) _exit(child(table, url, prefix, me, rounds));
    for (int me = 0; me < PROCESSES; me++) {
        int status = 0;
        if (wait(&status) < 0 || status != 0) table->failed = 1;
    }
    return judge(table, rounds);
}
