/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to a NATS cluster (link.h): options, requests, and the meaning of failures. Any
 * thread. Every call of the NATS library that may write runs under a guard against SIGPIPE. */
#include "prim/nats/link.h"

#include <stdio.h>

#include "prim/answer.h"
#include "prim/thread.h"

enum { PING_MS = 1000, PINGS_OUT = 2, RECONNECT_WAIT_MS = 100, RECONNECT_JITTER_MS = 400 };

/* -- signals ---------------------------------------------------------------------------------- */

void jet_pipe_guard_begin(struct jet_pipe_guard *guard)
{
    sigset_t pipe, pending;
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)sigpending(&pending);
    guard->pending = sigismember(&pending, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &guard->before);
}

void jet_pipe_guard_end(struct jet_pipe_guard *guard)
{
    sigset_t pipe, pending;
    (void)sigpending(&pending);
    if (!guard->pending && sigismember(&pending, SIGPIPE) == 1) {
        (void)sigemptyset(&pipe);
        (void)sigaddset(&pipe, SIGPIPE);
        (void)sigtimedwait(&pipe, NULL, &(struct timespec){0});
    }
    (void)pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* Opening the library ignores SIGPIPE; the host program's setting is restored. */
static natsStatus library_status;
static void open_library(void)
{
    struct sigaction before;
    (void)sigaction(SIGPIPE, NULL, &before);
    library_status = nats_Open(-1);
    (void)sigaction(SIGPIPE, &before, NULL);
}

/* -- opening ---------------------------------------------------------------------------------- */

static void ignore_error(natsConnection *, natsSubscription *, natsStatus, void *) {}

static bool is_file(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file != NULL) (void)fclose(file);
    return file != NULL;
}

static coord_result set_tls(natsOptions *options, const struct prim_open *in)
{
    const char *ca = prim_url_param(in->url, "ca"), *cert = prim_url_param(in->url, "cert");
    const char *key = prim_url_param(in->url, "key");
    int64_t tls = 0;
    coord_result result = prim_url_number(in->url, "tls", 0, 1, &tls);
    if (result.code != COORD_OK) return result;
    ca = ca != NULL ? ca : in->options->tls_ca_file;
    cert = cert != NULL ? cert : in->options->tls_cert_file;
    key = key != NULL ? key : in->options->tls_key_file;
    const char *const files[] = {ca, cert, key};
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (files[i] != NULL && !is_file(files[i]))
            return prim_answer(COORD_INVALID, COORD_R_URL, "nats: cannot read %.128s", files[i]);
    if ((cert == NULL) != (key == NULL))
        return prim_answer(COORD_INVALID, COORD_R_URL, "nats: cert and key go together");
    natsStatus status = NATS_OK;
    if (tls || ca != NULL || cert != NULL) status = natsOptions_SetSecure(options, true);
    if (status == NATS_OK && ca != NULL)
        status = natsOptions_LoadCATrustedCertificates(options, ca);
    if (status == NATS_OK && cert != NULL)
        status = natsOptions_LoadCertificatesChain(options, cert, key);
    return status == NATS_OK ? prim_ok(COORD_R_NONE)
                             : prim_answer(COORD_INVALID, COORD_R_URL, "nats: tls: %s",
                                           natsStatus_GetText(status));
}

static coord_result set_identity(natsOptions *options, const struct prim_open *in)
{
    const char *creds = prim_url_param(in->url, "creds");
    natsStatus status = NATS_OK;
    if (creds != NULL) {
        if (!is_file(creds))
            return prim_answer(COORD_INVALID, COORD_R_URL, "nats: cannot read %.128s", creds);
        status = natsOptions_SetUserCredentialsFromFiles(options, creds, NULL);
    } else if (in->url->password != NULL) {
        status = natsOptions_SetUserInfo(options, in->url->user, in->url->password);
    } else if (in->url->user != NULL) {
        status = natsOptions_SetToken(options, in->url->user);
    }
    return status == NATS_OK ? prim_ok(COORD_R_NONE)
                             : prim_answer(COORD_INVALID, COORD_R_URL, "nats: identity: %s",
                                           natsStatus_GetText(status));
}

