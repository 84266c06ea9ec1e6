/* SPDX-License-Identifier: Apache-2.0 */
/* create, compare and set, delete, get: read, judge, write what was read if nobody was faster. */
#include "prim/kube/entries.h"

enum { RENEW_RETRIES = 3 };

/* -- answers -- */

void kube_entry_tell(coord_result *result, const struct doc *doc, int64_t left_ms)
{
    result->revision = kube_lease_revision(&doc->view);
    result->token = kube_lease_token(&doc->view);
    if (!kube_lease_is_leased(&doc->view)) return;
    prim_answer_owner(result, doc->view.envelope.owner);
    result->hint_ms = left_ms;
}

static coord_result made(int reason, const struct doc *doc)
{
    coord_result result = prim_ok(reason);

    result.revision = kube_lease_revision(&doc->view);
    result.token = kube_lease_token(&doc->view);
    if (kube_lease_is_leased(&doc->view))
        result.granted_ttl_ms = (int64_t)doc->view.duration_s * 1000;
    return result;
}

static coord_result conflict(int reason, const char *why, const struct doc *doc, int64_t left_ms)
{
    coord_result result = prim_answer(COORD_CONFLICT, reason, "%s", why);

    if (doc && doc->present) kube_entry_tell(&result, doc, left_ms);
    return result;
}

/* Somebody set a strategy or a preferred holder: they coordinate here, not we. */
static coord_result not_ours(const struct doc *doc)
{
    return conflict(COORD_R_NOT_OWNER, "another controller coordinates by this object", doc, -1);
}

void kube_entry_grant(const struct doc *doc, uint32_t slot, int64_t sent_ns, struct prim_grant *ret)
{
    ret->token = kube_lease_token(&doc->view);
    ret->create_revision = kube_lease_create_revision(&doc->view);
    ret->slot = slot;
    ret->sent_ns = sent_ns;
    if (!kube_lease_is_leased(&doc->view)) return;
    ret->lease_id = doc->view.envelope.lease_id;
    ret->granted_ttl_ms = (int64_t)doc->view.duration_s * 1000;
}

bool kube_entry_is_replay(const struct ask *ask, const struct doc *doc)
{
    return doc->present && !kube_lease_is_tombstone(&doc->view) &&
           prim_id_equal(&doc->view.envelope.request_id, &ask->call->request_id);
}

/* -- writes -- */

struct lease_write kube_entry_write(const struct ask *ask, const struct entry_new *in,
                                    const struct doc *over)
{
    struct lease_write write = kube_doc_write_like(ask, in->key, over);

    write.envelope.value = in->value;
    write.envelope.flags = in->flags;
    if (in->ttl_ms > 0) {
        write.envelope.flags |= ENVELOPE_LEASED;
        write.envelope.lease_id = in->lease_id;
        write.envelope.owner = in->owner;
        write.envelope.ttl_ms = kube_store_ttl(in->ttl_ms);
    }
    write.new_holder = true;
    /* Over a holder judged gone, or taken over, the number between is left to those who watch. */
    if (write.over)
        write.n = write.create_n = write.over->n + (kube_lease_is_tombstone(write.over) ? 1 : 2);
    return write;
}

/* The same holder, the same revision, a new time: what a contender sees as life. */
static struct lease_write renewal(const struct ask *ask, struct str key, const struct doc *over)
{
    struct lease_write write = kube_doc_write_like(ask, key, over);
    coord_id request_id = over->view.envelope.request_id;
    uint64_t wall_ms = write.envelope.wall_ms;

    write.envelope = over->view.envelope;
    write.envelope.request_id = request_id; /* of the last logical change, which this is not */
    write.envelope.wall_ms = wall_ms;
    write.n = over->view.n;
    write.create_n = over->view.create_n;
    return write;
}

