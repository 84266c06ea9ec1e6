/* SPDX-License-Identifier: Apache-2.0 */
/* prim/change.h over a store in memory that loses races, requests and answers on request. */
#include "prim/change.h"

#include <stdlib.h>

#include "lib/test.h"
#include "prim/answer.h"
#include "prim/names.h"

enum { KEYS = 8, SLOTS_MOST = 4 };

enum fault {
    FAULT_NONE,
    FAULT_RACE,         /* `rival` writes first */
    FAULT_LOST_REQUEST, /* in doubt, not applied */
    FAULT_LOST_ANSWER,  /* in doubt, applied */
};
struct record {
    char key[64], value[32], owner[32];
    struct prim_seen seen;
};
struct fake {
    struct prim_backend backend;
    struct record records[KEYS];
    size_t count;
    uint64_t revision;
    enum fault fault; /* of the next write */
    struct claim_envelope rival;
    bool always; /* each write loses a race against a renewal */
    bool hasty;  /* it also guesses after an attempt that may have been applied */
    int reads, writes, lists, begun;
    int64_t now_ns;
};
static struct fake *fake_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct fake, backend);
}

static int64_t fake_now(void *arg)
{
    return ((struct fake *)arg)->now_ns += 10;
}

static struct record *record_of(struct fake *fake, struct str key)
{
    for (size_t i = 0; i < fake->count; i++)
        if (str_equal(str_from(fake->records[i].key), key)) return &fake->records[i];
    assert(fake->count < KEYS);
    struct record *made = &fake->records[fake->count++];
    memcpy(made->key, key.at, key.len);
    made->seen = (struct prim_seen){.kind = PRIM_SEEN_NOTHING, .left_ms = -1};
    return made;
}

static void store(struct fake *fake, struct str key, const struct claim_envelope *envelope,
                  enum prim_act act)
{
    struct record *record = record_of(fake, key);
    struct prim_seen *seen = &record->seen;
    struct claim_envelope kept = *envelope;
    struct record before = *record; /* a renewal borrows texts of the record that it replaces */
    if (envelope->owner.at == record->owner) kept.owner.at = before.owner;
    if (envelope->value.at == record->value) kept.value.at = before.value;
    if (kept.value.len > 0) memcpy(record->value, kept.value.at, kept.value.len);
    if (kept.owner.len > 0) memcpy(record->owner, kept.owner.at, kept.owner.len);
    kept.value.at = record->value;
    kept.owner.at = record->owner;
    seen->envelope = kept;
    seen->kind = kept.flags & ENVELOPE_TOMBSTONE ? PRIM_SEEN_TOMBSTONE : PRIM_SEEN_LIVE;
    seen->over = seen->barred = false;
    seen->sequence++;
    if (act != PRIM_ACT_RENEW) seen->revision = ++fake->revision;
    if (act == PRIM_ACT_MAKE) seen->create_revision = seen->revision;
    if (!(kept.flags & ENVELOPE_LEASED))
        seen->token = 0;
    else if (act == PRIM_ACT_MAKE || act == PRIM_ACT_GRANT)
        seen->token = seen->revision;
    seen->ttl_ms = seen->token ? kept.ttl_ms : 0;
    seen->left_ms = seen->token ? 77 : -1;
}

static void *begin(struct prim_change *c)
{
    fake_of(c->backend)->begun++;
    return malloc(1);
}

static void end(struct prim_change *c, const coord_result *result)
{
    (void)result;
    fake_of(c->backend)->begun--;
    free(c->own);
}

static bool guess(struct prim_change *c)
{
    if (c->claim != NULL || (c->doubt && !fake_of(c->backend)->hasty)) return false;
    c->seen = (struct prim_seen){.kind = PRIM_SEEN_NOTHING, .left_ms = -1};
    return true;
}

static coord_result read_key(struct prim_change *c)
{
    fake_of(c->backend)->reads++;
    c->seen = record_of(fake_of(c->backend), c->key)->seen;
    return prim_ok(COORD_R_NONE);
}

