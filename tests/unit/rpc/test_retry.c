/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rpc/retry.h, row by row, and the bounds of back-off. */
#include "rpc/retry.h"

#include "lib/test.h"

enum { YES = true, NO = false };

/* Other facts about the attempt. Without a flag: it can be replayed, and it is the first of eight.
 * */
enum {
    STOPPED = BIT(0),
    DOUBT = BIT(1),
    ID = BIT(2),
    IDEMPOTENT = BIT(3),
    GONE = BIT(4), /* not replayable */
    FOLLOWS = BIT(5),
    LAST = BIT(6),
    FLAGS = BIT(7) /* how many there are */
};

static struct retry_facts facts(enum attempt_end end, enum grpc_status status, unsigned flags)
{
    return (struct retry_facts){
        .end = end,
        .status = status,
        .stopped = flags & STOPPED,
        .doubt = flags & DOUBT,
        .repeat = flags & IDEMPOTENT ? RETRY_REPEAT_HARMLESS
                  : flags & ID       ? RETRY_REPEAT_KNOWN
                                     : RETRY_REPEAT_UNSAFE,
        .replayable = !(flags & GONE),
        .follows = flags & FOLLOWS,
        .attempts = flags & LAST ? 8 : 1,
        .attempts_max = 8,
    };
}

static const struct {
    const char *why;
    enum attempt_end end;
    enum grpc_status status;
    unsigned flags;
    bool again;
    enum err err;
} cases[] = {
    {"nothing left: try again", ATTEMPT_UNSENT, GRPC_UNAVAILABLE, 0, YES, 0},
    {"nothing left, no attempt left", ATTEMPT_UNSENT, GRPC_UNAVAILABLE, LAST, NO, ERR_UNAVAILABLE},
    {"nothing left, caller gave up", ATTEMPT_UNSENT, GRPC_CANCELLED, STOPPED, NO, ERR_CANCELLED},
    {"nothing left, deadline", ATTEMPT_UNSENT, GRPC_DEADLINE_EXCEEDED, STOPPED, NO, ERR_TIMEOUT},
    {"refused: the peer did not look", ATTEMPT_REFUSED, GRPC_UNAVAILABLE, 0, YES, 0},
    {"refused, and what was sent is gone", ATTEMPT_REFUSED, GRPC_UNAVAILABLE, GONE, NO,
     ERR_UNAVAILABLE},
    {"refused, but an earlier attempt may have applied", ATTEMPT_REFUSED, GRPC_UNAVAILABLE,
     DOUBT | ID | LAST, NO, ERR_UNKNOWN},
    {"not leader, followed", ATTEMPT_NOT_LEADER, GRPC_FAILED_PRECONDITION, FOLLOWS, YES, 0},
    {"not leader, not followed", ATTEMPT_NOT_LEADER, GRPC_FAILED_PRECONDITION, 0, NO,
     ERR_NOT_LEADER},
    {"not leader after a doubt", ATTEMPT_NOT_LEADER, GRPC_FAILED_PRECONDITION, DOUBT, NO,
     ERR_UNKNOWN},
    {"said not applied, unavailable", ATTEMPT_NOT_APPLIED, GRPC_UNAVAILABLE, 0, YES, 0},
    {"said not applied, unavailable, last attempt", ATTEMPT_NOT_APPLIED, GRPC_UNAVAILABLE, LAST, NO,
     ERR_UNAVAILABLE},
    {"said not applied, full: a pause is the caller's business", ATTEMPT_NOT_APPLIED,
     GRPC_RESOURCE_EXHAUSTED, 0, NO, ERR_FULL},
    {"said unknown, but not applied", ATTEMPT_NOT_APPLIED, GRPC_UNKNOWN, 0, NO, ERR_INTERNAL},
    {"done", ATTEMPT_ANSWERED, GRPC_OK, 0, NO, ERR_OK},
    {"done at the second attempt", ATTEMPT_ANSWERED, GRPC_OK, DOUBT | ID, NO, ERR_OK},
    {"a plain no", ATTEMPT_ANSWERED, GRPC_NOT_FOUND, 0, NO, ERR_NOT_FOUND},
    {"a plain no is not asked again", ATTEMPT_ANSWERED, GRPC_ABORTED, ID | IDEMPOTENT, NO,
     ERR_CONFLICT},
    {"the method's no after a doubt: it knows the repeat", ATTEMPT_ANSWERED, GRPC_ALREADY_EXISTS,
     DOUBT | ID, NO, ERR_EXISTS},
    {"a no at the door after a doubt proves nothing", ATTEMPT_ANSWERED, GRPC_RESOURCE_EXHAUSTED,
     DOUBT | ID, NO, ERR_UNKNOWN},
    {"unavailable says nothing of what was done", ATTEMPT_ANSWERED, GRPC_UNAVAILABLE, 0, NO,
     ERR_UNKNOWN},
    {"unavailable, repeat is safe by id", ATTEMPT_ANSWERED, GRPC_UNAVAILABLE, ID, YES, 0},
    {"unavailable, repeat is safe by nature", ATTEMPT_ANSWERED, GRPC_UNAVAILABLE, IDEMPOTENT, YES,
     0},
    {"internal is a doubt, and not worth another", ATTEMPT_ANSWERED, GRPC_INTERNAL, IDEMPOTENT, NO,
     ERR_UNKNOWN},
    {"the server's deadline is a doubt", ATTEMPT_ANSWERED, GRPC_DEADLINE_EXCEEDED, 0, NO,
     ERR_UNKNOWN},
    {"a status nobody defined is a doubt", ATTEMPT_ANSWERED, (enum grpc_status)99, 0, NO,
     ERR_UNKNOWN},
    {"lost: never again for a plain call", ATTEMPT_LOST, GRPC_UNAVAILABLE, 0, NO, ERR_UNKNOWN},
    {"lost, the method knows the repeat by its id", ATTEMPT_LOST, GRPC_UNAVAILABLE, ID, YES, 0},
    {"lost, idempotent", ATTEMPT_LOST, GRPC_UNAVAILABLE, IDEMPOTENT, YES, 0},
    {"lost, idempotent, but messages were seen", ATTEMPT_LOST, GRPC_UNAVAILABLE, IDEMPOTENT | GONE,
     NO, ERR_UNKNOWN},
    {"lost, with an id, attempts used up", ATTEMPT_LOST, GRPC_UNAVAILABLE, ID | LAST, NO,
     ERR_UNKNOWN},
    {"cancelled after it was sent", ATTEMPT_LOST, GRPC_CANCELLED, STOPPED | IDEMPOTENT, NO,
     ERR_UNKNOWN},
    {"deadline after it was sent", ATTEMPT_LOST, GRPC_DEADLINE_EXCEEDED, STOPPED | ID, NO,
     ERR_UNKNOWN},
};

