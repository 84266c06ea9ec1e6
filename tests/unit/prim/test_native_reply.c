/* SPDX-License-Identifier: Apache-2.0 */
/* The results of muster:// for calls that failed. */
#include "lib/test.h"
#include "prim/native/reply.h"

static const struct {
    const char *why;
    enum err err;
    enum grpc_status status;
    bool answered, writes;
    int code, reason;
    bool maybe;
} cases[] = {
    {"an older release has no store", ERR_UNSUPPORTED, GRPC_UNIMPLEMENTED, true, true,
     COORD_UNSUPPORTED, COORD_R_SERVER, false},
    {"it was asked second, and does not know what the first did", ERR_UNKNOWN, GRPC_UNIMPLEMENTED,
     true, true, COORD_UNAVAILABLE, COORD_R_NO_LEADER, true},
    {"a read leaves nothing behind", ERR_UNKNOWN, GRPC_UNIMPLEMENTED, true, false,
     COORD_UNSUPPORTED, COORD_R_SERVER, false},
    {"an argument", ERR_INVALID, GRPC_INVALID_ARGUMENT, true, true, COORD_INVALID, COORD_R_ARGUMENT,
     false},
    {"an argument, after a lost attempt", ERR_UNKNOWN, GRPC_INVALID_ARGUMENT, true, true,
     COORD_UNAVAILABLE, COORD_R_STORAGE, true},
    {"no answer to a write", ERR_UNKNOWN, GRPC_DEADLINE_EXCEEDED, false, true, COORD_UNAVAILABLE,
     COORD_R_TIMEOUT, true},
    {"never sent", ERR_TIMEOUT, GRPC_DEADLINE_EXCEEDED, false, true, COORD_UNAVAILABLE,
     COORD_R_TIMEOUT, false},
};

TEST(a_refused_repeat_does_not_refuse_the_first_attempt)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct grpc_thread_op op = {
            .err = cases[i].err, .status = cases[i].status, .answered = cases[i].answered};
        coord_result result = native_failure(&op, cases[i].writes);

        CHECK_I64(cases[i].why, result.code, cases[i].code);
        CHECK_I64(cases[i].why, result.reason, cases[i].reason);
        CHECK(cases[i].why, !!(result.flags & COORD_F_MAYBE_APPLIED) == cases[i].maybe);
    }
}
