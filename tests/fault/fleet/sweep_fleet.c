/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in everything of the fleet that allocates. After each
 * failure the call returns out of memory only, the tables are as before the command, memory is
 * counted right (fleet_close asserts it), and nothing leaks. */
#include <stdio.h>
#include <stdlib.h>

#include "fleet/format/command.h"
#include "fleet/format/meta.h"
#include "fleet/format/state.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"

enum { STEPS = 160, TEXT = 1 << 20 };

/* Enough rows to split and merge sets, with every command among them. */
static struct fleet_command step(unsigned i, char room[3][16])
{
    static struct fleet_slice slices[2] = {{{"b", 1}, 1}, {{"a", 1}, 2}};

    snprintf(room[0], 16, "s-%u", i % 3);
    snprintf(room[1], 16, "k-%u", i % 5);
    snprintf(room[2], 16, "v-%u", i);
    if (i < 3)
        return (struct fleet_command){FLEET_ADD_SHARD, .add_shard = {.id = str_from(room[0])}};
    switch (i % 16) {
    case 1:
        return (struct fleet_command){FLEET_BIND_CLUSTER,
                                      .bind_cluster = {str_from(room[2]), str_from(room[0])}};
    case 2:
        return (struct fleet_command){
            FLEET_SET_QUOTA, .set_quota = {str_from(room[1]), str_from(room[0]), slices, 2}};
    case 3:
        return (struct fleet_command){
            FLEET_UPSERT_PROVIDER,
            .upsert_provider = {str_from(room[1]), str_from(room[2]), STR_EMPTY}};
    case 4:
        snprintf(room[1], 16, "k-%u", (i - 8) % 5);
        snprintf(room[2], 16, "v-%u", i - 8);
        return (struct fleet_command){
            FLEET_UNASSIGN_DOMAIN,
            .unassign_domain = {.key = str_from(room[1]), .value = str_from(room[2])}};
    default: break;
    }
    if (i == 140)
        return (struct fleet_command){FLEET_REMOVE_SHARD, .remove_shard = str_from(room[0])};
    return (struct fleet_command){
        FLEET_ASSIGN_DOMAIN,
        .assign_domain = {str_from(room[1]), str_from(room[2]), str_from(room[0])}};
}

static void sweep_at(uint32_t level)
{
    uint64_t turns = 0, good = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct fleet *fleet = NULL;
        char room[3][16];

        turns++;
        if (fleet_open(&fleet)) {
            CHECK("reported", fault_alloc_fired());
            continue;
        }
        for (unsigned i = 0; i < STEPS; i++) {
            struct fleet_command command = step(i, room);
            uint64_t before = fleet_hash(fleet), bytes = fleet_bytes(fleet);
            struct fleet_entry entry = {.index = i + 1, .level = level};
            struct fleet_result result = fleet_apply_entry(fleet, &command, entry);
            if (result.status == FLEET_NO_MEMORY) {
                CHECK("it was so", fault_alloc_fired());
                CHECK_U64("the tables are unchanged", fleet_hash(fleet), before);
                CHECK("no more memory than a split node", fleet_bytes(fleet) <= bytes + 2048);
                result = fleet_apply_entry(fleet, &command, entry);
            }
            CHECK_U64("or it is done", result.status == FLEET_SHARD_NOT_FOUND ? 0 : result.status,
                      FLEET_DONE);
        }
        if (good == 0) good = fleet_hash(fleet);
        CHECK_U64("the same in the end", fleet_hash(fleet), good);
        fleet_close(fleet);
    }
    CHECK("it allocates", turns > STEPS);
}

TEST(without_memory_a_command_changes_nothing)
{
    sweep_at(1);
}

TEST(without_memory_a_leaving_domain_stays_with_its_shard)
{
    sweep_at(FLEET_LEAVING_LEVEL);
}

