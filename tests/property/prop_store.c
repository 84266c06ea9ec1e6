/* SPDX-License-Identifier: Apache-2.0 */
/* Random commands to the store's state machine, compared three ways: with the memory store, which
 * has the rules of prim/change.h: same answers; with a twin of which no snapshot is taken: same
 * hash after every command; with the restore of a snapshot that was taken in slices while commands
 * went on. The memory store has no waiting and no plain leases; their own rules are checked
 * instead, against a list of deadlines and of the keys attached to them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "lib/store_apply.h"
#include "lib/test.h"
#include "prim/memory/shared.h"
#include "section/section.h"
#include "store/core/store.h"

enum { KEYS = 10, GROUPS = 3, HOLDERS = 40, STEPS = 2500, WORLDS = 30, CLIENTS = 5 };
enum { PLAIN_LEASES = 5, PLAIN_KEYS = 8 };

struct hand { /* a claim of a client */
    bool used, over;
    struct store_id id;
    char key[64]; /* the key in the store */
    char owner[16];
    uint64_t store_token, memory_token;
};
struct world {
    struct prng p;
    struct store *store, *twin;
    struct prim_backend *memory;
    uint64_t now_ns, sequence;
    struct hand holders[HOLDERS];
    uint64_t store_revision[KEYS], memory_revision[KEYS];
    void *view;
    struct store_restore *restore;
    uint64_t view_hash;
    uint32_t sizes[GROUPS];
    struct {
        uint64_t deadline_ns, ttl_ns; /* deadline 0: no such lease */
    } plain[PLAIN_LEASES];
    struct {
        bool there;
        size_t lease; /* PLAIN_LEASES: none */
    } plain_keys[PLAIN_KEYS];
};

static int64_t world_now(void *arg)
{
    return (int64_t)((struct world *)arg)->now_ns;
}

static struct store_id draw_id(struct world *w)
{
    struct store_id id;

    for (size_t i = 0; i < sizeof id.b; i++) id.b[i] = (uint8_t)prng_below(&w->p, 256);
    id.b[0] |= 1;
    return id;
}

static coord_id as_coord(const struct store_id *id)
{
    coord_id out;

    memcpy(out.b, id->b, sizeof out.b);
    return out;
}

static struct prim_call call_of(struct world *w)
{
    struct store_id id = draw_id(w);

    return (struct prim_call){.deadline_ns = INT64_MAX, .request_id = as_coord(&id)};
}

/* Applies the command to both stores and compares them. */
static struct store_result apply(struct world *w, struct store_command *command,
                                 struct store_renewal *renewal)
{
    struct store_result result, other;
    struct store_renewal twin_renewal;
    struct store_event event;

    command->client = (struct store_id){{(uint8_t)(1 + prng_below(&w->p, CLIENTS))}};
    command->sequence = ++w->sequence;
    command->acked = w->sequence > 50 ? w->sequence - 50 : 0;
    store_apply(w->store, w->now_ns, command, &result, renewal);
    store_apply(w->twin, w->now_ns, command, &other, &twin_renewal);
    CHECK("the twin answers alike", result.code == other.code && result.reason == other.reason &&
                                        result.revision == other.revision);
    CHECK("the twin is alike", store_hash(w->store) == store_hash(w->twin) &&
                                   store_sizes(w->store).bytes == store_sizes(w->twin).bytes);
    while (store_event_next(w->store, &event)) {}
    while (store_event_next(w->twin, &event)) {}
    if (command->kind != STORE_TICK && command->kind != STORE_RENEW &&
        command->kind != STORE_COMPACT && prng_chance(&w->p, 50000)) {
        /* A repeat is answered and not applied. */
        uint64_t revision = keys_revision(store_keys(w->store));
        store_apply(w->store, w->now_ns, command, &other, renewal);
        CHECK("a repeat changes nothing", keys_revision(store_keys(w->store)) == revision);
        CHECK("and is answered the same", other.code == result.code && other.token == result.token);
        store_apply(w->twin, w->now_ns, command, &other, renewal);
    }
    return result;
}

