/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients of a store at once; records all they do and see as a history (README.md):
 *
 *   history_record --url muster://A,B,C --replicas 'A B C' --out FILE [--seed N] [--pace USEC]
 *
 * Runs until its standard input is closed. Then all clients stop, and a last write in each bucket
 * marks the end for the watches. Exit code 1: an answer was impossible (bad arguments, not
 * supported), or a watch fell silent.
 *
 * Half of the clients have short timeouts and half have long ones: while a leader is paused, the
 * first half writes elsewhere and the second half still waits when the leader resumes. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/time.h"
#include "direct.h"
#include "history.h"
#include "text/ndjson.h"

enum {
    KEYS = 4,
    LEASED_KEYS = 2,
    GROUPS = 3, /* g1 has one slot, g2 two, g3 three */
    KEY_CLIENTS = 6,
    READERS = 6,
    LEASE_CLIENTS = 3,
    SLOT_CLIENTS = 12,
    REPLICAS_MAX = 8,
    THREADS_MAX = 64,
    HURRY_MS = 400,
    PATIENT_MS = 15000,
    TTL_MS = 700,
    LAST_WORD_MS = 120000,
};
static const char *const buckets[] = {"k", "l", "g1", "g2", "g3"};

static struct {
    const char *url;
    const char *replicas[REPLICAS_MAX]; /* addresses */
    size_t replica_count;
    uint64_t seed, pace_us;
    FILE *out;
    pthread_mutex_t lock;
    _Atomic uint64_t ids;
    _Atomic uint32_t watches;
    _Atomic bool stop, wrong;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .pace_us = 6000};

struct client {
    uint32_t number; /* of this kind */
    uint32_t name;   /* over all */
    struct prng prng;
    coord_store *store;
    pthread_t thread;
    uint64_t revisions[KEYS]; /* as it last heard */
    /* the call under way */
    uint64_t id;
    char value[24];
    struct buf text;
};

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void rest_us(uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

    while (nanosleep(&t, &t) != 0 && errno == EINTR) {}
}

static void pause_between(struct client *c)
{
    rest_us(prng_below(&c->prng, all.pace_us + 1));
}

static void complain(const char *what, const coord_result *r)
{
    (void)fprintf(stderr, "%s: %s/%s %s\n", what, coord_code_name(r->code),
                  coord_reason_name(r->reason), r->text);
    all.wrong = true;
}

/* -- writing down -- */

static void line_begin(struct client *c, struct ndjson *line, const char *kind, int64_t at_ns)
{
    buf_clear(&c->text);
    ndjson_begin(line, &c->text, NDJSON_LINE);
    ndjson_c_string(line, STR("e"), kind);
    ndjson_i64(line, STR("t"), at_ns);
}

static void line_end(struct client *c, struct ndjson *line)
{
    if (ndjson_end(line)) abort();
    (void)pthread_mutex_lock(&all.lock);
    if (fwrite(c->text.data, 1, c->text.len, all.out) != c->text.len) abort();
    (void)pthread_mutex_unlock(&all.lock);
}

struct asked {
    enum hist_op op;
    const char *key;
    uint64_t expected, lease;
    int64_t ttl_ms, wait_ms;
    uint32_t slots, session;
};

static void called(struct client *c, const struct asked *asked)
{
    struct ndjson line;

    c->id = atomic_fetch_add(&all.ids, 1) + 1;
    (void)snprintf(c->value, sizeof c->value, "%" PRIu64, c->id);
    line_begin(c, &line, "call", now_ns());
    ndjson_u64(&line, STR("id"), c->id);
    ndjson_u64(&line, STR("client"), c->name);
    ndjson_c_string(&line, STR("op"), hist_op_name(asked->op));
    ndjson_c_string(&line, STR("key"), asked->key);
    if (asked->expected == COORD_ANY)
        ndjson_bool(&line, STR("any"), true);
    else if (asked->expected)
        ndjson_u64(&line, STR("expected"), asked->expected);
    if (asked->ttl_ms) ndjson_i64(&line, STR("ttl"), asked->ttl_ms);
    if (asked->lease) ndjson_u64(&line, STR("lease"), asked->lease);
    if (asked->slots) ndjson_u64(&line, STR("slots"), asked->slots);
    if (asked->wait_ms) ndjson_i64(&line, STR("wait"), asked->wait_ms);
    if (asked->session) ndjson_u64(&line, STR("session"), asked->session);
    line_end(c, &line);
}

