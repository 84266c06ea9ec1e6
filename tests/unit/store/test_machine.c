/* SPDX-License-Identifier: Apache-2.0 */
/* The store through its log format: commands, replies, snapshots, kinds of changes. */
#include <muster/coord.h>

#include <stdio.h>

#include "lib/test.h"
#include "store/bounds.h"
#include "store/machine.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

static struct {
    struct store_machine *store;
    struct state_machine machine;
    uint64_t index, clock_ns;
    struct buf reply;
    struct arena arena;
    char expired[256]; /* keys whose leases the last entries expired, each followed by a space */
    size_t changes;
    bool uncounted; /* `expired` is not recorded, because there are many */
} bed;

static void on_applied(void *owner, struct key_changes changes)
{
    (void)owner;
    for (uint64_t n = changes.first; n < changes.end; n++) {
        struct key_value change, before;

        keys_change_at(store_keys(store_machine_store(bed.store)), n, &change, &before);
        bed.changes++;
        if (bed.uncounted || !change.expired) continue;
        strncat(bed.expired, change.key.at, change.key.len);
        strcat(bed.expired, " ");
    }
}

static void open_small_bed(uint64_t quota_bytes)
{
    struct store_machine_options options = {.applied = on_applied,
                                            .store = {.quota_bytes = quota_bytes}};

    memset(&bed, 0, sizeof bed);
    CHECK_OK("open", store_machine_open(&options, &bed.store));
    bed.machine = store_machine_registration(bed.store);
    buf_init(&bed.reply, 1 << 20);
    arena_init(&bed.arena, 1 << 20);
}

static void open_bed(void)
{
    open_small_bed(0);
}

static void close_bed(void)
{
    store_machine_close(bed.store);
    buf_deinit(&bed.reply);
    arena_deinit(&bed.arena);
}

static void apply_bytes(struct str bytes)
{
    struct machine_entry entry = {.index = ++bed.index,
                                  .term = 1,
                                  .clock_ns = bed.clock_ns,
                                  .version = 1,
                                  .level = 1,
                                  .command = bytes};

    buf_clear(&bed.reply);
    CHECK_OK("known", bed.machine.ops->apply(bed.machine.state, &entry, &bed.reply, NULL));
}

static const Muster__V1__Outcome *apply(const struct store_command *command)
{
    struct store_reply reply;
    ProtobufCMessage *message;
    struct note note = {""};
    struct buf bytes;

    buf_init(&bytes, 2 << 20);
    CHECK_OK("write", store_command_write(command, &bytes));
    apply_bytes(buf_peek(&bytes));
    buf_deinit(&bytes);
    if (command->kind == STORE_RENEW) return NULL;
    CHECK_OK("reply", store_reply_parse(buf_peek(&bed.reply), &reply));
    CHECK_ERR(note.text,
              message_read(&muster__v1__outcome__descriptor, reply.outcome, NULL, &bed.arena,
                           &message, &note),
              ERR_OK);
    CHECK_SIZE("the code in front", (size_t)reply.code,
               (size_t)((const Muster__V1__Outcome *)message)->code);
    return (const Muster__V1__Outcome *)message;
}

static struct store_id id_of(uint8_t n)
{
    struct store_id id = {{n, 1}};

    return id;
}

static const Muster__V1__Outcome *lease(const char *key, uint8_t n, int64_t ttl_ms)
{
    return apply(&(struct store_command){.kind = STORE_CREATE,
                                         .key = str_from(key),
                                         .owner = STR("w"),
                                         .ttl_ms = ttl_ms,
                                         .lease = id_of(n)});
}

