/* SPDX-License-Identifier: Apache-2.0 */
/* The stream to the shard: dialled, kept, dialled again.
 *
 * It knows no demand and no machines: it says Hello, hands over what comes, and sends what it is
 * given. Two kinds of things wait when the shard reads slowly: answers, in order, at most
 * UPLINK_ANSWERS_MAX (a newer one is dropped: the shard's own timeout covers it), and one roll-up,
 * which is written only when there is room for it and so is never older than the moment it leaves.
 *
 * A stream that ended is opened again after 0.5 to 30 s, with jitter. The pause starts small again
 * only after a stream that lasted UPLINK_LASTED_MS: two operators of one cluster, who take turns
 * throwing each other out, slow down instead of spinning. */
#ifndef OPERATOR_UPLINK_H
#define OPERATOR_UPLINK_H
#include "io/io.h"
#include "io/tls.h"
#include "rpc/client.h"

enum {
    UPLINK_ANSWERS_MAX = 256,
    UPLINK_PAUSE_FIRST_MS = 500,
    UPLINK_PAUSE_MAX_MS = 30 * 1000,
    UPLINK_LASTED_MS = 30 * 1000,
};

struct uplink;
struct uplink_events { /* all are set; never from inside a call of this header */
    /* The stream is there; the first frame to send, which is the Hello. */
    enum err (*write_hello)(void *owner, struct buf *out);
    /* After uplink_want_rollup, when there is room; again when it did not fit after all.
     * ERR_CANCELLED: there is none to send now. */
    enum err (*write_rollup)(void *owner, struct buf *out);
    void (*on_rollup_sent)(void *owner, size_t bytes); /* the one that was written last */
    void (*on_open)(void *owner);                      /* the Hello is on its way */
    void (*on_frame)(void *owner, struct str frame);
    /* `status` and `why` as the shard gave them, or what stands for the failure. */
    void (*on_closed)(void *owner, enum grpc_status status, struct str why);
    void (*on_unreachable)(void *owner); /* every address failed */
};
struct uplink_options {
    struct io *io;
    const char *const *addresses; /* ends with NULL; copied */
    struct tls_context *tls;      /* NULL: plaintext */
    struct rpc_client_metrics *metrics;
    size_t frame_max, rollup_max; /* of one from the shard, of one to it */
    const struct uplink_events *events;
    void *owner;
};
/* Errors as rpc_channel_open. */
enum err uplink_open(const struct uplink_options *options, struct uplink **ret_uplink,
                     struct note *note);
/* No event from here on; done() once nothing is left. NULL is fine. */
void uplink_close(struct uplink *uplink, void (*done)(void *owner), void *owner);
void uplink_want_rollup(struct uplink *uplink); /* nothing happens without a stream */
/* ERR_FULL: dropped; ERR_CLOSED: there is no stream; ERR_NOMEM. */
enum err uplink_answer(struct uplink *uplink, struct str frame);
#endif