struct lease_write kube_entry_tombstone(const struct ask *ask, struct str key,
                                        const struct doc *over, const coord_id *released_by)
{
    struct lease_write write = kube_doc_write_like(ask, key, over);

    write.envelope.flags = ENVELOPE_TOMBSTONE | (over->view.envelope.flags & ENVELOPE_SLOT);
    if (released_by) write.envelope.lease_id = *released_by; /* so that a retry knows its own */
    write.n = write.create_n = over->view.n + 1;
    return write;
}

/* An earlier attempt made the entry, nobody knows when its request left: the lease is renewed once,
 * so that its holder counts from a time that is surely before the contenders' count begins. */
static enum wrote refresh(struct ask *ask, struct str key, struct doc *doc, coord_result *ret_why)
{
    struct lease_write write = renewal(ask, key, doc);
    struct doc now = {0};
    enum wrote wrote = kube_doc_write(ask, &write, &now, ret_why);

    if (wrote != WROTE) return wrote;
    kube_doc_deinit(doc);
    *doc = now;
    return WROTE;
}

/* Ends a grant: keeps the object for renewals. */
static coord_result granted(struct ask *ask, int reason, struct doc *own_doc, uint32_t slot,
                            int64_t sent_ns, struct prim_grant *ret_grant)
{
    coord_result result = made(reason, own_doc);

    kube_entry_grant(own_doc, slot, sent_ns, ret_grant);
    if (slot != COORD_NO_SLOT) result.slot = slot;
    if (kube_lease_is_leased(&own_doc->view)) {
        coord_id id = own_doc->view.envelope.lease_id;
        own_doc->sent_ns = sent_ns;
        kube_held_put(ask->store, &id, own_doc);
    } else {
        kube_doc_deinit(own_doc);
    }
    return result;
}

/* *ret_done false: somebody was faster, judge again. */
coord_result kube_entry_replay(struct ask *ask, struct str key, struct doc *own_doc, uint32_t slot,
                               struct prim_grant *ret_grant, bool *ret_done)
{
    coord_result why;
    int64_t sent_ns = ask->first_sent_ns;

    *ret_done = true;
    if (!sent_ns && kube_lease_is_leased(&own_doc->view)) {
        enum wrote wrote = refresh(ask, key, own_doc, &why);
        *ret_done = wrote != WROTE_RACE;
        if (wrote != WROTE) {
            kube_doc_deinit(own_doc);
            return kube_ask_end(ask, why);
        }
        sent_ns = own_doc->sent_ns;
    }
    return granted(ask, COORD_R_REPLAYED, own_doc, slot, sent_ns, ret_grant);
}

coord_result kube_entry_put(struct ask *ask, const struct entry_new *in, const struct doc *over,
                            int reason, uint32_t slot, struct prim_grant *ret_grant, bool *ret_done)
{
    struct lease_write write = kube_entry_write(ask, in, over);
    struct doc doc = {0};
    coord_result why = prim_ok(COORD_R_NONE);
    enum wrote wrote = kube_doc_write(ask, &write, &doc, &why);

    *ret_done = wrote != WROTE_RACE;
    if (wrote != WROTE) return kube_ask_end(ask, why);
    return granted(ask, reason, &doc, slot, doc.sent_ns, ret_grant);
}

/* -- create -- */

static bool is_known(struct store *store, struct str key)
{
    char name[LEASE_NAME_CAP];

    kube_lease_name(key, name);
    pthread_mutex_lock(&store->lock);
    bool known = kube_sights_knows(&store->sights, name);
    pthread_mutex_unlock(&store->lock);
    return known;
}

/* A live entry is in the way; `cas` words it as a compare with "absent". */
static coord_result in_the_way(const struct doc *doc, bool cas, int64_t left_ms)
{
    if (cas) return conflict(COORD_R_PRESENT, "a live entry is there", doc, left_ms);
    coord_result result = prim_answer(COORD_EXISTS, COORD_R_HELD, "a live entry is there");
    kube_entry_tell(&result, doc, left_ms);
    return result;
}

