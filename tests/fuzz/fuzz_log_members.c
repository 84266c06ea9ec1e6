/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a configuration, of the log or of a peer: refused, or read and written again to the
 * same bytes. The engine, whose own decoder trusts its input, then gets it as the log's first entry
 * and as an entry from a leader. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "log/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_members(const struct members *members)
{
    must(members->count > 0 && members->count <= REPLICA_MEMBERS_MAX);
    must(members_voters(members) > 0);
    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->at[i];
        must(member->id != 0 && members_find(members, member->id) == member);
        must(memchr(member->address, '\0', sizeof member->address) != NULL);
        must(member->role == MEMBER_VOTER || member->role == MEMBER_LEARNER);
    }
}

static void same_members(const struct engine *engine, const struct members *want)
{
    struct members got;
    uint64_t uncommitted;

    engine_members(engine, &got, &uncommitted);
    must(got.count == want->count);
    for (size_t i = 0; i < got.count; i++)
        must(got.at[i].id == want->at[i].id && got.at[i].role == want->at[i].role &&
             strcmp(got.at[i].address, want->at[i].address) == 0);
}

static struct engine *open_engine(uint64_t id)
{
    struct engine *engine;

    must(engine_open(&(struct engine_options){.id = id,
                                              .address = "here",
                                              .election_ms = 100,
                                              .heartbeat_ms = 20,
                                              .in_flight_entries = 4,
                                              .seed = 1},
                     &engine) == ERR_OK);
    return engine;
}

static void begin_with(struct str bytes, const struct members *members)
{
    struct engine *engine = open_engine(members->at[0].id);
    struct entry entry = {1, 1, ENTRY_CHANGE, bytes};
    struct engine_start start = {.term = 1, .start_index = 1, .entries = &entry, .entry_count = 1};
    struct engine_effects effects;

    must(engine_begin(engine, (mono_time){100}, &start, &effects) == ERR_OK);
    same_members(engine, members);
    engine_close(engine);
}

static void receive(struct str bytes, const struct members *members)
{
    uint64_t self = 0x5e1f, from = 0x1ead;
    struct engine *engine = open_engine(self);
    struct entry entry = {1, 1, ENTRY_CHANGE, bytes};
    struct engine_append append = {.term = 1, .entries = &entry, .entry_count = 1};
    struct engine_effects effects;

    must(engine_begin(engine, (mono_time){100}, &(struct engine_start){.start_index = 1},
                      &effects) == ERR_OK);
    must(engine_receive_append(engine, (mono_time){101}, from, &append, &effects) == ERR_OK);
    must(effects.flags & ENGINE_ENTRIES);
    same_members(engine, members);
    engine_close(engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str given = str_of(data, size);
    struct members members;
    struct buf again;

    memset(&members, 0x5a, sizeof members);
    if (members_decode(given, &members)) {
        must(members.count == 0x5a5a5a5a5a5a5a5a); /* untouched */
        return 0;
    }
    check_members(&members);
    buf_init(&again, size);
    must(members_encode(&members, &again) == ERR_OK);
    must(str_equal(buf_peek(&again), given));
    buf_deinit(&again);
    begin_with(given, &members);
    receive(given, &members);
    return 0;
}