static void same(const char *what, const struct store_result *got, const coord_result *want)
{
    if (got->code != want->code || (want->code != COORD_EXPIRED && got->reason != want->reason))
        fprintf(stderr, "%s: the store says %s/%s, the contract %s/%s\n", what,
                coord_code_name(got->code), coord_reason_name(got->reason),
                coord_code_name(want->code), coord_reason_name(want->reason));
    CHECK(what, got->code == want->code);
    /* The memory store infers the end of a claim from its present holder; the store remembers the
     * reason. */
    if (want->code != COORD_EXPIRED) CHECK(what, got->reason == want->reason);
}

static struct hand *free_hand(struct world *w)
{
    for (size_t i = 0; i < HOLDERS; i++)
        if (!w->holders[i].used) return &w->holders[i];
    return &w->holders[prng_below(&w->p, HOLDERS)];
}

static struct hand *any_hand(struct world *w)
{
    struct hand *hand = &w->holders[prng_below(&w->p, HOLDERS)];

    return hand->used ? hand : NULL;
}

static struct prim_claim claim_of(struct hand *hand, struct prim_held *held)
{
    /* The memory store has the keys without the prefix. */
    *held =
        (struct prim_held){hand->key + 7, hand->memory_token, hand->memory_token, COORD_NO_SLOT};
    return (struct prim_claim){as_coord(&hand->id), hand->owner, 1000, held, 1};
}

static void keep_hand(struct world *w, const struct store_id *id, const char *key,
                      const char *owner, const struct store_result *result,
                      const struct prim_grant *grant)
{
    struct hand *hand = free_hand(w);

    *hand = (struct hand){
        .used = true, .id = *id, .store_token = result->token, .memory_token = grant->token};
    (void)snprintf(hand->key, sizeof hand->key, "%s", key);
    (void)snprintf(hand->owner, sizeof hand->owner, "%s", owner);
}

static void do_entry(struct world *w)
{
    uint64_t which = prng_below(&w->p, KEYS), die = prng_below(&w->p, 100);
    char key[32], value[24], owner[16];
    struct store_command command = {.lease = draw_id(w)};
    struct prim_call call = call_of(w);
    struct prim_grant grant = {.token = 0};
    struct store_result result;
    coord_result want;
    struct hand *hand = prng_chance(&w->p, 500000) ? any_hand(w) : NULL;
    struct prim_held held;
    struct prim_claim claim;

    (void)snprintf(key, sizeof key, "muster/k/%u", (unsigned)which % 100u);
    (void)snprintf(value, sizeof value, "%llu", (unsigned long long)prng_u64(&w->p));
    (void)snprintf(owner, sizeof owner, "o%u", (unsigned)prng_below(&w->p, 6));
    command.key = str_from(key);
    command.value = str_from(value);
    command.owner = str_from(owner);
    command.ttl_ms = prng_chance(&w->p, 500000) ? (int64_t)prng_between(&w->p, 500, 3000) : 0;
    if (hand) {
        bool forged = prng_chance(&w->p, 100000);
        claim = claim_of(hand, &held);
        held.token += forged;
        command.held = hand->id;
        command.token = strcmp(hand->key, key) == 0 ? hand->store_token + forged : UINT64_MAX;
    }
    if (die < 45) {
        struct prim_create in = {.key = str_from(key + 7),
                                 .value = command.value,
                                 .owner = command.owner,
                                 .ttl_ms = command.ttl_ms,
                                 .lease_id = as_coord(&command.lease)};
        memset(&command.held, 0, sizeof command.held);
        command.kind = STORE_CREATE;
        result = apply(w, &command, NULL);
        want = w->memory->ops->create(w->memory, &call, &in, &grant);
        same("create", &result, &want);
        if (result.code == COORD_EXISTS) CHECK("the holder", strcmp(result.owner, want.owner) == 0);
    } else if (die < 80) {
        bool fresh = prng_chance(&w->p, 200000), stale = prng_chance(&w->p, 150000);
        struct prim_cas in = {.key = str_from(key + 7),
                              .value = command.value,
                              .owner = command.owner,
                              .lease_id = as_coord(&command.lease),
                              .claim = hand ? &claim : NULL};
        command.kind = STORE_CAS;
        command.expected = fresh ? 0 : w->store_revision[which] + stale;
        in.expected = fresh ? 0 : w->memory_revision[which] + stale;
        if (!fresh && command.expected == 0) return;
        if (!fresh && !hand) command.ttl_ms = STORE_TTL_KEEP;
        if (hand && prng_chance(&w->p, 500000)) command.ttl_ms = STORE_TTL_KEEP;
        if (fresh && command.ttl_ms == STORE_TTL_KEEP) command.ttl_ms = 0;
        in.ttl_ms = command.ttl_ms;
        result = apply(w, &command, NULL);
        want = w->memory->ops->cas(w->memory, &call, &in, &grant);
        same("cas", &result, &want);
    } else {
        struct prim_delete in = {.key = str_from(key + 7), .claim = hand ? &claim : NULL};
        bool force = prng_chance(&w->p, 200000);
        command.kind = STORE_DELETE;
        command.expected = force ? STORE_FORCE : STORE_ANY;
        in.expected = force ? COORD_FORCE : COORD_ANY;
        result = apply(w, &command, NULL);
        want = w->memory->ops->remove(w->memory, &call, &in);
        same("delete", &result, &want);
        return;
    }
    if (result.code != COORD_OK) return;
    w->store_revision[which] = result.revision;
    w->memory_revision[which] = want.revision;
    CHECK("a lease is made by both or none",
          (result.granted_ttl_ms > 0) == (grant.granted_ttl_ms > 0));
    if (result.granted_ttl_ms > 0) keep_hand(w, &command.lease, key, owner, &result, &grant);
}