static coord_result create_entry(struct ask *ask, const struct entry_new *in, bool cas,
                                 struct prim_grant *ret_grant)
{
    /* Nothing known of it: one request makes a new one, and 409 says that there is one. */
    bool look = ask->doubt || is_known(ask->store, in->key);
    struct doc doc = {0};
    bool done = false;
    coord_result result = prim_ok(COORD_R_NONE);

    while (!done && (result = kube_ask_turn(ask)).code == COORD_OK) {
        if (look) result = kube_doc_read(ask, in->key, &doc);
        if (result.code != COORD_OK) break;
        look = true;
        int64_t left_ms;
        if (kube_entry_is_replay(ask, &doc)) {
            result = kube_entry_replay(ask, in->key, &doc, COORD_NO_SLOT, ret_grant, &done);
            continue;
        }
        if (doc.present && doc.view.foreign) {
            result = not_ours(&doc);
            break;
        }
        if (kube_doc_life(ask->store, in->key, &doc, &left_ms) == LIFE_LIVE) {
            result = in_the_way(&doc, cas, left_ms);
            break;
        }
        if (doc.present && doc.view.envelope.flags & (ENVELOPE_SLOT | ENVELOPE_GROUP)) {
            result = prim_answer(COORD_INVALID, COORD_R_KEY,
                                 "a slot changes by acquire and release only");
            break;
        }
        result = kube_entry_put(ask, in, &doc, COORD_R_CREATED, COORD_NO_SLOT, ret_grant, &done);
        kube_doc_deinit(&doc);
    }
    kube_doc_deinit(&doc);
    return kube_ask_end(ask, result);
}

coord_result kube_op_create(struct prim_backend *backend, const struct prim_call *call,
                            const struct prim_create *in, struct prim_grant *ret_grant)
{
    struct ask ask = kube_ask_begin(backend, call);
    struct entry_new entry = {.key = in->key,
                              .value = in->value,
                              .owner = in->owner,
                              .ttl_ms = in->ttl_ms,
                              .lease_id = in->lease_id};

    assert(!in->under); /* CAP_MULTI_KEY is not set */
    return create_entry(&ask, &entry, false, ret_grant);
}

/* -- compare and set -- */

/* With a write of this call in doubt, a revision that is further than one step from the expected
 * one may have passed through ours. */
static bool may_have_passed(const struct ask *ask, const struct doc *doc, uint64_t expected)
{
    return ask->doubt && kube_lease_revision(&doc->view) != expected + 1;
}

static struct lease_write update(const struct ask *ask, const struct prim_cas *in,
                                 const struct doc *over)
{
    struct lease_write write = kube_doc_write_like(ask, in->key, over);
    const struct envelope *old = &over->view.envelope;

    write.envelope.value = in->value;
    write.n = over->view.n + 1;
    write.create_n = over->view.create_n;
    if (in->ttl_ms > 0) {
        write.envelope.flags = ENVELOPE_LEASED;
        write.envelope.lease_id = in->lease_id;
        write.envelope.owner = old->owner;
        write.envelope.ttl_ms = kube_store_ttl(in->ttl_ms);
        write.new_holder = true;
    } else if (in->ttl_ms == COORD_TTL_KEEP && kube_lease_is_leased(&over->view)) {
        write.envelope.flags = ENVELOPE_LEASED;
        write.envelope.lease_id = old->lease_id;
        write.envelope.owner = old->owner;
        write.envelope.ttl_ms = old->ttl_ms;
        write.envelope.token = kube_lease_token(&over->view); /* F1: stays the same */
    }
    return write;
}

