/* SPDX-License-Identifier: Apache-2.0 */
/* Random commands to groups of the store, against a plain model of holders, the queue and its
 * order, cool-downs, and remembered requests. The model follows the contract (coordination.md A2
 * and B6.2): slots go in order of arrival, in the entry that frees them; a holder that waited holds
 * for its full time; a repeat finds the outcome of its first attempt. A second store takes every
 * command and is sometimes replaced by a restored one: at once, or from slices with the commands of
 * meanwhile applied on top. No hash covers the order of a queue, so only the next steps of a
 * restored store show it. */
#include <stdio.h>
#include <stdlib.h>

#include <muster/coord.h>

#include "base/prng.h"
#include "lib/store_apply.h"
#include "lib/test.h"
#include "section/section.h"
#include "store/core/store.h"

enum {
    GROUPS = 3,
    SLOTS = 5,
    CLAIMS = 60, /* remembered by the model; an ended claim is reused */
    OWNERS = 7,
    CLIENTS = 3,
    STEPS = 1500,
    WORLDS = 40,
    REPEAT_WITHIN = 200, /* sequences: fewer than STORE_RESULTS_MAX */
    SAID_MAX = 400,
};
static const uint64_t cooldowns_ms[GROUPS] = {0, 700, 0};
static const uint64_t ms = 1000000;

struct said { /* a command with its own copy of its texts */
    struct store_command command;
    struct store_id renew;
    char key[40], value[24], owner[16];
    uint64_t at_ns;
};
enum place { NOWHERE, WAITS, HOLDS, LOST };
struct claim {
    enum place place;
    struct said asked;
    struct store_id lease;
    int group;
    uint32_t slot;
    uint64_t deadline_ns, token, came; /* came: its place in the queue */
    int lost_reason;
    bool remembered; /* its request's answer is kept */
    int code, reason;
};
struct group {
    bool there;
    uint32_t slot_count;
    struct claim *holder[SLOTS];
    uint64_t rest_until_ns[SLOTS];
};
struct world {
    struct prng p;
    struct store *store, *twin;
    uint64_t now_ns, sequence, came, last_token, acked[CLIENTS], seen_ns[CLIENTS];
    struct claim claims[CLAIMS];
    struct group groups[GROUPS];
    struct claim *granted[CLAIMS]; /* by the present command, in order */
    size_t granted_count, awake;   /* awake: clients that send requests; the others are silent */
    void *view;
    struct store_restore *restore;
    struct said said[SAID_MAX]; /* since the view was opened */
    size_t said_count;
};

/* -- the model -- */
static bool is_over(const struct world *w, const struct claim *claim)
{
    return claim->deadline_ns <= w->now_ns;
}

static struct claim *first_waiter(struct world *w, int group)
{
    struct claim *first = NULL;

    for (size_t i = 0; i < CLAIMS; i++)
        if (w->claims[i].place == WAITS && w->claims[i].group == group &&
            (!first || w->claims[i].came < first->came))
            first = &w->claims[i];
    return first;
}

static uint32_t waiters_of(const struct world *w, int group)
{
    uint32_t count = 0;

    for (size_t i = 0; i < CLAIMS; i++)
        count += w->claims[i].place == WAITS && w->claims[i].group == group;
    return count;
}

static uint32_t live_of(const struct group *group)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SLOTS; i++) count += group->holder[i] != NULL;
    return count;
}

static uint32_t free_slot(const struct group *group, uint32_t prefer)
{
    uint32_t first = STORE_NO_SLOT;

    for (uint32_t i = SLOTS; i-- > 0;) {
        bool is_free = !group->holder[i] && !group->rest_until_ns[i];
        if (i >= group->slot_count && group->holder[i]) return STORE_NO_SLOT; /* left over */
        if (i < group->slot_count && is_free) first = i;
    }
    if (prefer < group->slot_count && !group->holder[prefer] && !group->rest_until_ns[prefer])
        return prefer;
    return first;
}

