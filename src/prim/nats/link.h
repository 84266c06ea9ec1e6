/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to a NATS cluster: requests with a deadline, and whether a failed request may
 * have been applied. Only link.c, group.c, run.c, stream.c and watch.c use the client library.
 * Thread-safe. */
#ifndef PRIM_NATS_LINK_H
#define PRIM_NATS_LINK_H
#include <muster/coord.h>
#include <nats/nats.h>
#include <signal.h>

#include "prim/backend.h"
#include "prim/url.h"

struct jet_link {
    natsConnection *connection;
    struct prim_clock clock;
};

/* Reads user, hosts, tls, ca, cert, key and creds of the URL. */
coord_result jet_link_open(struct jet_link *link, const struct prim_open *in);

struct jet_header_line {
    const char *name, *value;
};
/* OK: the caller must destroy the reply. UNAVAILABLE has MAYBE_APPLIED if the request may have
 * arrived. Waits at most JET_REQUEST_MS_MAX; the caller then repeats the request, perhaps over
 * another connection. */
enum { JET_REQUEST_MS_MAX = 2000 };
int64_t jet_link_wait_ms(const struct jet_link *link, int64_t deadline_ns);
coord_result jet_link_request(struct jet_link *link, int64_t deadline_ns, const char *subject,
                              const struct jet_header_line *headers, size_t header_count,
                              struct str body, natsMsg **ret_reply);
static inline struct str jet_link_body(natsMsg *message)
{
    return str_of(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
}

/* Blocks SIGPIPE for this thread between begin and end, because TLS writes without MSG_NOSIGNAL. */
struct jet_pipe_guard {
    sigset_t before;
    bool pending;
};
void jet_pipe_guard_begin(struct jet_pipe_guard *guard);
void jet_pipe_guard_end(struct jet_pipe_guard *guard);
/* `sent`: the request may have been sent. */
coord_result jet_link_failed(struct jet_link *link, natsStatus status, bool sent);
#endif
