/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls, one after the other, to this store and to a memory store: both must answer alike.
 *
 * The memory store is the contract as a pure function, so a difference is a bug in one of the two,
 * or the contract leaves the answer open. Such calls are left out: calls with two mistakes (either
 * may be reported), and the reason why a lease is over. Nothing expires here; other cases test
 * time. */
#include <stdlib.h>
#include <string.h>

#include "cases.h"

enum { STORES = 2, KEYS = 5, GROUPS = 2, ACTORS = 8 };
static const char *const owners[] = {"ann", "bob", "cy"};

struct actor {
    coord_lease *lease[STORES];
    int group; /* of its slot, + 1; 0: none */
    const char *owner;
    bool robbed; /* a key of it was taken: some answers are left open by the contract */
};
struct duel {
    struct suite *s;
    coord_store *store[STORES]; /* this one, and the oracle */
    unsigned seed;
    uint64_t revision[KEYS][STORES]; /* as last reported; 0 absent */
    uint64_t stale[KEYS][STORES];
    int holder[KEYS]; /* actor; -1: none known */
    bool leased[KEYS];
    uint64_t group_revision[GROUPS][STORES];
    uint32_t group_size[GROUPS];
    struct actor actors[ACTORS];
    coord_result result[STORES];
    char what[128];
};

static int pick(struct duel *d, int below)
{
    return rand_r(&d->seed) % below;
}

static const char *key_name(struct duel *d, int key, struct name *name)
{
    char leaf[16];
    (void)snprintf(leaf, sizeof leaf, "k%d", key);
    *name = suite_name(d->s, leaf);
    return name->text;
}

static const char *group_name(struct duel *d, int group, struct name *name)
{
    char leaf[16];
    (void)snprintf(leaf, sizeof leaf, "g%d", group);
    *name = suite_name(d->s, leaf);
    return name->text;
}

static struct actor *free_actor(struct duel *d)
{
    for (int i = 0; i < ACTORS; i++) {
        if (d->actors[i].lease[0] == NULL) { return &d->actors[i]; }
    }
    return NULL;
}

static struct actor *holding_actor(struct duel *d)
{
    int start = pick(d, ACTORS);
    for (int i = 0; i < ACTORS; i++) {
        struct actor *h = &d->actors[(start + i) % ACTORS];
        if (h->lease[0] != NULL) { return h; }
    }
    return NULL;
}

static void put_down(struct actor *h)
{
    for (int i = 0; i < STORES; i++) { coord_lease_unref(h->lease[i]); }
    *h = (struct actor){.robbed = false};
}

/* The same code, reason and numbers, except numbers that each store draws itself. */
static void compare(struct duel *d)
{
    struct suite *s = d->s;
    const coord_result *a = &d->result[0], *b = &d->result[1];
    bool reason = a->reason == b->reason || a->code == COORD_EXPIRED || a->code == COORD_NOT_FOUND;
    if (patience_outage_ms() > 0 && a->reason == COORD_R_REPLAYED) { reason = true; } /* again */
    EXPECT(a->code == b->code && reason, "%s: %s/%s (%s), the oracle says %s/%s", d->what,
           coord_code_name(a->code), coord_reason_name(a->reason), a->text,
           coord_code_name(b->code), coord_reason_name(b->reason));
    if (a->reason == COORD_R_SLOT_COUNT) {
        EXPECT_EQ(a->slot_count, b->slot_count, "%s: slot count", d->what);
        return;
    }
    if (a->reason == COORD_R_FULL) {
        EXPECT_EQ(a->live, b->live, "%s: live", d->what);
    } else if (a->reason == COORD_R_ACQUIRED || a->reason == COORD_R_ALREADY_HOLDER) {
        EXPECT_EQ(a->slot, b->slot, "%s: slot", d->what);
    }
    if (a->reason == COORD_R_HELD || a->code == COORD_CONFLICT || a->reason == COORD_R_CREATED ||
        a->reason == COORD_R_UPDATED || a->reason == COORD_R_DELETED) {
        EXPECT_EQ(a->revision != 0, b->revision != 0, "%s: a revision", d->what);
    }
    if (a->code == COORD_OK && a->reason != COORD_R_DELETED) {
        EXPECT_EQ(a->token != 0, b->token != 0, "%s: a token", d->what);
    }
    if (a->reason != COORD_R_HELD && a->reason != COORD_R_ALREADY_HOLDER) { return; }
    EXPECT(strcmp(a->owner, b->owner) == 0, "%s: owner %s, the oracle: %s", d->what, a->owner,
           b->owner);
}