static void do_acquire(struct world *w)
{
    uint64_t which = prng_below(&w->p, GROUPS);
    char key[64], owner[16];
    struct store_command command = {.kind = STORE_ACQUIRE, .lease = draw_id(w)};
    struct prim_call call = call_of(w);
    struct prim_grant grant = {.token = 0};
    struct prim_acquire in = {.lease_id = as_coord(&command.lease)};
    struct store_result result;
    coord_result want;

    (void)snprintf(key, sizeof key, "muster/g%u", (unsigned)which % 10u);
    (void)snprintf(owner, sizeof owner, "o%u", (unsigned)prng_below(&w->p, 6));
    command.key = str_from(key);
    command.owner = in.owner = str_from(owner);
    in.group = str_from(key + 7);
    command.ttl_ms = in.ttl_ms = (int64_t)prng_between(&w->p, 500, 3000);
    command.slot_count = in.slot_count = w->sizes[which] + (prng_chance(&w->p, 30000) ? 1u : 0u);
    command.flags = in.flags = (prng_chance(&w->p, 200000) ? COORD_TAKEOVER_SAME_OWNER : 0u);
    command.prefer_slot = in.prefer_slot =
        prng_chance(&w->p, 300000) ? (uint32_t)prng_below(&w->p, 4) : COORD_NO_SLOT;
    command.cooldown_ms = which == 1 ? 700 : 0;
    in.cooldown_ms = (int64_t)command.cooldown_ms;
    result = apply(w, &command, NULL);
    want = w->memory->ops->acquire(w->memory, &call, &in, &grant);
    same("acquire", &result, &want);
    if (result.code == COORD_EXISTS && result.reason == COORD_R_FULL)
        CHECK("how many hold", result.live == want.live);
    if (result.code != COORD_OK) return;
    CHECK("which slot", result.slot == want.slot);
    (void)snprintf(key + strlen(key), sizeof key - strlen(key), "/slot-%04u",
                   (unsigned)result.slot % 10000u);
    keep_hand(w, &command.lease, key, owner, &result, &grant);
}