TEST(a_command_is_read_as_it_was_written)
{
    struct store_id renew[2] = {id_of(1), id_of(2)};
    struct store_command all = {.kind = STORE_ACQUIRE,
                                .client = id_of(9),
                                .sequence = 7,
                                .acked = 5,
                                .key = STR("muster/g"),
                                .value = {"\0v", 2},
                                .owner = STR("w"),
                                .range_end = STR("z"),
                                .expected = UINT64_MAX,
                                .ttl_ms = 500,
                                .lease = id_of(3),
                                .held = id_of(4),
                                .slot_count = 1024,
                                .flags = 3,
                                .prefer_slot = STORE_NO_SLOT,
                                .cooldown_ms = 60000,
                                .wait = true,
                                .token = 77,
                                .renew = renew,
                                .renew_tokens = (const uint64_t[]){0, UINT64_MAX},
                                .renew_count = 2};
    struct store_command got;
    struct note note = {""};
    struct arena arena;
    struct buf bytes;

    arena_init(&arena, 1 << 20);
    buf_init(&bytes, 1 << 20);
    CHECK_OK("write", store_command_write(&all, &bytes));
    CHECK_ERR(note.text, store_command_read(buf_peek(&bytes), &arena, &got, &note), ERR_OK);
    CHECK("kind", got.kind == all.kind && got.wait);
    CHECK("ids", memcmp(&got.client, &all.client, 16) == 0 &&
                     memcmp(&got.lease, &all.lease, 16) == 0 &&
                     memcmp(&got.held, &all.held, 16) == 0);
    CHECK("numbers", got.sequence == 7 && got.acked == 5 && got.expected == UINT64_MAX &&
                         got.ttl_ms == 500 && got.slot_count == 1024 && got.flags == 3 &&
                         got.prefer_slot == STORE_NO_SLOT && got.cooldown_ms == 60000);
    CHECK("texts", str_equal(got.key, all.key) && str_equal(got.value, all.value) &&
                       str_equal(got.owner, all.owner) && str_equal(got.range_end, all.range_end));
    CHECK("renewals", got.renew_count == 2 && memcmp(got.renew, renew, sizeof renew) == 0);
    CHECK("tokens",
          got.token == 77 && memcmp(got.renew_tokens, all.renew_tokens, 2 * sizeof(uint64_t)) == 0);
    CHECK_U32("no replica that ignores them has it", store_command_version(&got),
              STORE_TOKENS_LEVEL);
    all.token = 0;
    all.renew_tokens = NULL;
    CHECK_U32("without them as ever", store_command_version(&all), STORE_FIRST_VERSION);
    all = (struct store_command){.kind = STORE_CAS, .key = STR("muster/k"), .ttl_ms = -1};
    buf_clear(&bytes);
    CHECK_OK("keep", store_command_write(&all, &bytes));
    CHECK_OK("keep", store_command_read(buf_peek(&bytes), &arena, &got, NULL));
    CHECK("a negative number", got.ttl_ms == STORE_TTL_KEEP);
    arena_deinit(&arena);
    buf_deinit(&bytes);
}