static void done(struct client *c, const coord_result *r, const coord_entry *entry,
                 const coord_holders *holders, bool doubt)
{
    int64_t at_ns = now_ns();
    struct ndjson line;

    if (r->code == COORD_INVALID || r->code == COORD_UNSUPPORTED) complain("call", r);
    doubt = r->code == COORD_UNAVAILABLE && (doubt || r->flags & COORD_F_MAYBE_APPLIED);
    line_begin(c, &line, doubt ? "lost" : "done", at_ns);
    ndjson_u64(&line, STR("id"), c->id);
    ndjson_c_string(&line, STR("code"), coord_code_name(r->code));
    ndjson_c_string(&line, STR("reason"), coord_reason_name(r->reason));
    if (r->revision) ndjson_u64(&line, STR("rev"), r->revision);
    if (r->token) ndjson_u64(&line, STR("token"), r->token);
    if (r->code == COORD_OK && r->granted_ttl_ms) ndjson_i64(&line, STR("ttl"), r->granted_ttl_ms);
    if (r->code == COORD_OK) ndjson_u64(&line, STR("slot"), r->slot);
    if (entry) {
        uint64_t found = 0;
        (void)str_to_u64(str_of(entry->value.at, entry->value.len), &found);
        ndjson_u64(&line, STR("found"), found);
    }
    if (holders) {
        uint64_t slots[HIST_SLOTS_MAX] = {0};
        for (size_t i = 0; i < holders->count; i++)
            if (holders->rows[i].slot < HIST_SLOTS_MAX)
                (void)str_to_u64(str_of(holders->rows[i].value.at, holders->rows[i].value.len),
                                 &slots[holders->rows[i].slot]);
        ndjson_open_array(&line, STR("holders"));
        for (size_t i = 0; i < HIST_SLOTS_MAX; i++) ndjson_u64(&line, NDJSON_ITEM, slots[i]);
        ndjson_close_array(&line);
    }
    line_end(c, &line);
}

/* -- a client's store -- */

static bool opened(struct client *c, const char *url)
{
    coord_options options = {.keep_on_close = 1, .open_timeout_ms = 2000};

    while (!c->store && !all.stop) {
        coord_result r = coord_open(url, &options, &c->store);
        if (r.code == COORD_OK) break;
        c->store = NULL;
        if (r.code != COORD_UNAVAILABLE) complain(url, &r);
        rest_us(20000);
    }
    return c->store != NULL;
}

static coord_str text(const char *c_string)
{
    return (coord_str){c_string, strlen(c_string)};
}

static coord_call patience(const struct client *c)
{
    return (coord_call){.timeout_ms = c->number % 2 ? HURRY_MS : PATIENT_MS};
}

/* -- keys -- */

static void heard(struct client *c, size_t key, const coord_result *r)
{
    if (r->code == COORD_OK || r->code == COORD_EXISTS || r->code == COORD_CONFLICT)
        c->revisions[key] = r->revision;
    if (r->code == COORD_NOT_FOUND || r->reason == COORD_R_DELETED) c->revisions[key] = 0;
}

static void get(struct client *c, const char *key, size_t number)
{
    coord_call call = patience(c);
    coord_entry *entry = NULL;
    coord_result r;

    called(c, &(struct asked){.op = HIST_GET, .key = key});
    r = coord_get(c->store, &call, text(key), COORD_LATEST, &entry);
    if (r.code == COORD_OK) r.revision = entry->revision;
    done(c, &r, entry, NULL, true);
    if (number < KEYS) heard(c, number, &r);
    coord_entry_free(entry);
}