static void do_lease(struct world *w)
{
    struct hand *hand = any_hand(w);
    struct store_command command = {.kind = STORE_RELEASE};
    struct store_renewal renewal;
    struct prim_call call = call_of(w);
    struct prim_held held;
    struct prim_claim claim;
    coord_result want;

    if (!hand) return;
    bool forged = prng_chance(&w->p, 100000);
    uint64_t token = hand->store_token + forged;
    int64_t sent_ns;
    claim = claim_of(hand, &held);
    held.token += forged;
    if (prng_chance(&w->p, 700000)) {
        command.kind = STORE_RENEW;
        command.renew = &hand->id;
        command.renew_tokens = &token;
        command.renew_count = 1;
        (void)apply(w, &command, &renewal);
        want = w->memory->ops->renew(w->memory, &call, &claim, &sent_ns);
        CHECK("renew", renewal.code == want.code);
        CHECK("EXPIRED is final", renewal.code != COORD_OK || !hand->over);
        CHECK("another token does not renew", renewal.code != COORD_OK || !forged);
        hand->over |= !forged && renewal.code != COORD_OK;
        return;
    }
    command.lease = hand->id;
    command.token = token;
    struct store_result result = apply(w, &command, NULL);
    want = w->memory->ops->release(w->memory, &call, &claim, NULL);
    /* A released handle itself knows that it is released (prim/lease.c); the store has forgotten
     * it. */
    if (want.reason != COORD_R_ALREADY) same("release", &result, &want);
    hand->used = forged;
}

static void do_resize(struct world *w)
{
    uint64_t which = prng_below(&w->p, GROUPS);
    char key[32];
    struct store_command command = {.kind = STORE_RESIZE};
    struct prim_call call = call_of(w);
    coord_holders *there = NULL;
    struct store_group here;
    coord_result want;

    (void)snprintf(key, sizeof key, "muster/g%u", (unsigned)which % 10u);
    (void)w->memory->ops->holders(w->memory, &call, str_from(key + 7), &there);
    if (!store_group_of(w->store, str_from(key), &here)) {
        CHECK("absent in both", there == NULL);
        return;
    }
    CHECK("there in both", there != NULL);
    command.key = str_from(key);
    command.expected = here.revision;
    command.slot_count = (uint32_t)prng_between(&w->p, 1, 5);
    struct store_result result = apply(w, &command, NULL);
    want = w->memory->ops->resize(w->memory, &call, str_from(key + 7), there->revision,
                                  command.slot_count);
    coord_holders_free(there);
    same("resize", &result, &want);
    w->sizes[which] = command.slot_count;
}

/* -- plain leases -- */
static int64_t plain_number(size_t which)
{
    return which == 0 ? INT64_MIN : (int64_t)which * (which % 2 ? 7 : -7);
}

static void plain_name(size_t which, char name[16])
{
    (void)snprintf(name, 16, "plain/%u", (unsigned)which % 100u);
}

static size_t plain_end(struct world *w, size_t lease)
{
    size_t gone = 0;

    w->plain[lease].deadline_ns = 0;
    for (size_t i = 0; i < PLAIN_KEYS; i++)
        if (w->plain_keys[i].there && w->plain_keys[i].lease == lease) {
            w->plain_keys[i].there = false;
            gone++;
        }
    return gone;
}

static void plain_check(struct world *w)
{
    struct order_place place = store_leases(w->store);
    struct store_lease lease;
    size_t listed = 0, live = 0;
    int64_t last_ms = 0;

    for (size_t i = 0; i < PLAIN_LEASES; i++) {
        bool there = store_lease_of(w->store, plain_number(i), w->now_ns, &lease);
        CHECK("a lease is there until its end", there == (w->plain[i].deadline_ns > 0));
        live += there;
        if (!there) continue;
        CHECK_I64("its number", lease.number, plain_number(i));
        CHECK_U64("the remaining time", lease.remaining_ms,
                  (w->plain[i].deadline_ns - w->now_ns) / 1000000);
    }
    for (; store_lease_next(w->store, &place, w->now_ns, &lease); listed++) {
        CHECK("by their ends", lease.remaining_ms >= last_ms);
        last_ms = lease.remaining_ms;
    }
    CHECK_SIZE("the list has no ghosts", listed, live);
    for (size_t i = 0; i < PLAIN_KEYS; i++) {
        struct key_value value;
        char name[16];

        plain_name(i, name);
        bool there = keys_get(store_keys(w->store), str_from(name), 0, &value);
        CHECK("a key is there until its lease ends", there == w->plain_keys[i].there);
        if (!there) continue;
        size_t lease_at = w->plain_keys[i].lease;
        CHECK_I64("it names its lease", (int64_t)value.lease,
                  lease_at == PLAIN_LEASES ? 0 : plain_number(lease_at));
    }
}

