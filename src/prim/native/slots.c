/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: acquire, resize, holders. Who waits does so at the server, in the order of arrival. */
#include "prim/native/internal.h"

enum { ANSWER_MS = 500, HEARD_MS = 100 };

/* The server gives up first, so that its answer is heard. */
static int64_t wait_ms(const struct native_backend *b, const struct prim_call *call,
                       const struct prim_acquire *in)
{
    int64_t left = (call->deadline_ns - courier_now(&b->courier)) / (int64_t)NS_PER_MS;
    int64_t most = left / 2 > ANSWER_MS ? left - ANSWER_MS : left / 2;

    if (in->wait_ms <= 0) return 0;
    return in->wait_ms < most ? in->wait_ms : most > 0 ? most : 1;
}

/* A slot that was waited for was given at a moment that only the server knows: a renewal tells how
 * long it is ours. */
static coord_result confirm(struct native_backend *b, const struct prim_call *call,
                            coord_result result, struct prim_grant *grant)
{
    int64_t sent_ns;
    coord_result renewed;

    if (grant->sent_ns + HEARD_MS * (int64_t)NS_PER_MS > courier_now(&b->courier)) return result;
    renewed = native_beat(b, call->deadline_ns, &grant->lease_id, grant->token, &sent_ns);
    if (renewed.code == COORD_EXPIRED)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                           "muster: a slot was given, but it was over before that was heard");
    if (renewed.code == COORD_OK) grant->sent_ns = sent_ns;
    return result;
}

coord_result native_acquire(struct prim_backend *base, const struct prim_call *call,
                            const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    Muster__V1__AcquireRequest message = MUSTER__V1__ACQUIRE_REQUEST__INIT;
    Muster__V1__Request request = MUSTER__V1__REQUEST__INIT;
    struct native_backend *b = native_of(base);
    char owner[PRIM_OWNER_MAX + 1];
    struct native_done done;
    coord_result result;

    message.request = &request;
    message.group = native_bytes(in->group);
    message.slot_count = in->slot_count;
    message.flags = in->flags;
    message.prefer_slot = in->prefer_slot < PRIM_SLOTS_MAX ? (int32_t)in->prefer_slot : -1;
    message.owner = native_owner(in->owner, owner);
    message.ttl_ms = in->ttl_ms;
    message.wait_ms = wait_ms(b, call, in);
    message.cooldown_ms = (uint64_t)in->cooldown_ms;
    message.value = native_bytes(in->value);
    message.lease_id = native_id_bytes(&in->lease_id);
    native_change(
        b, call,
        &(struct native_change){NATIVE_PATH("Acquire"), &message.base, &request, in->wait_ms > 0},
        &done);
    result = native_granted(&done, true, ret_grant);
    if (result.reason == COORD_R_ALREADY_HOLDER) prim_answer_owner(&result, in->owner);
    if (result.code != COORD_OK) return result;
    if (result.slot >= PRIM_SLOTS_MAX) return native_corrupt("a slot that cannot be");
    ret_grant->slot = result.slot;
    return in->wait_ms > 0 ? confirm(b, call, result, ret_grant) : result;
}

coord_result native_resize(struct prim_backend *base, const struct prim_call *call,
                           struct str group, uint64_t expected, uint32_t slot_count)
{
    Muster__V1__ResizeRequest message = MUSTER__V1__RESIZE_REQUEST__INIT;
    Muster__V1__Request request = MUSTER__V1__REQUEST__INIT;
    struct native_done done;

    message.request = &request;
    message.group = native_bytes(group);
    message.expected = expected;
    message.slot_count = slot_count;
    native_change(native_of(base), call,
                  &(struct native_change){NATIVE_PATH("Resize"), &message.base, &request, false},
                  &done);
    return done.result;
}

static bool add_holder(coord_holders *holders, const Muster__V1__Holder *row)
{
    coord_holder like = {.slot = row->slot,
                         .token = row->token,
                         .revision = row->revision,
                         .remaining_ms = row->remaining_ms < 0 ? 0 : row->remaining_ms};

    if (row->lease_id_prefix.len == sizeof like.lease_id_prefix)
        memcpy(like.lease_id_prefix, row->lease_id_prefix.data, sizeof like.lease_id_prefix);
    return prim_holders_add(holders, &like, str_from(row->owner), native_str(row->value));
}

/* What is gathered page by page: values may be more than one answer has room for. */
struct gathered {
    coord_holders *holders;
    uint64_t revision;
    uint32_t next; /* slot */
};

static coord_result take_holders(const Muster__V1__HoldersResponse *page, struct gathered *all)
{
    if (!page->found) return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    if (page->slot_count == 0 || page->slot_count > PRIM_SLOTS_MAX ||
        page->n_holders > PRIM_SLOTS_MAX || (page->more && page->n_holders == 0))
        return native_corrupt("a group that cannot be");
    if (!all->holders) {
        all->holders = prim_holders_make(page->more ? PRIM_SLOTS_MAX : page->n_holders);
        if (!all->holders) return prim_no_memory();
        all->holders->atomic = 1;
        all->revision = page->revision;
    }
    for (size_t i = 0; i < page->n_holders; i++) {
        const Muster__V1__Holder *row = page->holders[i];
        if (row->slot >= PRIM_SLOTS_MAX || row->slot < all->next)
            return native_corrupt("a slot that cannot be");
        if (!add_holder(all->holders, row)) return prim_no_memory();
        all->next = row->slot + 1;
    }
    if (page->revision != all->revision) all->holders->atomic = 0;
    all->holders->slot_count = page->slot_count;
    all->holders->revision = page->group_revision;
    all->holders->cooldown_ms = (int64_t)page->cooldown_ms;
    all->holders->certainty = COORD_BY_AUTHORITY;
    return prim_ok(COORD_R_NONE);
}

coord_result native_holders(struct prim_backend *base, const struct prim_call *call,
                            struct str group, coord_holders **ret_holders)
{
    Muster__V1__HoldersRequest request = MUSTER__V1__HOLDERS_REQUEST__INIT;
    struct gathered all = {0};
    ProtobufCMessage *message;
    coord_result result;
    struct arena arena;
    bool more;

    request.group = native_bytes(group);
    do {
        more = false;
        request.from_slot = all.next;
        result = native_ask(native_of(base), call->deadline_ns,
                            &(struct native_ask){.path = NATIVE_PATH("Holders"),
                                                 .request = &request.base,
                                                 .type = &muster__v1__holders_response__descriptor},
                            &arena, &message);
        if (result.code == COORD_OK) {
            result = take_holders((const Muster__V1__HoldersResponse *)message, &all);
            more = ((const Muster__V1__HoldersResponse *)message)->more;
        }
        arena_deinit(&arena);
    } while (more && result.code == COORD_OK);
    if (result.code != COORD_OK) {
        coord_holders_free(all.holders);
        return result;
    }
    *ret_holders = all.holders;
    return result;
}
