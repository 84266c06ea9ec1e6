/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of error codes and gRPC status codes. No I/O, no state. */
#include "base/err.h"

static const struct {
    const char *name, *text;
    enum grpc_status status;
    int exit_code;
} err_table[ERR_COUNT] = {
#define X(name, text, status, exit_code) [ERR_##name] = {#name, text, GRPC_##status, exit_code},
    ERR_MAP(X)
#undef X
        [ERR_OK] = {"OK", "ok", GRPC_OK, 0},
};

/* Callers may pass an invalid code, because a bug can produce one while another error is
 * reported. */
static bool listed(enum err err)
{
    return (unsigned)err < ERR_COUNT;
}

const char *err_name(enum err err)
{
    return listed(err) ? err_table[err].name : "UNLISTED";
}

const char *err_text(enum err err)
{
    return listed(err) ? err_table[err].text : "not a listed error";
}

enum grpc_status err_grpc_status(enum err err)
{
    return listed(err) ? err_table[err].status : GRPC_INTERNAL;
}

int err_exit_code(enum err err)
{
    return listed(err) ? err_table[err].exit_code : 1;
}
