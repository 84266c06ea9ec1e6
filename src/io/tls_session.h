/* SPDX-License-Identifier: Apache-2.0 */
/* One TLS connection as bytes in, bytes out: no socket, no clock, no callback.
 *
 * For the files of the TLS part, tests and benches. The caller moves bytes: what came from the
 * peer goes in with feed, what tls_session_output shows goes to the peer. Every call may leave
 * output.
 *
 *     tls_session_feed(s, bytes);
 *     do err = tls_session_read(s, plain, sizeof plain, &got), use(plain, got);
 *     while (!err && got);
 *
 * The session keeps what was fed and not read, so a caller may stop reading at any time: that is how
 * a paused reader holds its peer. */
#ifndef IO_TLS_SESSION_H
#define IO_TLS_SESSION_H
#include <openssl/ssl.h>

#include "io/tls.h"

enum {
    TLS_RECORD_MAX = 16384,           /* plaintext of one record: the largest the protocol has */
    TLS_RECORD_EXTRA = 256,           /* at most this much more on the wire */
    TLS_HELD_MAX = 1024 * 1024,       /* input that was fed and not read */
    TLS_OUTPUT_MAX = 2 * 1024 * 1024, /* output not yet consumed; past it the session fails */
};
enum tls_state { TLS_SHAKING, TLS_OPEN, TLS_FAILED };

/* To be read by anybody, changed by tls_session.c alone. */
struct tls_session {
    struct tls_context *context; /* a reference */
    SSL *ssl;
    enum tls_state state;
    struct buf input, output;
    size_t input_at; /* the first `input_at` bytes of the input are used; 0 when it is empty */
    bool ended;
    bool peer_ended;     /* by close_notify */
    bool doubted;        /* the peer's certificate proves nothing */
    enum err output_err; /* the output buffer refused */
    enum err failed;
    struct note failure;
    struct tls_identity *identity; /* see tls_session_identity */
    char alpn[256];                /* "" when none */
};

/* `peer_name` (client: required; server: ignored) is a host name or an address. A client's first
 * flight is in the output after the first read. ERR_INVALID for a name that is none, ERR_NOMEM. */
enum err tls_session_open(struct tls_context *context, const char *peer_name,
                          struct tls_session **ret_session, struct note *note);
void tls_session_close(struct tls_session *session); /* NULL is fine */

/* Copies. ERR_FULL when more than TLS_HELD_MAX would be kept, ERR_NOMEM: nothing was taken. */
enum err tls_session_feed(struct tls_session *session, struct str bytes);
/* During the handshake: goes on as far as the input allows and reads nothing; when the state has
 * become TLS_OPEN, call again. Then: reads plaintext, up to `cap` bytes, at most one record;
 * *ret_got 0 means nothing more from this input, or the peer has ended. Any error is final; its
 * text is in `failure`, and an alert for the peer may be in the output. */
enum err tls_session_read(struct tls_session *session, void *into, size_t cap, size_t *ret_got);

/* Encrypts all of it, in full records. Only in TLS_OPEN and before tls_session_end; final errors.
 */
enum err tls_session_write(struct tls_session *session, struct str plain);
/* Our close_notify; reading goes on. Only in TLS_OPEN. */
enum err tls_session_end(struct tls_session *session);

struct str tls_session_output(const struct tls_session *session); /* peek */
void tls_session_consume(struct tls_session *session, size_t len);

const struct tls_identity *tls_session_identity(const struct tls_session *session); /* or NULL */
#endif