static struct claim *holder_named(const struct world *w, const struct group *group,
                                  const char *owner)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (group->holder[i] && strcmp(group->holder[i]->asked.owner, owner) == 0 &&
            !is_over(w, group->holder[i]))
            return group->holder[i];
    return NULL;
}

static void take(struct world *w, struct claim *claim, uint32_t slot)
{
    claim->place = HOLDS;
    claim->slot = slot;
    claim->deadline_ns = w->now_ns + (uint64_t)claim->asked.command.ttl_ms * ms;
    claim->code = COORD_OK;
    claim->reason = COORD_R_ACQUIRED;
    w->groups[claim->group].holder[slot] = claim;
}

static void leave_queue(struct claim *claim)
{
    claim->place = NOWHERE;
    claim->remembered = false; /* a repeat is a new request */
}

static void serve(struct world *w, int number)
{
    struct group *group = &w->groups[number];
    struct claim *next;

    while ((next = first_waiter(w, number))) {
        uint32_t slot = free_slot(group, next->asked.command.prefer_slot);
        if (slot == STORE_NO_SLOT) return;
        /* One owner never gets a second slot: its repeat reports the slot that it holds. */
        if (is_over(w, next) || holder_named(w, group, next->asked.owner)) {
            leave_queue(next);
            continue;
        }
        take(w, next, slot);
        w->granted[w->granted_count++] = next;
    }
}

static void free_up(struct world *w, struct claim *claim, bool expired)
{
    struct group *group = &w->groups[claim->group];
    uint64_t until = claim->deadline_ns + cooldowns_ms[claim->group] * ms;

    group->holder[claim->slot] = NULL;
    if (expired && until > w->now_ns) group->rest_until_ns[claim->slot] = until;
    serve(w, claim->group);
}

static void end(struct world *w, struct claim *claim, bool expired)
{
    enum place was = claim->place;

    claim->place = NOWHERE;
    if (was == WAITS) leave_queue(claim);
    if (was == HOLDS) free_up(w, claim, expired);
}

static void lose(struct claim *claim, int reason)
{
    claim->place = LOST;
    claim->lost_reason = reason;
}

static int by_end(const struct claim *a, const struct claim *b)
{
    if (a->deadline_ns != b->deadline_ns) return a->deadline_ns < b->deadline_ns ? -1 : 1;
    return memcmp(a->lease.b, b->lease.b, sizeof a->lease.b);
}

/* A client that was silent for long is forgotten, with its answers. */
static bool is_silent(const struct world *w, size_t client)
{
    return w->now_ns - w->seen_ns[client] >= STORE_CLIENT_SILENT_NS;
}

static void forget_silent(struct world *w)
{
    for (size_t i = 0; i < CLAIMS; i++)
        if (w->claims[i].remembered && is_silent(w, w->claims[i].asked.command.client.b[0] - 1u))
            w->claims[i].remembered = false;
}

static void pass_time(struct world *w)
{
    forget_silent(w);
    for (;;) {
        struct claim *first = NULL;
        for (size_t i = 0; i < CLAIMS; i++) {
            struct claim *claim = &w->claims[i];
            if (claim->place != NOWHERE && is_over(w, claim) &&
                (!first || by_end(claim, first) < 0))
                first = claim;
        }
        if (!first) break;
        end(w, first, true);
    }
    for (;;) { /* cool-downs; the group whose first one ends soonest comes first */
        uint64_t soonest = UINT64_MAX;
        int number = 0;
        for (int g = 0; g < GROUPS; g++)
            for (uint32_t i = 0; i < SLOTS; i++) {
                uint64_t until = w->groups[g].rest_until_ns[i];
                if (until && until < soonest) {
                    soonest = until;
                    number = g;
                }
            }
        if (soonest > w->now_ns) return;
        for (uint32_t i = 0; i < SLOTS; i++)
            if (w->groups[number].rest_until_ns[i] <= w->now_ns)
                w->groups[number].rest_until_ns[i] = 0;
        serve(w, number);
    }
}

