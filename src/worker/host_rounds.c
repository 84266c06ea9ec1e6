/* SPDX-License-Identifier: Apache-2.0 */
/* What the service is told: which partitions were given back, which checkpoints were written. Both
 * are told until they are answered; the service knows a repeat. */
#include <stdio.h>
#include <stdlib.h>

#include "worker/host_internal.h"

/* -- partitions that were given back -- */

void acks_add(struct worker_host *h, const struct held_partition *part, uint32_t partition,
              uint64_t token)
{
    struct link_checkpoint *ack;

    if (h->ack_count == h->ack_cap) {
        size_t cap = h->ack_cap ? 2 * h->ack_cap : 16;
        struct link_checkpoint *acks = cap > ACKS_MAX ? NULL : realloc(h->acks, cap * sizeof *acks);
        if (!acks) return; /* not told: the service asks again, or waits for our end */
        h->acks = acks;
        h->ack_cap = cap;
    }
    ack = &h->acks[h->ack_count++];
    *ack = (struct link_checkpoint){.partition = partition, .token = token};
    if (part) part_reference(h, part, ack->reference);
}

void acks_send(struct worker_host *h)
{
    if (h->ack_count == 0 || h->acks_sent) return;
    if (link_ack_revoke(h->link, &h->self, h->acks, h->ack_count)) h->acks_sent = h->ack_count;
}

/* What was refused was told too late, and counts as answered. */
void acks_answered(struct worker_host *h, enum err err)
{
    size_t sent = min_size(h->acks_sent, h->ack_count);

    h->acks_sent = 0;
    if (err) return; /* the next beat sends them again */
    memmove(h->acks, h->acks + sent, (h->ack_count - sent) * sizeof *h->acks);
    h->ack_count -= sent;
    acks_send(h);
}

void acks_forget(struct worker_host *h)
{
    h->ack_count = h->acks_sent = 0;
}

/* -- checkpoints that were asked for -- */

void rounds_begin(struct worker_host *h, uint64_t round)
{
    if (round == 0 || round <= h->round_acked) return;
    if (round == h->round) {
        rounds_look(h); /* asked again: our answer was lost */
        return;
    }
    h->round = round;
    h->round_error[0] = '\0';
    for (size_t i = 0; i < h->tenures.count; i++)
        if (h->tenures.rows[i].state == TENURE_WORK) h->tenures.rows[i].want_write = true;
    rounds_look(h);
    host_pump_soon(h);
}

void rounds_failed(struct worker_host *h, const struct note *note)
{
    if (!h->round_error[0]) snprintf(h->round_error, sizeof h->round_error, "%s", note->text);
}

void rounds_look(struct worker_host *h)
{
    struct link_checkpoint *list;
    size_t count = 0;

    if (h->round <= h->round_acked || h->round_told) return;
    for (size_t i = 0; i < h->tenures.count; i++)
        if (h->tenures.rows[i].want_write) return;
    list = calloc(h->tenures.count + 1, sizeof *list);
    for (size_t i = 0; list && i < h->tenures.count; i++) {
        const struct tenure *row = &h->tenures.rows[i];
        if (row->state != TENURE_WORK || !row->data || row->busy) continue;
        list[count].partition = row->partition;
        list[count].token = row->token;
        part_reference(h, row->data, list[count].reference);
        if (list[count].reference[0]) count++; /* else nothing was ever read of it */
    }
    if (list && link_ack_checkpoint(h->link, &h->self, h->round, list, count, h->round_error))
        h->round_told = h->round;
    free(list);
}

void rounds_acked(struct worker_host *h, enum err err)
{
    if (!err) h->round_acked = max_u64(h->round_acked, h->round_told);
    h->round_told = 0;
    if (!err) rounds_look(h); /* another was asked for meanwhile */
}