static void note_key(struct duel *d, int key, bool gone)
{
    for (int i = 0; i < STORES; i++) {
        if (d->revision[key][i] != 0) { d->stale[key][i] = d->revision[key][i]; }
        d->revision[key][i] = gone ? 0 : d->result[i].revision;
    }
}

static void do_create(struct duel *d)
{
    int key = pick(d, KEYS), owner = pick(d, 3);
    struct actor *h = pick(d, 2) ? free_actor(d) : NULL;
    struct name name;
    (void)snprintf(d->what, sizeof d->what, "create k%d %s", key, h != NULL ? "leased" : "");
    for (int i = 0; i < STORES; i++) {
        d->result[i] =
            create(d->store[i], key_name(d, key, &name), "v", h != NULL ? suite_long_ttl(d->s) : 0,
                   h != NULL ? owners[owner] : NULL, h != NULL ? &h->lease[i] : NULL);
    }
    if (d->result[0].code == COORD_OK) {
        note_key(d, key, false);
        d->leased[key] = h != NULL;
        d->holder[key] = h != NULL ? (int)(h - d->actors) : -1;
    }
}

static void do_under(struct duel *d)
{
    struct actor *h = holding_actor(d);
    int key = pick(d, KEYS);
    struct name name;
    if (h == NULL || h->robbed || d->revision[key][0] != 0) { return; }
    (void)snprintf(d->what, sizeof d->what, "create k%d under a lease", key);
    for (int i = 0; i < STORES; i++) {
        d->result[i] =
            coord_create_under(h->lease[i], NULL, text(key_name(d, key, &name)), text("u"));
    }
    if (d->result[0].code == COORD_OK) {
        note_key(d, key, false);
        d->leased[key] = true;
        d->holder[key] = (int)(h - d->actors);
    }
}

static void do_cas(struct duel *d)
{
    int key = pick(d, KEYS), how = pick(d, 4);
    struct actor *own = d->holder[key] >= 0 ? &d->actors[d->holder[key]] : NULL;
    struct name name;
    /* At most one argument is wrong: a stale revision with the right lease, or a wrong lease. */
    bool stranger = d->leased[key] && (own == NULL || how == 1);
    bool stale = !stranger && how == 0;
    int64_t ttl_ms = how == 3 && own != NULL ? 0 : COORD_TTL_KEEP;
    (void)snprintf(d->what, sizeof d->what, "set k%d%s%s%s", key, stranger ? " by a stranger" : "",
                   stale ? " stale" : "", ttl_ms == 0 ? " dropping the lease" : "");
    for (int i = 0; i < STORES; i++) {
        uint64_t expected = stale ? d->stale[key][i] : d->revision[key][i];
        d->result[i] = cas(d->store[i], key_name(d, key, &name), expected, "w", ttl_ms,
                           !stranger && own != NULL ? own->lease[i] : NULL);
    }
    if (d->result[0].code == COORD_OK) {
        note_key(d, key, false);
        if (ttl_ms == 0 && d->leased[key]) {
            d->leased[key] = false;
            d->holder[key] = -1;
        }
    }
}

static void do_delete(struct duel *d)
{
    int key = pick(d, KEYS), how = pick(d, 5);
    struct actor *own = d->holder[key] >= 0 ? &d->actors[d->holder[key]] : NULL;
    struct name name;
    bool force = how == 0 && suite_has(d->s, COORD_CAP_FORCE);
    bool stranger = d->leased[key] && (own == NULL || how == 1);
    (void)snprintf(d->what, sizeof d->what, "delete k%d%s%s", key, force ? " by force" : "",
                   stranger ? " by a stranger" : "");
    for (int i = 0; i < STORES; i++) {
        uint64_t expected = force ? COORD_FORCE : COORD_ANY;
        if (how == 2 && d->revision[key][i] != 0) { expected = d->revision[key][i]; }
        if (how == 3 && !stranger && d->stale[key][i] != 0) { expected = d->stale[key][i]; }
        d->result[i] = coord_delete(d->store[i], NULL, text(key_name(d, key, &name)), expected,
                                    !force && !stranger && own != NULL ? own->lease[i] : NULL);
    }
    if (d->result[0].code == COORD_OK) {
        if (force && own != NULL) { own->robbed = true; }
        note_key(d, key, true);
        d->leased[key] = false;
        d->holder[key] = -1;
    }
}