static enum prim_wrote write_key(struct prim_change *c, const struct prim_plan *plan,
                                 coord_result *ret_why)
{
    struct fake *fake = fake_of(c->backend);
    struct record *record = record_of(fake, c->key);
    enum fault fault = fake->fault;
    fake->writes++;
    fake->fault = FAULT_NONE;
    c->sent_ns = fake_now(fake);
    *ret_why = prim_ok(COORD_R_NONE);
    if (fake->always) record->seen.sequence++;
    if (fault == FAULT_RACE) store(fake, c->key, &fake->rival, PRIM_ACT_MAKE);
    if (fault == FAULT_LOST_REQUEST || fault == FAULT_LOST_ANSWER) prim_change_doubt(c, c->sent_ns);
    if (fault == FAULT_LOST_REQUEST || record->seen.sequence != c->seen.sequence)
        return PRIM_WROTE_RACE;
    store(fake, c->key, &plan->envelope, plan->act);
    if (fault == FAULT_LOST_ANSWER) return PRIM_WROTE_RACE;
    c->seen = record->seen;
    return PRIM_WROTE;
}

static coord_result foreign(const struct prim_change *c)
{
    (void)c;
    return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "not ours");
}

static coord_result list(struct prim_change *c, struct str group, uint32_t wanted,
                         struct prim_slots *slots)
{
    struct fake *fake = fake_of(c->backend);
    char key[PRIM_SLOT_KEY_CAP];
    (void)wanted;
    fake->lists++;
    coord_result result = prim_slots_begin(slots, &record_of(fake, c->key)->seen);
    for (uint32_t i = 0; result.code == COORD_OK && i < slots->count; i++) {
        prim_slot_key(group, i, key);
        slots->at[i] = record_of(fake, str_from(key))->seen;
    }
    return result;
}

static void list_end(struct prim_slots *slots)
{
    (void)slots;
}

static const struct prim_ways ways = {.begin = begin,
                                      .end = end,
                                      .guess = guess,
                                      .read = read_key,
                                      .write = write_key,
                                      .foreign = foreign,
                                      .list = list,
                                      .list_end = list_end};
static coord_caps capabilities(struct prim_backend *)
{
    return (coord_caps){.bits = COORD_CAP_SLOTS};
}
static const struct prim_backend_ops ops = {.capabilities = capabilities, .ways = &ways};

static struct fake *fake_open(void)
{
    struct fake *fake = calloc(1, sizeof *fake);
    assert(fake != NULL);
    fake->backend.ops = &ops;
    fake->backend.clock = (struct prim_clock){fake_now, fake};
    fake->backend.limits.ttl_step_ms = 1000;
    fake->rival = (struct claim_envelope){.flags = ENVELOPE_LEASED,
                                          .ttl_ms = 1000,
                                          .owner = STR("rival"),
                                          .value = STR("r"),
                                          .lease_id = {{99}},
                                          .request_id = {{99}}};
    return fake;
}

static void fake_close(struct fake *fake)
{
    CHECK_I64("each change was ended", fake->begun, 0);
    free(fake);
}

static struct prim_call call_of(uint8_t request, uint32_t attempt)
{
    return (struct prim_call){
        .deadline_ns = INT64_MAX, .request_id = {{request}}, .attempt = attempt};
}

#define ANSWERS(why, got, want_code, want_reason)                                                  \
    do {                                                                                           \
        coord_result got_ = (got);                                                                 \
        CHECK_TEXT(why, coord_code_name(got_.code), coord_code_name(want_code));                   \
        CHECK_TEXT(why, coord_reason_name(got_.reason), coord_reason_name(want_reason));           \
    } while (0)

static coord_result create(struct fake *fake, uint8_t request, uint32_t attempt, int64_t ttl_ms,
                           struct prim_grant *ret_grant)
{
    struct prim_call call = call_of(request, attempt);
    struct prim_create in = {.key = STR("k"),
                             .value = STR("v"),
                             .owner = STR("me"),
                             .ttl_ms = ttl_ms,
                             .lease_id = {{request}}};
    *ret_grant = (struct prim_grant){0};
    return prim_change_create(&fake->backend, &call, &in, ret_grant);
}