static natsStatus set_rest(natsOptions *options, const struct prim_open *in, int64_t wait_ms)
{
    const char *servers[PRIM_URL_HOSTS_MAX];
    char text[PRIM_URL_HOSTS_MAX][300];
    for (size_t i = 0; i < in->url->host_count; i++) {
        (void)snprintf(text[i], sizeof text[i], "nats://%s", in->url->hosts[i]);
        servers[i] = text[i];
    }
    natsStatus status = natsOptions_SetServers(options, servers, (int)in->url->host_count);
    if (status == NATS_OK) status = natsOptions_SetTimeout(options, wait_ms);
    /* A stopped server keeps its connections open: only pings detect it. */
    if (status == NATS_OK) status = natsOptions_SetPingInterval(options, PING_MS);
    if (status == NATS_OK) status = natsOptions_SetMaxPingsOut(options, PINGS_OUT);
    if (status == NATS_OK) status = natsOptions_SetMaxReconnect(options, -1);
    if (status == NATS_OK) status = natsOptions_SetReconnectWait(options, RECONNECT_WAIT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetReconnectJitter(options, RECONNECT_JITTER_MS, RECONNECT_JITTER_MS);
    /* No buffer for a later connection, because a renewal must not be sent late. */
    if (status == NATS_OK) status = natsOptions_SetReconnectBufSize(options, 0);
    if (status == NATS_OK) status = natsOptions_SetFailRequestsOnDisconnect(options, true);
    if (status == NATS_OK) status = natsOptions_SetSendAsap(options, true);
    if (status == NATS_OK) status = natsOptions_UseGlobalMessageDelivery(options, true);
    if (status == NATS_OK) status = natsOptions_SetErrorHandler(options, ignore_error, NULL);
    if (status == NATS_OK) status = natsOptions_SetName(options, "muster");
    return status;
}

coord_result jet_link_open(struct jet_link *link, const struct prim_open *in)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    natsOptions *options = NULL;
    (void)pthread_once(&once, open_library);
    if (library_status != NATS_OK || natsOptions_Create(&options) != NATS_OK)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: the client library fails");
    if (in->url->host_count == 0) {
        natsOptions_Destroy(options);
        return prim_answer(COORD_INVALID, COORD_R_URL, "nats: nats://host:port/bucket");
    }
    int64_t wait_ms = (in->deadline_ns - prim_clock_now(&in->clock)) / 1000000;
    wait_ms = wait_ms < 1 ? 1 : wait_ms > JET_REQUEST_MS_MAX ? JET_REQUEST_MS_MAX : wait_ms;
    coord_result result = set_tls(options, in);
    if (result.code == COORD_OK) result = set_identity(options, in);
    if (result.code == COORD_OK) {
        struct jet_pipe_guard guard; /* the connection's threads inherit the blocked SIGPIPE */
        jet_pipe_guard_begin(&guard);
        natsStatus status = set_rest(options, in, wait_ms);
        if (status == NATS_OK) status = natsConnection_Connect(&link->connection, options);
        jet_pipe_guard_end(&guard);
        if (status == NATS_CONNECTION_AUTH_FAILED || status == NATS_NOT_PERMITTED)
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_FORBIDDEN,
                                 "nats: the server refuses this user");
        else if (status != NATS_OK)
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_CONNECTION, "nats: no connection: %s",
                                 natsStatus_GetText(status));
    }
    natsOptions_Destroy(options);
    link->clock = in->clock;
    return result;
}

/* -- requests --------------------------------------------------------------------------------- */

coord_result jet_link_failed(struct jet_link *link, natsStatus status, bool sent)
{
    switch (status) {
    case NATS_NO_RESPONDERS:
        return prim_answer(COORD_UNAVAILABLE, COORD_R_NO_LEADER, "nats: nobody serves the stream");
    case NATS_INSUFFICIENT_BUFFER: /* not connected, and nothing is buffered */
        return prim_answer(COORD_UNAVAILABLE, COORD_R_CONNECTION, "nats: not connected");
    case NATS_NO_MEMORY: return prim_no_memory();
    case NATS_MAX_PAYLOAD:
        return prim_answer(COORD_INVALID, COORD_R_VALUE_SIZE,
                           "nats: larger than the server's max_payload");
    default: break;
    }
    int reason = status == NATS_TIMEOUT ? COORD_R_TIMEOUT : COORD_R_CONNECTION;
    const char *last;
    /* The library reports a permission error after and apart from the request. */
    if (status == NATS_TIMEOUT &&
        natsConnection_GetLastError(link->connection, &last) == NATS_NOT_PERMITTED)
        reason = COORD_R_FORBIDDEN;
    coord_result result =
        prim_answer(COORD_UNAVAILABLE, reason, "nats: %s",
                    reason == COORD_R_FORBIDDEN ? "the server does not allow this user that"
                                                : natsStatus_GetText(status));
    if (sent) result.flags = COORD_F_MAYBE_APPLIED;
    return result;
}

int64_t jet_link_wait_ms(const struct jet_link *link, int64_t deadline_ns)
{
    int64_t ms = (deadline_ns - prim_clock_now(&link->clock)) / 1000000;
    return ms > JET_REQUEST_MS_MAX ? JET_REQUEST_MS_MAX : ms;
}

coord_result jet_link_request(struct jet_link *link, int64_t deadline_ns, const char *subject,
                              const struct jet_header_line *headers, size_t header_count,
                              struct str body, natsMsg **ret_reply)
{
    int64_t wait_ms = jet_link_wait_ms(link, deadline_ns);
    if (wait_ms < 1)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT, "nats: no time is left");
    if (natsConnection_Status(link->connection) != NATS_CONN_STATUS_CONNECTED)
        return jet_link_failed(link, NATS_INSUFFICIENT_BUFFER, false);
    natsMsg *message = NULL;
    natsStatus status = natsMsg_Create(&message, subject, NULL, body.at, (int)body.len);
    for (size_t i = 0; status == NATS_OK && i < header_count; i++)
        status = natsMsgHeader_Set(message, headers[i].name, headers[i].value);
    if (status != NATS_OK) {
        natsMsg_Destroy(message);
        return jet_link_failed(link, NATS_NO_MEMORY, false);
    }
    struct jet_pipe_guard guard;
    jet_pipe_guard_begin(&guard);
    status = natsConnection_RequestMsg(ret_reply, link->connection, message, wait_ms);
    jet_pipe_guard_end(&guard);
    natsMsg_Destroy(message);
    return status == NATS_OK ? prim_ok(COORD_R_NONE) : jet_link_failed(link, status, true);
}
