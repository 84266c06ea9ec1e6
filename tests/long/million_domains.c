/* SPDX-License-Identifier: Apache-2.0 */
/* A million domains on two thousand shards: the tables hold them, list them in order, give a
 * snapshot of one moment while a tenth of them is reassigned, and are restored from it. */
#include <stdio.h>

#include "fleet/format/state.h"
#include "lib/test.h"

enum { DOMAINS = 1000000, SHARDS = 2000, STEP = 7919, SLICE = 64 << 10 };

static struct fleet_command assign(unsigned i, unsigned shard, char room[2][16])
{
    snprintf(room[0], 16, "rack-%07u", i);
    snprintf(room[1], 16, "shard-%04u", shard);
    return (struct fleet_command){
        FLEET_ASSIGN_DOMAIN, .assign_domain = {STR("rack"), str_from(room[0]), str_from(room[1])}};
}

static struct fleet *filled(unsigned step)
{
    struct fleet *fleet;
    char room[2][16];

    CHECK_OK("open", fleet_open(&fleet));
    for (unsigned i = 0; i < SHARDS; i++) {
        struct fleet_command command = {.kind = FLEET_ADD_SHARD};
        snprintf(room[0], 16, "shard-%04u", i);
        command.add_shard.id = str_from(room[0]);
        CHECK_U64("shard", fleet_apply(fleet, &command).status, FLEET_DONE);
    }
    for (unsigned i = 0; i < DOMAINS; i++) {
        unsigned domain = (unsigned)((uint64_t)i * step % DOMAINS);
        struct fleet_command command = assign(domain, domain % SHARDS, room);
        CHECK_U64("domain", fleet_apply(fleet, &command).status, FLEET_DONE);
    }
    return fleet;
}

TEST(a_million_domains_are_held_listed_snapshotted_while_they_change_and_restored)
{
    struct fleet *fleet = filled(STEP), *other = filled(1);
    uint64_t hash = fleet_hash(fleet), bytes = fleet_bytes(fleet);
    struct fleet_state_options options = {.fleet = other, .strict = true};
    struct fleet_state_summary summary;
    struct fleet_state_reader *reader;
    struct fleet_state_writer *writer;
    struct fleet_walk walk = {0};
    struct fleet_row domain;
    struct note note = {""};
    struct buf slice;
    unsigned changed = 0;
    char room[2][16];
    bool done = false;

    CHECK_U64("in any order", fleet_hash(other), hash);
    CHECK("a hundred bytes each", bytes < (uint64_t)110 * DOMAINS);
    for (unsigned i = 0; i < DOMAINS; i++) {
        struct fleet_command want = assign(i, i % SHARDS, room);
        CHECK("one more", fleet_next(fleet, FLEET_DOMAINS, &walk, &domain));
        CHECK_STR("in order", domain.domain.value, want.assign_domain.value);
        CHECK_STR("its shard", domain.domain.shard, want.assign_domain.shard);
    }
    fleet_clear(other);
    buf_init(&slice, (size_t)4 * SLICE);
    CHECK_OK("reader", fleet_state_read_begin(&options, &reader));
    CHECK_OK("writer",
             fleet_state_write_open(fleet, (struct fleet_state_style){.sealed = true}, &writer));
    while (!done) {
        for (unsigned i = 0; i < 100 && changed < DOMAINS / 10; i++, changed++) {
            unsigned at = (unsigned)((uint64_t)changed * STEP % DOMAINS);
            struct fleet_command command = assign(at, (at + 1) % SHARDS, room);
            struct fleet_command off = {FLEET_UNASSIGN_DOMAIN,
                                        .unassign_domain = command.assign_domain};
            CHECK("off", fleet_apply(fleet, &off).changed);
            CHECK("on", fleet_apply(fleet, &command).changed);
        }
        buf_clear(&slice);
        CHECK_OK("slice", fleet_state_write_next(writer, SLICE, &slice, &done));
        CHECK_OK(note.text, fleet_state_read_next(reader, buf_peek(&slice), &note));
    }
    CHECK("they changed meanwhile", changed >= DOMAINS / 10 && fleet_hash(fleet) != hash);
    CHECK("memory of removed domains is reused", fleet_bytes(fleet) < bytes + bytes / 4);
    fleet_state_write_close(writer);
    CHECK_OK(note.text, fleet_state_read_end(reader, &summary, &note));
    fleet_state_read_close(reader);
    CHECK_U64("the restored fleet is equal", fleet_hash(other), hash);
    CHECK_U32("all of them", summary.taken.of[FLEET_DOMAINS], DOMAINS);
    buf_deinit(&slice);
    fleet_close(fleet);
    fleet_close(other);
}
