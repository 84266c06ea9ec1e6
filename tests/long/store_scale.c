/* SPDX-License-Identifier: Apache-2.0 */
/* The store's core at its full size: every command and every slice of a snapshot is bounded work,
 * however much there is to end, to free or to report. The bounds are counts of records, so they
 * hold on any machine; the times are printed only. `make test` runs it at a twentieth of the size.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <muster/coord.h>

#include "base/order.h"
#include "base/prng.h"
#include "lib/store_apply.h"
#include "lib/test.h"
#include "section/section.h"
#include "store/core/store.h"

#ifndef SHARE
#define SHARE 1
#endif
enum {
    KEYS = 1000000 / SHARE,
    LEASES = 100000 / SHARE,
    WAITERS = STORE_WAITERS_MAX / SHARE,
    CLIENTS = 20000 / SHARE,
    SLICE = 64 << 10,
    /* Work of one entry beyond its own command: expired leases, cooldowns, clients, history, freed
     * rows. */
    WORK_MAX = STORE_EXPIRE_MAX + 2 * STORE_KEYS_PER_LEASE_MAX + 3 * STORE_PRUNE_CHANGES,
};
static const uint64_t ms = 1000000;

static uint64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct scale { /* a store, and its most expensive calls */
    struct store *store;
    uint64_t clock_ns, worst_work, worst_ns;
};

static struct scale scale_open(void)
{
    struct store_options options = {.quota_bytes = 16ull << 30};
    struct scale s = {.store = store_open(&options), .clock_ns = ms};

    CHECK("opened", s.store);
    return s;
}

static struct store_result apply(struct scale *s, const struct store_command *command)
{
    struct store_result result;
    struct store_renewal renewals[1];
    struct store_event event;
    uint64_t work = store_work(s->store), began = cpu_ns();

    store_apply(s->store, s->clock_ns, command, &result, renewals);
    while (store_event_next(s->store, &event)) continue;
    s->worst_ns = max_u64(s->worst_ns, cpu_ns() - began);
    s->worst_work = max_u64(s->worst_work, store_work(s->store) - work);
    return result;
}

static void meter(struct scale *s)
{
    s->worst_work = s->worst_ns = 0;
}

static void say(const struct scale *s, const char *what)
{
    fprintf(stderr, "%s: the worst command is %" PRIu64 " records, %.3f ms of CPU\n", what,
            s->worst_work, (double)s->worst_ns / 1e6);
}

static struct store_id id_of(uint64_t n)
{
    struct store_id id = {{1}};

    memcpy(id.b + 1, &n, sizeof n);
    return id;
}

static void put(struct scale *s, uint64_t n, struct str value)
{
    char key[32];
    struct store_command command = {.kind = STORE_PUT, .value = value};

    command.key = str_of(key, (size_t)snprintf(key, sizeof key, "k/%09" PRIu64, n));
    CHECK_U64("put", apply(s, &command).code, COORD_OK);
}

/* The lease `lease` is made with its first key. */
static void claim(struct scale *s, uint64_t lease, uint32_t place, int64_t ttl_ms)
{
    char key[48];
    struct store_command command = {.kind = STORE_CREATE, .ttl_ms = ttl_ms};

    command.key = str_of(key, (size_t)snprintf(key, sizeof key, "muster/c/%08" PRIu64 "/%u", lease,
                                               (unsigned)place));
    if (place == 0) {
        command.owner = STR("w");
        command.lease = id_of(lease);
    } else {
        command.held = id_of(lease);
        command.ttl_ms = 0;
    }
    CHECK_U64("claimed", apply(s, &command).code, COORD_OK);
}

static uint32_t ticks_until_nothing_is_left(struct scale *s)
{
    const struct store_command tick = {.kind = STORE_TICK};
    uint32_t ticks = 0;

    for (; store_next_due(s->store) <= s->clock_ns; ticks++) (void)apply(s, &tick);
    return ticks;
}

TEST(leases_that_end_together_end_in_entries_of_bounded_work)
{
    struct scale s = scale_open();
    uint32_t ticks;

    for (uint64_t i = 0; i < LEASES; i++) {
        s.clock_ns += 1000; /* a tenth of a second for all */
        claim(&s, i, 0, 10000);
    }
    CHECK_U64("there", store_sizes(s.store).leases, LEASES);
    say(&s, "leases of one key made");
    s.clock_ns += 11000 * ms;
    meter(&s);
    ticks = ticks_until_nothing_is_left(&s);
    say(&s, "leases of one key end");
    fprintf(stderr, "%d leases in %u entries\n", LEASES, (unsigned)ticks);
    CHECK_U64("all are over", store_sizes(s.store).leases, 0);
    CHECK_U64("and their keys", keys_count(store_keys(s.store)), 0);
    CHECK("bounded", s.worst_work <= WORK_MAX);
    CHECK("but not many entries", ticks <= LEASES * 2 / STORE_EXPIRE_MAX + 2);
    store_close(s.store);
}