TEST(the_decision_follows_the_table)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct retry_facts f = facts(cases[i].end, cases[i].status, cases[i].flags);
        struct retry_verdict got = retry_decide(&f);
        CHECK_U64(cases[i].why, got.again, cases[i].again);
        if (!cases[i].again) CHECK_ERR(cases[i].why, got.err, cases[i].err);
    }
}

/* Every combination: a certain result is never reported as unknown, an unknown result never as "not
 * done". */
TEST(no_combination_of_facts_breaks_the_promise)
{
    for (unsigned flags = 0; flags < FLAGS; flags++) {
        for (unsigned end = 0; end < ATTEMPT_END_COUNT; end++) {
            for (unsigned status = 0; status <= GRPC_UNAUTHENTICATED; status++) {
                struct retry_facts f =
                    facts((enum attempt_end)end, (enum grpc_status)status, flags);
                struct retry_verdict v = retry_decide(&f);
                bool repeatable = f.repeat != RETRY_REPEAT_UNSAFE;

                if (v.again) {
                    CHECK("never after the caller or the deadline stopped it", !f.stopped);
                    CHECK("never without the whole request", f.replayable);
                    CHECK("a doubt is only repeated where that does no harm",
                          (f.end != ATTEMPT_LOST && f.end != ATTEMPT_ANSWERED) || repeatable);
                    CHECK("a doubt is carried on", !f.doubt || v.doubt);
                }
                if (!v.again && f.end == ATTEMPT_LOST)
                    CHECK_ERR("sent and not answered", v.err, ERR_UNKNOWN);
                if (!v.again && f.doubt && f.end < ATTEMPT_ANSWERED)
                    CHECK_ERR("a doubt stays", v.err, ERR_UNKNOWN);
                if (!v.again && !f.doubt && f.end < ATTEMPT_ANSWERED && f.status != GRPC_OK)
                    CHECK("certain, so never a doubt", v.err != ERR_UNKNOWN);
            }
        }
    }
}

TEST(a_repeat_pauses_unless_it_is_the_first_after_a_refusal)
{
    struct retry_facts f = facts(ATTEMPT_REFUSED, GRPC_UNAVAILABLE, 0);

    CHECK("at once", retry_decide(&f).at_once);
    f.attempts = 2;
    CHECK("then with a pause", !retry_decide(&f).at_once);
    f = facts(ATTEMPT_ANSWERED, GRPC_UNAVAILABLE, IDEMPOTENT);
    CHECK("a server that is overloaded is not asked at once", !retry_decide(&f).at_once);
}

TEST(back_off_grows_to_its_bound_and_has_full_jitter)
{
    static const struct {
        const char *why;
        struct backoff backoff;
        uint32_t failures;
        uint64_t want;
    } bounds[] = {
        {"no failure, no pause", {100, 10000}, 0, 0},
        {"the first", {100, 10000}, 1, 100},
        {"doubles", {100, 10000}, 4, 800},
        {"up to the most", {100, 10000}, 8, 10000},
        {"and no further", {100, 10000}, UINT32_MAX, 10000},
        {"no overflow", {UINT64_MAX / 2 + 1, UINT64_MAX}, 3, UINT64_MAX},
        {"first above the most", {500, 100}, 1, 100},
    };

    for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
        uint64_t bound = backoff_bound_ms(bounds[i].backoff, bounds[i].failures);
        CHECK_U64(bounds[i].why, bound, bounds[i].want);
        CHECK_U64("the least is no pause", backoff_ms(bounds[i].backoff, bounds[i].failures, 0), 0);
        CHECK_U64("the most is the bound", backoff_ms(bounds[i].backoff, bounds[i].failures, bound),
                  bound);
        CHECK("never past it",
              backoff_ms(bounds[i].backoff, bounds[i].failures, 0x9e3779b97f4a7c15ull) <= bound);
    }
}