/* What refuses the change of what was read; OK: nothing. */
static coord_result refuse_cas(struct ask *ask, const struct prim_cas *in, const struct doc *doc)
{
    int64_t left_ms;

    if (doc->present && doc->view.foreign) return not_ours(doc);
    if (kube_doc_life(ask->store, in->key, doc, &left_ms) == LIFE_ABSENT) {
        if (doc->present && may_have_passed(ask, doc, in->expected))
            return prim_unclear(COORD_R_STORAGE, "the entry changed more than once meanwhile");
        return prim_answer(COORD_CONFLICT, COORD_R_ABSENT, "no live entry");
    }
    if (doc->view.envelope.flags & (ENVELOPE_SLOT | ENVELOPE_GROUP))
        return prim_answer(COORD_INVALID, COORD_R_KEY,
                           "a slot changes by acquire and release only");
    if (kube_lease_revision(&doc->view) != in->expected) {
        if (may_have_passed(ask, doc, in->expected))
            return prim_unclear(COORD_R_STORAGE, "the entry changed more than once meanwhile");
        return conflict(COORD_R_REVISION, "the entry has another revision", doc, left_ms);
    }
    if ((kube_lease_is_leased(&doc->view) || in->ttl_ms > 0) &&
        !kube_doc_is_claim(doc, in->claim, in->key))
        return conflict(COORD_R_NOT_OWNER, "the entry is held by another lease", doc, left_ms);
    return prim_ok(COORD_R_NONE);
}

static coord_result updated(struct ask *ask, const struct prim_cas *in, int reason,
                            struct doc *own_doc, struct prim_grant *ret_grant)
{
    bool keeps = in->ttl_ms == COORD_TTL_KEEP;
    coord_id old_id = own_doc->view.envelope.lease_id;
    struct doc old = {0};
    coord_result result;

    if (!keeps) {
        if (in->claim && kube_held_take(ask->store, &in->claim->lease_id, &old))
            kube_doc_deinit(&old);
        return granted(ask, reason, own_doc, COORD_NO_SLOT, own_doc->sent_ns, ret_grant);
    }
    result = made(reason, own_doc);
    kube_entry_grant(own_doc, COORD_NO_SLOT, own_doc->sent_ns, ret_grant);
    ret_grant->granted_ttl_ms = 0; /* it made no lease */
    if (kube_lease_is_leased(&own_doc->view)) {
        /* The deadline does not move: it still counts from the last renewal, if that is known. */
        if (kube_held_take(ask->store, &old_id, &old)) {
            own_doc->sent_ns = old.sent_ns;
            kube_doc_deinit(&old);
            kube_held_put(ask->store, &old_id, own_doc);
        }
    }
    kube_doc_deinit(own_doc);
    return result;
}

static coord_result cas_entry(struct ask *ask, const struct prim_cas *in,
                              struct prim_grant *ret_grant)
{
    struct doc doc = {0}, now = {0};
    coord_result result;

    while ((result = kube_ask_turn(ask)).code == COORD_OK) {
        kube_doc_deinit(&doc);
        result = kube_doc_read(ask, in->key, &doc);
        if (result.code != COORD_OK) break;
        if (kube_entry_is_replay(ask, &doc)) {
            bool done = true;
            if (in->ttl_ms > 0)
                result = kube_entry_replay(ask, in->key, &doc, COORD_NO_SLOT, ret_grant, &done);
            else
                result = updated(ask, in, COORD_R_REPLAYED, &doc, ret_grant);
            if (!done) continue;
            break;
        }
        result = refuse_cas(ask, in, &doc);
        if (result.code != COORD_OK) break;
        struct lease_write write = update(ask, in, &doc);
        enum wrote wrote = kube_doc_write(ask, &write, &now, &result);
        if (wrote == WROTE_RACE) continue;
        if (wrote == WROTE) result = updated(ask, in, COORD_R_UPDATED, &now, ret_grant);
        break;
    }
    kube_doc_deinit(&doc);
    return kube_ask_end(ask, result);
}

coord_result kube_op_cas(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_cas *in, struct prim_grant *ret_grant)
{
    struct ask ask = kube_ask_begin(backend, call);

    if (in->expected == 0) {
        struct entry_new entry = {.key = in->key,
                                  .value = in->value,
                                  .owner = in->owner,
                                  .ttl_ms = in->ttl_ms > 0 ? in->ttl_ms : 0,
                                  .lease_id = in->lease_id};
        return create_entry(&ask, &entry, true, ret_grant);
    }
    return cas_entry(&ask, in, ret_grant);
}

