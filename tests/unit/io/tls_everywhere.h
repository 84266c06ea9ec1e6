/* SPDX-License-Identifier: Apache-2.0 */
/* Included before a test of plain streams, makes every dial and every listener use TLS: io/net.h
 * has the same rules for both, so the same tests must pass. */
#ifndef TESTS_TLS_EVERYWHERE_H
#define TESTS_TLS_EVERYWHERE_H
#include "io/net.h"

enum err tls_everywhere_dial(struct net *net, const struct dial_options *options,
                             const struct stream_events *events, void *owner,
                             struct stream **ret_stream, struct note *note);
enum err tls_everywhere_listen(struct net *net, const struct listen_options *options,
                               struct listener **ret_listener, struct note *note);
#ifndef TLS_EVERYWHERE_ITSELF
#define net_dial   tls_everywhere_dial
#define net_listen tls_everywhere_listen
#endif
#endif
