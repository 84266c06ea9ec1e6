/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for slots (prim/group.h) on the records of a memory store, against the store: for random
 * groups, holders, cooldowns, resizes and requests both choose the same. */
#include "../unit/prim/memory/rig.h"
#include "base/prng.h"
#include "lib/test.h"
#include "prim/group.h"

enum { SLOTS = 5, OWNERS = 7, HANDS = 16, CALLS = 8, STEPS = 3000, WORLDS = 40 };

struct world {
    struct rig rig;
    struct prng p;
    struct hand hands[HANDS];
    struct prim_call calls[CALLS]; /* earlier calls, which may be repeated */
    size_t hand_count, call_count;
    size_t chosen[PRIM_GROUP_TAKE + 1];
};

static int64_t left_ms(struct world *w, int64_t until_ns)
{
    return (until_ns - w->rig.now + MS - 1) / MS;
}

/* The choice of the rules for the memory store's group. */
static enum prim_group_choice predict(struct world *w, const struct prim_call *call,
                                      const struct prim_acquire *in, struct prim_group *group,
                                      uint32_t *ret_slot)
{
    coord_holders *there = rig_group(&w->rig, "g");

    prim_group_begin(group, call, in, there != NULL ? there->slot_count : 0);
    coord_holders_free(there);
    for (uint32_t i = 0; i <= SLOTS; i++) {
        char key[PRIM_SLOT_KEY_CAP];
        prim_slot_key(STR("g"), i, key);
        const struct memory_record *record = memory_record_of(w->rig.shared, str_from(key));
        if (record != NULL && record->kind == PRIM_SEEN_LIVE)
            prim_group_held(group, i, &record->envelope.request_id, record->envelope.owner,
                            left_ms(w, record->lease->deadline_ns));
        else if (record != NULL && record->rests_until_ns > w->rig.now)
            prim_group_taken(group, i, left_ms(w, record->rests_until_ns));
    }
    return prim_group_choose(group, 0, ret_slot);
}

static void check_answer(const struct prim_group *group, enum prim_group_choice choice,
                         uint32_t slot, const coord_result *r)
{
    static const struct {
        int code, reason;
    } want[] = {
        [PRIM_GROUP_REPLAY] = {COORD_OK, COORD_R_REPLAYED},
        [PRIM_GROUP_CREATE] = {COORD_OK, COORD_R_ACQUIRED},
        [PRIM_GROUP_ABSENT] = {COORD_NOT_FOUND, COORD_R_NONE},
        [PRIM_GROUP_CONFLICT] = {COORD_CONFLICT, COORD_R_SLOT_COUNT},
        [PRIM_GROUP_ALREADY] = {COORD_EXISTS, COORD_R_ALREADY_HOLDER},
        [PRIM_GROUP_TAKEOVER] = {COORD_OK, COORD_R_ACQUIRED},
        [PRIM_GROUP_FULL] = {COORD_EXISTS, COORD_R_FULL},
        [PRIM_GROUP_TAKE] = {COORD_OK, COORD_R_ACQUIRED},
    };

    CHECK_TEXT("code", coord_code_name(r->code), coord_code_name(want[choice].code));
    CHECK_TEXT("reason", coord_reason_name(r->reason), coord_reason_name(want[choice].reason));
    if (slot != COORD_NO_SLOT) CHECK_U64("slot", r->slot, slot);
    if (choice == PRIM_GROUP_FULL) {
        CHECK_U64("holders", r->live, group->live);
        CHECK_I64("until one may end", r->hint_ms, group->next_ms);
    }
}

static void acquire(struct world *w)
{
    static const uint32_t flags[] = {0, 0, COORD_NO_CREATE, COORD_TAKEOVER_SAME_OWNER};
    struct rig *d = &w->rig;
    char owner[8];
    struct prim_group group;
    struct prim_grant grant = {0};
    uint32_t slot;
    bool again = w->call_count > 0 && prng_chance(&w->p, 150000);
    struct prim_call call = again ? w->calls[prng_below(&w->p, w->call_count)] : rig_call(d);
    struct prim_acquire in = {
        .group = STR("g"),
        .owner = str_from(owner),
        .slot_count = prng_chance(&w->p, 900000) ? 3 : 1 + (uint32_t)prng_below(&w->p, SLOTS),
        .flags = flags[prng_below(&w->p, ARRAY_LEN(flags))],
        .prefer_slot =
            prng_chance(&w->p, 500000) ? COORD_NO_SLOT : (uint32_t)prng_below(&w->p, SLOTS + 1),
        .ttl_ms = 10 + (int64_t)prng_below(&w->p, 100),
        .cooldown_ms = 20,
        .lease_id = rig_id(d)};

    (void)snprintf(owner, sizeof owner, "o%u", (unsigned)prng_below(&w->p, OWNERS));
    in.owner = str_from(owner);
    enum prim_group_choice choice = predict(w, &call, &in, &group, &slot);
    coord_result r = d->b->ops->acquire(d->b, &call, &in, &grant);
    check_answer(&group, choice, slot, &r);
    w->chosen[choice]++;
    w->calls[again ? 0 : w->call_count++ % CALLS] = call;
    if (w->call_count >= CALLS) w->call_count = CALLS - 1;
    if (r.code == COORD_OK && r.reason == COORD_R_ACQUIRED) {
        char key[16];
        struct hand *h =
            &w->hands[w->hand_count < HANDS ? w->hand_count++ : prng_below(&w->p, HANDS)];
        *h = (struct hand){0};
        (void)snprintf(key, sizeof key, "g/slot-%04u", grant.slot);
        hand_take(h, key, owner, &grant);
    }
}

static void resize(struct world *w)
{
    uint64_t revision = rig_group_revision(&w->rig, "g");

    if (revision == 0) return;
    (void)rig_resize(&w->rig, "g", revision,
                     prng_chance(&w->p, 600000) ? 3 : 1 + (uint32_t)prng_below(&w->p, SLOTS));
}

static void run(uint64_t seed, size_t chosen[PRIM_GROUP_TAKE + 1])
{
    struct world *w = calloc(1, sizeof *w);

    CHECK("memory", w != NULL);
    prng_seed(&w->p, seed);
    rig_open(&w->rig);
    for (int i = 0; i < STEPS; i++) {
        uint64_t die = prng_below(&w->p, 100);
        w->rig.now += (int64_t)prng_below(&w->p, 8) * MS;
        if (die < 75)
            acquire(w);
        else if (die < 95 && w->hand_count > 0)
            (void)rig_release(&w->rig, &w->hands[prng_below(&w->p, w->hand_count)], 0, NULL);
        else
            resize(w);
    }
    for (size_t i = 0; i <= PRIM_GROUP_TAKE; i++) chosen[i] += w->chosen[i];
    rig_close(&w->rig);
    free(w);
}

TEST(the_rules_choose_as_the_memory_store_does)
{
    size_t chosen[PRIM_GROUP_TAKE + 1] = {0};
    struct prng worlds;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) run(prng_u64(&worlds), chosen);
    for (size_t i = 0; i <= PRIM_GROUP_TAKE; i++) CHECK("every choice was met", chosen[i] > 0);
}
