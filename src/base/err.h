/* SPDX-License-Identifier: Apache-2.0 */
/* All results of operations in one table: code, text, gRPC status and exit code.
 *
 * ERR_UNKNOWN means "may or may not have applied". All other errors mean "not done". A timeout
 * after a write was sent is ERR_UNKNOWN, never ERR_IO or ERR_TIMEOUT, because retry policies depend
 * on the difference. */
#ifndef BASE_ERR_H
#define BASE_ERR_H
#include "base/base.h"

/* clang-format off */
/*    name             text                               gRPC status          exit */
#define ERR_MAP(X)                                                                  \
    X(INVALID,         "invalid argument",                INVALID_ARGUMENT,    2)   \
    X(PARSE,           "cannot be read as written",       INVALID_ARGUMENT,    2)   \
    X(TOO_LARGE,       "larger than the limit",           RESOURCE_EXHAUSTED,  1)   \
    X(FULL,            "limit reached",                   RESOURCE_EXHAUSTED,  6)   \
    X(NO_SPACE,        "no space left",                   RESOURCE_EXHAUSTED,  6)   \
    X(NOMEM,           "out of memory",                   RESOURCE_EXHAUSTED,  1)   \
    X(NOT_FOUND,       "not found",                       NOT_FOUND,           5)   \
    X(EXISTS,          "exists already",                  ALREADY_EXISTS,      4)   \
    X(CONFLICT,        "revision does not match",         ABORTED,             4)   \
    X(BUSY,            "held by another",                 UNAVAILABLE,         4)   \
    X(UNKNOWN,         "may or may not have applied",     UNKNOWN,             6)   \
    X(TIMEOUT,         "deadline passed, nothing done",   DEADLINE_EXCEEDED,   6)   \
    X(CANCELLED,       "cancelled",                       CANCELLED,           1)   \
    X(CLOSED,          "closed",                          UNAVAILABLE,         6)   \
    X(UNAVAILABLE,     "unavailable",                     UNAVAILABLE,         6)   \
    X(NOT_READY,       "not ready",                       UNAVAILABLE,         3)   \
    X(NOT_LEADER,      "not the leader",                  FAILED_PRECONDITION, 3)   \
    X(PRECONDITION,    "not in a state that allows this", FAILED_PRECONDITION, 4)   \
    X(FENCED,          "token is stale",                  FAILED_PRECONDITION, 4)   \
    X(UNSUPPORTED,     "cannot be done here",             UNIMPLEMENTED,       1)   \
    X(UNAUTHENTICATED, "no identity was shown",           UNAUTHENTICATED,     1)   \
    X(DENIED,          "not allowed",                     PERMISSION_DENIED,   1)   \
    X(CORRUPT,         "stored bytes are damaged",        DATA_LOSS,           1)   \
    X(VERSION,         "version is not understood",       FAILED_PRECONDITION, 1)   \
    X(IO,              "i/o error",                       UNAVAILABLE,         6)   \
    X(INTERNAL,        "internal error",                  INTERNAL,            1)

enum err {
    ERR_OK = 0,
#define X(name, text, status, exit_code) ERR_##name,
    ERR_MAP(X)
#undef X
    ERR_COUNT
};
/* clang-format on */

/* clang-format off */
/* The gRPC status codes, with the protocol's numbers. `error`: the muster error if nothing was
 * done. `doubtful`: the server may have done something. */
/*    name                 number  error            doubtful */
#define GRPC_STATUS_MAP(X)                                   \
    X(OK,                  0,      OK,              false)   \
    X(CANCELLED,           1,      CANCELLED,       true)    \
    X(UNKNOWN,             2,      UNKNOWN,         true)    \
    X(INVALID_ARGUMENT,    3,      INVALID,         false)   \
    X(DEADLINE_EXCEEDED,   4,      TIMEOUT,         true)    \
    X(NOT_FOUND,           5,      NOT_FOUND,       false)   \
    X(ALREADY_EXISTS,      6,      EXISTS,          false)   \
    X(PERMISSION_DENIED,   7,      DENIED,          false)   \
    X(RESOURCE_EXHAUSTED,  8,      FULL,            false)   \
    X(FAILED_PRECONDITION, 9,      PRECONDITION,    false)   \
    X(ABORTED,             10,     CONFLICT,        false)   \
    X(OUT_OF_RANGE,        11,     INVALID,         false)   \
    X(UNIMPLEMENTED,       12,     UNSUPPORTED,     false)   \
    X(INTERNAL,            13,     INTERNAL,        true)    \
    X(UNAVAILABLE,         14,     UNAVAILABLE,     true)    \
    X(DATA_LOSS,           15,     CORRUPT,         true)    \
    X(UNAUTHENTICATED,     16,     UNAUTHENTICATED, false)

enum grpc_status {
#define X(name, number, err, doubtful) GRPC_##name = number,
    GRPC_STATUS_MAP(X)
#undef X
};
/* clang-format on */
enum { GRPC_STATUS_COUNT = GRPC_UNAUTHENTICATED + 1 };
/* Maps undefined numbers to GRPC_UNKNOWN. */
static inline enum grpc_status grpc_status_defined(enum grpc_status status)
{
    return (unsigned)status < GRPC_STATUS_COUNT ? status : GRPC_UNKNOWN;
}

/* These functions accept any value. An unlisted number counts as ERR_INTERNAL. */
const char *err_name(enum err err); /* for example "NOT_LEADER"; never NULL */
const char *err_text(enum err err); /* for example "not the leader"; never NULL */
enum grpc_status err_grpc_status(enum err err);
int err_exit_code(enum err err); /* 0 to 6, the same in all muster programs */
#endif
