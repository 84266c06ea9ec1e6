/* SPDX-License-Identifier: Apache-2.0 */
/* Objects for prim/change.h: the state of a key from an object, and the object for a plan. Also
 * remembers the objects of this process's leases, so that a renewal is one request. */
#include <stdlib.h>

#include "prim/kube/store.h"

struct own {
    struct ask ask;
    struct doc doc;
    int64_t remembered_sent_ns; /* of the lease from kube_held; 0: none */
};

static void kube_entries_record(struct kube_store *store, const struct doc *doc,
                                struct prim_seen *seen)
{
    const struct kube_lease_view *view = &doc->view;

    *seen = (struct prim_seen){.left_ms = -1, .record = doc};
    if (!doc->present) return;
    seen->kind = kube_lease_is_tombstone(view) ? PRIM_SEEN_TOMBSTONE : PRIM_SEEN_LIVE;
    seen->barred = view->foreign;
    seen->envelope = view->envelope;
    seen->revision = view->revision;
    seen->create_revision = view->create_revision;
    if (kube_lease_is_leased(view)) {
        seen->token = view->token;
        seen->ttl_ms = (int64_t)view->duration_s * 1000;
    }
    seen->over = !kube_doc_is_live(store, doc, &seen->left_ms);
}

static void *kube_entries_begin(struct prim_change *c)
{
    struct own *own = calloc(1, sizeof *own);

    if (own) own->ask = (struct ask){store_of(c->backend), c->call, c};
    return own;
}

/* Remembers a lease of this process with the time from which its TTL counts. */
static void kube_entries_end(struct prim_change *c, const coord_result *result)
{
    struct own *own = c->own;
    struct kube_store *store = own->ask.store;
    struct doc *doc = &own->doc, old = {0};
    bool leased = doc->present && kube_lease_is_leased(&doc->view);
    coord_id id = doc->view.envelope.lease_id;
    bool remember = false;

    if (leased && !c->reads && result->code == COORD_OK) {
        bool moved = c->act != PRIM_ACT_UPDATE && c->act != PRIM_ACT_NONE;
        /* An update does not move the deadline, which counts from the last renewal. */
        remember = kube_held_take(store, c->key, &id, &old) || moved;
        doc->sent_ns = moved ? c->grant.sent_ns : old.sent_ns;
        kube_doc_deinit(&old);
    } else if (leased && result->code == COORD_UNAVAILABLE && own->remembered_sent_ns) {
        /* A failed renewal does not lose the lease. The send time shows whether a later renewal
         * is late. */
        remember = true;
        doc->sent_ns = own->remembered_sent_ns;
    }
    if (remember) kube_held_put(store, c->key, doc);
    kube_doc_deinit(doc);
    free(own);
}

/* Guesses that an unknown key is absent: one request creates the key, or 409 shows that the key
 * exists. The store has no clock (T5), so a lease whose last renewal is older than its TTL is
 * over here. */
static bool kube_entries_guess(struct prim_change *c)
{
    struct own *own = c->own;
    struct kube_store *store = own->ask.store;

    if (!c->claim) {
        pthread_mutex_lock(&store->lock);
        bool known = kube_sights_knows(&store->sights, c->key);
        pthread_mutex_unlock(&store->lock);
        if (c->doubt || known) return false;
        kube_entries_record(store, &own->doc, &c->seen);
        return true;
    }
    if (!kube_held_take(store, c->key, &c->claim->lease_id, &own->doc)) return false;
    own->remembered_sent_ns = own->doc.sent_ns;
    kube_entries_record(store, &own->doc, &c->seen);
    if (c->op == COORD_OP_RENEW && store_now(store) - own->doc.sent_ns > c->claim->ttl_ms * 1000000)
        c->seen = (struct prim_seen){.kind = PRIM_SEEN_EXPIRED};
    return true;
}

static coord_result kube_entries_read_key(struct prim_change *c)
{
    struct own *own = c->own;

    kube_doc_deinit(&own->doc);
    coord_result result = kube_doc_read(&own->ask, c->key, &own->doc);
    if (result.code == COORD_OK) kube_entries_record(own->ask.store, &own->doc, &c->seen);
    return result;
}

