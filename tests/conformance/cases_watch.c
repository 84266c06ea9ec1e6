/* SPDX-License-Identifier: Apache-2.0 */
/* D7: list and watch. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

/* -- a reader that applies events to its view and checks the rules of a watch (W1-W5) -- */

enum { VIEWS = 512 };
struct view {
    char key[NAME_CAP];
    uint64_t revision;
    bool live, in_snapshot;
};
struct reader {
    struct suite *s;
    coord_watch *watch;
    struct view views[VIEWS];
    size_t count;
    bool snapshot, closed;
    bool alternate; /* keys are only created and deleted, and no change may be left out */
    int resyncs;
    coord_event event; /* the last one */
};

static struct view *view_of(struct reader *r, coord_str key)
{
    for (size_t i = 0; i < r->count; i++) {
        if (strlen(r->views[i].key) == key.len && memcmp(r->views[i].key, key.at, key.len) == 0) {
            return &r->views[i];
        }
    }
    if (r->count == VIEWS || key.len >= NAME_CAP) { return NULL; }
    struct view *v = &r->views[r->count++];
    *v = (struct view){.revision = 0};
    memcpy(v->key, key.at, key.len);
    v->key[key.len] = '\0';
    return v;
}

/* Reads and checks one event. False: none came, or the case failed. */
static bool read_one(struct reader *r, int64_t wait_ms)
{
    struct suite *s = r->s;
    coord_event *e = &r->event;
    if (coord_watch_next(r->watch, wait_ms, e) != 1) { return false; }
    const char *wrong = NULL;
    struct view *v = NULL;
    switch (e->type) {
    case COORD_SNAPSHOT_BEGIN:
        if (r->snapshot) { wrong = "a snapshot inside a snapshot"; }
        r->snapshot = true;
        for (size_t i = 0; i < r->count; i++) { r->views[i].in_snapshot = false; }
        break;
    case COORD_ENTRY:
        v = view_of(r, e->key);
        if (!r->snapshot) { wrong = "an entry outside a snapshot"; }
        if (v != NULL && e->revision < v->revision) { wrong = "an entry from the past"; }
        if (v != NULL) {
            v->live = v->in_snapshot = true;
            v->revision = e->revision;
        }
        break;
    case COORD_SNAPSHOT_END:
        if (!r->snapshot) { wrong = "the end of no snapshot"; }
        r->snapshot = false;
        for (size_t i = 0; i < r->count; i++) { /* keys missing in the snapshot are gone */
            if (!r->views[i].in_snapshot) { r->views[i].live = false; }
        }
        break;
    case COORD_PUT:
    case COORD_DELETE:
    case COORD_EXPIRE:
        v = view_of(r, e->key);
        if (r->snapshot) { wrong = "a change inside a snapshot"; }
        if (v != NULL && e->revision <= v->revision) {
            wrong = "W2: a revision that does not rise";
        }
        if (r->alternate && v != NULL && v->live == (e->type == COORD_PUT)) {
            wrong = "W3: a change is left out";
        }
        if (v != NULL) {
            v->live = e->type == COORD_PUT;
            v->revision = e->revision;
        }
        break;
    case COORD_RESYNC: r->resyncs++; break;
    case COORD_CLOSED: r->closed = true; break;
    default: break;
    }
    if (wrong != NULL) {
        suite_fail(s, __FILE__, __LINE__, "event", "%s: %.*s", wrong, (int)e->key.len, e->key.at);
    }
    return !s->failed;
}

static void open_reader(struct suite *s, struct reader *r, coord_store *store, const char *scope,
                        uint32_t flags)
{
    r->s = s;
    WANT(coord_watch_open(store, NULL, text(scope), flags, &r->watch), COORD_OK, ANY_REASON);
}

static void read_snapshot(struct suite *s, struct reader *r)
{
    do {
        EXPECT(read_one(r, 30000), "a snapshot comes");
    } while (r->event.type != COORD_SNAPSHOT_END);
}

/* Reads until the key has that revision, or a later one. */
static void read_until(struct suite *s, struct reader *r, const char *key, uint64_t revision)
{
    for (;;) { /* ends when nothing comes for 30 s */
        const struct view *v = view_of(r, text(key));
        if (v != NULL && v->revision >= revision && !r->snapshot) { return; }
        EXPECT(read_one(r, 30000), "W3: the last state of %s never came", key);
    }
}

static void compare_views(struct suite *s, struct reader *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct view *v = &r->views[i];
        uint64_t now = value_is(s->store, v->key, NULL);
        EXPECT_EQ(now != 0, v->live, "%s is as the watch says", v->key);
        if (now != 0) { EXPECT_EQ(v->revision, now, "revision of %s", v->key); }
    }
}