static uint64_t next_due(const struct world *w)
{
    uint64_t due = UINT64_MAX;

    for (size_t i = 0; i < CLAIMS; i++)
        if (w->claims[i].place != NOWHERE) due = min_u64(due, w->claims[i].deadline_ns);
    for (int g = 0; g < GROUPS; g++)
        for (uint32_t i = 0; i < SLOTS; i++)
            if (w->groups[g].rest_until_ns[i]) due = min_u64(due, w->groups[g].rest_until_ns[i]);
    return due;
}

/* -- commands -- */
static struct store_id draw_id(struct world *w)
{
    struct store_id id;

    for (size_t i = 0; i < sizeof id.b; i++) id.b[i] = (uint8_t)prng_below(&w->p, 256);
    id.b[0] |= 1;
    return id;
}

static void group_key(char key[40], int group)
{
    (void)snprintf(key, 40, "muster/g%d", group);
}

static void number_request(struct world *w, struct said *said)
{
    uint64_t client = prng_below(&w->p, w->awake);

    said->command.client = (struct store_id){{(uint8_t)(client + 1)}};
    said->command.sequence = ++w->sequence;
    if (prng_chance(&w->p, 20000))
        w->acked[client] =
            max_u64(w->acked[client], w->sequence - min_u64(w->sequence, prng_below(&w->p, 20)));
    said->command.acked = w->acked[client];
}

static void bind(struct said *said)
{
    said->command.key = str_from(said->key);
    said->command.value = str_from(said->value);
    said->command.owner = str_from(said->owner);
    if (said->command.kind == STORE_RENEW) said->command.renew = &said->renew;
}

/* Applies the command to both stores and compares the events of the first with the grants of the
 * model. `w->granted` comes from the model, so the model runs first. */
static struct store_result apply(struct world *w, const struct said *what,
                                 struct store_renewal *renewal)
{
    struct said said = *what;
    struct store_result result, other;
    struct store_renewal twin_renewal;
    struct store_event event;
    size_t granted = 0;

    bind(&said);
    said.at_ns = w->now_ns;
    if (said.command.client.b[0] && said.command.kind != STORE_CANCEL_WAIT)
        w->seen_ns[said.command.client.b[0] - 1] = w->now_ns;
    store_apply(w->store, w->now_ns, &said.command, &result, renewal);
    store_apply(w->twin, w->now_ns, &said.command, &other, &twin_renewal);
    CHECK("the twin answers alike", result.code == other.code && result.reason == other.reason &&
                                        result.slot == other.slot && result.token == other.token &&
                                        result.waiting == other.waiting);
    if (w->view) {
        CHECK("room", w->said_count < SAID_MAX);
        w->said[w->said_count++] = said;
    }
    while (store_event_next(w->store, &event)) {
        struct claim *claim = granted < w->granted_count ? w->granted[granted] : NULL;
        if (event.kind != STORE_GRANTED) continue;
        CHECK("granted to nobody else", claim && memcmp(&event.lease, &claim->lease, 16) == 0);
        CHECK_U32("the slot", event.result.slot, claim->slot);
        CHECK("tokens grow", event.result.token > w->last_token);
        claim->token = w->last_token = event.result.token;
        granted++;
    }
    CHECK_SIZE("number of grants", granted, w->granted_count);
    w->granted_count = 0;
    while (store_event_next(w->twin, &event)) {}
    CHECK("the twin is alike", store_hash(w->store) == store_hash(w->twin) &&
                                   store_sizes(w->store).bytes == store_sizes(w->twin).bytes);
    return result;
}

static struct claim *room_for_claim(struct world *w)
{
    struct claim *oldest = NULL;