TEST(a_command_over_a_limit_is_refused_before_the_core)
{
    static char large[STORE_VALUE_MAX + 1];
    static const struct {
        const char *why;
        struct store_command command;
    } cases[] = {
        {"a value too large", {.kind = STORE_PUT, .key = {"k", 1}, .value = {large, sizeof large}}},
        {"a claim by put", {.kind = STORE_PUT, .key = {"muster/k", 8}}},
        {"no key", {.kind = STORE_PUT}},
        {"a plain key by create", {.kind = STORE_CREATE, .key = {"k", 1}}},
        {"a lease without id",
         {.kind = STORE_CREATE, .key = {"muster/k", 8}, .owner = {"w", 1}, .ttl_ms = 500}},
        {"a lease without owner",
         {.kind = STORE_CREATE, .key = {"muster/k", 8}, .lease = {{1}}, .ttl_ms = 500}},
        {"a new key with the TTL of none",
         {.kind = STORE_CREATE, .key = {"muster/k", 8}, .ttl_ms = -1}},
        {"a TTL below keep", {.kind = STORE_CAS, .key = {"muster/k", 8}, .ttl_ms = -2}},
        {"no slots", {.kind = STORE_RESIZE, .key = {"muster/g", 8}}},
        {"too many slots", {.kind = STORE_RESIZE, .key = {"muster/g", 8}, .slot_count = 1025}},
        {"claims in a range", {.kind = STORE_DELETE_RANGE, .key = {"a", 1}, .range_end = {"z", 1}}},
        {"all keys", {.kind = STORE_DELETE_RANGE, .key = {"a", 1}, .range_end = {"\0", 1}}},
        {"a slot by create", {.kind = STORE_CREATE, .key = {"muster/g/slot-0000", 18}}},
        {"a slot by compare-and-set", {.kind = STORE_CAS, .key = {"muster/g/slot-1023", 18}}},
    };
    struct buf bytes;

    open_bed();
    buf_init(&bytes, 2 << 20);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct store_command got;
        struct note note = {""};

        buf_clear(&bytes);
        arena_reset(&bed.arena);
        CHECK_OK(cases[i].why, store_command_write(&cases[i].command, &bytes));
        struct arena arena;
        arena_init(&arena, 8 << 20);
        CHECK_ERR(cases[i].why, store_command_read(buf_peek(&bytes), &arena, &got, &note),
                  ERR_INVALID);
        arena_deinit(&arena);
        CHECK("the reason", note.text[0]);
        /* An invalid command in the log: all replicas answer alike, and only the clock moves. */
        bed.clock_ns += NS_PER_MS;
        apply_bytes(buf_peek(&bytes));
        struct store_reply reply;
        CHECK_OK("answered", store_reply_parse(buf_peek(&bed.reply), &reply));
        CHECK_SIZE(cases[i].why, (size_t)reply.code, COORD_INVALID);
    }
    CHECK("nothing was written", keys_revision(store_keys(store_machine_store(bed.store))) == 1);
    CHECK("the clock moved", store_clock_ns(store_machine_store(bed.store)) == bed.clock_ns);
    apply_bytes(STR("\xff\xff no message"));
    CHECK("the same for an unreadable command", bed.reply.len >= STORE_REPLY_HEAD);
    buf_deinit(&bytes);
    close_bed();
}

TEST(a_kind_of_a_later_release_stops_the_replica)
{
    struct machine_entry entry = {.index = 1, .clock_ns = 5, .command = STR("\x08\x63")};
    struct note note = {""};
    uint64_t hash;

    open_bed();
    hash = bed.machine.ops->hash(bed.machine.state);
    CHECK_ERR("kind 99", bed.machine.ops->apply(bed.machine.state, &entry, &bed.reply, &note),
              ERR_VERSION);
    CHECK("names it", strstr(note.text, "99"));
    CHECK_SIZE("without an answer", bed.reply.len, 0);
    CHECK_U64("nothing is done", bed.machine.ops->hash(bed.machine.state), hash);
    close_bed();
}

TEST(only_the_clock_expires)
{
    open_bed();
    (void)lease("muster/a/released", 1, 1000);
    (void)lease("muster/a/deleted", 2, 1000);
    (void)lease("muster/a/late", 3, 1000);
    (void)lease("muster/a/later", 4, 2000);
    (void)apply(&(struct store_command){.kind = STORE_RELEASE, .lease = id_of(1)});
    (void)apply(&(struct store_command){
        .kind = STORE_DELETE, .key = STR("muster/a/deleted"), .expected = STORE_FORCE});
    (void)apply(&(struct store_command){
        .kind = STORE_LEASE_GRANT, .lease = store_plain_lease(-5), .ttl_ms = 2000});
    (void)apply(&(struct store_command){
        .kind = STORE_PUT, .key = STR("plain"), .held = store_plain_lease(-5)});
    CHECK_STR("a revocation is none",
              str_from(apply(&(struct store_command){.kind = STORE_LEASE_REVOKE,
                                                     .lease = store_plain_lease(-5)})
                           ->text),
              STR(""));
    CHECK_STR("nothing yet", str_from(bed.expired), STR(""));
    /* One lease is released in the entry that expires another. */
    bed.clock_ns += 1000 * NS_PER_MS;
    (void)apply(&(struct store_command){.kind = STORE_RELEASE, .lease = id_of(4)});
    CHECK_STR("the one", str_from(bed.expired), STR("muster/a/late "));
    close_bed();
}

