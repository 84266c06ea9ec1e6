/* SPDX-License-Identifier: Apache-2.0 */
/* One TLS connection as bytes in, bytes out: no socket, no clock, no callback.
 *
 * The caller moves the bytes: tls_session_feed takes bytes from the peer, and tls_session_output
 * has the bytes for the peer. Every call may add output.
 *
 *     tls_session_feed(s, bytes);
 *     do err = tls_session_read(s, plain, sizeof plain, &got), use(plain, got);
 *     while (!err && got);
 *
 * The session keeps input that was fed and not read, so a caller may stop reading at any time. */
#ifndef IO_TLS_SESSION_H
#define IO_TLS_SESSION_H
#include <openssl/ssl.h>

#include "io/tls.h"

enum {
    TLS_RECORD_MAX = 16384,           /* plaintext of one record: the maximum of TLS */
    TLS_RECORD_EXTRA = 256,           /* bytes that a record adds on the wire, at most */
    TLS_HELD_MAX = 1024 * 1024,       /* bytes that were fed but not read */
    TLS_OUTPUT_MAX = 2 * 1024 * 1024, /* bytes not consumed; beyond, the session fails */
};
enum tls_state { TLS_SHAKING, TLS_OPEN, TLS_FAILED };

/* Fields are read-only outside of tls_session.c. */
struct tls_session {
    struct tls_context *context; /* the session holds a reference */
    SSL *ssl;
    enum tls_state state;
    struct buf input, output;
    size_t input_at; /* consumed bytes of the input */
    bool ended;
    bool peer_ended;     /* the peer sent close_notify */
    bool doubted;        /* the peer has a certificate, but it is not verified */
    enum err output_err; /* of an append to the output */
    enum err failed;
    struct note failure;
    struct tls_identity *identity;
    char alpn[256]; /* "" if no protocol was negotiated */
};

/* Only a client needs `peer_name`, a host name or an address. A client's first tls_session_read
 * begins the handshake. ERR_INVALID for a malformed name, ERR_NOMEM. */
enum err tls_session_open(struct tls_context *context, const char *peer_name,
                          struct tls_session **ret_session, struct note *note);
void tls_session_close(struct tls_session *session); /* NULL is allowed */

/* Copies bytes from the peer. ERR_FULL (above TLS_HELD_MAX) and ERR_NOMEM copy nothing. */
enum err tls_session_feed(struct tls_session *session, struct str bytes);
/* Before TLS_OPEN, continues the handshake and reads no plaintext: call again when the state is
 * TLS_OPEN. Then reads at most `cap` bytes. *ret_got 0: no input is left, or the peer has ended.
 * Errors are final and described in `failure`; the output may have an alert for the peer. */
enum err tls_session_read(struct tls_session *session, void *into, size_t cap, size_t *ret_got);

/* Call in TLS_OPEN before tls_session_end. Errors are final. */
enum err tls_session_write(struct tls_session *session, struct str plain);
/* Adds close_notify to the output; reading continues. Call only in TLS_OPEN. */
enum err tls_session_end(struct tls_session *session);

struct str tls_session_output(const struct tls_session *session); /* does not consume */
void tls_session_consume(struct tls_session *session, size_t len);

const struct tls_identity *tls_session_identity(const struct tls_session *session); /* or NULL */
#endif