static void do_plain(struct world *w)
{
    size_t which = prng_below(&w->p, PLAIN_LEASES), key = prng_below(&w->p, PLAIN_KEYS);
    uint64_t die = prng_below(&w->p, 100), before;
    struct store_id id = store_plain_lease(plain_number(which));
    struct store_command command = {.kind = STORE_PUT, .lease = id, .value = STR("v")};
    struct store_renewal renewal = {0};
    struct store_result result;
    char name[16];
    size_t gone;

    (void)apply(w, &(struct store_command){.kind = STORE_TICK}, NULL);
    for (size_t i = 0; i < PLAIN_LEASES; i++)
        if (w->plain[i].deadline_ns && w->plain[i].deadline_ns <= w->now_ns) (void)plain_end(w, i);
    plain_check(w);
    bool there = w->plain[which].deadline_ns > 0;
    plain_name(key, name);
    before = keys_revision(store_keys(w->store));
    if (die < 20) {
        command.kind = STORE_LEASE_GRANT;
        command.ttl_ms = (int64_t)prng_between(&w->p, 500, 9000);
        result = apply(w, &command, NULL);
        CHECK_I64("grant", result.code, there ? COORD_EXISTS : COORD_OK);
        if (there) return;
        w->plain[which].ttl_ns = (uint64_t)command.ttl_ms * 1000000;
        w->plain[which].deadline_ns = w->now_ns + w->plain[which].ttl_ns;
    } else if (die < 30) {
        command.kind = STORE_LEASE_REVOKE;
        result = apply(w, &command, NULL);
        CHECK_I64("revoke", result.code, there ? COORD_OK : COORD_NOT_FOUND);
        gone = there ? plain_end(w, which) : 0;
        CHECK_U64("its keys go at one revision", keys_revision(store_keys(w->store)),
                  before + (gone > 0));
    } else if (die < 50) {
        command.kind = STORE_RENEW;
        command.renew = &id;
        command.renew_count = 1;
        (void)apply(w, &command, &renewal);
        CHECK_I64("renew", renewal.code, there ? COORD_OK : COORD_EXPIRED);
        if (there) w->plain[which].deadline_ns = w->now_ns + w->plain[which].ttl_ns;
    } else if (die < 55) {
        /* The number of a lease does not make a client its owner: no claim is made or released with
         * it. */
        command = (struct store_command){
            .kind = STORE_CREATE, .key = STR("muster/under"), .owner = STR("o"), .held = id};
        CHECK_I64("no claim under it", apply(w, &command, NULL).code, COORD_EXPIRED);
        command = (struct store_command){.kind = STORE_RELEASE, .lease = id};
        CHECK_I64("it is not released", apply(w, &command, NULL).code, COORD_EXPIRED);
    } else {
        bool under = prng_chance(&w->p, 800000);

        command.key = str_from(name);
        if (under) command.held = id;
        result = apply(w, &command, NULL);
        CHECK_I64("put", result.code, under && !there ? COORD_NOT_FOUND : COORD_OK);
        if (result.code != COORD_OK) return;
        w->plain_keys[key].there = true;
        w->plain_keys[key].lease = under ? which : PLAIN_LEASES;
    }
    plain_check(w);
}

static void do_compact(struct world *w)
{
    const struct keys *keys = store_keys(w->store);
    struct store_command command = {.kind = STORE_COMPACT};

    command.expected = keys_compacted(keys) + 1 +
                       prng_below(&w->p, keys_revision(keys) - keys_compacted(keys) + 1);
    (void)apply(w, &command, NULL);
}