TEST(a_create_is_one_write_when_nothing_is_there)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    ANSWERS("made", create(fake, 1, 0, 1500, &grant), COORD_OK, COORD_R_CREATED);
    CHECK_I64("no read", fake->reads, 0);
    CHECK_I64("whole seconds", grant.granted_ttl_ms, 2000);
    CHECK_U64("token", grant.token, 1);
    CHECK_I64("counts from before its write", grant.sent_ns, 10);
    ANSWERS("another's", create(fake, 2, 0, 1500, &grant), COORD_EXISTS, COORD_R_HELD);
    CHECK_I64("after one read", fake->reads, 1);
    fake->records[0].seen.over = true;
    ANSWERS("its holder is gone", create(fake, 3, 0, 0, &grant), COORD_OK, COORD_R_CREATED);
    fake_close(fake);
}

TEST(a_lost_race_is_evaluated_again)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    fake->fault = FAULT_RACE;
    coord_result result = create(fake, 1, 0, 1000, &grant);
    ANSWERS("another was faster", result, COORD_EXISTS, COORD_R_HELD);
    CHECK_TEXT("the owner", result.owner, "rival");
    CHECK_I64("nothing in doubt", (int64_t)(result.flags & COORD_F_MAYBE_APPLIED), 0);
    fake_close(fake);
}

TEST(a_write_in_doubt_is_looked_for)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    fake->fault = FAULT_LOST_ANSWER;
    ANSWERS("it was applied", create(fake, 1, 0, 1000, &grant), COORD_OK, COORD_R_REPLAYED);
    CHECK_I64("once", fake->writes, 1);
    CHECK_I64("counts from before the write in doubt", grant.sent_ns, 10);
    struct prim_call call = call_of(2, 0);
    struct prim_delete in = {.key = STR("k"), .expected = COORD_FORCE};
    fake->fault = FAULT_LOST_REQUEST;
    ANSWERS("it was not", prim_change_remove(&fake->backend, &call, &in), COORD_OK,
            COORD_R_DELETED);
    CHECK_I64("written again", fake->writes, 3);
    fake_close(fake);
}

TEST(the_lease_of_an_earlier_attempt_is_renewed_once)
{
    struct fake *fake = fake_open();
    struct prim_grant first, again;
    ANSWERS("made", create(fake, 1, 0, 1000, &first), COORD_OK, COORD_R_CREATED);
    ANSWERS("found", create(fake, 1, 1, 1000, &again), COORD_OK, COORD_R_REPLAYED);
    CHECK_U64("the same grant", again.token, first.token);
    CHECK("counted from the renewal", again.sent_ns > first.sent_ns);
    CHECK_I64("by a write", fake->writes, 2);
    fake_close(fake);
}

TEST(a_replayed_create_counts_its_lease_from_the_renewal)
{
    struct fake *fake = fake_open();
    struct prim_grant first, again;
    fake->hasty = true;
    ANSWERS("applied, but the answer is lost", create(fake, 1, 0, 1000, &first), COORD_OK,
            COORD_R_CREATED);
    fake->fault = FAULT_LOST_REQUEST;
    ANSWERS("found", create(fake, 1, 1, 1000, &again), COORD_OK, COORD_R_REPLAYED);
    CHECK_I64("renewed", fake->writes, 3);
    CHECK("counted from the renewal", again.sent_ns > first.sent_ns + 10);
    fake_close(fake);
}

static coord_result set(struct fake *fake, uint8_t request, uint64_t expected, int64_t ttl_ms,
                        const struct prim_claim *claim)
{
    struct prim_call call = call_of(request, 0);
    struct prim_grant grant = {0};
    struct prim_cas in = {.key = STR("k"),
                          .value = STR("w"),
                          .expected = expected,
                          .ttl_ms = ttl_ms,
                          .lease_id = {{request}},
                          .claim = claim};
    coord_result result = prim_change_cas(&fake->backend, &call, &in, &grant);
    if (ttl_ms <= 0) CHECK_I64("no lease was made", grant.granted_ttl_ms, 0);
    return result;
}