static void *key_client(void *arg)
{
    struct client *c = arg;

    if (!opened(c, all.url)) return NULL;
    while (!all.stop) {
        size_t number = (size_t)prng_below(&c->prng, KEYS);
        uint64_t what = prng_below(&c->prng, 100), expected = c->revisions[number];
        coord_call call = patience(c);
        char key[16];
        coord_result r;

        (void)snprintf(key, sizeof key, "k/%zu", number);
        if (what < 40) {
            get(c, key, number);
        } else if (what < 55) {
            called(c, &(struct asked){.op = HIST_CREATE, .key = key});
            r = coord_create_if_absent(c->store, &call, text(key), text(c->value), 0, NULL, NULL);
            done(c, &r, NULL, NULL, false);
            heard(c, number, &r);
        } else if (what < 92) {
            called(c, &(struct asked){.op = HIST_CAS, .key = key, .expected = expected});
            r = coord_compare_and_set(c->store, &call, text(key), expected, text(c->value),
                                      COORD_TTL_KEEP, NULL, NULL, NULL);
            done(c, &r, NULL, NULL, false);
            heard(c, number, &r);
        } else {
            if (!expected || what > 98) expected = COORD_ANY;
            called(c, &(struct asked){.op = HIST_DELETE, .key = key, .expected = expected});
            r = coord_delete(c->store, &call, text(key), expected, NULL);
            done(c, &r, NULL, NULL, false);
            heard(c, number, &r);
        }
        pause_between(c);
    }
    return NULL;
}

/* Only reads, with a long timeout: its call to a paused leader waits until the leader resumes. */
static void *reading_client(void *arg)
{
    struct client *c = arg;

    c->number *= 2;
    if (!opened(c, all.url)) return NULL;
    while (!all.stop) {
        char key[16];
        (void)snprintf(key, sizeof key, "k/%" PRIu64, prng_below(&c->prng, KEYS));
        get(c, key, KEYS);
        rest_us(2 * all.pace_us);
    }
    return NULL;
}

static void *stale_client(void *arg)
{
    struct client *c = arg;
    struct direct *direct;

    if (direct_open(all.replicas[c->number], &direct)) abort();
    while (!all.stop) {
        char key[16], found[24];
        coord_entry entry = {.value = {found, 0}};
        uint64_t value;
        coord_result r;

        (void)snprintf(key, sizeof key, "k/%" PRIu64, prng_below(&c->prng, KEYS));
        called(c, &(struct asked){.op = HIST_STALE, .key = key, .session = c->number + 1});
        r = direct_get(direct, key, HURRY_MS, &value);
        entry.value.len = (size_t)snprintf(found, sizeof found, "%" PRIu64, value);
        done(c, &r, r.code == COORD_OK ? &entry : NULL, NULL, true);
        rest_us(all.pace_us);
    }
    direct_close(direct);
    return NULL;
}

/* -- leases -- */

/* Holds the slot for some renewals, checks it, then releases it or stops renewing. */
static void hold(struct client *c, const char *key, coord_lease *lease, uint64_t made)
{
    uint64_t beats = prng_below(&c->prng, 5);
    bool lets_go = prng_below(&c->prng, 5) > 0, over = false;
    coord_call call = patience(c);
    coord_result r;

    for (uint64_t i = 0; i < beats && !over && !all.stop; i++) {
        coord_result checked = {0};
        rest_us(prng_below(&c->prng, TTL_MS / 6) * 1000);
        /* Sometimes so late that the lease is over. */
        if (prng_below(&c->prng, 20) == 0) rest_us((TTL_MS + 200) * 1000);
        called(c, &(struct asked){.op = HIST_CHECK, .key = key, .lease = made});
        checked.code = coord_check(lease);
        done(c, &checked, NULL, NULL, false);
        called(c, &(struct asked){.op = HIST_RENEW, .key = key, .lease = made});
        r = coord_renew(lease, &call);
        done(c, &r, NULL, NULL, true);
        over = r.code == COORD_EXPIRED;
    }
    for (int i = 0; lets_go && i < 3; i++) { /* again, while the result is unknown */
        called(c, &(struct asked){.op = HIST_RELEASE, .key = key, .lease = made});
        r = coord_release(lease, &call);
        done(c, &r, NULL, NULL, false);
        if (r.code != COORD_UNAVAILABLE) break;
    }
    coord_lease_unref(lease);
}

