/* SPDX-License-Identifier: Apache-2.0 */
/* Answers by request id: alone, and in the machine, where a repeat changes nothing on any replica.
 * */
#include "fleet/answers.h"

#include <stdio.h>

#include "base/prng.h"
#include "fleet/machine.h"
#include "lib/test.h"

/* -- in themselves -- */

static const char *find(const struct fleet_answers *answers, uint8_t kind, const char *id)
{
    static char text[FLEET_ANSWER_REPLY_MAX + 1];
    struct str reply;

    if (!fleet_answers_find(answers, kind, str_from(id), &reply)) return "(none)";
    snprintf(text, sizeof text, "%.*s", STR_ARG(reply));
    return text;
}

static void put(struct fleet_answers *answers, uint8_t kind, const char *id, const char *reply)
{
    CHECK_OK("put", fleet_answers_put(answers, kind, str_from(id), str_from(reply)));
}

TEST(an_answer_is_found_by_its_kind_and_id)
{
    struct fleet_answers *answers;

    CHECK_OK("open", fleet_answers_open(8, &answers));
    put(answers, 1, "id", "one");
    CHECK_TEXT("found", find(answers, 1, "id"), "one");
    CHECK_TEXT("another kind", find(answers, 2, "id"), "(none)");
    CHECK_TEXT("another id", find(answers, 1, "i"), "(none)");
    put(answers, 1, "id", "two");
    CHECK_TEXT("the first stays", find(answers, 1, "id"), "one");
    put(answers, 2, "id", "two");
    CHECK_TEXT("beside the other kind's", find(answers, 2, "id"), "two");
    CHECK_SIZE("two", fleet_answers_count(answers), 2);
    fleet_answers_close(answers);
}

TEST(the_oldest_is_forgotten)
{
    struct fleet_answers *answers;
    struct fleet_answers_view *view;
    struct buf bytes;
    bool done;

    CHECK_OK("open", fleet_answers_open(2, &answers));
    put(answers, 1, "a", "A");
    put(answers, 1, "b", "B");
    CHECK_TEXT("asking does not keep it", find(answers, 1, "a"), "A");
    put(answers, 1, "c", "C");
    CHECK_TEXT("gone", find(answers, 1, "a"), "(none)");
    CHECK_TEXT("there", find(answers, 1, "b"), "B");
    CHECK_TEXT("there", find(answers, 1, "c"), "C");
    buf_init(&bytes, 64);
    CHECK_OK("view", fleet_answers_view_open(answers, &view));
    CHECK_OK("whole", fleet_answers_view_next(view, SIZE_MAX, &bytes, &done));
    CHECK_STR("oldest first", buf_peek(&bytes), STR("\1\1\1\0bB\1\1\1\0cC"));
    fleet_answers_view_close(view);
    fleet_answers_close(answers);
    buf_deinit(&bytes);
}