TEST(leases_of_many_keys_are_bounded_work_too)
{
    enum { MANY = 256 / SHARE + 1 };
    struct scale s = scale_open();

    for (uint64_t i = 0; i < MANY; i++)
        for (uint32_t k = 0; k < STORE_KEYS_PER_LEASE_MAX; k++) claim(&s, i, k, 10000);
    s.clock_ns += 11000 * ms;
    meter(&s);
    (void)ticks_until_nothing_is_left(&s);
    say(&s, "leases of 1,024 keys end");
    CHECK_U64("all are over", keys_count(store_keys(s.store)), 0);
    CHECK("bounded", s.worst_work <= WORK_MAX);
    store_close(s.store);
}

static struct store_result acquire(struct scale *s, uint64_t n, const char *group, uint32_t slots,
                                   uint64_t cooldown_ms)
{
    char owner[24];
    struct store_command command = {.kind = STORE_ACQUIRE,
                                    .client = id_of(n % CLIENTS),
                                    .sequence = n + 1,
                                    .key = str_from(group),
                                    .slot_count = slots,
                                    .ttl_ms = 3600000,
                                    .lease = id_of(1000000000 + n),
                                    .prefer_slot = STORE_NO_SLOT,
                                    .cooldown_ms = cooldown_ms,
                                    .wait = true};

    command.owner = str_of(owner, (size_t)snprintf(owner, sizeof owner, "w%" PRIu64, n));
    return apply(s, &command);
}

static struct store_result release(struct scale *s, uint64_t n)
{
    struct store_command command = {.kind = STORE_RELEASE, .lease = id_of(1000000000 + n)};

    return apply(s, &command);
}

TEST(each_release_serves_the_next_waiter_in_order)
{
    struct scale s = scale_open();
    struct store_event event;
    struct store_group group;

    CHECK("the first holds", !acquire(&s, 0, "muster/g", 1, 0).waiting);
    for (uint64_t i = 1; i <= WAITERS; i++)
        CHECK("the others wait", acquire(&s, i, "muster/g", 1, 0).waiting);
    meter(&s);
    for (uint64_t i = 0; i < WAITERS; i++) {
        struct store_command command = {.kind = STORE_RELEASE, .lease = id_of(1000000000 + i)};
        struct store_id next = id_of(1000000000 + i + 1);
        struct store_result result;
        uint64_t work = store_work(s.store), granted = 0;

        store_apply(s.store, s.clock_ns, &command, &result, NULL);
        CHECK_U64("released", result.code, COORD_OK);
        while (store_event_next(s.store, &event)) {
            CHECK("the next, and it has it", event.kind == STORE_GRANTED &&
                                                 event.result.code == COORD_OK &&
                                                 memcmp(&event.lease, &next, sizeof next) == 0);
            granted++;
        }
        CHECK_U64("one for each release", granted, 1);
        s.worst_work = max_u64(s.worst_work, store_work(s.store) - work);
    }
    CHECK("a few records each", s.worst_work < 16);
    CHECK("nobody waits", store_group_of(s.store, STR("muster/g"), &group) && group.waiters == 0);
    store_close(s.store);
}

TEST(rests_that_end_together_end_in_entries_of_bounded_work)
{
    enum { GROUPS = 10000 / SHARE };
    struct scale s = scale_open();
    char name[32];

    for (uint64_t i = 0; i < GROUPS; i++) {
        struct store_command command = {.kind = STORE_ACQUIRE,
                                        .slot_count = 16,
                                        .ttl_ms = 1000,
                                        .owner = STR("w"),
                                        .prefer_slot = STORE_NO_SLOT,
                                        .lease = id_of(i),
                                        .cooldown_ms = 60000};
        command.key = str_of(name, (size_t)snprintf(name, sizeof name, "muster/r/%" PRIu64, i));
        CHECK_U64("held", apply(&s, &command).code, COORD_OK);
    }
    s.clock_ns += 2000 * ms;
    (void)ticks_until_nothing_is_left(&s);
    CHECK_U64("all are over", store_sizes(s.store).leases, 0);
    CHECK("and rest", store_next_due(s.store) != UINT64_MAX);
    s.clock_ns += 60000 * ms;
    meter(&s);
    (void)ticks_until_nothing_is_left(&s);
    say(&s, "rests end");
    CHECK("bounded", s.worst_work <= WORK_MAX);
    CHECK("nothing rests", store_next_due(s.store) == UINT64_MAX);
    store_close(s.store);
}