static void do_get(struct duel *d)
{
    struct suite *s = d->s;
    int key = pick(d, KEYS);
    coord_entry *entry[STORES] = {NULL, NULL};
    struct name name;
    (void)snprintf(d->what, sizeof d->what, "get k%d", key);
    for (int i = 0; i < STORES; i++) {
        d->result[i] =
            coord_get(d->store[i], NULL, text(key_name(d, key, &name)), COORD_LATEST, &entry[i]);
    }
    bool both = d->result[0].code == COORD_OK && d->result[1].code == COORD_OK;
    bool same =
        !both || (entry[0]->value.len == entry[1]->value.len &&
                  memcmp(entry[0]->value.at, entry[1]->value.at, entry[0]->value.len) == 0 &&
                  strcmp(entry[0]->owner, entry[1]->owner) == 0 &&
                  (entry[0]->token == 0) == (entry[1]->token == 0) &&
                  (entry[0]->ttl_ms == 0) == (entry[1]->ttl_ms == 0));
    bool reported = !both || (entry[0]->revision == d->revision[key][0] &&
                              entry[1]->revision == d->revision[key][1]);
    for (int i = 0; i < STORES; i++) {
        if (d->result[i].code == COORD_OK) { coord_entry_free(entry[i]); }
        d->result[i] = (coord_result){.code = d->result[i].code};
    }
    EXPECT(same, "%s: another value, owner or lease than the oracle's", d->what);
    EXPECT(reported, "R1: %s has another revision than was reported", d->what);
}

static void do_acquire(struct duel *d)
{
    struct actor *h = free_actor(d);
    int group = pick(d, GROUPS), how = pick(d, 6);
    struct name name;
    if (h == NULL) { return; }
    if (d->group_size[group] == 0) { d->group_size[group] = 1 + (uint32_t)pick(d, 3); }
    coord_slot_request request = COORD_SLOT_REQUEST_INIT;
    request.group = text(group_name(d, group, &name));
    /* Another count, by an owner without a slot: else the call would have two mistakes. */
    request.slot_count = d->group_size[group] + (how == 0 ? 1 : 0);
    request.owner = how == 0 ? "nobody" : owners[pick(d, 3)];
    request.flags = how == 1 ? COORD_TAKEOVER_SAME_OWNER : 0;
    if (how == 2) { request.prefer_slot = (uint32_t)pick(d, 3); }
    request.ttl_ms = suite_long_ttl(d->s);
    (void)snprintf(d->what, sizeof d->what, "acquire g%d as %s%s", group, request.owner,
                   how == 1 ? ", taking over" : "");
    if (how == 0 && d->group_revision[group][0] == 0) {
        return;
    } /* it would create the group with that count */
    for (int i = 0; i < STORES; i++) {
        d->result[i] = coord_acquire_slot(d->store[i], NULL, &request, &h->lease[i]);
    }
    if (d->result[0].code == COORD_OK) {
        for (int i = 0; i < ACTORS; i++) { /* the holder that lost the slot */
            struct actor *old = &d->actors[i];
            if (old->group == group + 1 && strcmp(old->owner, request.owner) == 0) {
                old->robbed = true;
            }
        }
        h->group = group + 1;
        h->owner = request.owner;
    }
    if (d->result[0].code == COORD_OK && d->group_revision[group][0] == 0) {
        d->group_revision[group][0] = d->group_revision[group][1] = 1; /* known to be there */
    }
}

static void do_holders(struct duel *d)
{
    struct suite *s = d->s;
    int group = pick(d, GROUPS);
    coord_holders *holders[STORES] = {NULL, NULL};
    struct name name;
    if (d->group_revision[group][0] == 0) { return; } /* no group: two answers are allowed */
    (void)snprintf(d->what, sizeof d->what, "list g%d", group);
    for (int i = 0; i < STORES; i++) {
        d->result[i] =
            coord_list_holders(d->store[i], NULL, text(group_name(d, group, &name)), &holders[i]);
    }
    bool both = d->result[0].code == COORD_OK && d->result[1].code == COORD_OK;
    bool same = !both || (holders[0]->count == holders[1]->count &&
                          holders[0]->slot_count == holders[1]->slot_count);
    for (size_t row = 0; both && same && row < holders[0]->count; row++) {
        same = holders[0]->rows[row].slot == holders[1]->rows[row].slot &&
               strcmp(holders[0]->rows[row].owner, holders[1]->rows[row].owner) == 0;
    }
    for (int i = 0; i < STORES; i++) {
        if (d->result[i].code == COORD_OK) {
            d->group_revision[group][i] = holders[i]->revision;
            d->group_size[group] = holders[i]->slot_count;
            coord_holders_free(holders[i]);
        }
        d->result[i] = (coord_result){.code = d->result[i].code};
    }
    EXPECT(same, "%s: other rows than the oracle's", d->what);
}