static enum prim_wrote kube_entries_write_key(struct prim_change *c, const struct prim_plan *plan,
                                              coord_result *ret_why)
{
    struct own *own = c->own;
    const struct kube_store *store = own->ask.store;
    const struct doc *over = c->seen.record;
    struct doc now = {0};
    struct timespec wall;

    (void)clock_gettime(CLOCK_REALTIME, &wall);
    struct lease_write write = {
        .prefix = store->prefix,
        .store_id = store->id_text,
        .namespace_ = store->namespace_,
        .key = c->key,
        .over = over && over->present ? &over->view : NULL,
        .n = 1,
        .create_n = 1,
        .envelope = plan->envelope,
        .boot = store->boot,
        .at_ms = store_now(store) / 1000000,
        .wall_us = (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000,
        .new_holder = plan->act == PRIM_ACT_MAKE || plan->act == PRIM_ACT_GRANT};
    if (write.over && plan->act != PRIM_ACT_MAKE) {
        write.n = write.over->n + (plan->act != PRIM_ACT_RENEW);
        write.create_n = plan->act == PRIM_ACT_BURY ? write.n : write.over->create_n;
    } else if (write.over) {
        /* A change of holder without a tombstone skips a number, which watchers use for expiry. */
        write.n = write.create_n = write.over->n + (kube_lease_is_tombstone(write.over) ? 1 : 2);
    }
    if (plan->act == PRIM_ACT_UPDATE && plan->envelope.flags & ENVELOPE_LEASED)
        write.envelope.token = c->seen.token; /* F1: an update keeps the token */
    if (plan->act == PRIM_ACT_BURY) write.envelope.flags |= c->seen.envelope.flags & ENVELOPE_SLOT;
    enum prim_wrote wrote = kube_doc_write(&own->ask, &write, &now, ret_why);
    if (wrote == PRIM_WROTE) {
        kube_doc_deinit(&own->doc);
        own->doc = now;
        kube_entries_record(own->ask.store, &own->doc, &c->seen);
    }
    return wrote;
}

/* Refuses an object in which another program set a strategy or a preferred holder. */
static coord_result entries_foreign(const struct prim_change *c)
{
    coord_result result = prim_answer(COORD_CONFLICT, COORD_R_NOT_OWNER,
                                      "another controller coordinates by this object");

    prim_seen_answer(&c->seen, &result);
    return result;
}

/* Lists the whole group, whatever number of slots is wanted. */
static coord_result kube_entries_list(struct prim_change *c, struct str group, uint32_t,
                                      struct prim_slots *slots)
{
    struct own *own = c->own;
    struct docs *docs = slots->own = calloc(1, sizeof *docs);
    struct prim_seen record = {.kind = PRIM_SEEN_NOTHING, .left_ms = -1};
    coord_result result = prim_no_memory();

    if (!docs) return result;
    result = kube_docs_list(&own->ask, group, docs);
    for (size_t i = 0; i < docs->count; i++)
        if (str_equal(docs->at[i].view.key, c->key))
            kube_entries_record(own->ask.store, &docs->at[i], &record);
    if (result.code == COORD_OK) result = prim_slots_begin(slots, &record);
    if (result.code != COORD_OK) return result;
    for (size_t i = 0; i < docs->count; i++) {
        struct str key = docs->at[i].view.key;
        uint32_t slot;
        /* Skips objects of another bucket with the same hash. */
        if (str_equal(prim_bucket_of(key), group) && claim_slot_number(prim_leaf_of(key), &slot) &&
            slot < slots->count)
            kube_entries_record(own->ask.store, &docs->at[i], &slots->at[slot]);
    }
    return result;
}

static void list_end(struct prim_slots *slots)
{
    if (slots->own) kube_docs_deinit(slots->own);
    free(slots->own);
}

const struct prim_ways kube_ways = {.dense = true,
                                    .begin = kube_entries_begin,
                                    .end = kube_entries_end,
                                    .guess = kube_entries_guess,
                                    .read = kube_entries_read_key,
                                    .write = kube_entries_write_key,
                                    .foreign = entries_foreign,
                                    .list = kube_entries_list,
                                    .list_end = list_end};

/* -- import -- */

static coord_result adopt_doc(struct kube_store *store, const struct prim_claim *claim,
                              struct doc *doc, int64_t *ret_left_ms)
{
    struct prim_seen seen;

    kube_entries_record(store, doc, &seen);
    if (seen.barred)
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED,
                           "another controller coordinates by this object");
    if (!prim_seen_is_claims(&seen, claim, str_from(claim->held[0].key)))
        return prim_seen_lost(&seen, &claim->lease_id);
    /* The time since the last renewal is known only if the holder recorded this host's clock. */
    int64_t ago_ms = store_now(store) / 1000000 - doc->view.at_ms;
    if (doc->view.boot.len == 0 || !str_equal(doc->view.boot, str_from(store->boot)) || ago_ms < 0)
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE,
                           "renewed by another host, or before a restart of this one: that it is "
                           "not over cannot be shown here");
    if (ago_ms >= claim->ttl_ms || seen.over)
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "its time was over before this call");
    *ret_left_ms = claim->ttl_ms - ago_ms;
    doc->sent_ns = doc->view.at_ms * 1000000; /* lets a renewal detect that it is late */
    kube_held_put(store, str_from(claim->held[0].key), doc);
    return prim_ok(COORD_R_NONE);
}

coord_result kube_op_adopt(struct prim_backend *backend, const struct prim_call *call,
                           const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct ask ask = {.store = store_of(backend), .call = call};
    struct doc doc = {0};

    assert(claim->count == 1); /* CAP_MULTI_KEY is not set */
    coord_result result = kube_doc_read(&ask, str_from(claim->held[0].key), &doc);
    if (result.code == COORD_OK) result = adopt_doc(ask.store, claim, &doc, ret_left_ms);
    kube_doc_deinit(&doc);
    return result;
}