TEST(a_waiter_is_answered_by_the_event_and_a_cancelled_grant_is_freed)
{
    struct store_command acquire = {.kind = STORE_ACQUIRE,
                                    .key = STR("muster/g"),
                                    .owner = STR("w1"),
                                    .ttl_ms = 1000,
                                    .lease = id_of(1),
                                    .slot_count = 1,
                                    .prefer_slot = STORE_NO_SLOT};
    struct store_command wait = acquire;
    struct store_reply reply;
    struct store_group group;

    open_bed();
    CHECK_SIZE("first", (size_t)apply(&acquire)->code, COORD_OK);
    wait.lease = id_of(2);
    wait.owner = STR("w2");
    wait.wait = true;
    wait.client = id_of(7);
    wait.sequence = 1;
    (void)apply(&wait);
    CHECK_OK("reply", store_reply_parse(buf_peek(&bed.reply), &reply));
    CHECK("it waits, by its own lease", reply.waiting && reply.lease.b[0] == 2);
    (void)apply(&wait);
    CHECK_OK("reply", store_reply_parse(buf_peek(&bed.reply), &reply));
    CHECK("asked again it waits", reply.waiting);
    bed.clock_ns += 900 * NS_PER_MS;
    (void)apply(&(struct store_command){.kind = STORE_RELEASE, .lease = id_of(1)});
    bed.clock_ns += 900 * NS_PER_MS; /* past its original deadline */
    CHECK_SIZE("asked again it has it", (size_t)apply(&wait)->reason, COORD_R_REPLAYED);
    CHECK("the group", store_group_of(store_machine_store(bed.store), STR("muster/g"), &group));
    CHECK_SIZE("for its whole time from the grant", group.live, 1);
    (void)apply(&(struct store_command){
        .kind = STORE_CANCEL_WAIT, .lease = id_of(2), .client = id_of(7), .sequence = 1});
    CHECK("the group", store_group_of(store_machine_store(bed.store), STR("muster/g"), &group));
    CHECK_SIZE("it was freed", group.live, 0);
    CHECK_SIZE("asked again it is a new one", (size_t)apply(&wait)->reason, COORD_R_ACQUIRED);
    /* A queue place whose lease expires leaves no answer, either. */
    wait.lease = id_of(3);
    wait.owner = STR("w3");
    wait.ttl_ms = 600;
    wait.sequence = 2;
    (void)apply(&wait);
    bed.clock_ns += 700 * NS_PER_MS;
    (void)apply(&wait);
    CHECK_OK("reply", store_reply_parse(buf_peek(&bed.reply), &reply));
    CHECK("it waits again", reply.waiting);
    close_bed();
}

static struct store_sizes sizes(void)
{
    return store_sizes(store_machine_store(bed.store));
}

TEST(an_undecided_command_is_evaluated_again_when_it_is_repeated)
{
    static char value[2000];
    struct store_command put = {.kind = STORE_PUT,
                                .key = STR("k"),
                                .value = {value, sizeof value},
                                .client = id_of(1),
                                .sequence = 1};

    open_small_bed(8 << 10);
    for (; apply(&put)->code == COORD_OK; put.sequence++) continue;
    CHECK_SIZE("full", (size_t)apply(&put)->reason, COORD_R_QUOTA);
    (void)apply(&(struct store_command){.kind = STORE_DELETE_RANGE, .key = STR("k")});
    (void)apply(&(struct store_command){
        .kind = STORE_COMPACT,
        .expected = keys_revision(store_keys(store_machine_store(bed.store)))});
    (void)apply(&(struct store_command){.kind = STORE_TICK});
    CHECK_SIZE("the same request, and there is room", (size_t)apply(&put)->code, COORD_OK);
    CHECK_SIZE("from now on that is its answer", (size_t)apply(&put)->reason, COORD_R_REPLAYED);
    close_bed();
}