TEST(a_compare_asks_for_the_revision_first_and_then_for_the_lease)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    ANSWERS("absent", set(fake, 1, 4, 0, NULL), COORD_CONFLICT, COORD_R_ABSENT);
    ANSWERS("held", create(fake, 2, 0, 1000, &grant), COORD_OK, COORD_R_CREATED);
    struct prim_held held = {.key = (char[]){"k"}, .token = grant.token};
    struct prim_claim claim = {.lease_id = {{2}}, .held = &held, .count = 1};
    ANSWERS("revision", set(fake, 3, 9, 0, NULL), COORD_CONFLICT, COORD_R_REVISION);
    ANSWERS("no lease", set(fake, 4, 1, 0, NULL), COORD_CONFLICT, COORD_R_NOT_OWNER);
    ANSWERS("present", set(fake, 5, 0, 0, NULL), COORD_CONFLICT, COORD_R_PRESENT);
    ANSWERS("kept", set(fake, 6, 1, COORD_TTL_KEEP, &claim), COORD_OK, COORD_R_UPDATED);
    CHECK_U64("the token stays", fake->records[0].seen.token, grant.token);
    ANSWERS("a new lease", set(fake, 7, 2, 1000, &claim), COORD_OK, COORD_R_UPDATED);
    CHECK_U64("a new token", fake->records[0].seen.token, 3);
    CHECK_STR("the same owner", fake->records[0].seen.envelope.owner, STR("me"));
    fake_close(fake);
}

TEST(a_revision_past_the_expected_one_leaves_a_repeat_unknown)
{
    struct prim_ways gapless = ways;
    struct prim_backend_ops over = {.ways = &gapless};
    struct fake *fake = fake_open();
    struct prim_grant grant;
    gapless.dense = true;
    fake->backend.ops = &over;
    ANSWERS("made", create(fake, 1, 0, 0, &grant), COORD_OK, COORD_R_CREATED);
    fake->revision = 5;
    fake->fault = FAULT_RACE;
    struct prim_call call = call_of(2, 1);
    struct prim_cas in = {.key = STR("k"), .value = STR("w"), .expected = 1};
    coord_result result = prim_change_cas(&fake->backend, &call, &in, &grant);
    ANSWERS("not known", result, COORD_UNAVAILABLE, COORD_R_STORAGE);
    CHECK("maybe", result.flags & COORD_F_MAYBE_APPLIED);
    gapless.dense = false;
    ANSWERS("where gaps say nothing", prim_change_cas(&fake->backend, &call, &in, &grant),
            COORD_CONFLICT, COORD_R_REVISION);
    fake_close(fake);
}

