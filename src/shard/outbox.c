/* SPDX-License-Identifier: Apache-2.0 */
/* Stores frames in the order of addition, with an index by key and totals of all outboxes. */
#include "shard/outbox.h"

#include <stdlib.h>

void outbox_init(struct outbox *box, struct outbox_limits limits, struct outbox_totals *totals,
                 uint64_t seed)
{
    *box = (struct outbox){.limits = limits, .totals = totals};
    list_init(&box->frames);
    map_init(&box->by_key, limits.frames_max, seed);
}

static size_t frame_cost(const struct out_frame *frame)
{
    return sizeof *frame + frame->key.len + frame->bytes.len;
}

static void frame_unlink(struct outbox *box, struct out_frame *frame)
{
    assert(box->count > 0 && box->bytes >= frame_cost(frame));
    list_remove(&frame->link);
    box->count--;
    box->bytes -= frame_cost(frame);
    box->totals->frames--;
    box->totals->bytes -= frame_cost(frame);
}

void outbox_detach(struct outbox *box, struct out_frame *frame)
{
    if (frame->key.len > 0) map_remove(&box->by_key, frame->key);
    frame_unlink(box, frame);
    if (box->count == 0) {
        uint64_t seed = box->by_key.seed;
        map_deinit(&box->by_key);
        map_init(&box->by_key, box->limits.frames_max, seed);
    }
}

void outbox_drop(struct outbox *box, struct out_frame *frame)
{
    outbox_detach(box, frame);
    free(frame);
}

void outbox_drop_key(struct outbox *box, struct str key)
{
    struct out_frame *frame = map_get(&box->by_key, key);

    if (frame) outbox_drop(box, frame);
}

struct out_frame *outbox_first(const struct outbox *box)
{
    if (list_empty(&box->frames)) return NULL;
    return CONTAINER_OF(box->frames.next, struct out_frame, link);
}

void outbox_deinit(struct outbox *box)
{
    if (!box->frames.next) return;
    LIST_EACH_SAFE(&box->frames, node, following) free(CONTAINER_OF(node, struct out_frame, link));
    list_init(&box->frames);
    map_deinit(&box->by_key);
    box->totals->frames -= box->count;
    box->totals->bytes -= box->bytes;
    box->count = box->bytes = 0;
}

static struct out_frame *frame_new(struct str key, struct str bytes, bool departed)
{
    struct out_frame *frame = malloc(sizeof *frame + key.len + bytes.len);
    char *at = frame ? (char *)(frame + 1) : NULL;

    if (!frame) return NULL;
    if (key.len > 0) memcpy(at, key.at, key.len);
    if (bytes.len > 0) memcpy(at + key.len, bytes.at, bytes.len);
    list_init(&frame->link);
    frame->key = str_of(at, key.len);
    frame->bytes = str_of(at + key.len, bytes.len);
    frame->departed = departed;
    return frame;
}

enum err outbox_put(struct outbox *box, struct str key, struct str bytes, bool departed)
{
    struct out_frame *old = key.len > 0 ? map_get(&box->by_key, key) : NULL, *frame;
    size_t others = box->count - (old ? 1 : 0), used = box->bytes - (old ? frame_cost(old) : 0);

    if (others >= box->limits.frames_max) return ERR_FULL;
    if (sizeof *frame + key.len + bytes.len > box->limits.bytes_max - used) return ERR_FULL;
    frame = frame_new(key, bytes, departed);
    if (!frame) return ERR_NOMEM;
    if (old) {
        map_remove(&box->by_key, old->key);
        frame_unlink(box, old);
        free(old);
        box->totals->superseded++;
    }
    if (key.len > 0 && map_put(&box->by_key, frame->key, frame)) {
        free(frame);
        return ERR_NOMEM;
    }
    list_append(&box->frames, &frame->link);
    box->count++;
    box->bytes += frame_cost(frame);
    box->totals->frames++;
    box->totals->bytes += frame_cost(frame);
    return ERR_OK;
}