/* -- delete -- */

static coord_result refuse_remove(struct ask *ask, const struct prim_delete *in,
                                  const struct doc *doc, bool *ret_own)
{
    bool force = in->expected == COORD_FORCE, any = force || in->expected == COORD_ANY;
    int64_t left_ms;

    *ret_own = kube_doc_is_claim(doc, in->claim, in->key);
    if (doc->present && doc->view.foreign) return not_ours(doc);
    if (doc->present && kube_lease_is_tombstone(&doc->view) &&
        prim_id_equal(&doc->view.envelope.request_id, &ask->call->request_id)) {
        coord_result result = prim_ok(COORD_R_ALREADY);
        result.revision = kube_lease_revision(&doc->view);
        return result;
    }
    if (kube_doc_life(ask->store, in->key, doc, &left_ms) == LIFE_ABSENT) {
        if (doc->present && ask->doubt && !any && may_have_passed(ask, doc, in->expected))
            return prim_unclear(COORD_R_STORAGE, "the entry changed more than once meanwhile");
        return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no live entry");
    }
    if (!any && in->expected != kube_lease_revision(&doc->view))
        return conflict(COORD_R_REVISION, "the entry has another revision", doc, left_ms);
    if (!force && kube_lease_is_leased(&doc->view) && !*ret_own)
        return conflict(COORD_R_NOT_OWNER, "the entry is held by another lease", doc, left_ms);
    return prim_ok(COORD_R_NONE);
}

coord_result kube_op_remove(struct prim_backend *backend, const struct prim_call *call,
                            const struct prim_delete *in)
{
    struct ask ask = kube_ask_begin(backend, call);
    struct doc doc = {0}, now = {0};
    coord_result result;
    bool own;

    while ((result = kube_ask_turn(&ask)).code == COORD_OK) {
        kube_doc_deinit(&doc);
        result = kube_doc_read(&ask, in->key, &doc);
        if (result.code != COORD_OK) break;
        result = refuse_remove(&ask, in, &doc, &own);
        if (result.code != COORD_OK || result.reason == COORD_R_ALREADY) break;
        struct lease_write write =
            kube_entry_tombstone(&ask, in->key, &doc, own ? &in->claim->lease_id : NULL);
        enum wrote wrote = kube_doc_write(&ask, &write, &now, &result);
        if (wrote == WROTE_RACE) continue;
        if (wrote == WROTE) {
            result = prim_ok(COORD_R_DELETED);
            result.revision = kube_lease_revision(&now.view);
        }
        break;
    }
    kube_doc_deinit(&now);
    kube_doc_deinit(&doc);
    return kube_ask_end(&ask, result);
}

/* -- get -- */

coord_result kube_op_get(struct prim_backend *backend, const struct prim_call *call, struct str key,
                         int consistency, coord_entry **ret_entry)
{
    struct ask ask = kube_ask_begin(backend, call);
    struct doc doc = {0};
    int64_t left_ms;
    coord_result result;

    (void)consistency; /* there is one way to read: from the store behind the server */
    ask.doubt = false;
    result = kube_doc_read(&ask, key, &doc);
    if (result.code != COORD_OK) return result;
    if (kube_doc_life(ask.store, key, &doc, &left_ms) == LIFE_ABSENT ||
        doc.view.envelope.flags & ENVELOPE_GROUP) {
        kube_doc_deinit(&doc);
        return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no live entry");
    }
    coord_entry like = {.revision = kube_lease_revision(&doc.view),
                        .create_revision = kube_lease_create_revision(&doc.view),
                        .token = kube_lease_token(&doc.view),
                        .remaining_ms = left_ms};
    struct str owner = STR_EMPTY;
    if (kube_lease_is_leased(&doc.view)) {
        like.lease_id = doc.view.envelope.lease_id;
        like.ttl_ms = (int64_t)doc.view.duration_s * 1000;
        owner = doc.view.envelope.owner;
    }
    result = made(COORD_R_NONE, &doc);
    if (kube_lease_is_leased(&doc.view)) prim_answer_owner(&result, owner);
    *ret_entry = prim_entry_make(&like, key, doc.view.envelope.value, owner);
    if (!*ret_entry) result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "out of memory");
    kube_doc_deinit(&doc);
    return result;
}