TEST(a_range_with_another_end_is_another_request)
{
    struct store_command range = {.kind = STORE_DELETE_RANGE,
                                  .key = STR("a"),
                                  .range_end = STR("b"),
                                  .client = id_of(1),
                                  .sequence = 1};

    open_bed();
    (void)apply(&(struct store_command){.kind = STORE_PUT, .key = STR("a")});
    (void)apply(&(struct store_command){.kind = STORE_PUT, .key = STR("c")});
    CHECK_SIZE("done", (size_t)apply(&range)->reason, COORD_R_DELETED);
    CHECK_SIZE("the same", (size_t)apply(&range)->reason, COORD_R_REPLAYED);
    range.range_end = STR("d");
    CHECK_SIZE("not reported as done", (size_t)apply(&range)->code, COORD_INVALID);
    close_bed();
}

/* Each request is of a new client, and each is invalid. */
TEST(refusals_of_new_clients_take_no_memory_over_the_quota)
{
    static char value[4000];
    struct store_command command = {.kind = STORE_DELETE, .key = STR("muster/none")};
    struct store_command put = {.kind = STORE_PUT, .key = STR("k"), .value = {value, sizeof value}};

    open_small_bed(32 << 10);
    while (apply(&put)->code == COORD_OK) continue;
    command.expected = STORE_ANY;
    command.sequence = 1;
    for (uint32_t i = 1; i < 1000; i++) {
        memcpy(command.client.b, &i, sizeof i);
        (void)apply(&command);
    }
    CHECK("within the quota", sizes().bytes <= sizes().quota);
    CHECK("as long as there was room they were remembered", sizes().clients > 0);
    CHECK("and only a few were remembered", sizes().clients < 100);
    close_bed();
}

TEST(a_restored_snapshot_is_the_same_state_and_ends_reads_of_the_old_one)
{
    struct store_machine_options options = {0};
    struct store_machine *other;
    struct state_machine copy;
    struct note note = {""};
    struct buf bytes, more;
    void *view, *second;
    bool done = false;

    open_bed();
    buf_init(&bytes, 1 << 20);
    buf_init(&more, 1 << 20);
    (void)lease("muster/a", 1, 5000);
    (void)apply(&(struct store_command){.kind = STORE_PUT, .key = STR("k"), .value = STR("v")});
    CHECK_OK("begin", bed.machine.ops->snapshot_begin(bed.machine.state, 2, &view));
    CHECK_ERR("one at a time", bed.machine.ops->snapshot_begin(bed.machine.state, 2, &second),
              ERR_FULL);
    (void)apply(&(struct store_command){.kind = STORE_PUT, .key = STR("late")});
    while (!done) CHECK_OK("next", bed.machine.ops->snapshot_next(view, 10, &bytes, &done));
    bed.machine.ops->snapshot_end(view);
    CHECK_OK("other", store_machine_open(&options, &other));
    copy = store_machine_registration(other);
    CHECK_OK("begin", copy.ops->restore_begin(copy.state, 2, &note));
    for (size_t i = 0; i < bytes.len; i++)
        CHECK_OK("byte by byte",
                 copy.ops->restore_next(copy.state, str_of(bytes.data + i, 1), &note));
    CHECK_ERR(note.text, copy.ops->restore_end(copy.state, &note), ERR_OK);
    CHECK("later entries are not in it",
          copy.ops->hash(copy.state) != bed.machine.ops->hash(bed.machine.state));
    struct key_value value;
    CHECK("a key", keys_get(store_keys(store_machine_store(other)), STR("k"), 0, &value));
    CHECK("nor that one",
          !keys_get(store_keys(store_machine_store(other)), STR("late"), 0, &value));
    /* A snapshot is being read while another state is restored. */
    CHECK_OK("begin", copy.ops->snapshot_begin(copy.state, 2, &view));
    CHECK_OK("next", copy.ops->snapshot_next(view, 1, &more, &done));
    CHECK_OK("begin", copy.ops->restore_begin(copy.state, 0, &note));
    CHECK_OK("end", copy.ops->restore_end(copy.state, &note));
    CHECK_ERR("its state is gone", copy.ops->snapshot_next(view, 1, &more, &done), ERR_CLOSED);
    copy.ops->snapshot_end(view);
    CHECK("empty", keys_count(store_keys(store_machine_store(other))) == 0);
    CHECK_OK("begin", copy.ops->restore_begin(copy.state, 2, &note));
    CHECK_OK("half", copy.ops->restore_next(copy.state, str_of(bytes.data, bytes.len / 2), &note));
    CHECK_ERR("cut short", copy.ops->restore_end(copy.state, &note), ERR_CORRUPT);
    store_machine_close(other);
    buf_deinit(&bytes);
    buf_deinit(&more);
    close_bed();
}