/* Skips progress events, which a store may send at any time. */
#define NEXT(reader, want_type, why)                                                               \
    do {                                                                                           \
        do {                                                                                       \
            EXPECT(read_one((reader), 60000), "%s: nothing comes", (why));                         \
        } while ((reader)->event.type == COORD_PROGRESS);                                          \
        EXPECT_EQ((reader)->event.type, (want_type), "%s", (why));                                 \
    } while (0)

/* -- lists -- */

static void h01(struct suite *s)
{
    coord_holders *holders = NULL;
    coord_lease *lease = NULL;
    coord_result r = coord_list_holders(s->store, NULL, text(N("g")), &holders);
    EXPECT(r.code == COORD_NOT_FOUND ||
               (r.code == COORD_OK && holders->count == 0 && holders->slot_count == 0),
           "no group: %s", coord_code_name(r.code));
    if (r.code == COORD_OK) { coord_holders_free(holders); }
    WANT(acquire(s->store, N("g"), 3, "o", suite_long_ttl(s), 0, &lease), COORD_OK,
         COORD_R_ACQUIRED);
    coord_id id = coord_lease_id(lease);
    WANT(coord_list_holders(s->store, NULL, text(N("g")), &holders), COORD_OK, ANY_REASON);
    EXPECT(holders->count == 1 && holders->slot_count == 3, "one of three");
    EXPECT(strcmp(holders->rows[0].owner, "o") == 0, "owner");
    EXPECT_EQ(holders->rows[0].token, coord_lease_token(lease), "token");
    EXPECT(memcmp(holders->rows[0].lease_id_prefix, id.b, 4) == 0, "lease");
    EXPECT_EQ(holders->atomic, suite_has(s, COORD_CAP_LIST_ATOMIC), "as the bit says");
    EXPECT_EQ(holders->certainty == COORD_BY_OBSERVATION, suite_has(s, COORD_CAP_OBSERVED_EXPIRY),
              "as the bit says");
    coord_holders_free(holders);
    WANT(coord_release(lease, NULL), COORD_OK, COORD_R_RELEASED);
    coord_lease_unref(lease);
    WANT(coord_list_holders(s->store, NULL, text(N("g")), &holders), COORD_OK, ANY_REASON);
    EXPECT(holders->count == 0 && holders->slot_count == 3, "empty, and still there");
    coord_holders_free(holders);
}

void worker_list(struct worker *w)
{
    if (w->index > 0) {
        worker_churn(w);
        return;
    }
    char group[NAME_CAP];
    (void)snprintf(group, sizeof group, "%s/churn", w->prefix);
    int64_t until_ns = real_now_ns() + w->a * MSEC;
    while (real_now_ns() < until_ns && !w->failed) {
        coord_holders *holders = NULL;
        coord_result r = coord_list_holders(w->store, NULL, text(group), &holders);
        if (r.code == COORD_OK) {
            /* A list that is not atomic may mix rows of different moments. */
            w->failed |= holders->atomic && holders->count > (size_t)w->b;
            for (size_t i = 0; i < holders->count; i++) {
                w->failed |= i > 0 && holders->rows[i].slot <= holders->rows[i - 1].slot;
                w->failed |= holders->rows[i].remaining_ms == 0;
            }
            coord_holders_free(holders);
        } else if (r.code != COORD_NOT_FOUND) {
            w->failed = 1;
        }
    }
}

static void h02(struct suite *s)
{
    struct history history = {0};
    if (!workers_run(s, "list", s->full ? 64 : 8, s->full ? 20000 : 1000, 3, &history)) { return; }
    suite_check(s, &history);
    history_deinit(&history);
}

struct mover {
    struct suite *s;
    coord_store *store;
    struct name group;
    _Atomic int stop, failed, moves;
};
static void *move(void *arg)
{
    struct mover *m = arg;
    coord_lease *held = NULL, *next = NULL;
    for (uint32_t i = 0; !m->stop && !m->failed; i++) {
        coord_slot_request request = COORD_SLOT_REQUEST_INIT;
        request.group = text(m->group.text);
        request.slot_count = 2;
        request.prefer_slot = i % 2;
        request.owner = i % 2 ? "mover-odd" : "mover-even";
        request.ttl_ms = 60000;
        m->failed |= coord_acquire_slot(m->store, NULL, &request, &next).code != COORD_OK;
        if (held != NULL) {
            m->failed |= coord_release(held, NULL).code != COORD_OK;
            coord_lease_unref(held);
        }
        held = m->failed ? NULL : next;
        m->moves = (int)i + 1;
    }
    if (held != NULL) {
        (void)coord_release(held, NULL);
        coord_lease_unref(held);
    }
    return NULL;
}

