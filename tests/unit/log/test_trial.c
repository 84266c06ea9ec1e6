/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/prng.h"
#include "lib/test.h"

static struct trial_reply run(struct trial *t, struct trial_command command)
{
    struct machine_entry entry = {.index = trial_applied(t) + 1, .term = 1, .version = 1};
    struct trial_reply reply = {.err = ERR_INTERNAL};
    struct buf bytes, answer;

    buf_init(&bytes, 2 << 20);
    buf_init(&answer, 1000);
    CHECK_OK("encode", trial_encode(&command, &bytes));
    entry.command = buf_peek(&bytes);
    (void)trial_ops.apply(t, &entry, &answer, NULL);
    CHECK_OK("parse", trial_reply_parse(buf_peek(&answer), &reply));
    buf_deinit(&bytes);
    buf_deinit(&answer);
    return reply;
}

static struct trial_reply set(struct trial *t, const char *key, const char *value)
{
    return run(
        t, (struct trial_command){.op = TRIAL_SET, .key = str_from(key), .value = str_from(value)});
}

static void check_reg(const struct trial *t, const char *key, uint64_t revision, int64_t number,
                      const char *value)
{
    uint64_t got_revision;
    int64_t got_number;
    struct str got_value;

    CHECK(key, trial_get(t, str_from(key), &got_revision, &got_number, &got_value));
    CHECK_U64(key, got_revision, revision);
    CHECK_I64(key, got_number, number);
    CHECK_STR(key, got_value, str_from(value));
}

TEST(commands_have_their_documented_effect)
{
    static const struct {
        const char *why;
        enum trial_op op;
        const char *key, *value;
        int64_t number;
        struct trial_reply want;
    } steps[] = {
        {"set makes it", TRIAL_SET, "a", "one", 0, {ERR_OK, 1, 0}},
        {"set again", TRIAL_SET, "a", "two", 0, {ERR_OK, 2, 0}},
        {"add", TRIAL_ADD, "a", "", 5, {ERR_OK, 3, 5}},
        {"add makes it", TRIAL_ADD, "b", "", -7, {ERR_OK, 1, -7}},
        {"cas on another revision", TRIAL_CAS, "a", "no", 2, {ERR_CONFLICT, 3, 5}},
        {"cas on the right one", TRIAL_CAS, "a", "yes", 3, {ERR_OK, 4, 5}},
        {"cas for absent, but it is there", TRIAL_CAS, "a", "no", 0, {ERR_CONFLICT, 4, 5}},
        {"cas for absent", TRIAL_CAS, "c", "new", 0, {ERR_OK, 1, 0}},
        {"full", TRIAL_SET, "d", "x", 0, {ERR_FULL, 0, 0}},
        {"delete", TRIAL_DELETE, "c", "", 0, {ERR_OK, 0, 0}},
        {"delete again", TRIAL_DELETE, "c", "", 0, {ERR_NOT_FOUND, 0, 0}},
        {"room again", TRIAL_SET, "d", "", 0, {ERR_OK, 1, 0}},
        {"nothing", TRIAL_NOTHING, "a", "", 0, {ERR_OK, 4, 5}},
        {"no such command", (enum trial_op)77, "a", "", 0, {ERR_INVALID, 0, 0}},
        {"add to the end", TRIAL_ADD, "b", "", INT64_MIN, {ERR_OK, 2, INT64_MAX - 6}},
    };
    struct trial *t;

    CHECK_OK("open", trial_open(3, &t));
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct trial_reply got = run(t, (struct trial_command){.op = steps[i].op,
                                                               .key = str_from(steps[i].key),
                                                               .value = str_from(steps[i].value),
                                                               .number = steps[i].number});
        CHECK_ERR(steps[i].why, got.err, steps[i].want.err);
        CHECK_U64(steps[i].why, got.revision, steps[i].want.revision);
        CHECK_I64(steps[i].why, got.number, steps[i].want.number);
    }
    check_reg(t, "a", 4, 5, "yes");
    check_reg(t, "d", 1, 0, "");
    CHECK_SIZE("count", trial_count(t), 3);
    CHECK_U64("applied", trial_applied(t), ARRAY_LEN(steps));
    trial_close(t);
}