TEST(bytes_that_are_no_answers_are_refused)
{
    static const struct {
        const char *why, *bytes;
        size_t len, taken;
        enum err err;
    } cases[] = {
        {"nothing", "", 0, 0, ERR_OK},
        {"half a head", "\1\2\0", 3, 0, ERR_OK},
        {"half an answer", "\1\2\1\0ab", 6, 0, ERR_OK},
        {"one, and half of the next", "\1\2\1\0abx\1", 8, 7, ERR_OK},
        {"no id", "\1\0\1\0x", 5, 0, ERR_CORRUPT},
        {"an id that is too long", "\1\111\1\0x", 5, 0, ERR_CORRUPT},
        {"a reply that is too long", "\1\2\1\4ab", 6, 0, ERR_CORRUPT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet_answers *answers;
        struct note note = {""};
        size_t taken = 0;

        CHECK_OK("open", fleet_answers_open(8, &answers));
        CHECK_ERR(cases[i].why,
                  fleet_answers_take(answers, str_of(cases[i].bytes, cases[i].len), &taken, &note),
                  cases[i].err);
        CHECK_SIZE(cases[i].why, taken, cases[i].taken);
        fleet_answers_close(answers);
    }
}

/* Random puts; views in between must show the state of their own moment. */
TEST(a_view_is_of_its_moment)
{
    enum { IDS = 200, MAX = 50, STEPS = 5000 };
    struct fleet_answers *answers, *copy;
    struct fleet_answers_view *view = NULL;
    struct buf want, got;
    struct prng prng;
    struct note note = {""};
    bool done;

    prng_seed(&prng, test_seed());
    buf_init(&want, 1 << 20);
    buf_init(&got, 1 << 20);
    CHECK_OK("open", fleet_answers_open(MAX, &answers));
    for (int step = 0; step < STEPS; step++) {
        char id[16], reply[16];

        snprintf(id, sizeof id, "id-%d", (int)prng_below(&prng, IDS));
        snprintf(reply, sizeof reply, "%d", step);
        put(answers, (uint8_t)prng_between(&prng, 1, 3), id, reply);
        if (!view && prng_chance(&prng, 100000)) {
            struct fleet_answers_view *now;

            buf_clear(&want);
            buf_clear(&got);
            CHECK_OK("now", fleet_answers_view_open(answers, &now));
            CHECK_OK("whole", fleet_answers_view_next(now, SIZE_MAX, &want, &done));
            CHECK("whole", done);
            fleet_answers_view_close(now);
            CHECK_OK("later", fleet_answers_view_open(answers, &view));
        } else if (view && prng_chance(&prng, 100000)) {
            size_t taken;

            CHECK_OK("some",
                     fleet_answers_view_next(view, prng_between(&prng, 1, 400), &got, &done));
            if (!done) continue;
            CHECK_STR("as it was", buf_peek(&got), buf_peek(&want));
            fleet_answers_view_close(view);
            view = NULL;
            CHECK_OK("copy", fleet_answers_open(MAX, &copy));
            CHECK_OK("read", fleet_answers_take(copy, buf_peek(&got), &taken, &note));
            CHECK_SIZE("all of it", taken, got.len);
            fleet_answers_close(copy);
        }
    }
    fleet_answers_view_close(view);
    fleet_answers_close(answers);
    buf_deinit(&want);
    buf_deinit(&got);
}

/* -- in the machine -- */

static unsigned seen;

static void on_applied(void *owner, const struct machine_entry *entry,
                       const struct fleet_command *command, const struct fleet_result *result)
{
    (void)owner, (void)entry, (void)command, (void)result;
    seen++;
}

static struct fleet_machine *open_machine(struct state_machine *ret_machine)
{
    struct fleet_machine_options options = {.applied = on_applied};
    struct fleet_machine *machine;

    CHECK_OK("open", fleet_machine_open(&options, &machine));
    *ret_machine = fleet_machine_registration(machine);
    seen = 0;
    return machine;
}

static enum fleet_status apply(struct state_machine *m, const char *id, const char *text)
{
    struct machine_entry entry = {
        .index = 3, .version = 1, .request_id = str_from(id), .command = str_from(text)};
    struct fleet_result result;
    struct buf reply;

    buf_init(&reply, 4096);
    CHECK_OK("known", m->ops->apply(m->state, &entry, &reply, NULL));
    CHECK_OK("a reply", fleet_reply_parse(buf_peek(&reply), &result));
    buf_deinit(&reply);
    return result.status;
}

static void copy(struct state_machine *from, struct state_machine *to, size_t piece)
{
    struct note note = {""};
    struct buf bytes;
    void *view;
    bool done = false;

    buf_init(&bytes, 16 << 20);
    CHECK_OK("begin", from->ops->snapshot_begin(from->state, 9, &view));
    while (!done) CHECK_OK("next", from->ops->snapshot_next(view, piece, &bytes, &done));
    from->ops->snapshot_end(view);
    CHECK_OK("begin", to->ops->restore_begin(to->state, 9, &note));
    for (struct str rest = buf_peek(&bytes); rest.len; rest = str_tail(rest, piece))
        CHECK_ERR(
            note.text,
            to->ops->restore_next(to->state, str_of(rest.at, min_size(piece, rest.len)), &note),
            ERR_OK);
    CHECK_ERR(note.text, to->ops->restore_end(to->state, &note), ERR_OK);
    buf_deinit(&bytes);
}

#define ADD    "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"a\"}}}"
#define REMOVE "{\"kind\":2,\"remove_shard\":{\"id\":\"a\"}}"

TEST(a_repeat_is_answered_and_not_applied)
{
    struct state_machine m;
    struct fleet_machine *machine = open_machine(&m);
    struct fleet_row shard;

    CHECK_U64("added", apply(&m, "x", ADD), FLEET_DONE);
    CHECK_U64("again: the same answer", apply(&m, "x", ADD), FLEET_DONE);
    CHECK_U32("seen once", seen, 1);
    CHECK_U64("another request", apply(&m, "y", ADD), FLEET_SHARD_EXISTS);
    CHECK_U64("its repeat", apply(&m, "y", ADD), FLEET_SHARD_EXISTS);
    CHECK_U64("without an id", apply(&m, "", ADD), FLEET_SHARD_EXISTS);
    CHECK_U64("another kind under an old id is no repeat", apply(&m, "x", REMOVE), FLEET_DONE);
    CHECK_U64("late", apply(&m, "x", ADD), FLEET_DONE);
    CHECK("and it does not restore ids removed since",
          !fleet_find(fleet_machine_fleet(machine), FLEET_SHARDS, STR("a"), STR_EMPTY, &shard));
    fleet_machine_close(machine);
}

TEST(a_snapshot_carries_the_answers)
{
    static const size_t pieces[] = {1, 7, 64, 1 << 20};

    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct state_machine first, second;
        struct fleet_machine *from = open_machine(&first), *to = open_machine(&second);
        struct fleet_row shard;

        CHECK_U64("without answers", apply(&first, "", ADD), FLEET_DONE);
        copy(&first, &second, pieces[i]);
        CHECK_U64("added there", apply(&second, "", ADD), FLEET_SHARD_EXISTS);
        for (int n = 0; n < 2000; n++) { /* more than one pass removes */
            char id[65];

            snprintf(id, sizeof id, "%064d", n);
            CHECK_U64("refused", apply(&first, id, ADD), FLEET_SHARD_EXISTS);
        }
        CHECK_U64("x", apply(&first, "x", REMOVE), FLEET_DONE);
        CHECK_U64("y", apply(&first, "y", ADD), FLEET_DONE);
        copy(&first, &second, pieces[i]);
        CHECK_U64("the same state", second.ops->hash(second.state), first.ops->hash(first.state));
        CHECK_U64("a repeat there", apply(&second, "x", REMOVE), FLEET_DONE);
        CHECK("is none",
              fleet_find(fleet_machine_fleet(to), FLEET_SHARDS, STR("a"), STR_EMPTY, &shard));
        CHECK_U64("the oldest too", apply(&second, "", REMOVE), FLEET_DONE);
        CHECK_U64(
            "the oldest too",
            apply(&second, "0000000000000000000000000000000000000000000000000000000000000000", ADD),
            FLEET_SHARD_EXISTS);
        CHECK_U64("z", apply(&second, "z", REMOVE), FLEET_SHARD_NOT_FOUND);
        copy(&first, &second, pieces[i]);
        CHECK_U64("a restore drops the old ids", apply(&second, "z", REMOVE), FLEET_DONE);
        fleet_machine_close(from);
        fleet_machine_close(to);
    }
}

TEST(answers_that_are_cut_short_are_damage)
{
    struct state_machine first, second;
    struct fleet_machine *from = open_machine(&first), *to = open_machine(&second);
    struct note note = {""};
    struct buf bytes;
    void *view;
    bool done = false;

    buf_init(&bytes, 1 << 20);
    CHECK_U64("y", apply(&first, "y", ADD), FLEET_DONE);
    CHECK_OK("begin", first.ops->snapshot_begin(first.state, 9, &view));
    while (!done) CHECK_OK("next", first.ops->snapshot_next(view, 4096, &bytes, &done));
    first.ops->snapshot_end(view);
    CHECK_OK("begin", second.ops->restore_begin(second.state, 9, &note));
    CHECK_OK("all but a byte",
             second.ops->restore_next(second.state, str_of(bytes.data, bytes.len - 1), &note));
    CHECK_ERR("damage", second.ops->restore_end(second.state, &note), ERR_CORRUPT);
    CHECK_HAS("named", note.text, "answers: cut short");
    fleet_machine_close(from);
    fleet_machine_close(to);
    buf_deinit(&bytes);
}