static void h03(struct suite *s)
{
    struct mover mover = {.s = s, .store = suite_open(s), .group = suite_name(s, "g")};
    pthread_t thread;
    bool neither = false;
    if (mover.store == NULL) { return; }
    EXPECT(pthread_create(&thread, NULL, move, &mover) == 0, "thread");
    int want = s->caps.scope == COORD_SCOPE_PROCESS ? 20000 : suite_scale(s, 2000, 100), lists = 0;
    while (mover.moves == 0) { real_sleep_ms(1); }
    while ((mover.moves < want || lists++ < 20) && !mover.failed && !neither) {
        coord_holders *holders = NULL;
        if (coord_list_holders(s->store, NULL, text(mover.group.text), &holders).code == COORD_OK) {
            neither = holders->count == 0 || holders->count > 2;
            coord_holders_free(holders);
        }
    }
    mover.stop = 1;
    (void)pthread_join(thread, NULL);
    EXPECT(!mover.failed, "the mover moves");
    EXPECT(!neither, "it takes the next slot before it lets go: a list never shows neither");
}

/* -- watches -- */

struct writer {
    coord_store *store;
    const char *prefix;
    int rounds, failed;
    unsigned seed;
    int *running;
};
static void *write_keys(void *arg)
{
    struct writer *w = arg;
    for (int i = 0; i < w->rounds; i++) {
        char key[NAME_CAP];
        (void)snprintf(key, sizeof key, "%s/k%d", w->prefix, rand_r(&w->seed) % 20);
        coord_result r = rand_r(&w->seed) % 3 == 0
                             ? coord_delete(w->store, NULL, text(key), COORD_ANY, NULL)
                             : create(w->store, key, "v", 0, NULL, NULL);
        w->failed |= r.code == COORD_UNAVAILABLE || r.code == COORD_INVALID;
    }
    __atomic_sub_fetch(w->running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void h04(struct suite *s)
{
    enum { WRITERS = 3 };
    static struct reader reader;
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    int running = WRITERS;
    int rounds = s->caps.scope == COORD_SCOPE_PROCESS ? 10000 : suite_scale(s, 5000, 300);
    reader = (struct reader){.s = s, .alternate = s->caps.watch >= COORD_WATCH_ORDERED};
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){s->store, s->prefix, rounds, 0, (unsigned)i + 1, &running};
        EXPECT(pthread_create(&threads[i], NULL, write_keys, &writers[i]) == 0, "thread");
    }
    real_sleep_ms(1);
    open_reader(s, &reader, s->store, s->prefix, COORD_WATCH_BUCKET);
    while (!s->failed && __atomic_load_n(&running, __ATOMIC_ACQUIRE) > 0) {
        (void)read_one(&reader, 1);
    }
    for (int i = 0; i < WRITERS; i++) { (void)pthread_join(threads[i], NULL); }
    if (s->failed) { return; }
    coord_result last = create(s->store, N("last"), "v", 0, NULL, NULL);
    WANT(last, COORD_OK, COORD_R_CREATED);
    SUB(read_until(s, &reader, N("last"), last.revision));
    for (int i = 0; i < 20; i++) { /* without a common order of keys each must come in the end */
        char leaf[16];
        (void)snprintf(leaf, sizeof leaf, "k%d", i);
        uint64_t now = value_is(s->store, N(leaf), NULL);
        if (now != 0) { SUB(read_until(s, &reader, N(leaf), now)); }
    }
    while (read_one(&reader, 200)) {}
    if (s->failed) { return; }
    SUB(compare_views(s, &reader));
    coord_watch_close(reader.watch);
}