/* -- leases -- */

/* The fresh object is not, or no longer, the claim's. */
static coord_result why_lost(const struct doc *doc, const struct prim_claim *claim)
{
    if (doc->present && kube_lease_is_tombstone(&doc->view))
        return prim_id_equal(&doc->view.envelope.lease_id, &claim->lease_id)
                   ? prim_answer(COORD_EXPIRED, COORD_R_RELEASED, "it was released")
                   : prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "it was taken away by force");
    if (!doc->present) return prim_answer(COORD_EXPIRED, COORD_R_REVOKED, "the object is gone");
    coord_result result =
        prim_answer(COORD_EXPIRED, COORD_R_SUPERSEDED, "another lease holds the entry now");
    result.token = kube_lease_token(&doc->view);
    return result;
}

/* T5, without an authority for time: a lease whose last renewal left longer ago than its TTL is
 * over here, although the server would still take one. */
static bool too_late(const struct store *store, const struct doc *held,
                     const struct prim_claim *claim)
{
    return store_now(store) - held->sent_ns > claim->ttl_ms * 1000000;
}

static coord_result renew_key(struct ask *ask, const struct prim_claim *claim, const char *key,
                              int64_t *ret_sent_ns)
{
    struct doc doc = {0}, now = {0};
    bool known = kube_held_take(ask->store, &claim->lease_id, &doc);
    coord_result result;

    if (known && too_late(ask->store, &doc, claim)) {
        kube_doc_deinit(&doc);
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "its time was over before this call");
    }
    int64_t renewed_ns = known ? doc.sent_ns : 0;
    while ((result = kube_ask_turn(ask)).code == COORD_OK) {
        if (!known) result = kube_doc_read(ask, str_from(key), &doc);
        if (result.code != COORD_OK) break;
        if (doc.present && doc.view.foreign) {
            result = prim_answer(COORD_EXPIRED, COORD_R_REVOKED,
                                 "another controller coordinates by this object");
            break;
        }
        if (!kube_doc_is_claim(&doc, claim, str_from(key))) {
            result = why_lost(&doc, claim);
            break;
        }
        struct lease_write write = renewal(ask, str_from(key), &doc);
        enum wrote wrote = kube_doc_write(ask, &write, &now, &result);
        if (wrote == WROTE) {
            *ret_sent_ns = now.sent_ns;
            result = prim_ok(COORD_R_RENEWED);
            result.revision = kube_lease_revision(&now.view);
            result.token = kube_lease_token(&now.view);
            result.granted_ttl_ms = claim->ttl_ms;
            kube_held_put(ask->store, &claim->lease_id, &now);
            break;
        }
        if (wrote == WROTE_NOT) break;
        if (ask->turns > RENEW_RETRIES) {
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED, "others write it, too");
            break;
        }
        known = false; /* read it anew: an edit of somebody else, or the end */
        kube_doc_deinit(&doc);
    }
    /* What is still ours after a failure is remembered with its time, so that "late" is known. */
    if (result.code == COORD_UNAVAILABLE && doc.present && renewed_ns) {
        doc.sent_ns = renewed_ns;
        kube_held_put(ask->store, &claim->lease_id, &doc);
    }
    kube_doc_deinit(&doc);
    return result;
}

coord_result kube_op_renew(struct prim_backend *backend, const struct prim_call *call,
                           const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    struct ask ask = kube_ask_begin(backend, call);

    assert(claim->count <= 1); /* CAP_MULTI_KEY is not set */
    if (claim->count == 0) return prim_answer(COORD_EXPIRED, COORD_R_RELEASED, "it has no key");
    return renew_key(&ask, claim, claim->held[0].key, ret_sent_ns);
}

