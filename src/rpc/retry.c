/* SPDX-License-Identifier: Apache-2.0 */
/* The table of retry.h, and the meaning of each status. Pure; any thread. */
#include "rpc/retry.h"

static const struct {
    enum err err;
    bool doubtful;
} meanings[] = {
#define X(name, number, err, doubtful) {ERR_##err, doubtful},
    GRPC_STATUS_MAP(X)
#undef X
};

enum err retry_err_from_status(enum grpc_status status)
{
    return meanings[grpc_status_defined(status)].err;
}

bool retry_status_is_doubtful(enum grpc_status status)
{
    return meanings[grpc_status_defined(status)].doubtful;
}

/* True if a layer before the method (limits, access, routing) may have refused. Such a layer has
 * not looked up the request id. */
static bool retry_may_precede_method(enum grpc_status status)
{
    return status == GRPC_RESOURCE_EXHAUSTED || status == GRPC_PERMISSION_DENIED ||
           status == GRPC_UNAUTHENTICATED || status == GRPC_UNIMPLEMENTED;
}

static bool retry_leaves_doubt(const struct retry_facts *f)
{
    switch (f->end) {
    case ATTEMPT_UNSENT:
    case ATTEMPT_REFUSED:
    case ATTEMPT_NOT_LEADER:
    case ATTEMPT_NOT_APPLIED: return f->doubt;
    case ATTEMPT_ANSWERED:
        if (f->status == GRPC_OK) return false;
        if (retry_status_is_doubtful(f->status)) return true;
        return f->doubt && f->repeat != RETRY_REPEAT_HARMLESS &&
               retry_may_precede_method(f->status);
    default: return true;
    }
}

static bool retry_is_worth_another(const struct retry_facts *f)
{
    bool repeatable = f->repeat != RETRY_REPEAT_UNSAFE;

    switch (f->end) {
    case ATTEMPT_UNSENT:
    case ATTEMPT_REFUSED: return true;
    case ATTEMPT_NOT_LEADER: return f->follows;
    case ATTEMPT_NOT_APPLIED: return f->status == GRPC_UNAVAILABLE;
    case ATTEMPT_ANSWERED:
        return repeatable && (f->status == GRPC_UNAVAILABLE || f->status == GRPC_UNKNOWN);
    default: return repeatable;
    }
}

struct retry_verdict retry_decide(const struct retry_facts *f)
{
    struct retry_verdict verdict = {.doubt = retry_leaves_doubt(f)};

    if (!f->stopped && f->replayable && f->attempts < f->attempts_max &&
        retry_is_worth_another(f)) {
        verdict.again = true;
        /* A first refusal is usually from a closing connection, and another connection is ready. */
        verdict.at_once = f->attempts <= 1 && f->end != ATTEMPT_ANSWERED;
        return verdict;
    }
    if (verdict.doubt)
        verdict.err = ERR_UNKNOWN;
    else if (f->end == ATTEMPT_NOT_LEADER)
        verdict.err = ERR_NOT_LEADER;
    else
        verdict.err = retry_err_from_status(f->status);
    /* The peer returned UNKNOWN but also "not applied", so ERR_UNKNOWN would be wrong. */
    if (verdict.err == ERR_UNKNOWN && !verdict.doubt) verdict.err = ERR_INTERNAL;
    return verdict;
}

uint64_t backoff_bound_ms(struct backoff backoff, uint32_t failures)
{
    uint64_t bound = backoff.first_ms;

    if (failures == 0) return 0;
    for (uint32_t i = 1; i < failures && bound < backoff.max_ms; i++)
        bound = add_sat_u64(bound, bound);
    return min_u64(bound, backoff.max_ms);
}

uint64_t backoff_ms(struct backoff backoff, uint32_t failures, uint64_t random)
{
    uint64_t bound = backoff_bound_ms(backoff, failures);

    return bound == UINT64_MAX ? random : random % (bound + 1);
}