/* After force-config or a restore. */
TEST(a_recovered_store_is_another_and_hands_out_nothing_twice)
{
    struct machine_recovery recovery = {.index = 9, .clock_ns = 4000000000, .floor = 1ull << 50};
    const struct machine_ops *ops;
    struct store_machine *other;
    struct store_claim claim;
    struct store_id identity;
    struct state_machine copy;
    struct note note = {""};
    struct buf bytes;
    uint64_t before, token;
    bool done = false;
    void *view;

    open_bed();
    ops = bed.machine.ops;
    before = lease("muster/a", 1, 5000)->token;
    (void)lease("muster/b", 2, 3000);
    memset(recovery.identity, 7, sizeof recovery.identity);
    ops->recover(bed.machine.state, &recovery);
    identity = store_identity(store_machine_store(bed.store));
    CHECK("another store", !memcmp(identity.b, recovery.identity, sizeof identity.b));
    CHECK_U64("far above", keys_revision(store_keys(store_machine_store(bed.store))), 1ull << 50);
    CHECK_U64("nothing of before can be watched",
              keys_compacted(store_keys(store_machine_store(bed.store))), 1ull << 50);
    CHECK("the claim stays", store_claim_of(store_machine_store(bed.store), STR("muster/a"),
                                            recovery.clock_ns, &claim));
    CHECK_U64("with its token", claim.token, before);
    CHECK_I64("and its whole TTL: it may have been renewed", claim.remaining_ms, 5000);
    CHECK("one that was over is over", !store_claim_of(store_machine_store(bed.store),
                                                       STR("muster/b"), recovery.clock_ns, &claim));
    CHECK_U64("its clock", store_clock_ns(store_machine_store(bed.store)), recovery.clock_ns);
    bed.index = 9;
    bed.clock_ns = recovery.clock_ns;
    token = lease("muster/c", 3, 5000)->token;
    CHECK("a token that nobody had", token > 1ull << 50);
    recovery.floor = 0; /* no clock is known */
    ops->recover(bed.machine.state, &recovery);
    CHECK("again above", lease("muster/d", 4, 5000)->token > token + (1ull << 40));
    /* Another replica reaches the state by a snapshot, or by the same entries. */
    buf_init(&bytes, 1 << 20);
    CHECK_OK("begin", ops->snapshot_begin(bed.machine.state, 2, &view));
    while (!done) CHECK_OK("next", ops->snapshot_next(view, 100, &bytes, &done));
    ops->snapshot_end(view);
    CHECK_OK("other", store_machine_open(&(struct store_machine_options){0}, &other));
    copy = store_machine_registration(other);
    CHECK_OK("begin", copy.ops->restore_begin(copy.state, 2, &note));
    CHECK_OK("bytes", copy.ops->restore_next(copy.state, buf_peek(&bytes), &note));
    CHECK_ERR(note.text, copy.ops->restore_end(copy.state, &note), ERR_OK);
    CHECK_U64("the same", ops->hash(bed.machine.state), copy.ops->hash(copy.state));
    store_machine_close(other);
    buf_deinit(&bytes);
    close_bed();
}

