/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what follows an attempt of a call. Pure.
 *
 *   how it ended        certainly not applied  then
 *   UNSENT, REFUSED,            yes           retry, while attempts are left and the request is
 *   NOT_APPLIED                               still kept; else the status, as "not applied"
 *   NOT_LEADER                  yes           retry if the channel follows; else ERR_NOT_LEADER
 *   ANSWERED, OK                 -            ERR_OK
 *   ANSWERED, a definite no     yes           the status, as "not applied"
 *   ANSWERED, a doubtful one    no            UNAVAILABLE, UNKNOWN: retry if a repeat is harmless;
 *                                             else ERR_UNKNOWN
 *   LOST                        no            retry if a repeat is harmless; else ERR_UNKNOWN
 *
 * Doubt persists: once an attempt may have been applied, the refusal of a later attempt proves
 * nothing about the earlier attempt. The call can then only succeed or end as ERR_UNKNOWN. The
 * exception is a response of the method itself, if the method recognises the repeat by its request
 * id or a repeat is harmless. */
#ifndef RPC_RETRY_H
#define RPC_RETRY_H
#include "base/err.h"

enum attempt_end {
    ATTEMPT_UNSENT,      /* no byte of the request was sent */
    ATTEMPT_REFUSED,     /* not processed: REFUSED_STREAM, or GOAWAY with a lower stream number */
    ATTEMPT_NOT_LEADER,  /* the server answered "not leader", maybe with the leader's address */
    ATTEMPT_NOT_APPLIED, /* the server answered with a status and "x-muster-applied: no" */
    ATTEMPT_ANSWERED,
    ATTEMPT_LOST, /* no answer came: reset, broken, timed out or unreadable */
    ATTEMPT_END_COUNT
};
enum retry_repeat {
    RETRY_REPEAT_UNSAFE,
    RETRY_REPEAT_KNOWN, /* the method recognises a repeated call by its request id */
    RETRY_REPEAT_HARMLESS,
};
struct retry_facts {
    enum attempt_end end;
    enum grpc_status status; /* the server's status, or one that matches this client's error */
    bool stopped;            /* the caller or the deadline ended the call, so there is no retry */
    bool doubt;              /* an earlier attempt may have been applied */
    enum retry_repeat repeat;
    bool replayable; /* the whole request is kept, and the caller has seen no data */
    bool follows;    /* the channel dials the leader that a response names */
    uint32_t attempts, attempts_max; /* both include this attempt */
};
struct retry_verdict {
    bool again;
    bool at_once; /* if `again`: retry without back-off */
    bool doubt;   /* if `again`: retry_facts.doubt of the next attempt */
    enum err err; /* if not `again`: the outcome of the call */
};
struct retry_verdict retry_decide(const struct retry_facts *facts);

/* The error for a status that means "not applied". */
enum err retry_err_from_status(enum grpc_status status);
/* True if the status alone does not show whether the call was applied. */
bool retry_status_is_doubtful(enum grpc_status status);

/* Back-off with full jitter: 0 to min(max, first * 2^(failures - 1)) ms; 0 without failures. */
struct backoff {
    uint64_t first_ms, max_ms;
};
uint64_t backoff_bound_ms(struct backoff backoff, uint32_t failures);
uint64_t backoff_ms(struct backoff backoff, uint32_t failures, uint64_t random);
#endif
