/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/roster.h"

#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "lib/test.h"

static struct roster_entry entry(uint64_t id, const char *name, const char *grpc, const char *http)
{
    struct roster_entry made = {.id = id};
    snprintf(made.name, sizeof made.name, "%s", name);
    snprintf(made.grpc, sizeof made.grpc, "%s", grpc);
    snprintf(made.http, sizeof made.http, "%s", http);
    return made;
}

static enum err apply_bytes(struct roster *roster, struct str bytes)
{
    struct state_machine machine = roster_registration(roster);
    struct machine_entry at = {.index = 1, .term = 1, .version = 1, .command = bytes};
    struct buf reply;
    enum err err;

    buf_init(&reply, 64);
    CHECK_OK("known", machine.ops->apply(machine.state, &at, &reply, NULL));
    err = roster_reply(buf_peek(&reply));
    buf_deinit(&reply);
    return err;
}

static enum err run(struct roster *roster, struct roster_command command)
{
    struct buf bytes;
    enum err err;

    buf_init(&bytes, ROSTER_COMMAND_MAX);
    CHECK_OK("encode", roster_encode(&command, &bytes));
    err = apply_bytes(roster, buf_peek(&bytes));
    buf_deinit(&bytes);
    return err;
}

static enum err put(struct roster *roster, uint64_t id, const char *name, const char *grpc)
{
    return run(roster, (struct roster_command){ROSTER_PUT, entry(id, name, grpc, "h:1")});
}

static enum err forget(struct roster *roster, uint64_t id)
{
    return run(roster, (struct roster_command){ROSTER_FORGET, {.id = id}});
}

static uint64_t hash_of(struct roster *roster)
{
    struct state_machine machine = roster_registration(roster);
    return machine.ops->hash(machine.state);
}

static void snapshot(struct roster *roster, size_t budget, struct buf *into)
{
    struct state_machine machine = roster_registration(roster);
    bool done = false;
    void *view;

    CHECK_OK("begin", machine.ops->snapshot_begin(machine.state, 9, &view));
    while (!done) {
        size_t before = into->len;
        CHECK_OK("next", machine.ops->snapshot_next(view, budget, into, &done));
        CHECK("something each time", into->len > before);
    }
    machine.ops->snapshot_end(view);
}

static enum err restore(struct roster *roster, struct str bytes, size_t cut, struct note *note)
{
    struct state_machine machine = roster_registration(roster);
    enum err err = machine.ops->restore_begin(machine.state, 9, note), end;

    while (!err && bytes.len > 0) {
        size_t piece = min_size(cut, bytes.len);
        err = machine.ops->restore_next(machine.state, str_of(bytes.at, piece), note);
        bytes = str_tail(bytes, piece);
    }
    end = machine.ops->restore_end(machine.state, note);
    return err ? err : end;
}

TEST(entries_are_added_replaced_and_removed_in_order_of_identity)
{
    const struct roster_entry *entries;
    struct roster *roster;

    CHECK_OK("open", roster_open(&roster));
    CHECK_OK("put", put(roster, 7, "node-1", "b:1"));
    CHECK_OK("put", put(roster, 3, "node-0", "a:1"));
    CHECK_OK("another of the same name", put(roster, 5, "node-1", "c:1"));
    CHECK_OK("replaced", put(roster, 3, "node-0", "a:2"));
    CHECK_SIZE("three", roster_entries(roster, &entries), 3);
    for (size_t i = 0; i < 3; i++) CHECK_U64("ascending", entries[i].id, 3 + 2 * i);
    CHECK_TEXT("the newest", roster_grpc(roster, 3), "a:2");
    CHECK_TEXT("nobody", roster_grpc(roster, 4), "");
    CHECK("nobody", roster_find(roster, 4) == NULL);
    CHECK_OK("forget", forget(roster, 5));
    CHECK_OK("twice is fine", forget(roster, 5));
    CHECK_SIZE("two", roster_entries(roster, &entries), 2);
    CHECK("the others stay", roster_find(roster, 3) && roster_find(roster, 7));
    roster_close(roster);
}

