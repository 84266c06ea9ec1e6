/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls to the memory store by a few clients that keep every handle, against four rules of
 * the contract:
 *   - a group never has more holders than slots, or, after a shrink, than before it;
 *   - revisions rise by one with each event, tokens of a key rise with each grant;
 *   - a handle that got EXPIRED or was released never gets an OK again;
 *   - a read returns what the events reported. */
#include "../unit/prim/memory/rig.h"
#include "base/prng.h"
#include "lib/test.h"

enum { KEYS = 12, GROUPS = 3, HANDS = 24, STEPS = 4000, WORLDS = 40, VIEWS = 256 };

struct view { /* a key as the events report it */
    char key[64];
    uint64_t revision, token_max;
    bool live;
};
struct hand_state {
    struct hand hand;
    bool used, over;
};
struct world {
    struct rig rig;
    struct prng p;
    struct view views[VIEWS];
    size_t view_count;
    uint64_t last_revision;
    struct hand_state hands[HANDS];
    uint32_t allowed[GROUPS]; /* rule 1: the largest number of holders allowed now */
    uint32_t size[GROUPS];
};

static struct view *view_of(struct world *w, struct str key)
{
    for (size_t i = 0; i < w->view_count; i++) {
        if (str_equal(str_from(w->views[i].key), key)) { return &w->views[i]; }
    }
    struct view *v = &w->views[w->view_count++];
    CHECK("the test has room", w->view_count <= VIEWS);
    (void)snprintf(v->key, sizeof v->key, "%.*s", STR_ARG(key));
    return v;
}

static void read_events(struct world *w)
{
    struct rig_event events[RIG_EVENTS];
    size_t count = rig_events_of(&w->rig, events, RIG_EVENTS);
    for (size_t at = 0; at < count; at++) {
        const struct rig_event *event = &events[at];
        struct view *v = view_of(w, str_from(event->key));
        CHECK("revisions rise over the whole store", event->revision > w->last_revision);
        CHECK("and so over each key", event->revision > v->revision);
        w->last_revision = v->revision = event->revision;
        if (event->type == COORD_PUT) {
            CHECK("a token never falls", event->token == 0 || event->token >= v->token_max);
            CHECK("a token is not from the future", event->token <= event->revision);
            if (event->token > v->token_max) { v->token_max = event->token; }
            v->live = true;
        } else {
            CHECK("only a live key can end", v->live);
            v->live = false;
        }
        for (size_t i = 0; i < HANDS && event->type == COORD_EXPIRE; i++) {
            struct hand_state *h = &w->hands[i]; /* the client knows: no success after this */
            for (size_t k = 0; h->used && k < h->hand.claim.count; k++) {
                if (h->hand.held[k].token == event->token) { h->over = true; }
            }
        }
    }
}

static void check_groups(struct world *w)
{
    for (int g = 0; g < GROUPS; g++) {
        char name[8];
        uint32_t above = 0;
        (void)snprintf(name, sizeof name, "g%d", g);
        coord_holders *group = rig_group(&w->rig, name);
        if (group == NULL) { continue; }
        for (size_t i = 0; i < group->count; i++) {
            above += group->rows[i].slot >= group->slot_count;
        }
        if (above == 0) { w->allowed[g] = group->slot_count; }
        CHECK("rule 1", group->count <= w->allowed[g]);
        coord_holders_free(group);
    }
}

static void check_views(struct world *w)
{
    for (size_t i = 0; i < w->view_count; i++) {
        const struct view *v = &w->views[i];
        const struct memory_record *entry = rig_get(&w->rig, v->key);
        CHECK("a read agrees with the events", (entry != NULL) == v->live);
        if (entry != NULL) { CHECK_U64("R1", entry->revision, v->revision); }
    }
}

static struct hand_state *any_hand(struct world *w, bool used)
{
    size_t start = prng_below(&w->p, HANDS);
    for (size_t i = 0; i < HANDS; i++) {
        struct hand_state *h = &w->hands[(start + i) % HANDS];
        if (h->used == used) { return h; }
    }
    return NULL;
}

static void granted(struct hand_state *h, coord_result r)
{
    if (h != NULL && r.code == COORD_OK) {
        h->used = true;
        h->over = false;
    }
}

static void used(struct hand_state *h, coord_result r)
{
    /* A lease that lost one key can still be released. */
    bool rest = r.reason == COORD_R_RELEASED && h->hand.claim.count > 1;
    if (r.code == COORD_OK && r.reason != COORD_R_ALREADY && !rest) {
        CHECK("no success after EXPIRED", !h->over);
    }
    if (r.code == COORD_EXPIRED || r.reason == COORD_R_RELEASED) { h->over = true; }
}

static void forget(struct world *w, struct hand_state *h)
{
    if (h->over && prng_chance(&w->p, 300000)) { *h = (struct hand_state){0}; }
}

static void resize(struct world *w)
{
    int g = (int)prng_below(&w->p, GROUPS);
    char name[8];
    (void)snprintf(name, sizeof name, "g%d", g);
    coord_holders *group = rig_group(&w->rig, name);
    if (group == NULL) { return; }
    read_events(w);
    uint32_t before = group->slot_count, count = (uint32_t)prng_between(&w->p, 1, 5);
    coord_result r = rig_resize(&w->rig, name, group->revision, count);
    coord_holders_free(group);
    CHECK_I64("the revision just read", r.code, COORD_OK);
    CHECK("a change of the store", r.revision > w->last_revision);
    w->last_revision = r.revision;
    w->size[g] = count;
    if (count > w->allowed[g]) { w->allowed[g] = count; }
    if (w->allowed[g] < before) { w->allowed[g] = before; }
}

