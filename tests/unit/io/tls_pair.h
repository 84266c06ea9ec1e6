/* SPDX-License-Identifier: Apache-2.0 */
/* Two sessions connected in memory, and the outcome of each. */
#ifndef TESTS_TLS_PAIR_H
#define TESTS_TLS_PAIR_H
#include "io/tls_session.h"
#include "lib/test.h"
#include "unit/io/tls_forge.h"

struct tls_end {
    struct tls_session *session;
    enum err err;
    struct buf got; /* plaintext */
    bool open;
};

static inline void tls_end_read(struct tls_end *end)
{
    char plain[TLS_RECORD_MAX];
    size_t got = 0;
    bool shaking;

    do {
        shaking = end->session->state == TLS_SHAKING;
        end->err = tls_session_read(end->session, plain, sizeof plain, &got);
        if (end->err) return;
        shaking = shaking && end->session->state == TLS_OPEN;
        end->open = end->session->state == TLS_OPEN;
        if (buf_append(&end->got, str_of(plain, got))) abort();
    } while (got > 0 || shaking);
}

/* Moves the pending output of `from` to `to`, `step` bytes at a time; false when there was none. */
static inline bool tls_carry(struct tls_end *from, struct tls_end *to, size_t step)
{
    struct str out = tls_session_output(from->session);
    bool any = out.len > 0;

    while ((out = tls_session_output(from->session)).len > 0) {
        out.len = min_size(out.len, step);
        if (!to->err && to->session) {
            if (tls_session_feed(to->session, out)) abort();
            tls_end_read(to);
        }
        tls_session_consume(from->session, out.len);
    }
    return any;
}

static inline void tls_converse(struct tls_end *client, struct tls_end *server, size_t step)
{
    bool any = true;

    if (!client->err) tls_end_read(client);
    while (any) {
        any = tls_carry(client, server, step);
        any = tls_carry(server, client, step) || any;
    }
}

static inline void tls_end_open(struct tls_end *end, struct tls_context *context, const char *name)
{
    *end = (struct tls_end){0};
    buf_init(&end->got, 64 << 20);
    CHECK_OK("a session opens", tls_session_open(context, name, &end->session, NULL));
}

static inline void tls_end_close(struct tls_end *end)
{
    tls_session_close(end->session);
    buf_deinit(&end->got);
}
#endif
