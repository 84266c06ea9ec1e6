/* SPDX-License-Identifier: Apache-2.0 */
/* One request, one answer, over the calls of client_call.c. The call itself holds the answer. */
#include "rpc/client_internal.h"

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct rpc_outcome judged = *outcome;

    if (!judged.err && call->messages != 1) {
        judged.err = ERR_UNKNOWN;
        judged.status = GRPC_INTERNAL;
        judged.answered = false; /* it said OK; that this is none is our word */
        judged.text = call->messages == 0 ? STR("answered OK, but without a message")
                                          : STR("answered OK, but with more than one message");
    }
    call->unary_done(owner, call, &judged, judged.err ? STR_EMPTY : buf_peek(&call->message));
}

static const struct rpc_call_events events = {.on_end = on_end};

enum err rpc_unary(struct rpc_channel *channel, const struct rpc_call_options *options,
                   struct str request, rpc_unary_fn *done, void *owner,
                   struct rpc_client_call **ret_call)
{
    struct rpc_client_call *call;
    enum err err = client_call_new(channel, options, &call);

    if (err) return err;
    call->events = events;
    call->owner = owner;
    call->unary_done = done;
    err = rpc_call_send(call, request);
    if (err) {
        list_remove(&call->link); /* nobody was told of it */
        channel->calls_count--;
        client_call_free(call);
        return err;
    }
    rpc_call_end(call);
    if (ret_call) *ret_call = call;
    return ERR_OK;
}
