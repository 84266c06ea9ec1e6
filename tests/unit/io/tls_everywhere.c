/* SPDX-License-Identifier: Apache-2.0 */
#define TLS_EVERYWHERE_ITSELF
#include "unit/io/tls_everywhere.h"

#include "io/tls.h"
#include "lib/test.h"
#include "unit/io/tls_forge.h"

static struct tls_context *contexts[2];

__attribute__((destructor)) static void forget(void)
{
    tls_context_unref(contexts[TLS_SERVER]);
    tls_context_unref(contexts[TLS_CLIENT]);
}

/* Made once, because the test is about streams. */
static struct tls_context *context_of(enum tls_side side)
{
    static const struct forge_spec spec = {.names = {FORGE_NAME(URI, "bigfleet://admin"),
                                                     FORGE_NAME(DNS, "localhost"),
                                                     FORGE_NAME(IP, "\x7f\x00\x00\x01")}};
    struct forge_pair root, leaf;

    if (contexts[side]) return contexts[side];
    forge_root(&root, "root");
    forge(&leaf, &root, &spec);
    for (int i = 0; i < 2; i++)
        CHECK_OK("context", tls_context_open(NULL,
                                             &(struct tls_options){.side = (enum tls_side)i,
                                                                   .version_min = TLS_V1_3,
                                                                   .cert_pem = forge_cert(&leaf),
                                                                   .key_pem = forge_key(&leaf),
                                                                   .ca_pem = forge_cert(&root),
                                                                   .alpn = {"h2"}},
                                             &contexts[i], NULL));
    forge_free(&leaf);
    forge_free(&root);
    return contexts[side];
}

enum err tls_everywhere_dial(struct net *net, const struct dial_options *options,
                             const struct stream_events *events, void *owner,
                             struct stream **ret_stream, struct note *note)
{
    struct dial_options with = *options;

    with.tls = context_of(TLS_CLIENT);
    with.tls_name = "localhost";
    return net_dial(net, &with, events, owner, ret_stream, note);
}

enum err tls_everywhere_listen(struct net *net, const struct listen_options *options,
                               struct listener **ret_listener, struct note *note)
{
    struct listen_options with = *options;

    with.tls = context_of(TLS_SERVER);
    return net_listen(net, &with, ret_listener, note);
}