static void *lease_client(void *arg)
{
    struct client *c = arg;

    if (!opened(c, all.url)) return NULL;
    while (!all.stop) {
        coord_call call = patience(c);
        coord_lease *lease = NULL;
        coord_result r;
        char key[16], owner[32];

        (void)snprintf(key, sizeof key, "l/%" PRIu64, prng_below(&c->prng, LEASED_KEYS));
        if (prng_below(&c->prng, 2)) get(c, key, KEYS);
        called(c, &(struct asked){.op = HIST_CREATE, .key = key, .ttl_ms = TTL_MS});
        (void)snprintf(owner, sizeof owner, "o%s", c->value);
        r = coord_create_if_absent(c->store, &call, text(key), text(c->value), TTL_MS, owner,
                                   &lease);
        done(c, &r, NULL, NULL, false);
        if (lease) hold(c, key, lease, c->id);
        rest_us(5000 + prng_below(&c->prng, 20000));
    }
    return NULL;
}

static void *slot_client(void *arg)
{
    struct client *c = arg;

    if (!opened(c, all.url)) return NULL;
    while (!all.stop) {
        uint32_t slots = 1 + (uint32_t)prng_below(&c->prng, GROUPS);
        coord_call call = patience(c);
        coord_slot_request request = COORD_SLOT_REQUEST_INIT;
        int64_t wait_ms = prng_below(&c->prng, 2) ? 300 + (int64_t)prng_below(&c->prng, 1000) : 0;
        coord_lease *lease = NULL;
        coord_holders *holders = NULL;
        coord_result r;
        char group[8], owner[32];

        (void)snprintf(group, sizeof group, "g%" PRIu32, slots);
        if (prng_below(&c->prng, 4) == 0) {
            called(c, &(struct asked){.op = HIST_HOLDERS, .key = group});
            r = coord_list_holders(c->store, &call, text(group), &holders);
            done(c, &r, NULL, holders, true);
            coord_holders_free(holders);
        }
        called(c, &(struct asked){.op = HIST_ACQUIRE,
                                  .key = group,
                                  .ttl_ms = TTL_MS,
                                  .wait_ms = wait_ms,
                                  .slots = slots});
        (void)snprintf(owner, sizeof owner, "o%s", c->value);
        request.group = text(group);
        request.slot_count = slots;
        request.owner = owner;
        request.ttl_ms = TTL_MS;
        request.value = text(c->value);
        request.wait_ms = wait_ms;
        r = coord_acquire_slot(c->store, &call, &request, &lease);
        /* UNAVAILABLE may also mean granted and expired before the answer: always in doubt. */
        done(c, &r, NULL, NULL, true);
        if (lease) hold(c, group, lease, c->id);
        rest_us(5000 + prng_below(&c->prng, 20000));
    }
    return NULL;
}

/* -- watches -- */

static bool record_event(struct client *c, uint32_t watch, const char *scope,
                         const coord_event *event)
{
    static const char *const types[] = {
        [COORD_SNAPSHOT_BEGIN] = "begin", [COORD_ENTRY] = "entry",
        [COORD_SNAPSHOT_END] = "end",     [COORD_PUT] = "put",
        [COORD_DELETE] = "delete",        [COORD_EXPIRE] = "expired",
        [COORD_RESYNC] = "resync",        [COORD_PROGRESS] = "progress",
        [COORD_CLOSED] = "closed",
    };
    struct str key = str_of(event->key.at, event->key.len);
    uint64_t value = 0;
    struct ndjson line;

    if (event->type == COORD_SNAPSHOT_BEGIN) key = str_from(scope);
    line_begin(c, &line, "watch", now_ns());
    ndjson_u64(&line, STR("watch"), watch);
    ndjson_c_string(&line, STR("type"), types[event->type]);
    if (key.len) ndjson_string(&line, STR("key"), key);
    if (event->revision) ndjson_u64(&line, STR("rev"), event->revision);
    if (event->token) ndjson_u64(&line, STR("token"), event->token);
    if (!str_to_u64(str_of(event->value.at, event->value.len), &value))
        ndjson_u64(&line, STR("value"), value);
    line_end(c, &line);
    return str_ends(key, STR("/end"));
}

