/* SPDX-License-Identifier: Apache-2.0 */
/* Lease handles (lease.h) and the calls on them that need no store. Any thread.
 *
 * Invariants: a set of keys never changes once a view uses the set. A lease that is over stays
 * over with the first reason. coord_check reads atomics only and takes no lock. */
#include "prim/lease.h"

#include <inttypes.h>
#include <stdlib.h>

#include "prim/answer.h"

/* -- the set of keys -------------------------------------------------------------------------- */

static void set_unref(struct held_set *set)
{
    if (set == NULL || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < set->count; i++) free(set->held[i].key);
    free(set);
}

static bool set_push(struct held_set *set, const struct prim_held *like)
{
    assert(set->count < set->cap);
    struct prim_held *held = &set->held[set->count];
    *held = *like;
    held->key = str_dup(str_from(like->key));
    if (held->key == NULL) return false;
    set->count++;
    return true;
}

/* Copies the set without `skip`, with room for `more` keys. */
static struct held_set *set_copy(const struct prim_held *held, size_t count, struct str skip,
                                 size_t more)
{
    struct held_set *set = calloc(1, sizeof *set + (count + more) * sizeof set->held[0]);
    if (set == NULL) return NULL;
    atomic_init(&set->refs, 1);
    set->cap = count + more;
    for (size_t i = 0; i < count; i++) {
        if (str_equal(str_from(held[i].key), skip)) continue;
        if (!set_push(set, &held[i])) {
            set_unref(set);
            return NULL;
        }
    }
    return set;
}

/* -- making and ending ------------------------------------------------------------------------ */

int64_t prim_safe_until(int64_t sent_ns, int64_t ttl_ms)
{
    return sent_ns + (ttl_ms - prim_margin_ms(ttl_ms)) * PRIM_NS_PER_MS;
}

coord_result prim_lease_reserve(coord_store *store)
{
    if (atomic_fetch_add(&store->lease_count, 1) < PRIM_LEASES_MAX) return prim_ok(COORD_R_NONE);
    prim_lease_unreserve(store);
    return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                       "%d leases are open in this store: the limit; unref some", PRIM_LEASES_MAX);
}

void prim_lease_unreserve(coord_store *store)
{
    size_t before = atomic_fetch_sub(&store->lease_count, 1);
    assert(before > 0);
}

coord_lease *prim_lease_make(coord_store *store, const struct prim_claim *claim, int64_t sent_ns)
{
    const struct prim_held *first = &claim->held[0];
    coord_lease *lease = calloc(1, sizeof *lease);
    if (lease != NULL) lease->set = set_copy(claim->held, claim->count, STR_EMPTY, 0);
    if (lease == NULL || lease->set == NULL) {
        free(lease);
        return NULL;
    }
    assert(claim->ttl_ms > 0 && strlen(claim->owner) < sizeof lease->owner);
    atomic_init(&lease->refs, 1);
    atomic_init(&lease->safe_until_ns, prim_safe_until(sent_ns, claim->ttl_ms));
    lease->now = store->clock.now;
    lease->now_arg = store->clock.arg;
    lease->generation = store->generation;
    lease->store = prim_store_ref(store);
    lease->id = claim->lease_id;
    strcpy(lease->owner, claim->owner);
    lease->ttl_ms = claim->ttl_ms;
    lease->token = first->token;
    lease->slot = first->slot;
    lease->sent_ns = sent_ns;
    list_init(&lease->node);
    list_init(&lease->due);
    (void)pthread_mutex_lock(&store->lock);
    list_append(&store->leases, &lease->node);
    (void)pthread_mutex_unlock(&store->lock);
    return lease;
}

bool prim_lease_end(coord_lease *lease, int reason, uint64_t token)
{
    if (lease->over != 0) return false;
    lease->over = reason;
    lease->over_token = token;
    atomic_store_explicit(&lease->safe_until_ns, INT64_MIN, memory_order_release);
    return true;
}

void prim_lease_extend(coord_lease *lease, int64_t sent_ns)
{
    if (lease->over != 0 || sent_ns <= lease->sent_ns) return;
    lease->sent_ns = sent_ns;
    atomic_store_explicit(&lease->safe_until_ns, prim_safe_until(sent_ns, lease->ttl_ms),
                          memory_order_release);
}

coord_result prim_lease_expired(int reason, uint64_t token)
{
    coord_result result = prim_answer(
        COORD_EXPIRED, reason, "this lease is over (%s): acquire anew", coord_reason_name(reason));
    result.token = token;
    return result;
}

coord_result prim_lease_check_use(coord_store *store, coord_lease *lease)
{
    if (lease == NULL)
        return prim_answer(COORD_INVALID, COORD_R_HANDLE, "the lease handle is NULL");
    coord_result usable = prim_usable(lease->store);
    if (usable.code != COORD_OK) return usable;
    if (store != NULL && !prim_id_equal(&store->id, &lease->store->id))
        return prim_answer(COORD_INVALID, COORD_R_OTHER_STORE, "this lease is of another store");
    (void)pthread_mutex_lock(&lease->store->lock);
    int over = lease->over;
    uint64_t token = lease->over_token;
    (void)pthread_mutex_unlock(&lease->store->lock);
    return over == 0 ? usable : prim_lease_expired(over, token);
}

/* -- views ------------------------------------------------------------------------------------ */

