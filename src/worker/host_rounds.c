/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker acknowledges to the service: partitions that it gave back, and checkpoint rounds.
 * Both are sent until they are answered; the service recognises a repeat. Loop's thread. */
#include <stdio.h>

#include "worker/host_internal.h"

enum { ACKS_AT_ONCE_MAX = 65536 };

/* Of the checkpoint under the row's own token; empty: none was written or read. */
static void row_reference(const struct worker_host *h, const struct tenure *row,
                          char text[CHECKPOINT_REFERENCE_CAP])
{
    const struct held_partition *part = row->data;

    text[0] = '\0';
    if (h->options.store && row->begun && part && part->token == row->token)
        checkpoint_reference(h->options.store, &part->checkpoint, text);
}

/* -- partitions that were given back -- */

void acks_send(struct worker_host *h)
{
    struct pack request = host_call_begin(h, h->self.incarnation);
    char reference[CHECKPOINT_REFERENCE_CAP];
    size_t count = 0;

    if (h->calls[CALL_ACK_REVOKE].running) return;
    for (size_t i = 0; i < h->tenures.count && count < ACKS_AT_ONCE_MAX; i++) {
        struct tenure *row = &h->tenures.rows[i];
        if (row->ack != ACK_DUE) continue;
        row_reference(h, row, reference);
        call_pack_checkpoint(h, &request, 3, row, reference);
        row->ack = ACK_SENT;
        count++;
    }
    pack_u64(&request, 4, h->life.coord_epoch);
    if (count && !call_send(h, CALL_ACK_REVOKE, &request))
        tenures_acked(&h->tenures, false); /* the next beat tries again */
}

/* What the service refused came too late, and counts as acknowledged. */
void acks_answered(struct worker_host *h, enum err err)
{
    tenures_acked(&h->tenures, !err);
    if (!err) acks_send(h); /* else the next beat does */
}

/* -- checkpoint rounds -- */

void rounds_begin(struct worker_host *h, uint64_t round)
{
    if (round == 0 || round <= h->round_acked) return;
    if (round == h->round) {
        rounds_check(h); /* ordered again: our acknowledgement was lost */
        return;
    }
    h->round = round;
    h->round_error[0] = '\0';
    for (size_t i = 0; i < h->tenures.count; i++)
        if (h->tenures.rows[i].state == TENURE_WORK) h->tenures.rows[i].want_write = true;
    rounds_check(h);
    host_pump_soon(h);
}

void rounds_failed(struct worker_host *h, const struct note *note)
{
    if (!h->round_error[0]) snprintf(h->round_error, sizeof h->round_error, "%s", note->text);
}

void rounds_check(struct worker_host *h)
{
    char reference[CHECKPOINT_REFERENCE_CAP];
    struct pack request;

    if (h->round <= h->round_acked || h->round_sent) return;
    for (size_t i = 0; i < h->tenures.count; i++)
        if (h->tenures.rows[i].want_write) return;
    request = host_call_begin(h, h->self.incarnation);
    pack_u64(&request, 3, h->round);
    for (size_t i = 0; i < h->tenures.count; i++) {
        const struct tenure *row = &h->tenures.rows[i];
        if (row->state != TENURE_WORK || row->busy) continue;
        row_reference(h, row, reference);
        if (reference[0]) call_pack_checkpoint(h, &request, 4, row, reference);
    }
    pack_text(&request, 5, str_from(h->round_error));
    pack_u64(&request, 6, h->life.coord_epoch);
    if (call_send(h, CALL_ACK_CHECKPOINT, &request)) h->round_sent = h->round;
}

void rounds_acked(struct worker_host *h, enum err err)
{
    if (!err) h->round_acked = max_u64(h->round_acked, h->round_sent);
    h->round_sent = 0;
    if (!err) rounds_check(h); /* another was ordered meanwhile */
}