/* Even clients watch to the end; odd ones leave now and then and come back. */
static void *watch_client(void *arg)
{
    struct client *c = arg;
    const char *scope = buckets[c->number / 2 % ARRAY_LEN(buckets)];
    bool leaves = c->number % 2, ended = false;
    int64_t give_up_ns = INT64_MAX;

    if (!opened(c, all.url)) return NULL;
    while (!ended && !(leaves && all.stop)) {
        coord_watch *watch = NULL;
        coord_call call = {.timeout_ms = PATIENT_MS};
        coord_result r = coord_watch_open(c->store, &call, text(scope), COORD_WATCH_BUCKET, &watch);
        uint32_t number = ++all.watches;
        int64_t until_ns =
            leaves ? now_ns() + (int64_t)prng_below(&c->prng, 1500) * 1000000 : INT64_MAX;
        coord_event event;

        if (r.code != COORD_OK) continue;
        while (!ended && now_ns() < until_ns && !(leaves && all.stop)) {
            if (all.stop && give_up_ns == INT64_MAX)
                give_up_ns = now_ns() + (int64_t)LAST_WORD_MS * 1000000;
            if (now_ns() > give_up_ns) {
                (void)fprintf(stderr, "the watch of %s fell silent\n", scope);
                all.wrong = ended = true;
            }
            if (!coord_watch_next(watch, 100, &event)) continue;
            if (record_event(c, number, scope, &event)) ended = true;
            if (event.type == COORD_CLOSED) break;
        }
        coord_watch_close(watch);
    }
    return NULL;
}

/* One watch that moves from replica to replica and continues where it was. */
struct roamer {
    struct client *client;
    const char *scope;
    uint32_t watch;
};

static bool roamer_event(void *owner, const coord_event *event)
{
    struct roamer *r = owner;

    return record_event(r->client, r->watch, r->scope, event);
}

static void *roaming_client(void *arg)
{
    struct client *c = arg;
    struct roamer roamer = {c, buckets[c->number % ARRAY_LEN(buckets)], ++all.watches};
    struct direct *directs[REPLICAS_MAX];
    struct direct_place place = {0};
    int64_t give_up_ns = INT64_MAX;
    bool ended = false;

    for (size_t i = 0; i < all.replica_count; i++)
        if (direct_open(all.replicas[i], &directs[i])) abort();
    while (!ended) {
        if (all.stop && give_up_ns == INT64_MAX)
            give_up_ns = now_ns() + (int64_t)LAST_WORD_MS * 1000000;
        ended = direct_watch(directs[prng_below(&c->prng, all.replica_count)], roamer.scope,
                             20 + prng_below(&c->prng, 500), &place, roamer_event, &roamer);
        if (!ended && now_ns() > give_up_ns) {
            (void)fprintf(stderr, "the roaming watch of %s fell silent\n", roamer.scope);
            all.wrong = ended = true;
        }
        rest_us(2000);
    }
    for (size_t i = 0; i < all.replica_count; i++) direct_close(directs[i]);
    return NULL;
}