    for (size_t i = 0; i < CLAIMS; i++)
        if (w->claims[i].place == NOWHERE &&
            (!oldest || w->claims[i].asked.command.sequence < oldest->asked.command.sequence))
            oldest = &w->claims[i];
    return oldest;
}

static struct claim *any_claim(struct world *w)
{
    struct claim *claim = &w->claims[prng_below(&w->p, CLAIMS)];

    return claim->asked.command.sequence ? claim : NULL;
}

static void same_answer(const struct claim *claim, const struct store_result *got, int code,
                        int reason)
{
    if (got->code != code || got->reason != reason)
        fprintf(stderr, "the store says %s/%s, the model %s/%s\n", coord_code_name(got->code),
                coord_reason_name(got->reason), coord_code_name(code), coord_reason_name(reason));
    CHECK("the code", got->code == code);
    CHECK("the reason", got->reason == reason);
    CHECK("a waiter is answered so", got->waiting == (claim->place == WAITS));
    if (code == COORD_OK) CHECK_U32("which slot", got->slot, claim->slot);
}

/* The expected answer to the request of `claim`, which is new to the store. */
static void ask(struct world *w, struct claim *claim)
{
    const struct store_command *command = &claim->asked.command;
    struct group *group = &w->groups[claim->group];
    struct claim *own = holder_named(w, group, claim->asked.owner);
    uint32_t slot;
    bool wrong_count = group->there && group->slot_count != command->slot_count;
    bool made = false;

    if (!wrong_count && !group->there) {
        group->there = true;
        group->slot_count = command->slot_count;
    }
    slot = waiters_of(w, claim->group) ? STORE_NO_SLOT : free_slot(group, command->prefer_slot);
    claim->place = NOWHERE;
    claim->lease = command->lease;
    claim->remembered = true;
    claim->code = COORD_EXISTS;
    if (wrong_count) {
        claim->code = COORD_CONFLICT;
        claim->reason = COORD_R_SLOT_COUNT;
    } else if (own && (command->flags & STORE_TAKEOVER)) {
        slot = own->slot;
        lose(own, COORD_R_SUPERSEDED);
        take(w, claim, slot);
        made = true;
    } else if (own) {
        claim->reason = COORD_R_ALREADY_HOLDER;
    } else if (slot != STORE_NO_SLOT) {
        take(w, claim, slot);
        made = true;
    } else {
        claim->reason = COORD_R_FULL;
        if (command->wait) {
            claim->place = WAITS;
            claim->came = ++w->came;
            claim->deadline_ns = w->now_ns + (uint64_t)command->ttl_ms * ms;
        }
    }
    struct store_result result = apply(w, &claim->asked, NULL);
    same_answer(claim, &result, claim->code, claim->reason);
    if (claim->reason == COORD_R_FULL) CHECK_U32("how many hold", result.live, live_of(group));
    if (!made) return;
    CHECK("tokens grow", result.token > w->last_token);
    claim->token = w->last_token = result.token;
}

static void do_acquire(struct world *w)
{
    struct claim *claim = room_for_claim(w);
    struct store_command *command;
    int number = (int)prng_below(&w->p, GROUPS);

    if (!claim) return;
    *claim = (struct claim){.group = number};
    command = &claim->asked.command;
    *command = (struct store_command){.kind = STORE_ACQUIRE, .lease = draw_id(w)};
    group_key(claim->asked.key, number);
    (void)snprintf(claim->asked.owner, sizeof claim->asked.owner, "o%u",
                   (unsigned)prng_below(&w->p, OWNERS));
    (void)snprintf(claim->asked.value, sizeof claim->asked.value, "%llu",
                   (unsigned long long)prng_u64(&w->p));
    command->ttl_ms = (int64_t)prng_between(&w->p, 300, 3000);
    command->slot_count =
        w->groups[number].there ? w->groups[number].slot_count : 1 + (uint32_t)prng_below(&w->p, 3);
    if (prng_chance(&w->p, 20000)) command->slot_count++;
    command->flags = prng_chance(&w->p, 100000) ? STORE_TAKEOVER : 0;
    command->prefer_slot =
        prng_chance(&w->p, 400000) ? (uint32_t)prng_below(&w->p, SLOTS) : STORE_NO_SLOT;
    command->cooldown_ms = cooldowns_ms[number];
    command->wait = prng_chance(&w->p, 700000);
    number_request(w, &claim->asked);
    pass_time(w);
    ask(w, claim);
}

