/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of the coordinators' store, as prim/native reads it. The first byte chooses the
 * message; the rest is its encoding. */
#include <stdlib.h>
#include <string.h>

#include "prim/native/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void judge_outcome(const Muster__V1__Outcome *outcome)
{
    coord_result result = native_outcome(outcome);

    must(result.code >= COORD_OK && result.code <= COORD_UNAVAILABLE);
    must(!(result.flags & COORD_F_MAYBE_APPLIED));
    must(memchr(result.text, '\0', sizeof result.text));
    must(memchr(result.owner, '\0', sizeof result.owner));
    must(result.hint_ms >= -1);
    must(result.granted_ttl_ms == 0 || result.code == COORD_OK);
}

static void judge_entry(const Muster__V1__Entry *entry)
{
    struct native_entry read;

    for (int whole = 0; whole < 2; whole++) {
        if (native_entry(entry, whole, &read)) continue;
        must(read.key.len > 0 && read.revision > 0 && read.remaining_ms >= 0);
        must(read.create_revision <= read.revision && read.token <= read.revision);
        if (whole && !prim_id_is_zero(&read.lease_id)) must(read.token > 0 && read.ttl_ms > 0);
    }
}

static void judge_watch(const Muster__V1__WatchResponse *response)
{
    for (size_t i = 0; i < response->n_events; i++) judge_entry(response->events[i]->entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &muster__v1__outcome__descriptor, &muster__v1__get_response__descriptor,
        &muster__v1__watch_response__descriptor, &muster__v1__holders_response__descriptor,
        &muster__v1__renew_response__descriptor};
    ProtobufCMessage *message;
    struct arena arena;
    size_t which;

    if (size == 0) return 0;
    which = data[0] % ARRAY_LEN(types);
    if (!grpc_read(str_of(data + 1, size - 1), types[which], &arena, &message)) {
        if (which == 0) judge_outcome((const Muster__V1__Outcome *)message);
        if (which == 1) judge_entry(((const Muster__V1__GetResponse *)message)->entry);
        if (which == 2) judge_watch((const Muster__V1__WatchResponse *)message);
    }
    arena_deinit(&arena);
    return 0;
}