static void h05(struct suite *s)
{
    static struct reader reader;
    coord_lease *lease = NULL;
    int64_t ttl_ms = suite_short_ttl(s);
    reader = (struct reader){.s = s};
    SUB(open_reader(s, &reader, s->store, N("k"), 0));
    SUB(read_snapshot(s, &reader));
    coord_result made = create(s->store, N("k"), "a", 0, NULL, NULL);
    WANT(made, COORD_OK, COORD_R_CREATED);
    NEXT(&reader, COORD_PUT, "create");
    EXPECT_EQ(reader.event.revision, made.revision, "revision");
    EXPECT(reader.event.value.len == 1 && reader.event.value.at[0] == 'a', "value");
    coord_result set = cas(s->store, N("k"), made.revision, "bb", COORD_TTL_KEEP, NULL);
    WANT(set, COORD_OK, COORD_R_UPDATED);
    NEXT(&reader, COORD_PUT, "update");
    EXPECT_EQ(reader.event.revision, set.revision, "revision");
    EXPECT(reader.event.value.len == 2, "value");
    coord_result gone = coord_delete(s->store, NULL, text(N("k")), set.revision, NULL);
    WANT(gone, COORD_OK, COORD_R_DELETED);
    NEXT(&reader, COORD_DELETE, "delete");
    EXPECT_EQ(reader.event.revision, gone.revision, "revision");
    coord_result leased = create(s->store, N("k"), "c", ttl_ms, "holder", &lease);
    WANT(leased, COORD_OK, COORD_R_CREATED);
    NEXT(&reader, COORD_PUT, "leased");
    EXPECT_EQ(reader.event.token, leased.token, "token");
    EXPECT(strcmp(reader.event.owner, "holder") == 0, "owner: %s", reader.event.owner);
    if (s->stepped) { suite_pass_ms(s, ttl_ms); }
    NEXT(&reader, COORD_EXPIRE, "the end");
    EXPECT_EQ(value_is(s->store, N("k"), NULL), 0, "W7: no earlier than the authority's decision");
    coord_watch_close(reader.watch);
    coord_lease_unref(lease);
}