/* The same request again, from a caller that got no answer; it drew another lease. */
static void do_repeat(struct world *w)
{
    struct claim *claim = any_claim(w);
    struct said again;
    struct store_result result;
    uint64_t client;
    bool altered = prng_chance(&w->p, 200000);

    if (!claim) return;
    again = claim->asked;
    client = again.command.client.b[0] - 1u;
    again.command.acked = w->acked[client];
    again.command.lease = draw_id(w);
    if (again.command.sequence < w->acked[client] && !is_silent(w, client)) {
        pass_time(w); /* delayed for long: its client no longer waits for it */
        result = apply(w, &again, NULL);
        CHECK("a late repeat is not applied again",
              result.code == COORD_INVALID && result.reason == COORD_R_HANDLE);
        return;
    }
    if (again.command.sequence + REPEAT_WITHIN < w->sequence ||
        again.command.sequence < w->acked[client])
        return;
    pass_time(w);
    if (!claim->remembered) {
        CHECK("a forgotten claim is over", claim->place == NOWHERE);
        claim->asked = again;
        ask(w, claim);
        return;
    }
    if (altered) {
        switch (prng_below(&w->p, 4)) {
        case 0: again.value[0] = (char)(again.value[0] == '1' ? '2' : '1'); break;
        case 1: again.owner[1] = (char)(again.owner[1] == '1' ? '2' : '1'); break;
        case 2: again.key[8] = (char)(again.key[8] == '1' ? '2' : '1'); break;
        default: again.command.ttl_ms++; break;
        }
        result = apply(w, &again, NULL);
        CHECK("another request under the same number",
              result.code == COORD_INVALID && result.reason == COORD_R_HANDLE);
        return;
    }
    result = apply(w, &again, NULL);
    same_answer(claim, &result, claim->code,
                claim->code == COORD_OK ? COORD_R_REPLAYED : claim->reason);
    if (claim->code == COORD_OK || result.waiting)
        CHECK("of its first attempt", memcmp(&result.lease, &claim->lease, 16) == 0);
    if (claim->code == COORD_OK) CHECK_U64("and its token", result.token, claim->token);
}

static void do_cancel(struct world *w)
{
    struct claim *claim = any_claim(w);
    struct said said = {.command = {.kind = STORE_CANCEL_WAIT}};
    struct store_result result;

    if (!claim || !claim->asked.command.wait) return;
    said.command.client = claim->asked.command.client;
    said.command.sequence = claim->asked.command.sequence;
    said.command.lease = claim->lease;
    pass_time(w);
    bool there = claim->place != NOWHERE;
    claim->remembered = false;
    end(w, claim, false);
    result = apply(w, &said, NULL);
    CHECK("cancel",
          result.code == COORD_OK && result.reason == (there ? COORD_R_RELEASED : COORD_R_ALREADY));
}

static void do_release(struct world *w)
{
    struct claim *claim = any_claim(w);
    struct said said = {.command = {.kind = STORE_RELEASE}};
    struct store_result result;
    int reason = COORD_R_RELEASED;

    if (!claim) return;
    said.command.lease = claim->lease;
    number_request(w, &said);
    pass_time(w);
    if (claim->place == NOWHERE)
        reason = COORD_R_DEADLINE;
    else if (claim->place == LOST)
        reason = claim->lost_reason;
    else
        end(w, claim, false);
    result = apply(w, &said, NULL);
    CHECK("release", result.reason == reason &&
                         result.code == (reason == COORD_R_RELEASED ? COORD_OK : COORD_EXPIRED));
}

