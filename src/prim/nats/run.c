/* SPDX-License-Identifier: Apache-2.0 */
/* Consumers that deliver in order (store.h), one thread each. A message is returned only if its
 * number follows the last message's number. */
#include "prim/nats/store.h"

#include <inttypes.h>
#include <stdio.h>

/* The server removes an abandoned consumer after this time. */
enum { LEFT_BEHIND_MS = 30000 };

static coord_result make(struct jet_store *store, int64_t deadline_ns, const char *inbox,
                         const char *filter, struct jet_run *run)
{
    char subject[128];
    struct buf body;
    struct note note = {""};
    struct jet_consumer consumer;
    natsMsg *reply = NULL;
    buf_init(&body, 8192);
    (void)snprintf(subject, sizeof subject, "$JS.API.CONSUMER.CREATE.%s", store->stream);
    enum err err = buf_appendf(
        &body,
        "{\"stream_name\":\"%s\",\"config\":{\"deliver_policy\":\"last_per_subject\","
        "\"ack_policy\":\"none\",\"max_deliver\":1,\"replay_policy\":\"instant\","
        "\"deliver_subject\":\"%s\",\"filter_subject\":\"%s\",\"idle_heartbeat\":%" PRId64 ","
        "\"inactive_threshold\":%" PRId64 ",\"num_replicas\":1,\"mem_storage\":true}}",
        store->stream, inbox, filter, (int64_t)JET_HEARTBEAT_MS * 1000000,
        (int64_t)LEFT_BEHIND_MS * 1000000);
    coord_result result = err ? prim_no_memory()
                              : jet_link_request(&store->link, deadline_ns, subject, NULL, 0,
                                                 buf_peek(&body), &reply);
    buf_deinit(&body);
    result.flags = 0;
    if (result.code != COORD_OK) return result;
    err = jet_decode_consumer(jet_link_body(reply), &consumer, &note);
    natsMsg_Destroy(reply);
    if (err) return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "nats: %.140s", note.text);
    if (consumer.error.code != 0) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "nats: consumer: %s",
                           consumer.error.text);
    }
    memcpy(run->name, consumer.name, sizeof run->name);
    run->pending = consumer.pending;
    run->delivered = 0;
    return result;
}

coord_result jet_run_open(struct jet_store *store, int64_t deadline_ns, const char *filter,
                          struct jet_run *run)
{
    natsInbox *inbox = NULL;
    natsSubscription *subscription = NULL;
    assert(run->subscription == NULL);
    if (natsConnection_Status(store->link.connection) != NATS_CONN_STATUS_CONNECTED)
        return jet_link_failed(&store->link, NATS_INSUFFICIENT_BUFFER, false);
    natsStatus status = natsInbox_Create(&inbox);
    struct jet_pipe_guard guard;
    jet_pipe_guard_begin(&guard);
    if (status == NATS_OK)
        status = natsConnection_SubscribeSync(&subscription, store->link.connection, inbox);
    jet_pipe_guard_end(&guard);
    coord_result result = status == NATS_OK ? make(store, deadline_ns, inbox, filter, run)
                                            : jet_link_failed(&store->link, status, false);
    natsInbox_Destroy(inbox);
    if (result.code == COORD_OK)
        run->subscription = subscription;
    else
        natsSubscription_Destroy(subscription);
    return result;
}

void jet_run_close(struct jet_store *store, struct jet_run *run)
{
    char subject[192];
    if (run->subscription == NULL) return;
    struct jet_pipe_guard guard;
    jet_pipe_guard_begin(&guard);
    natsSubscription_Destroy(run->subscription);
    (void)snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DELETE.%s.%s", store->stream,
                   run->name);
    (void)natsConnection_PublishString(store->link.connection, subject, "");
    jet_pipe_guard_end(&guard);
    run->subscription = NULL;
}

static struct str header_of(natsMsg *message, const char *name)
{
    const char *value = NULL;
    return natsMsgHeader_Get(message, name, &value) == NATS_OK ? str_from(value) : STR_EMPTY;
}

static enum jet_step run_take(struct jet_store *store, struct jet_run *run, struct jet_message *ret)
{
    struct jet_delivery delivery;
    struct str status = header_of(ret->message, "Status");
    if (status.len > 0) {
        uint64_t last;
        bool same = str_equal(status, STR("100")) &&
                    str_to_u64(header_of(ret->message, "Nats-Last-Consumer"), &last) == ERR_OK &&
                    last == run->delivered;
        return same ? JET_STEP_IDLE : JET_STEP_BROKEN;
    }
    if (jet_decode_delivery(str_from(natsMsg_GetReply(ret->message)), &delivery) != ERR_OK ||
        delivery.consumer_sequence != run->delivered + 1)
        return JET_STEP_BROKEN;
    run->delivered++;
    ret->pending = delivery.pending;
    struct str subject = str_from(natsMsg_GetSubject(ret->message));
    if (!jet_key_of(str_from(store->bucket), subject, ret->key)) ret->key[0] = '\0';
    jet_state_of(delivery.stream_sequence, header_of(ret->message, "Nats-Marker-Reason"),
                 header_of(ret->message, "KV-Operation"), jet_link_body(ret->message), &ret->state);
    return JET_STEP_MESSAGE;
}

enum jet_step jet_run_next(struct jet_store *store, struct jet_run *run, int64_t wait_ms,
                           struct jet_message *ret_message)
{
    ret_message->message = NULL;
    natsStatus status = natsSubscription_NextMsg(&ret_message->message, run->subscription, wait_ms);
    if (status != NATS_OK) return status == NATS_TIMEOUT ? JET_STEP_SILENT : JET_STEP_BROKEN;
    enum jet_step step = run_take(store, run, ret_message);
    if (step != JET_STEP_MESSAGE) {
        natsMsg_Destroy(ret_message->message);
        ret_message->message = NULL;
    }
    return step;
}