/* The last writes: the watches end there. */
static void last_words(struct client *c)
{
    int64_t give_up_ns = now_ns() + (int64_t)LAST_WORD_MS * 1000000;

    all.stop = false; /* to open */
    (void)opened(c, all.url);
    all.stop = true;
    for (size_t i = 0; c->store && i < ARRAY_LEN(buckets); i++) {
        coord_result r = {.code = COORD_UNAVAILABLE};
        coord_call call = {.timeout_ms = 30000};
        char key[16];

        (void)snprintf(key, sizeof key, "%s/end", buckets[i]);
        while (r.code == COORD_UNAVAILABLE && now_ns() < give_up_ns) {
            called(c, &(struct asked){.op = HIST_CREATE, .key = key});
            r = coord_create_if_absent(c->store, &call, text(key), text(c->value), 0, NULL, NULL);
            done(c, &r, NULL, NULL, false);
        }
        if (r.code != COORD_OK && r.code != COORD_EXISTS) complain("the last word", &r);
    }
}

/* -- all of them -- */

static struct client *start(struct client *clients, size_t *count, uint32_t number,
                            void *(*run)(void *))
{
    struct client *c = &clients[*count];

    if (*count == THREADS_MAX) abort();
    *c = (struct client){.number = number, .name = (uint32_t)(*count + 1)};
    prng_seed(&c->prng, all.seed * 1000 + *count);
    buf_init(&c->text, 1 << 16);
    ++*count;
    if (run && pthread_create(&c->thread, NULL, run, c) != 0) abort();
    return c;
}

static void wait_for_end_of_input(void)
{
    char bytes[64];
    ssize_t got;

    do {
        got = read(STDIN_FILENO, bytes, sizeof bytes);
    } while (got > 0 || (got < 0 && errno == EINTR));
}

static bool read_arguments(int argc, char **argv, const char **ret_out)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        char *save = NULL;
        if (strcmp(argv[i], "--url") == 0) {
            all.url = argv[i + 1];
        } else if (strcmp(argv[i], "--out") == 0) {
            *ret_out = argv[i + 1];
        } else if (strcmp(argv[i], "--seed") == 0) {
            all.seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--pace") == 0) {
            all.pace_us = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--replicas") == 0) {
            for (char *one = strtok_r(argv[i + 1], " ", &save);
                 one && all.replica_count < REPLICAS_MAX; one = strtok_r(NULL, " ", &save))
                all.replicas[all.replica_count++] = one;
        } else {
            return false;
        }
    }
    return argc % 2 == 1 && all.url && *ret_out;
}

int main(int argc, char **argv)
{
    static struct client clients[THREADS_MAX];
    const char *out = NULL;
    size_t count = 0, watching;

    if (!read_arguments(argc, argv, &out)) {
        (void)fprintf(stderr, "usage: history_record --url URL --replicas 'ADDRESS...' --out FILE "
                              "[--seed N] [--pace USEC]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    all.out = fopen(out, "w");
    if (!all.out) {
        perror(out);
        return 2;
    }
    for (uint32_t i = 0; i < ARRAY_LEN(buckets) * 2; i++) start(clients, &count, i, watch_client);
    for (uint32_t i = 0; all.replica_count && i < ARRAY_LEN(buckets); i++)
        start(clients, &count, i, roaming_client);
    watching = count;
    for (uint32_t i = 0; i < KEY_CLIENTS; i++) start(clients, &count, i, key_client);
    for (uint32_t i = 0; i < READERS; i++) start(clients, &count, i, reading_client);
    for (uint32_t i = 0; i < LEASE_CLIENTS; i++) start(clients, &count, i, lease_client);
    for (uint32_t i = 0; i < SLOT_CLIENTS; i++) start(clients, &count, i, slot_client);
    for (uint32_t i = 0; i < all.replica_count; i++) start(clients, &count, i, stale_client);
    printf("started\n");
    (void)fflush(stdout);
    wait_for_end_of_input();
    all.stop = true;
    for (size_t i = watching; i < count; i++) (void)pthread_join(clients[i].thread, NULL);
    last_words(start(clients, &count, 0, NULL));
    for (size_t i = 0; i < watching; i++) (void)pthread_join(clients[i].thread, NULL);
    for (size_t i = 0; i < count; i++) {
        coord_close(clients[i].store);
        buf_deinit(&clients[i].text);
    }
    if (fclose(all.out) != 0) all.wrong = true;
    return all.wrong ? 1 : 0;
}