static void do_renew(struct world *w)
{
    struct claim *claim = any_claim(w);
    struct said said = {.command = {.kind = STORE_RENEW, .renew_count = 1}};
    struct store_renewal renewal;

    if (!claim) return;
    said.renew = claim->lease;
    pass_time(w);
    bool good = claim->place == WAITS || claim->place == HOLDS;
    if (good) claim->deadline_ns = w->now_ns + (uint64_t)claim->asked.command.ttl_ms * ms;
    (void)apply(w, &said, &renewal);
    CHECK("renew", renewal.code == (good ? COORD_OK : COORD_EXPIRED));
    if (claim->place == LOST) CHECK("how", renewal.reason == claim->lost_reason);
}

static void do_resize(struct world *w)
{
    int number = (int)prng_below(&w->p, GROUPS);
    struct said said = {.command = {.kind = STORE_RESIZE}};
    struct store_group group;
    struct store_result result;

    group_key(said.key, number);
    if (!store_group_of(w->store, str_from(said.key), &group)) return;
    said.command.expected = group.revision;
    said.command.slot_count = 1 + (uint32_t)prng_below(&w->p, SLOTS - 1);
    number_request(w, &said);
    pass_time(w);
    w->groups[number].slot_count = said.command.slot_count;
    serve(w, number);
    result = apply(w, &said, NULL);
    CHECK("resize", result.code == COORD_OK);
}

/* An operator revokes a slot. */
static void do_revoke(struct world *w)
{
    struct claim *claim = any_claim(w);
    struct said said = {.command = {.kind = STORE_DELETE, .expected = STORE_FORCE}};
    struct store_result result;

    pass_time(w);
    if (claim && claim->place == HOLDS) {
        (void)snprintf(said.key, sizeof said.key, "muster/g%d/slot-%04u", claim->group,
                       (unsigned)claim->slot % 10000u);
        lose(claim, COORD_R_REVOKED);
        free_up(w, claim, false);
    } else {
        (void)snprintf(said.key, sizeof said.key, "muster/nothing");
        claim = NULL;
    }
    number_request(w, &said);
    result = apply(w, &said, NULL);
    CHECK("revoke", result.code == (claim ? COORD_OK : COORD_NOT_FOUND));
}

/* Only time passes; sometimes so much that some or all clients are forgotten. */
static void do_tick(struct world *w)
{
    struct said said = {.command = {.kind = STORE_TICK}};
    uint64_t die = prng_below(&w->p, 100);

    if (die < 12) w->now_ns += STORE_CLIENT_SILENT_NS / (die < 4 ? 1 : 2);
    if (die < 12) w->awake = 1 + prng_below(&w->p, CLIENTS);
    pass_time(w);
    (void)apply(w, &said, NULL);
    if (die < 12) CHECK_U64("nothing is held for ever", store_sizes(w->store).leases, 0);
    if (die < 4) CHECK_U64("nobody is remembered for ever", store_sizes(w->store).clients, 0);
}

/* -- snapshots -- */
static void feed(void *view, struct store_restore *restore, size_t budget, bool *ret_done)
{
    struct note note = {""};
    struct buf out;

    buf_init(&out, 1 << 24);
    CHECK_OK("next", section_view_next(view, budget, &out, ret_done));
    CHECK_OK("feed", store_restore_feed(restore, buf_peek(&out), &note));
    buf_deinit(&out);
}

static void restore_twin(struct world *w, void *view, struct store_restore *restore)
{
    struct note note = {""};
    struct store *fresh;

    CHECK_OK("whole", store_restore_done(restore, &fresh, &note));
    store_restore_close(restore);
    section_view_close(view);
    store_close(w->twin);
    w->twin = fresh;
}

