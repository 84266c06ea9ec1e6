/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster of three real nats-servers whose members are killed and stopped while eight clients
 * fight over two slots.
 *
 * A client may act from the answer of its acquire to its last coord_check() that returned OK. Two
 * such spans of one slot must never overlap. The test judges that after the run, with all clients
 * on one clock. Then all members are healed and every client must win again. */
#include <arpa/inet.h>
#include <muster/coord.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/prng.h"
#include "lib/test.h"
#include "server.h"

enum {
    MEMBERS = 3,
    CLIENTS = 8,
    SLOTS = 2,
    SPANS_MAX = 20000,
    TTL_MS = 2000,
    FAULTS = 12,
    /* Without quorum: what a call may ask of a server that answers, and what a client may ask in a
     * second beside that (keepers, watches of the stream, retries). No tight loop. */
    REQUESTS_PER_CALL_MAX = 6,
    REQUESTS_PER_CLIENT_SECOND_MAX = 5,
    WITHOUT_QUORUM_S = 10,
};

struct member {
    struct proc proc;
    int port, route, monitor;
    char name[8];
};
static struct member members[MEMBERS];
static const char *program;

static void member_start(struct member *member)
{
    char port[16], monitor[16], dir[300], cluster[64], routes[256] = "";
    (void)snprintf(port, sizeof port, "%d", member->port);
    (void)snprintf(monitor, sizeof monitor, "%d", member->monitor);
    (void)snprintf(dir, sizeof dir, "%s/%s", test_dir(), member->name);
    (void)snprintf(cluster, sizeof cluster, "nats://127.0.0.1:%d", member->route);
    for (int i = 0; i < MEMBERS; i++) {
        size_t used = strlen(routes);
        (void)snprintf(routes + used, sizeof routes - used, "%snats://127.0.0.1:%d",
                       i == 0 ? "" : ",", members[i].route);
    }
    const char *argv[] = {program,  "-a",         "127.0.0.1", "-p",    port,
                          "-m",     monitor,      "-js",       "-sd",   dir,
                          "--name", member->name, "--cluster", cluster, "--cluster_name",
                          "test",   "--routes",   routes,      NULL};
    CHECK("a member starts", proc_start(&member->proc, argv, NULL));
    CHECK("and serves", proc_wait_output(&member->proc, "Server is ready", PROC_DEADLINE_MS));
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* -- the clients ------------------------------------------------------------------------------ */

struct span {
    int64_t from_ns, to_ns;
    uint64_t token;
    uint32_t slot, client;
};
static struct span spans[SPANS_MAX];
static atomic_size_t span_count;
static atomic_bool stop;
static atomic_uint lost, lost_twice, unavailable, calls;

struct client {
    pthread_t thread;
    uint32_t index;
    coord_store *store;
    struct prng prng;
    atomic_uint won;
    atomic_int losses; /* of the present lease */
};
static struct client clients[CLIENTS];

static void on_lost(void *arg, coord_lease *lease, int reason)
{
    struct client *client = arg;
    (void)lease, (void)reason;
    if (atomic_fetch_add(&client->losses, 1) > 0) { atomic_fetch_add(&lost_twice, 1); }
    atomic_fetch_add(&lost, 1);
}

static void hold(struct client *client, coord_lease *lease, const coord_result *grant)
{
    struct span span = {
        .from_ns = now_ns(), .token = grant->token, .slot = grant->slot, .client = client->index};
    int64_t until = span.from_ns + (int64_t)prng_below(&client->prng, 5000) * 1000000;
    span.to_ns = span.from_ns;
    atomic_store(&client->losses, 0);
    (void)coord_keep(lease, on_lost, client);
    for (;;) {
        int64_t before = now_ns();
        if (coord_check(lease) != COORD_OK) { break; }
        span.to_ns = before;
        if (before >= until) { break; }
        sleep_ms(1);
    }
    size_t at = atomic_fetch_add(&span_count, 1);
    if (at < SPANS_MAX) { spans[at] = span; }
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
}

static void *fight(void *arg)
{
    struct client *client = arg;
    char owner[16];
    (void)snprintf(owner, sizeof owner, "client-%u", client->index);
    while (!atomic_load(&stop)) {
        coord_slot_request slot = COORD_SLOT_REQUEST_INIT;
        coord_lease *lease = NULL;
        slot.group = (coord_str){"fight", 5};
        slot.slot_count = SLOTS;
        slot.owner = owner;
        slot.ttl_ms = TTL_MS;
        slot.flags = COORD_TAKEOVER_SAME_OWNER;
        coord_result result = coord_acquire_slot(client->store, NULL, &slot, &lease);
        atomic_fetch_add(&calls, 1);
        if (result.code == COORD_OK) {
            atomic_fetch_add(&client->won, 1);
            hold(client, lease, &result);
        } else if (result.code == COORD_UNAVAILABLE) {
            atomic_fetch_add(&unavailable, 1);
        }
        sleep_ms(50);
    }
    return NULL;
}

static int by_slot_then_time(const void *a, const void *b)
{
    const struct span *left = a, *right = b;
    if (left->slot != right->slot) { return left->slot < right->slot ? -1 : 1; }
    return left->from_ns < right->from_ns ? -1 : left->from_ns > right->from_ns;
}

static void judge(void)
{
    size_t count = atomic_load(&span_count);
    CHECK("all spans were noted", count > 0 && count <= SPANS_MAX);
    qsort(spans, count, sizeof *spans, by_slot_then_time);
    for (size_t i = 1; i < count; i++) {
        const struct span *a = &spans[i - 1], *b = &spans[i];
        if (a->slot != b->slot) { continue; }
        if (b->from_ns <= a->to_ns) {
            fprintf(stderr,
                    "slot %u: client %u token %llu to %lld, client %u token %llu from %lld\n",
                    a->slot, a->client, (unsigned long long)a->token, (long long)a->to_ns,
                    b->client, (unsigned long long)b->token, (long long)b->from_ns);
        }
        CHECK("never two holders of one slot", b->from_ns > a->to_ns);
        CHECK("tokens grow", b->token > a->token);
    }
}

/* -- the servers' counters ------------------------------------------------------------------- */

static uint64_t messages_in(const struct member *member)
{
    static char text[65536];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)member->monitor),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char request[] = "GET /varz HTTP/1.0\r\n\r\n";
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK("the monitor answers",
          fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
              write(fd, request, sizeof request - 1) > 0);
    size_t len = 0;
    ssize_t got;
    while (len < sizeof text - 1 && (got = read(fd, text + len, sizeof text - 1 - len)) > 0) {
        len += (size_t)got;
    }
    (void)close(fd);
    text[len] = '\0';
    const char *at = strstr(text, "\"in_msgs\":");
    CHECK("it counts", at != NULL);
    return strtoull(at + 10, NULL, 10);
}