/* Takes a snapshot in slices and feeds it to a restore in other slices. */
static void do_view(struct world *w)
{
    struct store_options options = {0};
    struct store *restored;
    struct note note = {""};
    struct buf out;
    void *second;
    bool done = false;

    if (!w->view) {
        CHECK_OK("a view opens", store_view_open(w->store, &w->view));
        w->restore = store_restore_open(&options);
        w->view_hash = store_hash(w->store);
        CHECK("a restore", w->restore);
        CHECK_ERR("one at a time", store_view_open(w->store, &second), ERR_FULL);
        return;
    }
    buf_init(&out, 1 << 24);
    CHECK_OK("next", section_view_next(w->view, prng_below(&w->p, 400), &out, &done));
    for (struct str left = buf_peek(&out); left.len > 0;) {
        size_t part = min_size(left.len, 1 + prng_below(&w->p, 300));
        CHECK_OK("feed", store_restore_feed(w->restore, str_of(left.at, part), &note));
        left = str_tail(left, part);
    }
    buf_deinit(&out);
    if (!done) return;
    CHECK_OK("whole", store_restore_done(w->restore, &restored, &note));
    CHECK("of its moment", store_hash(restored) == w->view_hash);
    store_restore_close(w->restore);
    section_view_close(w->view);
    w->view = NULL;
    w->restore = NULL;
    store_close(restored);
}

/* Replaces the twin by a restored one, which must behave the same. */
static void exchange_twin(struct world *w)
{
    struct store_options options = {0};
    struct store_restore *restore = store_restore_open(&options);
    struct note note = {""};
    struct store *fresh;
    struct buf out;
    void *view;
    bool done = false;

    CHECK_OK("a view", store_view_open(w->twin, &view));
    while (!done) {
        buf_init(&out, 1 << 24);
        CHECK_OK("next", section_view_next(view, 1000, &out, &done));
        CHECK_OK("feed", store_restore_feed(restore, buf_peek(&out), &note));
        buf_deinit(&out);
    }
    CHECK_OK("whole", store_restore_done(restore, &fresh, &note));
    store_restore_close(restore);
    section_view_close(view);
    store_close(w->twin);
    w->twin = fresh;
}

static void run(uint64_t seed)
{
    static struct world w;
    struct store_options options = {0};
    struct prim_host host = {NULL, NULL};
    struct prim_open in = {.options = &(coord_options){0}, .clock = {world_now, &w}, .host = &host};

    memset(&w, 0, sizeof w);
    prng_seed(&w.p, seed);
    w.store = store_open(&options);
    w.twin = store_open(&options);
    CHECK_I64("memory", memory_open(&in, &(struct memory_limits){10000, 1 << 30}, &w.memory).code,
              COORD_OK);
    for (size_t i = 0; i < GROUPS; i++) w.sizes[i] = 1 + (uint32_t)i;
    for (int step = 0; step < STEPS; step++) {
        uint64_t die = prng_below(&w.p, 112);
        w.now_ns += prng_below(&w.p, 150) * 1000000;
        if (die < 35)
            do_entry(&w);
        else if (die < 62)
            do_acquire(&w);
        else if (die < 86)
            do_lease(&w);
        else if (die < 88)
            do_resize(&w);
        else if (die < 90)
            do_compact(&w);
        else if (die < 100)
            do_view(&w);
        else
            do_plain(&w);
        if (step % 500 == 499) exchange_twin(&w);
    }
    section_view_close(w.view);
    store_restore_close(w.restore);
    store_close(w.store);
    store_close(w.twin);
    w.memory->ops->close(w.memory);
}

TEST(the_store_answers_as_the_contract_and_restores_as_it_was)
{
    struct prng worlds;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) run(prng_u64(&worlds));
}

/* -- the quota, history, plain keys -- */
enum { QUOTA = 40 << 10, QUOTA_STEPS = 4000, QUOTA_NAMES = 40, NEAR = 4096 };

static bool adds(enum store_kind kind)
{
    return kind == STORE_CREATE || kind == STORE_CAS || kind == STORE_ACQUIRE || kind == STORE_PUT;
}

static struct store_command draw_small(struct world *w, char key[32], char owner[16], char *value)
{
    static const enum store_kind kinds[] = {
        STORE_CREATE, STORE_CREATE,  STORE_CAS,   STORE_ACQUIRE, STORE_PUT,     STORE_PUT,
        STORE_DELETE, STORE_RELEASE, STORE_RENEW, STORE_TICK,    STORE_COMPACT, STORE_DELETE_RANGE};
    enum store_kind kind = kinds[prng_below(&w->p, ARRAY_LEN(kinds))];
    struct hand *hand = any_hand(w);
    struct store_command command = {.kind = kind, .ttl_ms = 3000, .expected = STORE_ANY};
    struct key_value now;
    size_t value_len = prng_below(&w->p, 1500);

