/* SPDX-License-Identifier: Apache-2.0 */
/* The checker accepts what may happen and finds each planted violation. */
#include "checker.h"
#include "lib/test.h"

#define MS 1000000
struct world {
    struct history history;
};
static void put(struct world *w, struct history_op op)
{
    op.called_ns *= MS; /* in the tables: milliseconds */
    op.replied_ns *= MS;
    CHECK("memory", history_add(&w->history, &op));
}
static void judge(struct world *w, const char *want)
{
    char why[CHECKER_TEXT_CAP];
    bool fine = checker_run(&w->history, why);
    CHECK_TEXT("why", fine ? "" : why, want[0] == '\0' ? "" : why);
    if (want[0] != '\0') { CHECK_HAS("the rule", why, want); }
    CHECK("verdict", fine == (want[0] == '\0'));
    history_deinit(&w->history);
}
static struct history_op acquire(uint64_t handle, int64_t called, int64_t replied, uint32_t slot,
                                 uint64_t token)
{
    return (struct history_op){.op = COORD_OP_ACQUIRE,
                               .client = (uint32_t)handle,
                               .handle = handle,
                               .slot = slot,
                               .slots_max = 2,
                               .called_ns = called,
                               .replied_ns = replied,
                               .revision = token,
                               .token = token,
                               .ttl_ms = 100,
                               .key = "g"};
}
static struct history_op with(uint64_t handle, int op, int64_t called, int64_t replied, int code)
{
    return (struct history_op){.op = op,
                               .client = (uint32_t)handle,
                               .handle = handle,
                               .called_ns = called,
                               .replied_ns = replied,
                               .code = code,
                               .ttl_ms = op == COORD_OP_RENEW ? 100 : 0,
                               .key = "g"};
}
static struct history_op change(int op, int64_t called, int64_t replied, uint64_t revision)
{
    return (struct history_op){
        .op = op, .called_ns = called, .replied_ns = replied, .revision = revision, .key = "k"};
}

TEST(an_orderly_history_passes)
{
    struct world w = {0};
    put(&w, acquire(1, 0, 10, 0, 5));
    put(&w, acquire(2, 0, 12, 1, 6));
    put(&w, with(1, COORD_OP_RENEW, 80, 81, COORD_OK));
    put(&w, with(1, COORD_OP_RELEASE, 120, 125, COORD_OK));
    put(&w, acquire(3, 121, 124, 0, 9)); /* overlaps the release, so it may be after it */
    put(&w, acquire(4, 100, 130, 1, 8)); /* the lease of 2 has expired */
    judge(&w, "");
}

TEST(two_certain_holders_of_one_slot_are_found)
{
    struct world w = {0};
    put(&w, acquire(1, 0, 10, 0, 5));
    put(&w, acquire(2, 20, 30, 0, 6));
    judge(&w, "two holders of one slot");
}

TEST(a_renewal_prolongs_certainty)
{
    struct world w = {0};
    put(&w, acquire(1, 0, 10, 0, 5));
    put(&w, with(1, COORD_OP_RENEW, 90, 91, COORD_OK));
    put(&w, acquire(2, 120, 130, 0, 6));
    judge(&w, "two holders of one slot");
}

TEST(a_renewal_without_an_answer_prolongs_nothing)
{
    struct world w = {0};
    put(&w, acquire(1, 0, 10, 0, 5));
    put(&w, with(1, COORD_OP_RENEW, 90, 95, COORD_UNAVAILABLE));
    put(&w, acquire(2, 120, 130, 0, 6));
    judge(&w, "");
}

TEST(more_holders_than_slots_are_found)
{
    struct world w = {0};
    put(&w, acquire(1, 0, 10, 0, 5));
    put(&w, acquire(2, 0, 10, 1, 6));
    put(&w, acquire(3, 0, 10, 2, 7));
    judge(&w, "more holders than slots");
}

TEST(a_token_that_falls_is_found)
{
    struct world w = {0};
    struct history_op later = acquire(2, 200, 210, 0, 4);
    put(&w, acquire(1, 0, 10, 0, 5));
    later.revision = 9;
    put(&w, later);
    judge(&w, "a token that is not larger");
}

TEST(calls_that_overlap_have_no_order)
{
    struct world w = {0};
    put(&w, change(COORD_OP_CAS, 0, 10, 7));
    put(&w, change(COORD_OP_CAS, 9, 20, 6));
    judge(&w, "");
}

TEST(a_revision_that_falls_is_found)
{
    struct world w = {0};
    put(&w, change(COORD_OP_CAS, 0, 10, 7));
    put(&w, change(COORD_OP_DELETE, 11, 20, 6));
    judge(&w, "a revision that is not larger");
}

TEST(a_revision_used_twice_is_found)
{
    struct world w = {0};
    put(&w, change(COORD_OP_CAS, 0, 10, 7));
    put(&w, change(COORD_OP_CREATE, 5, 20, 7));
    judge(&w, "a revision used twice");
}

TEST(a_replay_is_no_second_use)
{
    struct world w = {0};
    struct history_op again = change(COORD_OP_CAS, 11, 20, 7);
    put(&w, change(COORD_OP_CAS, 0, 10, 7));
    again.reason = COORD_R_REPLAYED;
    put(&w, again);
    judge(&w, "");
}

TEST(a_read_of_the_past_is_found)
{
    struct world w = {0};
    put(&w, change(COORD_OP_CAS, 0, 10, 7));
    put(&w, change(COORD_OP_GET, 11, 12, 6));
    judge(&w, "a read of the past");
}

TEST(a_revision_of_0_is_found)
{
    struct world w = {0};
    put(&w, change(COORD_OP_GET, 11, 12, 0));
    judge(&w, "a revision of 0");
}

TEST(an_ok_after_expired_is_found)
{
    struct world w = {0};
    put(&w, acquire(1, 0, 10, 0, 5));
    put(&w, with(1, COORD_OP_RENEW, 150, 151, COORD_EXPIRED));
    put(&w, with(1, COORD_OP_RENEW, 152, 153, COORD_OK));
    judge(&w, "an OK after EXPIRED");
}

TEST(already_released_is_no_success)
{
    struct world w = {0};
    struct history_op again = with(1, COORD_OP_RELEASE, 152, 153, COORD_OK);
    put(&w, acquire(1, 0, 10, 0, 5));
    put(&w, with(1, COORD_OP_RENEW, 150, 151, COORD_EXPIRED));
    again.reason = COORD_R_ALREADY;
    put(&w, again);
    judge(&w, "");
}