/* -- the test --------------------------------------------------------------------------------- */

static coord_store *open_store(void)
{
    char url[256];
    coord_store *store = NULL;
    coord_result result = {.code = COORD_UNAVAILABLE};
    (void)snprintf(url, sizeof url,
                   "nats://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/fight?create=1&replicas=3",
                   members[0].port, members[1].port, members[2].port);
    for (int i = 0; i < 60 && result.code != COORD_OK; i++) { /* until the cluster has a leader */
        result = coord_open(url, NULL, &store);
        if (result.code != COORD_OK) { sleep_ms(500); }
    }
    CHECK_TEXT("opened", result.text, "");
    return store;
}

static void break_one(struct prng *prng, int fault)
{
    struct member *member = &members[prng_below(prng, MEMBERS)];
    if (fault % 2 == 0) {
        CHECK("stopped", proc_pause(&member->proc));
        sleep_ms(1000 + (int64_t)prng_below(prng, 4000));
        CHECK("goes on", proc_resume(&member->proc));
    } else {
        proc_end(&member->proc);
        sleep_ms(500 + (int64_t)prng_below(prng, 2000));
        member_start(member);
    }
    sleep_ms(1500 + (int64_t)prng_below(prng, 1500));
}

static void without_quorum(void)
{
    CHECK("two are stopped", proc_pause(&members[1].proc) && proc_pause(&members[2].proc));
    sleep_ms(5000); /* clients of the stopped come to the third, leases end */
    uint64_t requests = messages_in(&members[0]);
    unsigned made = atomic_load(&calls);
    sleep_ms(WITHOUT_QUORUM_S * 1000);
    requests = messages_in(&members[0]) - requests;
    made = atomic_load(&calls) - made;
    CHECK("they go on", proc_resume(&members[1].proc) && proc_resume(&members[2].proc));
    fprintf(stderr, "# without quorum, %d clients for %d s: %u calls, %llu requests\n", CLIENTS,
            WITHOUT_QUORUM_S, made, (unsigned long long)requests);
    CHECK("no tight loop",
          requests <= (uint64_t)made * REQUESTS_PER_CALL_MAX +
                          CLIENTS * WITHOUT_QUORUM_S * REQUESTS_PER_CLIENT_SECOND_MAX);
}