TEST(it_takes_no_more_than_it_has_room_for)
{
    struct roster *roster;
    uint64_t before;

    CHECK_OK("open", roster_open(&roster));
    for (uint64_t i = 1; i <= ROSTER_ENTRIES_MAX; i++) CHECK_OK("put", put(roster, i, "n", "a:1"));
    before = hash_of(roster);
    CHECK_ERR("full", put(roster, 1000, "n", "a:1"), ERR_FULL);
    CHECK_U64("nothing changed", hash_of(roster), before);
    CHECK_OK("one that is there is replaced all the same", put(roster, 1, "n", "a:2"));
    CHECK_OK("room again", forget(roster, 1));
    CHECK_OK("and used", put(roster, 1000, "n", "a:1"));
    roster_close(roster);
}

TEST(what_is_no_command_changes_nothing_and_says_so)
{
    static const struct {
        const char *why;
        struct str bytes;
    } cases[] = {
        {"nothing", {"", 0}},
        {"another operation", {"\x04\1\0\0\0\0\0\0\0\1\0\0n", 13}},
        {"a tail that is not there", {"\x03\1\0\0\0\0\0\0\0\1\0\0n", 13}},
        {"an empty tail: that is the other PUT", {"\x03\1\0\0\0\0\0\0\0\1\0\0n\0", 14}},
        {"a tail cut short", {"\x03\1\0\0\0\0\0\0\0\1\0\0n\2e", 15}},
        {"a tail with more", {"\x03\1\0\0\0\0\0\0\0\1\0\0n\1ee", 16}},
        {"a blank in a tail", {"\x03\1\0\0\0\0\0\0\0\1\0\0n\1 ", 15}},
        {"forget cut short", {"\x02\1\0\0\0\0\0\0", 8}},
        {"forget with more", {"\x02\1\0\0\0\0\0\0\0\0", 10}},
        {"forget nobody", {"\x02\0\0\0\0\0\0\0\0", 9}},
        {"put without a name", {"\x01\1\0\0\0\0\0\0\0\0\0\0", 12}},
        {"put of nobody", {"\x01\0\0\0\0\0\0\0\0\1\0\0n", 13}},
        {"put cut short", {"\x01\1\0\0\0\0\0\0\0\2\0\0n", 13}},
        {"put with more", {"\x01\1\0\0\0\0\0\0\0\1\0\0nn", 14}},
        {"a NUL in a name", {"\x01\1\0\0\0\0\0\0\0\2\0\0n\0", 14}},
        {"a blank in a name", {"\x01\1\0\0\0\0\0\0\0\2\0\0n ", 14}},
        {"a name that is too long", {"\x01\1\0\0\0\0\0\0\0\x40\0\0", 12}},
    };
    struct roster *roster;

    CHECK_OK("open", roster_open(&roster));
    CHECK_OK("put", put(roster, 1, "n", "a:1"));
    uint64_t before = hash_of(roster);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_ERR(cases[i].why, apply_bytes(roster, cases[i].bytes), ERR_INVALID);
        CHECK_U64(cases[i].why, hash_of(roster), before);
    }
    roster_close(roster);
}

TEST(what_cannot_be_written_is_refused)
{
    struct roster_command command = {.op = ROSTER_PUT};
    struct buf bytes;

    buf_init(&bytes, 8);
    CHECK_ERR("nobody", roster_encode(&command, &bytes), ERR_INVALID);
    command.entry = entry(1, "na me", "", "");
    CHECK_ERR("a blank", roster_encode(&command, &bytes), ERR_INVALID);
    command.entry = entry(1, "n\xc3\xa4", "", "");
    CHECK_ERR("not ASCII", roster_encode(&command, &bytes), ERR_INVALID);
    command.entry = entry(1, "node-0", "", "");
    CHECK_ERR("no room", roster_encode(&command, &bytes), ERR_FULL);
    CHECK_SIZE("and nothing is left of it", bytes.len, 0);
    buf_deinit(&bytes);
}