TEST(without_memory_a_view_fails_and_the_command_does_not)
{
    unsigned failed = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct fleet_view *view = NULL;
        struct fleet *fleet = NULL;
        struct fleet_row row;
        char room[3][16];
        bool more = true;
        enum err err = fleet_open(&fleet);

        for (unsigned i = 0; !err && i < 120; i++) {
            struct fleet_command command = step(i, room);
            if (fleet_apply(fleet, &command).status == FLEET_NO_MEMORY) err = ERR_NOMEM;
        }
        if (!err) err = fleet_view_open(fleet, &view);
        if (!err) {
            uint64_t hash = fleet_view_hash(view), rows = 0;
            for (unsigned i = 0; i < 3; i++) {
                struct fleet_command command = {FLEET_REMOVE_SHARD,
                                                .remove_shard = str_from(room[0])};
                snprintf(room[0], 16, "s-%u", i);
                CHECK_U64("removing takes no memory", fleet_apply(fleet, &command).status,
                          FLEET_DONE);
            }
            while (!err && more) {
                err = fleet_view_next(view, &row, &more);
                rows += !err && more;
            }
            failed += err == ERR_NOMEM;
            if (!err) CHECK("all of them", rows > 90);
            CHECK_U64("of its moment", fleet_view_hash(view), hash);
        }
        if (err) CHECK_ERR("nothing but memory", err, ERR_NOMEM);
        if (err) CHECK("reported", fault_alloc_fired());
        fleet_view_close(view);
        fleet_close(fleet);
    }
    CHECK("some views failed", failed > 0);
}

/* -- the formats -- */
static enum err write_state(struct fleet *fleet, struct buf *text)
{
    struct fleet_state_writer *writer;
    bool done = false;
    enum err err =
        fleet_state_write_open(fleet, (struct fleet_state_style){.sealed = true}, &writer);

    if (err) return err;
    while (!err && !done) err = fleet_state_write_next(writer, 100, text, &done);
    fleet_state_write_close(writer);
    return err;
}

static enum err read_state(struct fleet *fleet, struct str text)
{
    struct fleet_state_options options = {.fleet = fleet, .strict = true};
    struct fleet_state_summary summary;
    struct fleet_state_reader *reader;
    enum err err = fleet_state_read_begin(&options, &reader);

    if (err) return err;
    while (!err && text.len > 0) {
        err = fleet_state_read_next(reader, str_of(text.at, min_size(text.len, 33)), NULL);
        text = str_tail(text, 33);
    }
    if (!err) err = fleet_state_read_end(reader, &summary, NULL);
    fleet_state_read_close(reader);
    return err;
}

TEST(a_state_is_written_and_read_whole_or_memory_ran_out)
{
    struct fleet *fleet;
    char room[3][16];

    CHECK_OK("open", fleet_open(&fleet));
    for (unsigned i = 0; i < 120; i++) {
        struct fleet_command command = step(i, room);
        fleet_apply(fleet, &command);
    }
    FAULT_SWEEP_ALLOC(k)
    {
        struct fleet *copy = NULL;
        struct buf text;
        enum err err;

        buf_init(&text, TEXT);
        err = write_state(fleet, &text);
        if (!err) err = fleet_open(&copy);
        if (!err) err = read_state(copy, buf_peek(&text));
        if (!err) CHECK_U64("whole", fleet_hash(copy), fleet_hash(fleet));
        if (err) CHECK_ERR("nothing but memory", err, ERR_NOMEM);
        CHECK("reported", !fault_alloc_fired() || err == ERR_NOMEM);
        buf_deinit(&text);
        fleet_close(copy);
    }
    fleet_close(fleet);
}

TEST(commands_and_metas_are_read_whole_or_memory_ran_out)
{
    static const char meta[] = "{\"ID\":\"\\u0041\",\"Index\":12,\"Term\":2}";

    FAULT_SWEEP_ALLOC(k)
    {
        struct fleet_command command;
        struct fleet_result result;
        static struct fleet_meta read;
        struct arena arena;
        struct buf text;
        enum err err;

        arena_init(&arena, TEXT);
        buf_init(&text, TEXT);
        err = fleet_command_decode(
            STR("{\"kind\":6,\"set_quota\":{\"per_shard\":{\"\\u0061\":1,\"b\":2}}}"), &arena,
            &command, &result, NULL);
        if (!err) err = fleet_command_encode(&command, &text);
        buf_clear(&text);
        if (!err) err = fleet_meta_read(str_of(meta, sizeof meta - 1), &read, NULL);
        if (!err) err = fleet_meta_write(&read, true, &text);
        if (!err) CHECK_U64("whole", read.index, 12);
        if (err) CHECK_ERR("nothing but memory", err, ERR_NOMEM);
        CHECK("reported", !fault_alloc_fired() || err == ERR_NOMEM);
        buf_deinit(&text);
        arena_deinit(&arena);
    }
}