static void do_resize(struct duel *d)
{
    int group = pick(d, GROUPS);
    struct name name;
    uint32_t count = 1 + (uint32_t)pick(d, 4);
    if (d->group_revision[group][0] <= 1) { return; } /* not listed yet */
    if (count < d->group_size[group] && !suite_has(d->s, COORD_CAP_SHRINK)) { return; }
    (void)snprintf(d->what, sizeof d->what, "resize g%d to %u", group, count);
    bool stale = pick(d, 4) == 0;
    for (int i = 0; i < STORES; i++) {
        uint64_t expected = d->group_revision[group][i] + (stale ? 1 : 0);
        d->result[i] = coord_resize_group(d->store[i], NULL, text(group_name(d, group, &name)),
                                          expected, count);
    }
    if (d->result[0].code == COORD_OK) {
        d->group_size[group] = count;
        for (int i = 0; i < STORES; i++) { d->group_revision[group][i] = d->result[i].revision; }
    }
}

/* The keys of a lease that is over: deleted by a release, or out of reach until the lease expires.
 */
static void lose_keys(struct duel *d, const struct actor *h, bool released)
{
    for (int key = 0; key < KEYS; key++) {
        if (d->holder[key] != (int)(h - d->actors)) { continue; }
        d->holder[key] = -1;
        if (released) {
            note_key(d, key, true);
            d->leased[key] = false;
        }
    }
}

static void do_lease(struct duel *d)
{
    struct actor *h = holding_actor(d);
    if (h == NULL) { return; }
    bool renew = h->robbed || pick(d, 3) > 0;
    (void)snprintf(d->what, sizeof d->what, "%s", renew ? "renew" : "release");
    for (int i = 0; i < STORES; i++) {
        d->result[i] = renew ? coord_renew(h->lease[i], NULL) : coord_release(h->lease[i], NULL);
    }
    if (d->result[0].code != d->result[1].code) { return; } /* compared next */
    if (!renew || d->result[0].code != COORD_OK) {
        lose_keys(d, h, !renew && d->result[0].code == COORD_OK);
        put_down(h);
    }
}

static void o01(struct suite *s)
{
    static struct duel d;
    coord_id random = suite_id();
    d = (struct duel){.s = s, .store = {s->store, NULL}};
    memcpy(&d.seed, &random, sizeof d.seed);
    const char *given = getenv("MUSTER_TEST_SEED");
    if (given != NULL) { d.seed = (unsigned)strtoul(given, NULL, 10); }
    for (int i = 0; i < KEYS; i++) { d.holder[i] = -1; }
    WANT(coord_open("mem:", NULL, &d.store[1]), COORD_OK, ANY_REASON);
    unsigned seed = d.seed;
    int steps = s->caps.scope == COORD_SCOPE_PROCESS ? 20000 : suite_scale(s, 3000, 400);
    for (int i = 0; i < steps && !s->failed; i++) {
        int die = pick(&d, 100);
        d.result[0] = d.result[1] = (coord_result){0};
        if (die < 20) {
            do_create(&d);
        } else if (die < 25) {
            if (suite_has(s, COORD_CAP_MULTI_KEY)) { do_under(&d); }
        } else if (die < 42) {
            do_cas(&d);
        } else if (die < 54) {
            do_delete(&d);
        } else if (die < 62) {
            do_get(&d);
        } else if (die < 78) {
            do_acquire(&d);
        } else if (die < 82) {
            do_holders(&d);
        } else if (die < 85) {
            do_resize(&d);
        } else {
            do_lease(&d);
        }
        if (!s->failed) { compare(&d); }
        if (s->failed) {
            size_t used = strlen(s->why);
            (void)snprintf(s->why + used, sizeof s->why - used, " (step %d, MUSTER_TEST_SEED=%u)",
                           i, seed);
        }
    }
    for (int i = 0; i < ACTORS; i++) {
        if (d.actors[i].lease[0] != NULL) { (void)coord_release(d.actors[i].lease[0], NULL); }
        put_down(&d.actors[i]);
    }
    coord_close(d.store[1]);
}

#define ALL (COORD_CAP_CREATE | COORD_CAP_CAS | COORD_CAP_TTL | COORD_CAP_SLOTS)
const struct test_case cases_oracle[] = {
    {"O01", "random calls are answered as the memory store answers them", ALL, o01, CASE_REAL, 0},
    {0},
};
