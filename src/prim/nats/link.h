/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to a NATS cluster: requests with a deadline, and what each failure leaves open.
 * The client library stays behind this header, group.c, run.c, stream.c and watch.c. Thread-safe. */
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
/* COORD_OK and a reply to destroy; UNAVAILABLE, with MAYBE_APPLIED when the request may have
 * arrived. No single request waits longer than JET_REQUEST_MS_MAX: a silent server is asked again
 * by the caller, over another connection if need be. */
enum { JET_REQUEST_MS_MAX = 2000 };
int64_t jet_link_wait_ms(const struct jet_link *link, int64_t deadline_ns);
coord_result jet_link_request(struct jet_link *link, int64_t deadline_ns, const char *subject,
                              const struct jet_header_line *headers, size_t header_count,
                              struct str body, natsMsg **ret_reply);
static inline struct str jet_link_body(natsMsg *message)
{
    return str_of(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
}

/* SIGPIPE is kept from this thread between the two: TLS writes without MSG_NOSIGNAL, and a library
 * may not change what its process does with signals. */
struct jet_pipe_guard {
    sigset_t before;
    bool pending;
};
void jet_pipe_guard_begin(struct jet_pipe_guard *guard);
void jet_pipe_guard_end(struct jet_pipe_guard *guard);
/* What a status of the library means for a request; `sent`: it may have left. */
coord_result jet_link_failed(struct jet_link *link, natsStatus status, bool sent);
#endif