TEST(bytes_that_are_no_command_are_an_answer_not_a_failure)
{
    static const struct str commands[] = {
        {"", 0},
        {"\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0", 15},
        {"\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16},       /* the key is missing */
        {"\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0k", 17},      /* one byte too many */
        {"\1\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0k", 17},      /* not zero */
        {"\1\0\0\0\1\0\x20\0\0\0\0\0\0\0\0\0", 16},     /* value too long */
        {"\1\x41\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16 + 0}, /* key too long */
    };
    struct trial *t;

    CHECK_OK("open", trial_open(3, &t));
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        struct machine_entry entry = {.index = i + 1, .command = commands[i]};
        struct trial_reply reply;
        struct buf answer;

        buf_init(&answer, 1000);
        (void)trial_ops.apply(t, &entry, &answer, NULL);
        CHECK_OK("parse", trial_reply_parse(buf_peek(&answer), &reply));
        CHECK_ERR("refused", reply.err, ERR_INVALID);
        buf_deinit(&answer);
    }
    CHECK_SIZE("nothing was made", trial_count(t), 0);
    trial_close(t);
}

TEST(limits_of_commands_and_replies)
{
    static char text[TRIAL_VALUE_MAX + 1];
    struct trial_command command = {.op = TRIAL_SET, .key = str_of(text, TRIAL_KEY_MAX + 1)};
    struct trial_reply reply;
    struct buf bytes;

    buf_init(&bytes, 4 << 20);
    CHECK_ERR("key", trial_encode(&command, &bytes), ERR_TOO_LARGE);
    command.key.len--;
    command.value = str_of(text, TRIAL_VALUE_MAX + 1);
    CHECK_ERR("value", trial_encode(&command, &bytes), ERR_TOO_LARGE);
    command.value.len--;
    CHECK_OK("both at their limits", trial_encode(&command, &bytes));
    buf_deinit(&bytes);
    buf_init(&bytes, 100);
    CHECK_ERR("no room", trial_encode(&command, &bytes), ERR_FULL);
    CHECK_SIZE("all or nothing", bytes.len, 0);
    buf_deinit(&bytes);
    CHECK_ERR("short reply", trial_reply_parse(STR("abc"), &reply), ERR_PARSE);
    CHECK_ERR("no such error", trial_reply_parse(str_of(memset(text, 'x', 24), 24), &reply),
              ERR_PARSE);
}

TEST(a_reply_that_finds_no_room_is_left_out)
{
    struct trial *t;
    struct buf bytes, answer;
    struct trial_command command = {.op = TRIAL_SET, .key = STR("k")};
    struct machine_entry entry = {.index = 1};

    CHECK_OK("open", trial_open(3, &t));
    buf_init(&bytes, 100);
    buf_init(&answer, 3);
    CHECK_OK("encode", trial_encode(&command, &bytes));
    entry.command = buf_peek(&bytes);
    (void)trial_ops.apply(t, &entry, &answer, NULL);
    CHECK_SIZE("no reply", answer.len, 0);
    CHECK_SIZE("but it was done", trial_count(t), 1);
    buf_deinit(&bytes);
    buf_deinit(&answer);
    trial_close(t);
}

TEST(the_hash_shows_every_difference_and_ignores_the_order)
{
    struct trial *a, *b;

    CHECK_OK("open", trial_open(10, &a));
    CHECK_OK("open", trial_open(10, &b));
    CHECK("both empty", trial_hash(a) == trial_hash(b));
    set(a, "x", "1");
    set(a, "y", "2");
    set(b, "y", "2");
    CHECK("one register less", trial_hash(a) != trial_hash(b));
    set(b, "x", "1");
    CHECK("in another order", trial_hash(a) == trial_hash(b));
    set(a, "x", "1");
    CHECK("another revision", trial_hash(a) != trial_hash(b));
    run(b, (struct trial_command){.op = TRIAL_NOTHING});
    CHECK("an entry more on both, not the same one", trial_hash(a) != trial_hash(b));
    run(a, (struct trial_command){.op = TRIAL_NOTHING});
    set(b, "x", "1");
    CHECK("the same again", trial_hash(a) == trial_hash(b));
    run(a, (struct trial_command){.op = TRIAL_NOTHING});
    CHECK("nothing, once more", trial_hash(a) != trial_hash(b));
    trial_close(a);
    trial_close(b);
}

TEST(size_follows_what_is_held)
{
    struct trial *t;

    CHECK_OK("open", trial_open(10, &t));
    CHECK_U64("nothing", trial_ops.size(t), 0);
    set(t, "x", "12345");
    uint64_t one = trial_ops.size(t);
    CHECK("its bytes and some", one > 6);
    set(t, "x", "1234567");
    CHECK_U64("two more", trial_ops.size(t), one + 2);
    run(t, (struct trial_command){.op = TRIAL_DELETE, .key = STR("x")});
    CHECK_U64("nothing again", trial_ops.size(t), 0);
    trial_close(t);
}

/* -- snapshots -- */
static void restore(struct trial *t, uint64_t index, struct str bytes, size_t cut)
{
    struct note note = {""};

    CHECK_OK("begin", trial_ops.restore_begin(t, index, &note));
    while (bytes.len > 0) {
        size_t piece = min_size(cut, bytes.len);
        CHECK_OK("next", trial_ops.restore_next(t, str_of(bytes.at, piece), &note));
        bytes = str_tail(bytes, piece);
    }
    CHECK_OK("end", trial_ops.restore_end(t, &note));
}

static void random_command(struct trial *t, struct prng *prng)
{
    static const enum trial_op ops[] = {TRIAL_SET, TRIAL_SET,    TRIAL_ADD,
                                        TRIAL_CAS, TRIAL_DELETE, TRIAL_NOTHING};
    char key[3] = {(char)('a' + prng_below(prng, 8)), (char)('a' + prng_below(prng, 8)), 0};
    char value[301];
    size_t len = prng_below(prng, sizeof value);

    memset(value, 'v', sizeof value);
    run(t, (struct trial_command){.op = ops[prng_below(prng, ARRAY_LEN(ops))],
                                  .key = str_from(key),
                                  .value = str_of(value, len),
                                  .number = (int64_t)prng_below(prng, 3)});
}

/* Takes a snapshot of `t` in random slices with random commands between them. */
static void snapshot_under_load(struct trial *t, struct prng *prng, struct buf *into)
{
    void *view;
    bool done = false;

    CHECK_OK("begin", trial_ops.snapshot_begin(t, trial_applied(t), &view));
    while (!done) {
        size_t before = into->len;
        for (uint64_t n = prng_below(prng, 6); n > 0; n--) random_command(t, prng);
        CHECK_OK("next", trial_ops.snapshot_next(view, prng_between(prng, 1, 700), into, &done));
        CHECK("something, unless it is done", done || into->len > before);
    }
    for (uint64_t n = prng_below(prng, 6); n > 0; n--) random_command(t, prng);
    trial_ops.snapshot_end(view);
}

TEST(a_snapshot_has_the_state_of_its_index_despite_later_entries)
{
    struct prng worlds, prng;

    prng_seed(&worlds, test_seed());
    for (int w = 0; w < 150; w++) {
        struct trial *original, *twin, *restored;
        struct buf bytes;

        prng_fork(&worlds, &prng);
        buf_init(&bytes, 1 << 20);
        CHECK_OK("open", trial_open(50, &original));
        CHECK_OK("open", trial_open(50, &twin));
        CHECK_OK("open", trial_open(50, &restored));
        for (uint64_t n = prng_below(&prng, 400); n > 0; n--) {
            struct prng same = prng;
            random_command(original, &prng);
            random_command(twin, &same);
        }
        for (int round = 0; round < 3; round++) {
            uint64_t index = trial_applied(original), hash = trial_hash(original);
            random_command(restored, &prng); /* something to be forgotten */
            buf_clear(&bytes);
            snapshot_under_load(original, &prng, &bytes);
            restore(restored, index, buf_peek(&bytes), prng_between(&prng, 1, 500));
            CHECK_U64("the state of then", trial_hash(restored), hash);
            CHECK_U64("its index", trial_applied(restored), index);
            if (round == 0) {
                CHECK_U64("not only by its hash", trial_hash(twin), hash);
                CHECK_SIZE("count", trial_count(restored), trial_count(twin));
                CHECK_U64("size", trial_ops.size(restored), trial_ops.size(twin));
            }
        }
        /* From here on both get the same commands. */
        uint64_t hash = trial_hash(original), index = trial_applied(original);
        void *view;
        bool done = false;
        buf_clear(&bytes);
        CHECK_OK("begin", trial_ops.snapshot_begin(original, index, &view));
        while (!done) CHECK_OK("next", trial_ops.snapshot_next(view, 1 << 20, &bytes, &done));
        trial_ops.snapshot_end(view);
        restore(restored, index, buf_peek(&bytes), SIZE_MAX);
        CHECK_U64("the same", trial_hash(restored), hash);
        for (int n = 0; n < 100; n++) {
            struct prng same = prng;
            random_command(original, &prng);
            random_command(restored, &same);
            CHECK_U64("and goes on the same", trial_hash(restored), trial_hash(original));
        }
        trial_close(original);
        trial_close(twin);
        trial_close(restored);
        buf_deinit(&bytes);
    }
}

TEST(a_snapshot_can_be_cancelled)
{
    struct trial *t;
    struct buf bytes;
    void *view;
    bool done = true;

    CHECK_OK("open", trial_open(10, &t));
    set(t, "a", "1");
    set(t, "b", "2");
    buf_init(&bytes, 1000);
    CHECK_OK("begin", trial_ops.snapshot_begin(t, 2, &view));
    CHECK_OK("next", trial_ops.snapshot_next(view, 1, &bytes, &done));
    CHECK("not done", !done);
    set(t, "b", "3");
    run(t, (struct trial_command){.op = TRIAL_DELETE, .key = STR("a")});
    trial_ops.snapshot_end(view);
    CHECK_OK("another", trial_ops.snapshot_begin(t, 4, &view));
    trial_ops.snapshot_end(view);
    buf_deinit(&bytes);
    trial_close(t);
}

TEST(nothing_to_restore_from_is_an_empty_state)
{
    struct trial *t;

    CHECK_OK("open", trial_open(10, &t));
    set(t, "a", "1");
    restore(t, 90, STR_EMPTY, 1);
    CHECK_SIZE("forgotten", trial_count(t), 0);
    CHECK_U64("index", trial_applied(t), 90);
    trial_close(t);
}

TEST(a_damaged_snapshot_is_refused)
{
    struct trial *t, *target;
    struct buf bytes;
    void *view;
    bool done = false;

    CHECK_OK("open", trial_open(10, &t));
    CHECK_OK("open", trial_open(10, &target));
    set(t, "a", "one");
    set(t, "b", "two");
    run(t, (struct trial_command){.op = TRIAL_ADD, .key = STR("b"), .number = 3});
    buf_init(&bytes, 1000);
    CHECK_OK("begin", trial_ops.snapshot_begin(t, 3, &view));
    while (!done) CHECK_OK("next", trial_ops.snapshot_next(view, 100, &bytes, &done));
    trial_ops.snapshot_end(view);
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        struct note note = {""};
        bytes.data[bit / 8] ^= (char)(1 << bit % 8);
        enum err err = trial_ops.restore_begin(target, 3, &note);
        if (!err) err = trial_ops.restore_next(target, buf_peek(&bytes), &note);
        enum err end = trial_ops.restore_end(target, &note);
        CHECK("refused", err || end);
        CHECK("with a note", note.text[0]);
        bytes.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t len = 1; len < bytes.len; len++) {
        struct note note = {""};
        CHECK_OK("begin", trial_ops.restore_begin(target, 3, &note));
        CHECK_OK("next", trial_ops.restore_next(target, str_of(bytes.data, len), &note));
        CHECK_ERR("cut", trial_ops.restore_end(target, &note), ERR_CORRUPT);
    }
    restore(target, 3, buf_peek(&bytes), 1);
    CHECK_U64("whole, it is taken byte by byte", trial_hash(target), trial_hash(t));
    buf_deinit(&bytes);
    trial_close(t);
    trial_close(target);
}