    memset(value, 'v', value_len);
    (void)snprintf(key, 32, "muster/%s/%u", kind == STORE_ACQUIRE ? "g" : "k",
                   (unsigned)prng_below(&w->p, QUOTA_NAMES));
    (void)snprintf(owner, 16, "o%u", (unsigned)prng_below(&w->p, 6));
    if (kind == STORE_PUT) key[7] = 'p'; /* plain */
    command.key = str_from(key);
    command.value = str_of(value, adds(kind) ? value_len : 0);
    command.owner = str_from(owner);
    command.lease = draw_id(w);
    if (kind == STORE_ACQUIRE) {
        command.slot_count = 2;
        command.prefer_slot = STORE_NO_SLOT;
    }
    if (kind == STORE_CAS) { /* of a plain key */
        key[7] = 'p';
        command.ttl_ms = STORE_TTL_KEEP;
        command.expected = keys_get(store_keys(w->store), command.key, 0, &now) ? now.mod : 1;
    }
    if (kind == STORE_RELEASE && hand) command.lease = hand->id;
    if (kind == STORE_RENEW) {
        command.renew = hand ? &hand->id : &w->holders[0].id;
        command.renew_count = 1;
    }
    if (kind == STORE_COMPACT) command.expected = keys_revision(store_keys(w->store));
    if (kind == STORE_DELETE_RANGE) {
        key[7] = (char)(prng_chance(&w->p, 500000) ? 'k' : 'p');
        command.range_end = STR("muster/z");
    }
    return command;
}

static uint64_t leased_keys(const struct store *store)
{
    struct key_range all = {STR("a"), STR("z")};
    struct keys_cursor cursor;
    struct key_value value;
    uint64_t count = 0;

    keys_seek(store_keys(store), all, 0, &cursor);
    while (keys_next(&cursor, &value)) count += value.lease != 0;
    return count;
}

TEST(the_quota_refuses_only_additions_and_history_is_compacted)
{
    static struct world w;
    struct store_options options = {.quota_bytes = QUOTA};
    struct store_command tick = {.kind = STORE_TICK};
    uint32_t refused = 0, taken = 0;

    memset(&w, 0, sizeof w);
    prng_seed(&w.p, test_seed());
    w.store = store_open(&options);
    for (int step = 0; step < QUOTA_STEPS; step++) {
        char key[32], owner[16], value[1500];
        struct store_command command = draw_small(&w, key, owner, value);
        struct store_renewal renewal;
        struct store_result result;
        struct store_event event;
        uint64_t before, after, leased;

        w.now_ns += prng_below(&w.p, 60) * 1000000;
        store_apply(w.store, w.now_ns, &tick, &result, NULL); /* ends the leases that are due */
        before = store_sizes(w.store).bytes;
        leased = leased_keys(w.store);
        store_apply(w.store, w.now_ns, &command, &result, &renewal);
        while (store_event_next(w.store, &event)) {}
        after = store_sizes(w.store).bytes;
        if (result.reason == COORD_R_QUOTA) {
            refused++;
            CHECK("only additions are refused",
                  adds(command.kind) && result.code == COORD_UNAVAILABLE);
            CHECK("there was no room", before + command.value.len + NEAR > QUOTA);
            CHECK_U64("and nothing was added", after, before);
        } else if (adds(command.kind) && result.code == COORD_OK) {
            taken++;
            CHECK("there was room", after <= QUOTA);
            if (result.granted_ttl_ms > 0)
                *free_hand(&w) = (struct hand){.used = true, .id = command.lease};
        } else if (command.kind == STORE_DELETE_RANGE) {
            CHECK_U64("claims stay", leased_keys(w.store), leased);
        } else if (command.kind == STORE_COMPACT && result.code == COORD_OK) {
            struct key_changes changes;
            store_apply(w.store, w.now_ns, &tick, &result, NULL);
            changes = keys_changes(store_keys(w.store));
            CHECK("the past is gone", changes.end - changes.first <= QUOTA_NAMES);
        }
    }
    CHECK("both were seen", refused > 50 && taken > 200);
    store_close(w.store);
}