static void exchange_twin(struct world *w)
{
    struct store_options options = {0};
    struct store_restore *restore = store_restore_open(&options);
    void *view;
    bool done = false;

    CHECK_OK("a view", store_view_open(w->twin, &view));
    while (!done) feed(view, restore, 1000, &done);
    restore_twin(w, view, restore);
}

static void do_view(struct world *w)
{
    struct store_options options = {0};
    struct store_event event;
    bool done = false;

    if (!w->view) {
        CHECK_OK("a view", store_view_open(w->store, &w->view));
        w->restore = store_restore_open(&options);
        w->said_count = 0;
        return;
    }
    /* Feeds the rest at once when there would be too many commands to replay. */
    do feed(w->view, w->restore, prng_below(&w->p, 2000), &done);
    while (!done && w->said_count > SAID_MAX / 2);
    if (!done) return;
    restore_twin(w, w->view, w->restore);
    w->view = NULL;
    w->restore = NULL;
    for (size_t i = 0; i < w->said_count; i++) {
        struct store_result result;
        struct store_renewal renewal;
        bind(&w->said[i]);
        store_apply(w->twin, w->said[i].at_ns, &w->said[i].command, &result, &renewal);
        while (store_event_next(w->twin, &event)) {}
    }
    CHECK("the restored store equals the one that continued",
          store_hash(w->twin) == store_hash(w->store));
}

/* -- the state against the model's -- */
static void compare(struct world *w)
{
    char key[40];

    for (int g = 0; g < GROUPS; g++) {
        const struct group *want = &w->groups[g];
        struct store_group got;
        group_key(key, g);
        CHECK("the group", store_group_of(w->store, str_from(key), &got) == want->there);
        if (!want->there) continue;
        CHECK_U32("its slots", got.slot_count, want->slot_count);
        CHECK_U32("number of holders", got.live, live_of(want));
        CHECK_U32("number of waiters", got.waiters, waiters_of(w, g));
        for (uint32_t i = 0; i < SLOTS; i++) {
            const struct claim *holder = want->holder[i];
            struct store_claim claim;
            struct key_value value;
            (void)snprintf(key, sizeof key, "muster/g%d/slot-%04u", g, (unsigned)i);
            CHECK("the slot's key",
                  keys_get(store_keys(w->store), str_from(key), 0, &value) == (holder != NULL));
            if (!holder) continue;
            CHECK("its holder", store_claim_of(w->store, str_from(key), w->now_ns, &claim));
            CHECK_U64("its token", claim.token, holder->token);
            CHECK("its owner", str_equal(claim.owner, str_from(holder->asked.owner)));
            CHECK("its value", str_equal(value.value, str_from(holder->asked.value)));
            CHECK_I64("its time", claim.remaining_ms,
                      (int64_t)((holder->deadline_ns - w->now_ns) / ms));
        }
    }
    CHECK_U64("when a tick is due", store_next_due(w->store), next_due(w));
}

static void run(uint64_t seed)
{
    static struct world w;
    struct store_options options = {0};

    memset(&w, 0, sizeof w);
    prng_seed(&w.p, seed);
    w.store = store_open(&options);
    w.twin = store_open(&options);
    w.awake = CLIENTS;
    for (int step = 0; step < STEPS; step++) {
        uint64_t die = prng_below(&w.p, 100);
        w.now_ns += prng_below(&w.p, 120) * ms;
        if (die < 35)
            do_acquire(&w);
        else if (die < 50)
            do_renew(&w);
        else if (die < 62)
            do_release(&w);
        else if (die < 72)
            do_repeat(&w);
        else if (die < 78)
            do_cancel(&w);
        else if (die < 81)
            do_resize(&w);
        else if (die < 84)
            do_revoke(&w);
        else if (die < 90)
            do_tick(&w);
        else
            do_view(&w);
        if (store_clock_ns(w.store) == w.now_ns) compare(&w);
        if (step % 400 == 399) exchange_twin(&w);
    }
    section_view_close(w.view);
    store_restore_close(w.restore);
    store_close(w.store);
    store_close(w.twin);
}