static void step(struct world *w)
{
    struct rig *d = &w->rig;
    char key[32], owner[8];
    struct prim_grant grant = {0};
    struct hand_state *h;
    uint64_t die = prng_below(&w->p, 100);
    int64_t ttl_ms = (int64_t)prng_between(&w->p, 1, 40);
    (void)snprintf(key, sizeof key, "k%d", (int)prng_below(&w->p, KEYS));
    (void)snprintf(owner, sizeof owner, "o%d", (int)prng_below(&w->p, 6));
    d->now += (int64_t)prng_below(&w->p, 6) * MS / 2;
    if (die < 15) {
        h = any_hand(w, false);
        struct prim_call call = rig_call(d);
        struct hand hand = {0};
        coord_result r = rig_create_as(d, &call, key, "v", h != NULL ? ttl_ms : 0, owner, &hand);
        if (h != NULL && r.code == COORD_OK) {
            h->hand = hand;
            h->hand.claim.held = h->hand.held;
            h->hand.held[0].key = h->hand.keys[0];
            h->hand.claim.owner = h->hand.owner;
        }
        granted(h, r);
        if (r.code == COORD_OK) { CHECK_U64("F1", r.token, h != NULL ? r.revision : 0); }
    } else if (die < 40) {
        h = any_hand(w, false);
        int g = (int)prng_below(&w->p, GROUPS);
        char name[8];
        (void)snprintf(name, sizeof name, "g%d", g);
        if (w->size[g] == 0) { w->size[g] = w->allowed[g] = (uint32_t)prng_between(&w->p, 1, 5); }
        if (h == NULL) { return; }
        struct prim_call call = rig_call(d);
        h->hand = (struct hand){0};
        coord_result r = rig_acquire_as(d, &call, name, w->size[g], owner, ttl_ms,
                                        prng_chance(&w->p, 300000) ? COORD_TAKEOVER_SAME_OWNER : 0,
                                        prng_chance(&w->p, 300000) ? (uint32_t)prng_below(&w->p, 5)
                                                                   : COORD_NO_SLOT,
                                        (int64_t)prng_below(&w->p, 20), &h->hand);
        granted(h, r);
        if (r.code == COORD_OK) {
            CHECK("a slot of the group, or a takeover of one above",
                  r.slot < w->size[g] || r.slot < w->allowed[g]);
        }
    } else if (die < 60 && (h = any_hand(w, true)) != NULL) {
        used(h, rig_renew(d, &h->hand));
    } else if (die < 68 && (h = any_hand(w, true)) != NULL) {
        used(h, rig_release(d, &h->hand, (uint32_t)prng_below(&w->p, 2), NULL));
    } else if (die < 74 && (h = any_hand(w, true)) != NULL && h->hand.claim.count < 4 &&
               h->hand.claim.count > 0) {
        coord_result r = rig_under(d, key, &h->hand);
        if (r.code != COORD_EXISTS) { used(h, r); }
    } else if (die < 82) {
        const struct memory_record *entry = rig_get(d, key);
        read_events(w);
        h = any_hand(w, true);
        if (entry != NULL) {
            bool own =
                entry->lease == NULL ||
                (h != NULL && memcmp(&entry->envelope.lease_id, &h->hand.claim.lease_id, 16) == 0);
            coord_result r = rig_cas(d, key, entry->revision, COORD_TTL_KEEP,
                                     h != NULL ? &h->hand : NULL, &grant);
            CHECK("exactly the owner may", (r.code == COORD_OK) == own);
        } else {
            (void)rig_cas(d, key, 0, 0, NULL, &grant);
        }
    } else if (die < 88) {
        (void)rig_remove(d, key, prng_chance(&w->p, 300000) ? COORD_FORCE : COORD_ANY, NULL);
    } else if (die < 92) {
        resize(w);
    } else {
        rig_expire(d);
    }
    read_events(w);
    for (size_t i = 0; i < HANDS; i++) {
        if (w->hands[i].used) { forget(w, &w->hands[i]); }
    }
    check_groups(w);
    read_events(w);
    if (prng_chance(&w->p, 50000)) { check_views(w); }
    const struct heap_node *first = heap_peek(&d->shared->deadlines);
    CHECK("time to end is ahead", first == NULL || (int64_t)first->due > d->now);
}

static void run(uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    CHECK("memory", w != NULL);
    prng_seed(&w->p, seed);
    rig_open(&w->rig);
    rig_watch(&w->rig, "");
    rig_watch(&w->rig, "g0");
    rig_watch(&w->rig, "g1");
    rig_watch(&w->rig, "g2");
    for (int i = 0; i < STEPS; i++) { step(w); }
    w->rig.now += 1000 * MS;
    rig_expire(&w->rig);
    read_events(w);
    check_views(w);
    CHECK("every lease ends", heap_peek(&w->rig.shared->deadlines) == NULL);
    rig_close(&w->rig);
    free(w);
}

TEST(the_core_keeps_the_contract_under_random_calls)
{
    struct prng worlds;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) { run(prng_u64(&worlds)); }
}