/* An unreadable command moves the clock, which ends a lease in parts. */
TEST(a_lease_of_many_keys_ends_before_an_entry_that_is_no_command)
{
    struct store_command put = {.kind = STORE_PUT, .value = STR("v"), .held = store_plain_lease(7)};
    struct store_reply reply;
    uint64_t parts = 0;
    char key[16];

    open_bed();
    (void)apply(&(struct store_command){
        .kind = STORE_LEASE_GRANT, .lease = store_plain_lease(7), .ttl_ms = 1000});
    for (int i = 0; i < 3 * STORE_SWEEP_KEYS; i++) {
        put.key = str_of(key, (size_t)snprintf(key, sizeof key, "k/%05d", i));
        (void)apply(&put);
    }
    bed.changes = 0;
    bed.clock_ns += 1000 * 1000000ull;
    bed.uncounted = true;
    apply_bytes(STR("\xff\xff"));
    while (bed.machine.ops->apply_more(bed.machine.state, &bed.reply)) {
        parts++;
        CHECK("nobody is reported", bed.changes == 0 && bed.reply.len == 0);
    }
    CHECK("parts", parts >= 2);
    CHECK_U64("then all of it", bed.changes, 3 * STORE_SWEEP_KEYS);
    CHECK_OK("and the answer", store_reply_parse(buf_peek(&bed.reply), &reply));
    CHECK_U64("that it was none", (uint64_t)reply.code, COORD_INVALID);
    close_bed();
}

TEST(a_large_range_is_deleted_in_parts_and_visible_after_the_last)
{
    const struct machine_ops *ops;
    struct store_command range = {
        .kind = STORE_DELETE_RANGE, .key = STR("k/"), .range_end = STR("k0")};
    uint64_t hash, parts = 0;
    struct store_reply reply;
    struct key_value value;
    struct buf bytes;
    char key[16];
    void *view;

    open_bed();
    ops = bed.machine.ops;
    for (int i = 0; i < 3 * STORE_SWEEP_KEYS; i++) {
        struct store_command put = {.kind = STORE_PUT, .value = STR("v")};
        put.key = str_of(key, (size_t)snprintf(key, sizeof key, "k/%05d", i));
        (void)apply(&put);
        CHECK("that is done at once", !ops->apply_more(bed.machine.state, &bed.reply));
    }
    hash = ops->hash(bed.machine.state);
    bed.changes = 0;
    buf_init(&bytes, 1 << 10);
    CHECK_OK("write", store_command_write(&range, &bytes));
    apply_bytes(buf_peek(&bytes));
    while (ops->apply_more(bed.machine.state, &bed.reply)) {
        parts++;
        CHECK("nobody is reported", bed.changes == 0 && bed.reply.len == 0);
        CHECK_U64("the state is that of before", ops->hash(bed.machine.state), hash);
        CHECK("for reads, too",
              keys_get(store_keys(store_machine_store(bed.store)), STR("k/00000"), 0, &value));
        CHECK_ERR("and for no snapshot", ops->snapshot_begin(bed.machine.state, bed.index, &view),
                  ERR_FULL);
    }
    buf_deinit(&bytes);
    CHECK_U64("parts", parts, 1);
    CHECK_U64("then all of it", bed.changes, 3 * STORE_SWEEP_KEYS);
    CHECK_OK("and the answer", store_reply_parse(buf_peek(&bed.reply), &reply));
    CHECK_U64("which is good", (uint64_t)reply.code, COORD_OK);
    CHECK("gone", keys_count(store_keys(store_machine_store(bed.store))) == 0);
    CHECK("that was the last", !ops->apply_more(bed.machine.state, &bed.reply));
    CHECK_OK("now a snapshot", ops->snapshot_begin(bed.machine.state, bed.index, &view));
    ops->snapshot_end(view);
    close_bed();
}

