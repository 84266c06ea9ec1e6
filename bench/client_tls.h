/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS identity of load generators, and their check of the server. */
#ifndef BENCH_CLIENT_TLS_H
#define BENCH_CLIENT_TLS_H
#include "io/io.h"
#include "io/tls.h"

struct client_tls {
    const char *ca, *cert, *key, *name; /* ca NULL: plaintext */
};

/* *ret_context is NULL in plaintext. */
static inline enum err client_tls_open(const struct client_tls *tls, struct io *io,
                                       struct tls_context **ret_context, struct note *note)
{
    *ret_context = NULL;
    if (!tls->ca) return ERR_OK;
    return tls_context_open(io->fs,
                            &(struct tls_options){.side = TLS_CLIENT,
                                                  .version_min = TLS_V1_2,
                                                  .cert_file = tls->cert,
                                                  .key_file = tls->key,
                                                  .ca_files = {tls->ca},
                                                  .alpn = {"h2"}},
                            ret_context, note);
}
#endif