TEST(slots_go_in_order_of_arrival_and_a_repeat_finds_its_place)
{
    struct prng worlds;

    prng_seed(&worlds, test_seed());
    for (int i = 0; i < WORLDS; i++) run(prng_u64(&worlds));
}

/* -- bounds -- */
static struct store_command acquire_of(uint32_t number, char owner[16])
{
    (void)snprintf(owner, 16, "o%u", (unsigned)number);
    return (struct store_command){.kind = STORE_ACQUIRE,
                                  .key = STR("muster/g"),
                                  .owner = str_from(owner),
                                  .lease = {{1, (uint8_t)number, (uint8_t)(number >> 8)}},
                                  .ttl_ms = 1000,
                                  .slot_count = 1,
                                  .prefer_slot = STORE_NO_SLOT,
                                  .wait = true};
}

TEST(a_queue_has_an_end)
{
    struct store_options options = {0};
    struct store *store = store_open(&options);
    struct store_result result;
    struct store_group group;
    char owner[16];

    for (uint32_t i = 0; i <= STORE_WAITERS_MAX; i++) {
        struct store_command command = acquire_of(i, owner);
        store_apply(store, 1, &command, &result, NULL);
        CHECK("the first holds, the others wait", result.waiting == (i > 0));
    }
    struct store_command command = acquire_of(STORE_WAITERS_MAX + 1, owner);
    store_apply(store, 1, &command, &result, NULL);
    CHECK("no more", result.code == COORD_UNAVAILABLE && result.reason == COORD_R_OVERLOADED);
    CHECK("a waiter",
          store_group_of(store, STR("muster/g"), &group) && group.waiters == STORE_WAITERS_MAX);
    store_close(store);
}

TEST(many_leases_end_in_portions_and_none_counts_meanwhile)
{
    enum { PORTION = STORE_EXPIRE_MAX / 2, CROWD = 4 * PORTION }; /* each has one key */
    struct store_options options = {0};
    struct store *store = store_open(&options);
    struct store_command tick = {.kind = STORE_TICK};
    struct store_result result;
    struct store_renewal renewal;
    struct store_claim claim;
    uint64_t after = 1001 * ms;
    char owner[16], key[40];

    for (uint32_t i = 0; i < CROWD; i++) {
        struct store_command command = acquire_of(i, owner);
        (void)snprintf(key, sizeof key, "muster/g%u", (unsigned)i);
        command.key = str_from(key);
        store_apply(store, ms, &command, &result, NULL);
        CHECK("made", result.code == COORD_OK);
    }
    store_apply(store, after, &tick, &result, NULL);
    CHECK_U64("a portion", store_sizes(store).leases, CROWD - PORTION);
    CHECK("the rest is due at once", store_next_due(store) <= after);
    store_apply(store, after, &tick, &result, NULL);
    CHECK_U64("another", store_sizes(store).leases, CROWD - 2 * PORTION);
    /* The owner with the last id gets one more command: its lease is not renewed again, and its
     * slot becomes free. */
    struct store_id last = acquire_of(CROWD - 1, owner).lease;
    struct store_command renew = {.kind = STORE_RENEW, .renew = &last, .renew_count = 1};
    store_apply(store, after, &renew, &result, &renewal);
    CHECK("renewed no more", renewal.code == COORD_EXPIRED);
    CHECK_U64("its end is to come", store_sizes(store).leases, PORTION);
    (void)snprintf(key, sizeof key, "muster/g%d/slot-0000", CROWD - 1);
    CHECK("for the contract it is gone", !store_claim_of(store, str_from(key), after, &claim));
    store_apply(store, after, &tick, &result, NULL);
    CHECK_U64("all are gone", store_sizes(store).leases, 0);
    CHECK("nothing is due", store_next_due(store) == UINT64_MAX);
    store_close(store);
}
