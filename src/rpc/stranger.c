/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are no gRPC: a browser, a probe, a judge of HTTP/2. Each is a call without a method.
 * Its answer says so in words, because such a peer does not look at trailers; a gRPC client finds
 * its status there all the same.
 *
 * The answer waits for the end of the request, as HTTP does and calls do, so that h2 still judges the
 * rest of the request. The wait is bounded in bytes and by the time that headers may take; after the
 * answer h2 asks the peer to stop sending. */
#include "rpc/server_internal.h"

enum { BODY_PATIENCE = 64 << 10 }; /* bytes of a request's body that are let pass */

void stranger_begin(struct rpc_call *call, const struct plain_answer *answer, bool head)
{
    call->plain = answer;
    call->no_body = head;
    if (call->request == REQUEST_ENDED)
        stranger_answer(call);
    else
        timer_start_in(&call->timer, call->server->limits.header_timeout_ms);
}

void stranger_data(struct rpc_call *call)
{
    if (call->body_came > BODY_PATIENCE) stranger_answer(call);
}

void stranger_answer(struct rpc_call *call)
{
    const struct h2_header headers[] = {{STR(":status"), call->plain->http_status},
                                        {STR("content-type"), STR("text/plain")}};
    const struct h2_header trailers[] = {{STR("grpc-status"), STR("13")}, /* INTERNAL */
                                         {STR("grpc-message"), call->plain->text}};
    const struct str body[] = {call->plain->text, STR("\n")};
    struct h2 *h2 = call->connection->h2;
    enum err err = h2_respond(h2, call->stream, headers, ARRAY_LEN(headers), call->no_body);

    if (!err && !call->no_body) err = h2_send(h2, call->stream, body, ARRAY_LEN(body));
    if (!err && !call->no_body)
        err = h2_send_trailers(h2, call->stream, trailers, ARRAY_LEN(trailers));
    if (err) h2_reset(h2, call->stream, H2_INTERNAL_ERROR);
    call_decide(call, GRPC_INTERNAL);
    call_response_to(call, RESPONSE_SENT);
    timer_stop(&call->timer);
    connection_mark_dirty(call->connection);
}