/* -- a snapshot under load -- */

static void fill(struct scale *s, struct str value)
{
    for (uint64_t i = 0; i < KEYS; i++) put(s, i, value);
    for (uint64_t i = 0; i < LEASES; i++) claim(s, i, 0, 3600000);
    for (uint64_t i = 0; i <= WAITERS; i++) (void)acquire(s, i, "muster/g", 1, 0);
}

/* The commands that may come while one slice is written. */
static void write_on(struct scale *s, struct prng *p, uint64_t *served)
{
    for (int i = 0; i < 40; i++) {
        struct store_id id = id_of(prng_below(p, LEASES));
        struct store_command renew = {.kind = STORE_RENEW, .renew = &id, .renew_count = 1};
        s->clock_ns += ms / 10;
        put(s, prng_below(p, 2 * KEYS), STR("newer"));
        (void)apply(s, &renew);
        if (i % 20 == 0 && *served < WAITERS) (void)release(s, (*served)++);
        if (i == 0 && prng_below(p, 50) == 0) {
            struct store_command compact = {.kind = STORE_COMPACT};
            compact.expected = keys_revision(store_keys(s->store)) - 100;
            (void)apply(s, &compact);
        }
    }
}

TEST(a_snapshot_is_read_in_slices_under_writes_and_no_slice_takes_long)
{
    struct scale s = scale_open();
    struct prng p;
    struct store_options options = {.quota_bytes = 16ull << 30};
    struct store_restore *restore = store_restore_open(&options);
    struct store *copy;
    void *view;
    struct note note = {""};
    struct buf slice;
    uint64_t began, opened, worst_slice = 0, worst_feed = 0, largest = 0, served = 0, hash;
    bool done = false;

    prng_seed(&p, 1);
    fill(&s, STR("a value that is not very long"));
    hash = store_hash(s.store);
    meter(&s);
    buf_init(&slice, 64 << 20);
    began = cpu_ns();
    CHECK_OK("view", store_view_open(s.store, &view));
    opened = cpu_ns() - began;
    while (!done) {
        write_on(&s, &p, &served);
        buf_clear(&slice);
        began = cpu_ns();
        CHECK_OK("slice", section_view_next(view, SLICE, &slice, &done));
        worst_slice = max_u64(worst_slice, cpu_ns() - began);
        largest = max_u64(largest, slice.len);
        CHECK("something, or the end", slice.len > 0 || done);
        began = cpu_ns();
        CHECK_OK(note.text, store_restore_feed(restore, buf_peek(&slice), &note));
        worst_feed = max_u64(worst_feed, cpu_ns() - began);
    }
    began = cpu_ns();
    section_view_close(view);
    opened = max_u64(opened, cpu_ns() - began);
    CHECK("it changed meanwhile", store_hash(s.store) != hash);
    (void)ticks_until_nothing_is_left(&s);
    say(&s, "writes during a snapshot, and after it");
    fprintf(stderr, "begin or end %.3f ms, the worst slice %" PRIu64 " bytes, %.3f ms of CPU\n",
            (double)opened / 1e6, largest, (double)worst_slice / 1e6);
    CHECK("slices are of their size and one record", largest <= SLICE + (64 << 10));
    CHECK("commands are bounded", s.worst_work <= WORK_MAX);
    began = cpu_ns();
    CHECK_OK(note.text, store_restore_done(restore, &copy, &note));
    fprintf(stderr, "restored from slices: the worst %.3f ms of CPU, the end %.3f ms\n",
            (double)worst_feed / 1e6, (double)(cpu_ns() - began) / 1e6);
    store_restore_close(restore);
    CHECK_U64("the copy is equal", store_hash(copy), hash);
    buf_deinit(&slice);
    store_close(copy);
    store_close(s.store);
}

/* -- history -- */