TEST(a_claim_is_renewed_released_and_its_loss_has_a_reason)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    struct prim_call call = call_of(9, 0), again = call_of(9, 1);
    int64_t sent_ns = 0;
    ANSWERS("held", create(fake, 1, 0, 1000, &grant), COORD_OK, COORD_R_CREATED);
    struct prim_held held = {.key = (char[]){"k"}, .token = grant.token};
    struct prim_claim claim = {.lease_id = {{1}}, .held = &held, .count = 1};
    struct prim_claim none = {.lease_id = {{1}}};
    struct prim_backend *b = &fake->backend;
    ANSWERS("renewed", prim_change_renew(b, &call, &claim, &sent_ns), COORD_OK, COORD_R_RENEWED);
    CHECK("from before its write", sent_ns > 0);
    CHECK_U64("no change", fake->records[0].seen.revision, 1);
    ANSWERS("no key", prim_change_renew(b, &call, &none, &sent_ns), COORD_EXPIRED,
            COORD_R_RELEASED);
    fake->always = true;
    ANSWERS("given up early", prim_change_renew(b, &call, &claim, &sent_ns), COORD_UNAVAILABLE,
            COORD_R_OVERLOADED);
    fake->always = false;
    fake->records[0].seen.barred = true;
    ANSWERS("another coordinates", prim_change_renew(b, &call, &claim, &sent_ns), COORD_EXPIRED,
            COORD_R_REVOKED);
    ANSWERS("and is left alone", create(fake, 2, 0, 0, &grant), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    fake->records[0].seen.barred = false;
    ANSWERS("released", prim_change_release(b, &call, &claim, NULL), COORD_OK, COORD_R_RELEASED);
    ANSWERS("once", prim_change_release(b, &call, &claim, NULL), COORD_OK, COORD_R_ALREADY);
    ANSWERS("over", prim_change_renew(b, &call, &claim, &sent_ns), COORD_EXPIRED, COORD_R_RELEASED);
    fake->records[0].seen = (struct prim_seen){.kind = PRIM_SEEN_EXPIRED};
    ANSWERS("time", prim_change_renew(b, &call, &claim, &sent_ns), COORD_EXPIRED, COORD_R_DEADLINE);
    fake->records[0].seen = (struct prim_seen){.kind = PRIM_SEEN_FOREIGN};
    ANSWERS("damaged", prim_change_renew(b, &call, &claim, &sent_ns), COORD_EXPIRED,
            COORD_R_REVOKED);
    fake->records[0].seen = (struct prim_seen){.kind = PRIM_SEEN_NOTHING};
    ANSWERS("deleted", prim_change_release(b, &call, &claim, NULL), COORD_EXPIRED, COORD_R_REVOKED);
    ANSWERS("by the first attempt", prim_change_release(b, &again, &claim, NULL), COORD_OK,
            COORD_R_ALREADY);
    fake_close(fake);
}

TEST(a_delete_leaves_a_tombstone_that_knows_its_request)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    struct prim_call call = call_of(2, 0);
    struct prim_delete any = {.key = STR("k"), .expected = COORD_ANY};
    struct prim_delete exact = {.key = STR("k"), .expected = 9};
    coord_entry *entry = NULL;
    struct prim_backend *b = &fake->backend;
    ANSWERS("nothing", prim_change_remove(b, &call, &any), COORD_NOT_FOUND, COORD_R_NONE);
    ANSWERS("held", create(fake, 1, 0, 1000, &grant), COORD_OK, COORD_R_CREATED);
    ANSWERS("revision", prim_change_remove(b, &call, &exact), COORD_CONFLICT, COORD_R_REVISION);
    ANSWERS("lease", prim_change_remove(b, &call, &any), COORD_CONFLICT, COORD_R_NOT_OWNER);
    ANSWERS("read", prim_change_get(b, &call, STR("k"), COORD_LATEST, &entry), COORD_OK,
            COORD_R_NONE);
    CHECK_TEXT("owner", entry->owner, "me");
    CHECK_I64("left", entry->remaining_ms, 77);
    coord_entry_free(entry);
    any.expected = COORD_FORCE;
    ANSWERS("by force", prim_change_remove(b, &call, &any), COORD_OK, COORD_R_DELETED);
    ANSWERS("again", prim_change_remove(b, &call, &any), COORD_OK, COORD_R_ALREADY);
    ANSWERS("gone", prim_change_get(b, &call, STR("k"), COORD_LATEST, &entry), COORD_NOT_FOUND,
            COORD_R_NONE);
    fake_close(fake);
}

/* -- slots -- */

static coord_result acquire(struct fake *fake, uint8_t request, const char *owner, uint32_t count,
                            uint32_t flags, struct prim_grant *ret_grant)
{
    struct prim_call call = call_of(request, 0);
    struct prim_acquire in = {.group = STR("g"),
                              .owner = str_from(owner),
                              .value = STR("v"),
                              .slot_count = count,
                              .flags = flags,
                              .prefer_slot = COORD_NO_SLOT,
                              .ttl_ms = 1000,
                              .lease_id = {{request}}};
    *ret_grant = (struct prim_grant){.slot = COORD_NO_SLOT};
    return prim_change_acquire(&fake->backend, &call, &in, ret_grant);
}