static void h06(struct suite *s)
{
    static struct reader reader;
    coord_lease *lease = NULL;
    reader = (struct reader){.s = s};
    WANT(create(s->store, N("k"), "v", suite_long_ttl(s), "o", &lease), COORD_OK, COORD_R_CREATED);
    SUB(open_reader(s, &reader, s->store, s->prefix, COORD_WATCH_BUCKET));
    SUB(read_snapshot(s, &reader));
    for (int i = 0; i < 30; i++) { WANT(coord_renew(lease, NULL), COORD_OK, COORD_R_RENEWED); }
    WANT(create(s->store, N("mark"), "v", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    NEXT(&reader, COORD_PUT, "the mark");
    EXPECT(reader.event.key.len > 4 &&
               memcmp(reader.event.key.at + reader.event.key.len - 4, "mark", 4) == 0,
           "W5: a renewal is no event: %.*s", (int)reader.event.key.len, reader.event.key.at);
    coord_watch_close(reader.watch);
    (void)coord_release(lease, NULL);
    coord_lease_unref(lease);
}

static void h07(struct suite *s)
{
    static struct reader reader;
    int changes = s->caps.scope == COORD_SCOPE_PROCESS ? 17000 : suite_scale(s, 17000, 400);
    reader = (struct reader){.s = s};
    SUB(open_reader(s, &reader, s->store, s->prefix, COORD_WATCH_BUCKET));
    SUB(read_snapshot(s, &reader));
    coord_result last = {0};
    for (int i = 0; i < changes; i++) { /* no one reads, and no writer is blocked */
        char leaf[16];
        (void)snprintf(leaf, sizeof leaf, "k%d", i / 2 % 50);
        if (i % 2 == 0) {
            WANT(create(s->store, N(leaf), "v", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
        } else {
            WANT(coord_delete(s->store, NULL, text(N(leaf)), COORD_ANY, NULL), COORD_OK,
                 COORD_R_DELETED);
        }
    }
    last = create(s->store, N("last"), "v", 0, NULL, NULL);
    WANT(last, COORD_OK, COORD_R_CREATED);
    SUB(read_until(s, &reader, N("last"), last.revision));
    while (read_one(&reader, 200)) {}
    if (s->failed) { return; }
    if (changes > 16384 && s->caps.watch >= COORD_WATCH_ORDERED) {
        EXPECT(reader.resyncs > 0, "W4: what was lost is reported");
    }
    SUB(compare_views(s, &reader));
    coord_watch_close(reader.watch);
}

static void *read_to_end(void *arg)
{
    struct reader *r = arg;
    while (read_one(r, -1) && !r->closed) {}
    return NULL;
}

static void h10(struct suite *s)
{
    static struct reader reader;
    pthread_t thread;
    coord_store *other = suite_open(s);
    if (other == NULL) { return; }
    reader = (struct reader){.s = s};
    SUB(open_reader(s, &reader, other, N("k"), 0));
    EXPECT(pthread_create(&thread, NULL, read_to_end, &reader) == 0, "thread");
    real_sleep_ms(20);
    suite_close_now(s, other);
    (void)pthread_join(thread, NULL);
    if (s->failed) { return; }
    EXPECT(reader.closed, "CLOSED, not a hang");
    EXPECT_EQ(coord_watch_next(reader.watch, 0, &reader.event), 0, "and nothing after it");
    coord_watch_close(reader.watch);
}

static void h11(struct suite *s)
{
    static const char *const outside[] = {"b2/k", "b/deep/k", "b", "bb", "a/k"};
    static struct reader reader;
    coord_lease *lease = NULL;
    reader = (struct reader){.s = s};
    WANT(create(s->store, N("b/in"), "v", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        WANT(create(s->store, N(outside[i]), "v", 0, NULL, NULL), COORD_OK, COORD_R_CREATED);
    }
    SUB(open_reader(s, &reader, s->store, N("b"), COORD_WATCH_BUCKET));
    SUB(read_snapshot(s, &reader));
    EXPECT_EQ(reader.count, 1, "one key in the snapshot");
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        WANT(coord_delete(s->store, NULL, text(N(outside[i])), COORD_ANY, NULL), COORD_OK,
             COORD_R_DELETED);
    }
    if (suite_has(s, COORD_CAP_SLOTS)) { /* a group's own record is not shown */
        WANT(acquire(s->store, N("b"), 1, "o", suite_long_ttl(s), 0, &lease), COORD_OK,
             COORD_R_ACQUIRED);
        NEXT(&reader, COORD_PUT, "the slot");
        EXPECT(strstr(view_of(&reader, reader.event.key)->key, "/slot-0000") != NULL, "a slot");
    }
    coord_result gone = coord_delete(s->store, NULL, text(N("b/in")), COORD_ANY, NULL);
    WANT(gone, COORD_OK, COORD_R_DELETED);
    NEXT(&reader, COORD_DELETE, "the next event");
    EXPECT_EQ(reader.event.revision, gone.revision, "the only one inside");
    coord_watch_close(reader.watch);
    if (lease != NULL) { (void)coord_release(lease, NULL); }
    coord_lease_unref(lease);
}

static void h12(struct suite *s)
{
    static struct reader reader;
    coord_lease *lease = NULL;
    int64_t ttl_ms = suite_short_ttl(s), start_ns = real_now_ns();
    reader = (struct reader){.s = s};
    SUB(open_reader(s, &reader, s->store, N("g"), COORD_WATCH_BUCKET));
    SUB(read_snapshot(s, &reader));
    coord_result made = acquire(s->store, N("g"), 1, "o", ttl_ms, 0, &lease);
    WANT(made, COORD_OK, COORD_R_ACQUIRED);
    NEXT(&reader, COORD_PUT, "the slot");
    EXPECT_EQ(reader.event.token, made.token, "token");
    if (s->stepped) { suite_pass_ms(s, ttl_ms); }
    NEXT(&reader, COORD_EXPIRE, "its end, though nobody asks");
    EXPECT(s->stepped || real_now_ns() >= start_ns + made.granted_ttl_ms * MSEC, "W7: not before");
    coord_watch_close(reader.watch);
    coord_lease_unref(lease);
}

#define KEYS  (COORD_CAP_CREATE | COORD_CAP_CAS)
#define LEASE (KEYS | COORD_CAP_TTL)
#define SLOT  (COORD_CAP_CREATE | COORD_CAP_TTL | COORD_CAP_SLOTS)
const struct test_case cases_watch[] = {
    {"H01", "lists of no group, one holder, nobody", SLOT, h01, 0, 0},
    {"H02", "lists while many come and go", SLOT, h02, CASE_REAL, 0},
    {"H03", "a list is of one instant", SLOT | COORD_CAP_LIST_ATOMIC, h03, CASE_REAL, 0},
    {"H04", "a watch begun under load ends with the final state", KEYS, h04, CASE_REAL,
     COORD_WATCH_POLL},
    {"H05", "create, update, delete, expiry of one key", LEASE, h05, 0, COORD_WATCH_POLL},
    {"H06", "renewals are no events", SLOT, h06, 0, COORD_WATCH_POLL},
    {"H07", "a reader that sleeps", KEYS, h07, 0, COORD_WATCH_POLL},
    {"H08", "a connection is cut", KEYS, NULL, 0, COORD_WATCH_POLL},
    {"H09", "keys deleted while it is cut", KEYS, NULL, 0, COORD_WATCH_POLL},
    {"H10", "the store is closed: CLOSED", KEYS, h10, CASE_REAL, COORD_WATCH_POLL},
    {"H11", "a bucket's own keys only", KEYS, h11, 0, COORD_WATCH_POLL},
    {"H12", "the end of a holder nobody contends", SLOT, h12, 0, COORD_WATCH_POLL},
    {0},
};