static void wait_for_all_to_win(void)
{
    unsigned before[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) { before[i] = atomic_load(&clients[i].won); }
    for (int i = 0; i < CLIENTS; i++) {
        for (int look = 0; look < 1200 && atomic_load(&clients[i].won) == before[i]; look++) {
            sleep_ms(50);
        }
        CHECK("healed, every client wins again", atomic_load(&clients[i].won) > before[i]);
    }
}

TEST(members_are_killed_and_stopped_and_no_slot_has_two_holders)
{
    program = nats_program("MUSTER_NATS_SERVER", "/usr/local/bin/nats-server");
    if (program == NULL) { SKIP("no nats-server of 2.11; scripts/peers/nats-server makes one"); }
    struct prng prng;
    prng_seed(&prng, test_seed());
    for (int i = 0; i < MEMBERS; i++) {
        members[i].port = nats_free_port();
        members[i].route = nats_free_port();
        members[i].monitor = nats_free_port();
        (void)snprintf(members[i].name, sizeof members[i].name, "n%d", i);
    }
    for (int i = 0; i < MEMBERS; i++) { member_start(&members[i]); }
    coord_caps caps = {0};
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].index = (uint32_t)i;
        prng_seed(&clients[i].prng, prng_u64(&prng));
        clients[i].store = open_store();
        caps = coord_capabilities(clients[i].store);
    }
    CHECK("three replicas", caps.bits & COORD_CAP_HA);
    for (int i = 0; i < CLIENTS; i++) {
        (void)pthread_create(&clients[i].thread, NULL, fight, &clients[i]);
    }
    for (int fault = 0; fault < FAULTS; fault++) { break_one(&prng, fault); }
    wait_for_all_to_win();
    without_quorum();
    wait_for_all_to_win();
    atomic_store(&stop, true);
    for (int i = 0; i < CLIENTS; i++) { (void)pthread_join(clients[i].thread, NULL); }
    fprintf(stderr, "# %zu grants, %u lost, %u of %u calls unavailable, %d faults\n",
            atomic_load(&span_count), atomic_load(&lost), atomic_load(&unavailable),
            atomic_load(&calls), FAULTS);
    judge();
    CHECK("somebody lost a claim, or nothing was tried", atomic_load(&lost) > 0);
    CHECK_U64("and each loss was reported once", atomic_load(&lost_twice), 0);
    for (int i = 0; i < CLIENTS; i++) { coord_close(clients[i].store); }
    for (int i = 0; i < MEMBERS; i++) { proc_end(&members[i].proc); }
}