TEST(a_caller_that_loses_a_slot_takes_the_next)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    ANSWERS("no group", acquire(fake, 1, "a", 2, COORD_NO_CREATE, &grant), COORD_NOT_FOUND,
            COORD_R_NONE);
    ANSWERS("made and taken", acquire(fake, 2, "a", 2, 0, &grant), COORD_OK, COORD_R_ACQUIRED);
    CHECK_U32("the first", grant.slot, 0);
    ANSWERS("another count", acquire(fake, 3, "b", 3, 0, &grant), COORD_CONFLICT,
            COORD_R_SLOT_COUNT);
    ANSWERS("its own", acquire(fake, 4, "a", 2, 0, &grant), COORD_EXISTS, COORD_R_ALREADY_HOLDER);
    ANSWERS("the same request", acquire(fake, 2, "a", 2, 0, &grant), COORD_OK, COORD_R_REPLAYED);
    fake->fault = FAULT_RACE;
    int lists = fake->lists;
    coord_result result = acquire(fake, 5, "b", 2, 0, &grant);
    ANSWERS("the last one was lost", result, COORD_EXISTS, COORD_R_FULL);
    CHECK_I64("seen by another look", fake->lists, lists + 2);
    CHECK_U32("live", result.live, 2);
    CHECK_I64("hint", result.hint_ms, 77);
    fake_close(fake);
}

TEST(of_two_takeovers_at_once_the_second_is_refused)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    ANSWERS("held", acquire(fake, 1, "a", 1, 0, &grant), COORD_OK, COORD_R_ACQUIRED);
    ANSWERS("taken over", acquire(fake, 2, "a", 1, COORD_TAKEOVER_SAME_OWNER, &grant), COORD_OK,
            COORD_R_ACQUIRED);
    fake->rival.owner = STR("a");
    fake->fault = FAULT_RACE;
    ANSWERS("the other was first", acquire(fake, 3, "a", 1, COORD_TAKEOVER_SAME_OWNER, &grant),
            COORD_EXISTS, COORD_R_ALREADY_HOLDER);
    fake_close(fake);
}

TEST(a_group_only_grows)
{
    struct fake *fake = fake_open();
    struct prim_grant grant;
    struct prim_call call = call_of(9, 0), other = call_of(10, 0);
    struct prim_backend *b = &fake->backend;
    coord_holders *holders = NULL;
    ANSWERS("none", prim_change_resize(b, &call, STR("g"), 1, 2), COORD_NOT_FOUND, COORD_R_NONE);
    ANSWERS("no list", prim_change_holders(b, &call, STR("g"), &holders), COORD_NOT_FOUND,
            COORD_R_NONE);
    ANSWERS("held", acquire(fake, 1, "a", 2, 0, &grant), COORD_OK, COORD_R_ACQUIRED);
    ANSWERS("listed", prim_change_holders(b, &call, STR("g"), &holders), COORD_OK, COORD_R_NONE);
    CHECK_U64("one", holders->count, 1);
    CHECK_TEXT("the owner", holders->rows[0].owner, "a");
    uint64_t revision = holders->revision;
    coord_holders_free(holders);
    ANSWERS("no shrink", prim_change_resize(b, &call, STR("g"), revision, 1), COORD_UNSUPPORTED,
            COORD_R_CAPABILITY);
    ANSWERS("grown", prim_change_resize(b, &call, STR("g"), revision, 3), COORD_OK,
            COORD_R_RESIZED);
    ANSWERS("again", prim_change_resize(b, &call, STR("g"), revision, 3), COORD_OK,
            COORD_R_REPLAYED);
    ANSWERS("late", prim_change_resize(b, &other, STR("g"), revision, 4), COORD_CONFLICT,
            COORD_R_REVISION);
    record_of(fake, STR("g/.group"))->seen.envelope.flags = 0;
    ANSWERS("no record", acquire(fake, 2, "b", 3, 0, &grant), COORD_UNAVAILABLE, COORD_R_CORRUPT);
    fake_close(fake);
}