/* Leases end before the command of the same entry, and their ends are visible while the command is
 * applied in parts. */
TEST(leases_that_ended_before_a_command_in_parts_are_reported_before_it_and_once)
{
    struct store_command range = {
        .kind = STORE_DELETE_RANGE, .key = STR("k/"), .range_end = STR("k0")};
    const struct keys *keys;
    struct buf bytes;
    uint64_t parts = 0;
    char key[16];

    open_bed();
    buf_init(&bytes, 1 << 10);
    keys = store_keys(store_machine_store(bed.store));
    (void)lease("muster/late", 1, 1000);
    for (int i = 0; i < 3 * STORE_SWEEP_KEYS; i++) {
        struct store_command put = {.kind = STORE_PUT, .value = STR("v")};
        put.key = str_of(key, (size_t)snprintf(key, sizeof key, "k/%05d", i));
        (void)apply(&put);
    }
    bed.changes = 0;
    bed.clock_ns += 1000 * NS_PER_MS;
    CHECK_OK("write", store_command_write(&range, &bytes));
    apply_bytes(buf_peek(&bytes));
    do {
        CHECK_STR("reported as an expiry", str_from(bed.expired), STR("muster/late "));
        CHECK_U64("the one", bed.changes, 1);
        CHECK_U64("which is all that can be read", keys_changes(keys).end,
                  2 + 3 * STORE_SWEEP_KEYS);
        CHECK("there is no answer yet", bed.reply.len == 0);
    } while (bed.machine.ops->apply_more(bed.machine.state, &bed.reply) && ++parts);
    CHECK("parts", parts > 0);
    CHECK_U64("then the command's", bed.changes, 1 + 3 * STORE_SWEEP_KEYS);
    CHECK_STR("which is no expiry", str_from(bed.expired), STR("muster/late "));
    buf_deinit(&bytes);
    close_bed();
}

/* The opposite order: first a lease in parts, then the command, in parts as well. */
TEST(a_lease_that_ended_in_parts_is_reported_before_a_command_in_parts)
{
    struct store_command range = {
        .kind = STORE_DELETE_RANGE, .key = STR("k/"), .range_end = STR("k0")};
    uint64_t between = 0;
    struct buf bytes;
    char key[16];

    open_bed();
    bed.uncounted = true;
    buf_init(&bytes, 1 << 10);
    (void)apply(&(struct store_command){
        .kind = STORE_LEASE_GRANT, .lease = store_plain_lease(7), .ttl_ms = 1000});
    for (int i = 0; i < 6 * STORE_SWEEP_KEYS; i++) {
        struct store_command put = {.kind = STORE_PUT, .value = STR("v")};
        if (i % 2) put.held = store_plain_lease(7);
        put.key = str_of(key, (size_t)snprintf(key, sizeof key, "%c/%05d", i % 2 ? 'l' : 'k', i));
        (void)apply(&put);
    }
    bed.changes = 0;
    bed.clock_ns += 1000 * NS_PER_MS;
    CHECK_OK("write", store_command_write(&range, &bytes));
    apply_bytes(buf_peek(&bytes));
    CHECK_U64("nothing is seen, nothing reported", bed.changes, 0);
    while (bed.machine.ops->apply_more(bed.machine.state, &bed.reply)) {
        const struct keys *keys = store_keys(store_machine_store(bed.store));

        CHECK_U64("every visible change is reported", bed.changes,
                  keys_changes(keys).end - 6 * STORE_SWEEP_KEYS);
        between += bed.changes == 3 * STORE_SWEEP_KEYS;
    }
    CHECK("between the two", between > 0);
    CHECK_U64("and all of it once", bed.changes, 6 * STORE_SWEEP_KEYS);
    buf_deinit(&bytes);
    close_bed();
}