TEST(history_of_one_step_is_freed_in_portions)
{
    struct scale s = scale_open();
    struct store_command all = {
        .kind = STORE_DELETE_RANGE, .key = STR("k/"), .range_end = STR("k0")};
    struct store_command compact = {.kind = STORE_COMPACT};
    uint64_t empty = store_sizes(s.store).bytes;

    for (uint64_t i = 0; i < KEYS; i++) put(&s, i, STR("v"));
    CHECK_U64("deleted", apply(&s, &all).code, COORD_OK);
    put(&s, KEYS, STR("the next step"));
    compact.expected = keys_revision(store_keys(s.store));
    meter(&s);
    CHECK_U64("compacted", apply(&s, &compact).code, COORD_OK);
    CHECK("the leader is to tick for it", store_next_due(s.store) <= s.clock_ns);
    (void)ticks_until_nothing_is_left(&s);
    say(&s, "history freed");
    CHECK("bounded", s.worst_work <= WORK_MAX);
    CHECK("all of it is given back", store_sizes(s.store).bytes < empty + 1000);
    store_close(s.store);
}

TEST(a_range_is_deleted_in_parts_and_at_one_revision)
{
    struct scale s = scale_open(), whole = scale_open();
    const struct keys *keys = store_keys(s.store);
    struct store_command range = {.kind = STORE_DELETE_RANGE,
                                  .client = id_of(7),
                                  .sequence = 1,
                                  .key = STR("k/"),
                                  .range_end = STR("k0")};
    struct key_range low = {STR("k/"), STR("k/000000500")}, from = {STR("k/000000500"), STR_EMPTY};
    struct store_result result, again;
    uint64_t revision, changes, work = 0, worst = 0, parts = 1, began;

    from.end = str_of("", 1);
    for (uint64_t i = 0; i < KEYS; i++) {
        put(&s, i, STR("v"));
        put(&whole, i, STR("v"));
    }
    revision = keys_revision(keys);
    changes = keys_changes(keys).end;
    began = store_work(s.store);
    CHECK("more", store_apply_begin(s.store, s.clock_ns, &range, &result, NULL));
    do {
        struct key_value value;
        struct keys_cursor cursor;
        work = max_u64(work, store_work(s.store) - began);
        CHECK("a read finds it", keys_get(keys, STR("k/000000000"), 0, &value));
        keys_seek(keys, low, 0, &cursor);
        CHECK("so does a walk", keys_next(&cursor, &value) && value.version == 1);
        CHECK_U64("all are counted", keys_count(keys), KEYS);
        CHECK_U64("those before", keys_count_range(keys, low, 0), 500);
        CHECK_U64("and behind", keys_count_range(keys, from, 0), KEYS - 500);
        CHECK_U64("no revision", keys_revision(keys), revision);
        CHECK_U64("no change", keys_changes(keys).end, changes);
        began = store_work(s.store);
        parts++;
        worst = cpu_ns();
        if (!store_apply_more(s.store, &range, &result)) break;
        s.worst_ns = max_u64(s.worst_ns, cpu_ns() - worst);
    } while (parts < 2ull * KEYS / STORE_SWEEP_KEYS);
    fprintf(stderr, "%d keys in %" PRIu64 " parts of at most %" PRIu64 " records, %.3f ms of CPU\n",
            KEYS, parts, work, (double)s.worst_ns / 1e6);
    CHECK("each is bounded", work <= STORE_SWEEP_KEYS);
    CHECK_U64("done", result.code, COORD_OK);
    CHECK_U64("all of them", result.live, KEYS);
    CHECK_U64("at one revision", result.revision, revision + 1);
    CHECK_U64("which is the last", keys_revision(keys), revision + 1);
    CHECK_U64("nothing is left", keys_count(keys), 0);
    CHECK_U64("each is a change", keys_changes(keys).end, changes + KEYS);
    store_apply(whole.store, s.clock_ns, &range, &result, NULL);
    CHECK_U64("as in one go", store_hash(whole.store), store_hash(s.store));
    store_apply(s.store, s.clock_ns, &range, &again, NULL);
    CHECK("and a repeat is answered the same",
          again.revision == result.revision && again.live == result.live);
    store_close(whole.store);
    store_close(s.store);
}

/* -- the quota and the memory in use -- */

