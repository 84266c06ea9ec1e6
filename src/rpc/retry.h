/* SPDX-License-Identifier: Apache-2.0 */
/* What to do when an attempt at a call is over: pure, a function of what happened.
 *
 *   how it ended        certain not applied   then
 *   UNSENT, REFUSED,            yes           again, while attempts are left and what was sent is
 *   NOT_APPLIED                               still held; else the status, as "was not"
 *   NOT_LEADER                  yes           again where the channel follows; else ERR_NOT_LEADER
 *   ANSWERED, OK                 -            ERR_OK
 *   ANSWERED, a plain no        yes           the status, as "was not"
 *   ANSWERED, a doubtful one    no            UNAVAILABLE and UNKNOWN: again where a repeat does no
 *                                             harm; else ERR_UNKNOWN
 *   LOST                        no            again where a repeat does no harm; else ERR_UNKNOWN
 *
 * The surprising rule: doubt stays. Once an attempt may have been applied, a later attempt that was
 * refused proves nothing about the earlier one, and the call can only end well or as ERR_UNKNOWN;
 * except by an answer of the method itself, which knows the repeat by its request id (or does not
 * mind). That a request carries an id allows nothing: only the method can say what the id is worth
 * there. */
#ifndef RPC_RETRY_H
#define RPC_RETRY_H
#include "base/err.h"

enum attempt_end {
    ATTEMPT_UNSENT,  /* no byte of it left this process */
    ATTEMPT_REFUSED, /* REFUSED_STREAM, or GOAWAY below its stream: the peer did not look at it */
    ATTEMPT_NOT_LEADER,  /* answered so, with the leader's name or without */
    ATTEMPT_NOT_APPLIED, /* answered with a status, and with "x-muster-applied: no" */
    ATTEMPT_ANSWERED,    /* a status came */
    ATTEMPT_LOST,        /* sent, and no status came: reset, broken, silent, unreadable */
    ATTEMPT_END_COUNT
};
enum retry_repeat {
    RETRY_REPEAT_UNSAFE,
    RETRY_REPEAT_KNOWN,    /* the method answers a repeat as the first, by its request id */
    RETRY_REPEAT_HARMLESS, /* it may be applied twice */
};
struct retry_facts {
    enum attempt_end end;
    enum grpc_status status; /* the peer's, or one for the failure */
    bool stopped;            /* the caller or the deadline ended it: there is no next attempt */
    bool doubt;              /* an earlier attempt may have been applied */
    enum retry_repeat repeat;
    bool replayable; /* all that was sent is still held, and nothing was handed to the caller */
    bool follows;    /* the channel follows leaders */
    uint32_t attempts, attempts_max; /* this one included */
};
struct retry_verdict {
    bool again;
    bool at_once; /* again: without a pause */
    bool doubt;   /* again: to be carried into the next attempt's facts */
    enum err err; /* not again: how the call ends */
};
struct retry_verdict retry_decide(const struct retry_facts *facts);

/* The error for a status that says that nothing was done. */
enum err retry_err_from_status(enum grpc_status status);
/* True when a status alone does not say whether the call was applied. */
bool retry_status_is_doubtful(enum grpc_status status);

/* Full jitter: somewhere in 0..min(max, first * 2^(failures - 1)), by `random`; 0 for no
 * failure. */
struct backoff {
    uint64_t first_ms, max_ms;
};
uint64_t backoff_bound_ms(struct backoff backoff, uint32_t failures);
uint64_t backoff_ms(struct backoff backoff, uint32_t failures, uint64_t random);
#endif
