/* SPDX-License-Identifier: Apache-2.0 */
#define PATIENCE_ITSELF
#include "patience.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "suite.h"

enum {
    AGAIN_MS = 50,
    OUTAGES = 8,         /* more failures in a row are no outage */
    UNHURRIED_MS = 5000, /* the library's own time-out; a longer one is patient */
};
static int64_t outage_ms;
static _Atomic int unanswered; /* since the case began */

void patience_begin(void)
{
    atomic_store(&unanswered, 0);
}

int patience_unanswered(void)
{
    return atomic_load(&unanswered);
}

void patience_set(int64_t ms)
{
    outage_ms = ms;
}

int64_t patience_outage_ms(void)
{
    return outage_ms;
}

struct patience {
    const coord_call *call; /* to make it with */
    coord_call own;
    int64_t until_ns;
    bool hurried; /* a short time-out of the case, which may want it to expire */
};

static void begin(struct patience *p, const coord_call *call)
{
    static const coord_id none;
    *p = (struct patience){.call = call,
                           .hurried = call != NULL && call->timeout_ms != 0 &&
                                      call->timeout_ms < UNHURRIED_MS};
    if (outage_ms == 0 || p->hurried) { return; }
    if (call != NULL) { p->own = *call; }
    if (memcmp(&p->own.request_id, &none, sizeof none) == 0) { p->own.request_id = suite_id(); }
    p->call = &p->own;
    p->until_ns = real_now_ns() + OUTAGES * outage_ms * MSEC;
}

static bool again(const struct patience *p, const coord_result *result)
{
    if (result->code == COORD_UNAVAILABLE && result->reason == COORD_R_TIMEOUT && !p->hurried) {
        atomic_fetch_add(&unanswered, 1);
    }
    if (result->code != COORD_UNAVAILABLE || real_now_ns() >= p->until_ns) { return false; }
    real_sleep_ms(AGAIN_MS);
    return true;
}

coord_result patient_open(const char *url, const coord_options *options, coord_store **ret_store)
{
    struct patience p;
    coord_result result;
    begin(&p, NULL);
    do {
        result = coord_open(url, options, ret_store);
    } while (again(&p, &result));
    return result;
}

coord_result patient_create_if_absent(coord_store *store, const coord_call *call, coord_str key,
                                      coord_str value, int64_t ttl_ms, const char *owner,
                                      coord_lease **ret_lease)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_create_if_absent(store, p.call, key, value, ttl_ms, owner, ret_lease);
    } while (again(&p, &result));
    return result;
}

coord_result patient_compare_and_set(coord_store *store, const coord_call *call, coord_str key,
                                     uint64_t expected, coord_str value, int64_t ttl_ms,
                                     const char *owner, coord_lease *lease, coord_lease **ret_lease)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_compare_and_set(store, p.call, key, expected, value, ttl_ms, owner, lease,
                                       ret_lease);
    } while (again(&p, &result));
    return result;
}

coord_result patient_create_under(coord_lease *lease, const coord_call *call, coord_str key,
                                  coord_str value)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_create_under(lease, p.call, key, value);
    } while (again(&p, &result));
    return result;
}

coord_result patient_delete(coord_store *store, const coord_call *call, coord_str key,
                            uint64_t expected, coord_lease *lease)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_delete(store, p.call, key, expected, lease);
    } while (again(&p, &result));
    return result;
}

coord_result patient_get(coord_store *store, const coord_call *call, coord_str key, int consistency,
                         coord_entry **ret_entry)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_get(store, p.call, key, consistency, ret_entry);
    } while (again(&p, &result));
    return result;
}

coord_result patient_acquire_slot(coord_store *store, const coord_call *call,
                                  const coord_slot_request *request, coord_lease **ret_lease)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_acquire_slot(store, p.call, request, ret_lease);
    } while (again(&p, &result));
    return result;
}

coord_result patient_resize_group(coord_store *store, const coord_call *call, coord_str group,
                                  uint64_t expected, uint32_t slot_count)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_resize_group(store, p.call, group, expected, slot_count);
    } while (again(&p, &result));
    return result;
}

coord_result patient_list_holders(coord_store *store, const coord_call *call, coord_str group,
                                  coord_holders **ret_holders)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_list_holders(store, p.call, group, ret_holders);
    } while (again(&p, &result));
    return result;
}

coord_result patient_renew(coord_lease *lease, const coord_call *call)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_renew(lease, p.call);
    } while (again(&p, &result));
    return result;
}

coord_result patient_release(coord_lease *lease, const coord_call *call)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_release(lease, p.call);
    } while (again(&p, &result));
    return result;
}

coord_result patient_release_key(coord_lease *lease, const coord_call *call, coord_str key)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_release_key(lease, p.call, key);
    } while (again(&p, &result));
    return result;
}

coord_result patient_lease_import(coord_store *store, const coord_call *call, const void *blob,
                                  size_t len, coord_lease **ret_lease)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_lease_import(store, p.call, blob, len, ret_lease);
    } while (again(&p, &result));
    return result;
}

coord_result patient_assert_token(coord_store *store, const coord_call *call, coord_str key,
                                  uint64_t token)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_assert_token(store, p.call, key, token);
    } while (again(&p, &result));
    return result;
}

coord_result patient_watch_open(coord_store *store, const coord_call *call, coord_str scope,
                                uint32_t flags, coord_watch **ret_watch)
{
    struct patience p;
    coord_result result;
    begin(&p, call);
    do {
        result = coord_watch_open(store, p.call, scope, flags, ret_watch);
    } while (again(&p, &result));
    return result;
}