TEST(the_quota_counts_the_memory_in_use)
{
    static char long_value[4096];
    const struct {
        const char *what;
        bool keys, leases, waiters, clients, history, values;
    } cases[] = {{.what = "keys with values of 16 bytes", .keys = true},
                 {.what = "keys with values of 4 KiB", .values = true},
                 {.what = "versions of one key", .history = true},
                 {.what = "leases of one key", .leases = true},
                 {.what = "who waits", .waiters = true},
                 {.what = "clients with an answer", .clients = true}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scale s = scale_open();
        uint64_t held = mallinfo2().uordblks, counted;
        for (uint64_t k = 0; cases[i].keys && k < KEYS; k++) put(&s, k, STR("0123456789abcdef"));
        for (uint64_t k = 0; cases[i].values && k < KEYS / 10; k++)
            put(&s, k, str_of(long_value, sizeof long_value));
        for (uint64_t k = 0; cases[i].history && k < KEYS; k++) put(&s, 0, STR("0123456789abcdef"));
        for (uint64_t k = 0; cases[i].leases && k < LEASES; k++) claim(&s, k, 0, 3600000);
        for (uint64_t k = 0; cases[i].waiters && k <= WAITERS; k++)
            (void)acquire(&s, k, "muster/g", 1, 0);
        for (uint64_t k = 0; cases[i].clients && k < 5ull * CLIENTS; k++) {
            struct store_command command = {
                .kind = STORE_PUT, .client = id_of(k), .sequence = 1, .key = STR("k")};
            (void)apply(&s, &command);
        }
        held = mallinfo2().uordblks - held;
        counted = store_sizes(s.store).bytes;
        fprintf(stderr, "%s: counted %" PRIu64 ", held %" PRIu64 ", %.2f\n", cases[i].what, counted,
                held, (double)counted / (double)held);
        /* A sanitizer's allocator counts otherwise. */
        if (held > 0) CHECK("near enough", counted > held * 3 / 4 && counted < held * 2);
        store_close(s.store);
    }
}

/* -- the cost follows the size of the request -- */

struct row {
    char key[16];
};
static uint64_t looked_at;

static struct order_key row_key(const void *row)
{
    looked_at++;
    return (struct order_key){str_of(((const struct row *)row)->key, 11), STR_EMPTY};
}

TEST(counting_and_seeking_look_at_a_few_rows_of_a_million)
{
    uint64_t bytes = 0;
    struct order_kind kind = {row_key, &bytes};
    struct order order = {.kind = &kind};
    struct row *rows = calloc(KEYS, sizeof *rows);
    struct order_place place;

    for (uint32_t i = 0; i < KEYS; i++) {
        (void)snprintf(rows[i].key, sizeof rows[i].key, "k/%09u", (unsigned)i);
        CHECK_OK("in", order_insert(&order, &rows[i]));
    }
    looked_at = 0;
    CHECK_U64("half", order_rank(&order, row_key(&rows[KEYS / 2])), KEYS / 2);
    CHECK_U64("all", order_rank(&order, (struct order_key){STR("l"), STR_EMPTY}), KEYS);
    fprintf(stderr, "two ranks among %d rows look at %" PRIu64 "\n", KEYS, looked_at);
    CHECK("two ways down", looked_at < 2 * 64);
    looked_at = 0;
    place = order_behind(&order, row_key(&rows[KEYS / 3]));
    for (int i = 0; i < 100; i++) CHECK("next", order_next(&place));
    CHECK("one way down, and nothing for those that follow", looked_at < 64);
    order_clear(&order);
    free(rows);
}

TEST(counts_and_pages_of_a_million_keys)
{
    struct scale s = scale_open();
    const struct keys *keys = store_keys(s.store);
    struct key_range all = {STR("k/"), STR("k0")}, some = {STR("k/000000100"), STR("k/000000110")};
    struct key_value value;
    struct keys_cursor cursor;
    uint64_t began, wide, narrow, found = 0;

    for (uint64_t i = 0; i < KEYS; i++) put(&s, i, STR("v"));
    began = cpu_ns();
    for (int i = 0; i < 1000; i++) found += keys_count_range(keys, all, 0);
    wide = cpu_ns() - began;
    CHECK_U64("all", found, 1000ull * KEYS);
    began = cpu_ns();
    for (int i = 0; i < 1000; i++) found -= keys_count_range(keys, some, 0);
    narrow = cpu_ns() - began;
    CHECK_U64("ten", found, 1000ull * KEYS - 10000);
    keys_seek(keys, all, 0, &cursor);
    for (int i = 0; i < 10; i++) CHECK("a page", keys_next(&cursor, &value));
    fprintf(stderr, "count of %d keys %.2f us, of ten %.2f us\n", KEYS, (double)wide / 1e6,
            (double)narrow / 1e6);
    store_close(s.store);
}