/* How long ago the lease was last renewed, by the clock that its holder wrote down: ours too, or
 * nothing is known. -1 then. */
static int64_t age_ms(const struct store *store, const struct lease_view *view)
{
    int64_t now_ms = store_now(store) / 1000000;

    if (view->boot.len == 0 || !str_equal(view->boot, str_from(store->boot)) ||
        view->at_ms > now_ms)
        return -1;
    return now_ms - view->at_ms;
}

static coord_result adopt_doc(struct store *store, const struct prim_claim *claim, struct doc *doc,
                              int64_t *ret_left_ms)
{
    const char *key = claim->held[0].key;
    int64_t left_ms;

    if (doc->present && doc->view.foreign)
        return prim_answer(COORD_EXPIRED, COORD_R_REVOKED,
                           "another controller coordinates by this object");
    if (!kube_doc_is_claim(doc, claim, str_from(key))) return why_lost(doc, claim);
    int64_t ago_ms = age_ms(store, &doc->view);
    if (ago_ms < 0)
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE,
                           "renewed by another host, or before a restart of this one: that it is "
                           "not over cannot be shown here");
    if (ago_ms >= claim->ttl_ms ||
        kube_doc_life(store, str_from(key), doc, &left_ms) == LIFE_ABSENT)
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "its time was over before this call");
    *ret_left_ms = claim->ttl_ms - ago_ms;
    doc->sent_ns = doc->view.at_ms * 1000000; /* so that a renewal knows whether it is late */
    kube_held_put(store, &claim->lease_id, doc);
    return prim_ok(COORD_R_NONE);
}

coord_result kube_op_adopt(struct prim_backend *backend, const struct prim_call *call,
                           const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct ask ask = kube_ask_begin(backend, call);
    struct doc doc = {0};
    coord_result result;

    assert(claim->count == 1); /* CAP_MULTI_KEY is not set */
    ask.doubt = false;
    result = kube_doc_read(&ask, str_from(claim->held[0].key), &doc);
    if (result.code == COORD_OK) result = adopt_doc(ask.store, claim, &doc, ret_left_ms);
    kube_doc_deinit(&doc);
    return result;
}

coord_result kube_op_release(struct prim_backend *backend, const struct prim_call *call,
                             const struct prim_claim *claim, const char *key)
{
    struct ask ask = kube_ask_begin(backend, call);
    struct doc doc = {0}, now = {0};
    bool known = kube_held_take(ask.store, &claim->lease_id, &doc);
    coord_result result;

    if (!key && claim->count == 0) {
        kube_doc_deinit(&doc);
        return prim_ok(COORD_R_ALREADY);
    }
    if (!key) key = claim->held[0].key;
    while ((result = kube_ask_turn(&ask)).code == COORD_OK) {
        if (!known) result = kube_doc_read(&ask, str_from(key), &doc);
        if (result.code != COORD_OK) break;
        if (!kube_doc_is_claim(&doc, claim, str_from(key))) {
            result = why_lost(&doc, claim);
            if (result.reason == COORD_R_RELEASED ||
                (call->attempt > 0 && result.reason == COORD_R_REVOKED))
                result = prim_ok(COORD_R_ALREADY);
            break;
        }
        struct lease_write write =
            kube_entry_tombstone(&ask, str_from(key), &doc, &claim->lease_id);
        enum wrote wrote = kube_doc_write(&ask, &write, &now, &result);
        if (wrote == WROTE) {
            result = prim_ok(COORD_R_RELEASED);
            result.revision = kube_lease_revision(&now.view);
        }
        if (wrote != WROTE_RACE) break;
        known = false;
        kube_doc_deinit(&doc);
    }
    kube_doc_deinit(&now);
    kube_doc_deinit(&doc);
    return kube_ask_end(&ask, result);
}