/* Bytes of the log and of snapshots are a format: a change of these bytes needs a new version. */
TEST(commands_and_snapshots_have_these_bytes)
{
    static const char put_bytes[] = "\x01"
                                    "\x88\x77\x66\x55\x44\x33\x22\x11"
                                    "\x06\x03\x03"
                                    "node-0"
                                    "a:1"
                                    "b:2";
    static const char forget_bytes[] = "\x02\x88\x77\x66\x55\x44\x33\x22\x11";
    static const char snapshot_bytes[] = "\x01\0\0\0\x02\0\0\0"
                                         "\x01\0\0\0\0\0\0\0\x01\0\0n"
                                         "\x88\x77\x66\x55\x44\x33\x22\x11"
                                         "\x06\x03\x03"
                                         "node-0"
                                         "a:1"
                                         "b:2";
    struct roster_command command = {ROSTER_PUT, entry(0x1122334455667788, "node-0", "a:1", "b:2")};
    struct roster *roster;
    struct buf bytes;

    buf_init(&bytes, 4096);
    CHECK_OK("put", roster_encode(&command, &bytes));
    CHECK_STR("put", buf_peek(&bytes), str_of(put_bytes, sizeof put_bytes - 1));
    CHECK_OK("open", roster_open(&roster));
    CHECK_OK("apply", apply_bytes(roster, buf_peek(&bytes)));
    command.op = ROSTER_FORGET;
    buf_clear(&bytes);
    CHECK_OK("forget", roster_encode(&command, &bytes));
    CHECK_STR("forget", buf_peek(&bytes), str_of(forget_bytes, sizeof forget_bytes - 1));
    buf_clear(&bytes);
    CHECK_OK("another", run(roster, (struct roster_command){ROSTER_PUT, entry(1, "n", "", "")}));
    snapshot(roster, 1, &bytes);
    CHECK_STR("snapshot", buf_peek(&bytes), str_of(snapshot_bytes, sizeof snapshot_bytes - 1));
    CHECK_U64("replicas compare the hash", hash_of(roster), 0xfab503c13af7d2ed);
    buf_deinit(&bytes);
    roster_close(roster);
}

static struct roster_entry with_etcd(struct roster_entry made, const char *etcd)
{
    snprintf(made.etcd, sizeof made.etcd, "%s", etcd);
    return made;
}

/* The same for the format that a cluster writes from level 3 on, and never before. */
TEST(an_address_for_etcds_clients_is_a_tail_of_version_3)
{
    static const char put_bytes[] = "\x03\x02\0\0\0\0\0\0\0\x01\x03\0na:1\x03"
                                    "e:2";
    static const char snapshot_bytes[] = "\x02\0\0\0\x02\0\0\0"
                                         "\x01\0\0\0\0\0\0\0\x01\0\0m\0"
                                         "\x02\0\0\0\0\0\0\0\x01\x03\0na:1\x03"
                                         "e:2";
    struct roster_entry full = with_etcd(entry(2, "n", "a:1", ""), "e:2"), old;
    struct roster_command command = {ROSTER_PUT, full};
    struct roster *roster, *other;
    struct note note = {""};
    struct buf bytes;

    old = roster_entry_at(&full, 2);
    CHECK("older releases do not see it",
          roster_entry_equal(&old, &(struct roster_entry){.id = 2, .name = "n", .grpc = "a:1"}));
    old = roster_entry_at(&full, 3);
    CHECK("the others are", roster_entry_equal(&old, &full));
    CHECK_U32("its version", roster_command_version(&command), 3);
    command.op = ROSTER_FORGET;
    CHECK_U32("forgetting is as old as the roster", roster_command_version(&command), 1);
    command = (struct roster_command){ROSTER_PUT, entry(1, "m", "", "")};
    CHECK_U32("and so is an entry without", roster_command_version(&command), 1);
    CHECK_OK("open", roster_open(&roster));
    CHECK_OK("open", roster_open(&other));
    CHECK_OK("one without", run(roster, command));
    command.entry = full;
    buf_init(&bytes, 4096);
    CHECK_OK("put", roster_encode(&command, &bytes));
    CHECK_STR("put", buf_peek(&bytes), str_of(put_bytes, sizeof put_bytes - 1));
    CHECK_OK("apply", apply_bytes(roster, buf_peek(&bytes)));
    buf_clear(&bytes);
    snapshot(roster, 3, &bytes);
    CHECK_STR("snapshot", buf_peek(&bytes), str_of(snapshot_bytes, sizeof snapshot_bytes - 1));
    CHECK_OK("restore", restore(other, buf_peek(&bytes), 1, &note));
    CHECK("the same", roster_entry_equal(roster_find(other, 2), &full));
    CHECK_U64("the same", hash_of(other), hash_of(roster));
    CHECK_OK("it serves them no more", put(roster, 2, "n", "a:1"));
    CHECK("and the hash shows it", hash_of(other) != hash_of(roster));
    buf_deinit(&bytes);
    roster_close(roster);
    roster_close(other);
}