void prim_lease_view_locked(coord_lease *lease, struct held_lease_view *ret_view)
{
    atomic_fetch_add_explicit(&lease->set->refs, 1, memory_order_relaxed);
    *ret_view = (struct held_lease_view){
        .claim = {lease->id, lease->owner, lease->ttl_ms, lease->set->held, lease->set->count},
        .set = lease->set,
        .changes = lease->changes,
    };
}

void prim_lease_view(coord_lease *lease, struct held_lease_view *ret_view)
{
    (void)pthread_mutex_lock(&lease->store->lock);
    prim_lease_view_locked(lease, ret_view);
    (void)pthread_mutex_unlock(&lease->store->lock);
}

void prim_lease_view_done(struct held_lease_view *view)
{
    set_unref(view->set);
}

bool prim_lease_add_key(coord_lease *lease, const struct prim_held *like)
{
    struct held_set *set = set_copy(lease->set->held, lease->set->count, STR_EMPTY, 1);
    if (set == NULL || !set_push(set, like)) {
        set_unref(set);
        return false;
    }
    set_unref(lease->set);
    lease->set = set;
    lease->changes++;
    return true;
}

void prim_lease_drop_key(coord_lease *lease, struct str key)
{
    lease->changes++;
    struct held_set *set = set_copy(lease->set->held, lease->set->count, key, 0);
    /* Without memory the key stays. The next renewal finds the key gone and reports the lease
     * lost, which is safe. */
    if (set == NULL) return;
    set_unref(lease->set);
    lease->set = set;
}

/* -- the public handle ------------------------------------------------------------------------ */

coord_lease *coord_lease_ref(coord_lease *lease)
{
    atomic_fetch_add_explicit(&lease->refs, 1, memory_order_relaxed);
    return lease;
}

bool prim_lease_pin(coord_lease *lease)
{
    /* The thread that dropped the last reference waits for the lock. */
    if (atomic_load_explicit(&lease->refs, memory_order_acquire) == 0) return false;
    lease->pins++;
    return true;
}

bool prim_lease_unpin(coord_lease *lease)
{
    assert(lease->pins > 0);
    return --lease->pins == 0 && lease->gone;
}

void prim_lease_free(coord_lease *lease)
{
    coord_store *store = lease->store;
    set_unref(lease->set);
    free(lease);
    prim_store_unref(store);
}

void coord_lease_unref(coord_lease *lease)
{
    if (lease == NULL) return;
    coord_store *store = lease->store;
    if (atomic_fetch_sub_explicit(&lease->refs, 1, memory_order_acq_rel) != 1) return;
    if (prim_usable(store).code != COORD_OK) { return; } /* after fork() the locks are unusable */
    (void)pthread_mutex_lock(&store->lock);
    bool unguard = prim_keeper_forget(lease);
    list_remove(&lease->node);
    prim_lease_unreserve(store);
    lease->gone = true;
    lease->pins++;
    /* After this call the caller may free the argument of on_lost. The call does not wait for a
     * renewal under way, because a renewal may hang. */
    prim_keeper_quiet_if_running(lease);
    if (unguard) { store->inside++; } /* keeps the guards until prim_guards_drop() has returned */
    (void)pthread_mutex_unlock(&store->lock);
    if (unguard) {
        prim_guards_drop(store->guards, &lease->guard);
        prim_leave(store);
    }
    (void)pthread_mutex_lock(&store->lock);
    bool last = prim_lease_unpin(lease);
    (void)pthread_mutex_unlock(&store->lock);
    if (last) prim_lease_free(lease);
}

int coord_check(const coord_lease *lease)
{
    if (lease == NULL) return COORD_EXPIRED;
    int64_t until_ns = atomic_load_explicit(&lease->safe_until_ns, memory_order_acquire);
    unsigned generation = atomic_load_explicit(&prim_fork_generation, memory_order_relaxed);
    /* The clock is read last, so that a pause of this thread counts. */
    return lease->now(lease->now_arg) < until_ns && lease->generation == generation ? COORD_OK
                                                                                    : COORD_EXPIRED;
}

int64_t coord_safe_for_ms(const coord_lease *lease)
{
    if (coord_check(lease) != COORD_OK) return 0;
    int64_t until_ns = atomic_load_explicit(&lease->safe_until_ns, memory_order_acquire);
    int64_t now_ns = lease->now(lease->now_arg);
    return until_ns <= now_ns ? 0 : (until_ns - now_ns) / PRIM_NS_PER_MS;
}

uint64_t coord_lease_token(const coord_lease *lease)
{
    return lease->token;
}

uint32_t coord_lease_slot(const coord_lease *lease)
{
    return lease->slot;
}

coord_id coord_lease_id(const coord_lease *lease)
{
    return lease->id;
}

int64_t coord_lease_ttl_ms(const coord_lease *lease)
{
    return lease->ttl_ms;
}

/* -- the fence of a resource -- */

int coord_fence_admit(coord_fence *fence, uint64_t token)
{
    if (token == 0) { return 0; } /* no grant has token 0 */
    uint64_t highest = __atomic_load_n(&fence->highest, __ATOMIC_ACQUIRE);
    while (token > highest) /* repeats only if another caller raised `highest` */
        if (__atomic_compare_exchange_n(&fence->highest, &highest, token, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return 1;
    return token == highest;
}