TEST(a_snapshot_restored_anywhere_is_the_same_state)
{
    struct prng prng;
    prng_seed(&prng, test_seed());
    for (int round = 0; round < 200; round++) {
        struct roster *one, *other;
        struct note note = {""};
        struct buf bytes;

        CHECK_OK("open", roster_open(&one));
        CHECK_OK("open", roster_open(&other));
        CHECK_OK("its old content is dropped", put(other, 77, "old", "x:1"));
        buf_init(&bytes, 1 << 20);
        for (uint64_t i = prng_below(&prng, 200); i > 0; i--) {
            char name[32], address[32];
            uint64_t id = 1 + prng_below(&prng, 40);
            snprintf(name, sizeof name, "node-%d", (int)prng_below(&prng, 9));
            snprintf(address, sizeof address, "10.0.0.%d:1", (int)prng_below(&prng, 250));
            if (prng_below(&prng, 4) == 0)
                CHECK_OK("forget", forget(one, id));
            else
                (void)put(one, id, name, address);
        }
        snapshot(one, 1 + prng_below(&prng, 100), &bytes);
        CHECK_OK("restore", restore(other, buf_peek(&bytes), 1 + prng_below(&prng, 100), &note));
        CHECK_U64("the same", hash_of(other), hash_of(one));
        const struct roster_entry *a, *b;
        size_t count = roster_entries(one, &a);
        CHECK_SIZE("as many", roster_entries(other, &b), count);
        for (size_t i = 0; i < count; i++)
            CHECK("entry by entry", a[i].id == b[i].id && strcmp(a[i].name, b[i].name) == 0 &&
                                        strcmp(a[i].grpc, b[i].grpc) == 0);
        buf_deinit(&bytes);
        roster_close(one);
        roster_close(other);
    }
}

TEST(a_snapshot_that_is_damaged_is_refused_with_its_place_and_leaves_nothing)
{
    static const struct {
        const char *why;
        struct str bytes;
        enum err want;
        const char *says;
    } cases[] = {
        {"cut in the head", {"\1\0\0\0\1\0\0", 7}, ERR_CORRUPT, "byte 0"},
        {"a later format", {"\3\0\0\0\0\0\0\0", 8}, ERR_VERSION, "format 3"},
        {"format 2 of none", {"\2\0\0\0\0\0\0\0", 8}, ERR_CORRUPT, "nobody serves"},
        {"a tail short", {"\2\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\1\0\0n", 20}, ERR_CORRUPT, "byte 8"},
        {"an entry short", {"\1\0\0\0\1\0\0\0", 8}, ERR_CORRUPT, "byte 8"},
        {"an entry more", {"\1\0\0\0\0\0\0\0x", 9}, ERR_CORRUPT, "byte 8: more"},
        {"more than there may be", {"\1\0\0\0\xff\xff\0\0", 8}, ERR_CORRUPT, "too many"},
        {"the same twice",
         {"\1\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0\1\0\0n\1\0\0\0\0\0\0\0\1\0\0n", 32},
         ERR_CORRUPT,
         "byte 20: out of order"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct roster_entry *entries;
        struct roster *roster;
        struct note note = {""};
        CHECK_OK("open", roster_open(&roster));
        CHECK_OK("put", put(roster, 1, "n", "a:1"));
        CHECK_ERR(cases[i].why, restore(roster, cases[i].bytes, 3, &note), cases[i].want);
        CHECK_HAS(cases[i].why, note.text, cases[i].says);
        CHECK_SIZE(cases[i].why, roster_entries(roster, &entries), 0);
        CHECK_U64(cases[i].why, hash_of(roster), 0);
        CHECK_OK("never in a snapshot: empty", restore(roster, STR_EMPTY, 1, &note));
        roster_close(roster);
    }
}
