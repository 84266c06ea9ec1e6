/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and history of the register service. */
#include "register.h"

#include <inttypes.h>
#include <string.h>

const char *const register_bug_names[] = {
    "ack-before-sync",     "no-directory-sync",
    "trust-the-tail",      "trust-the-cache",
    "ack-a-pending-twin",  "ignore-half-close",
    "no-write-back",       "count-a-node-twice",
    "stamp-by-wall-clock", NULL,
};
static_assert(ARRAY_LEN(register_bug_names) == REGISTER_BUG_COUNT, "a name for every bug");

/* -- frames -- */

static bool carries_value(enum register_kind kind)
{
    return kind == REGISTER_WRITE || kind == REGISTER_VALUE;
}

static size_t filler_len(uint32_t index, uint64_t value)
{
    return value ? (size_t)((value * 37 + index * 101) % REGISTER_FILLER_MAX) : 0;
}

static char filler_byte(uint32_t index, uint64_t value, size_t at)
{
    return (char)(value * 131 + index * 17 + at * 7);
}

static void put(char **at, uint64_t number, size_t len)
{
    for (size_t i = 0; i < len; i++) *(*at)++ = (char)(number >> (8 * i));
}

static uint64_t get(const char **at, size_t len)
{
    uint64_t number = 0;
    for (size_t i = 0; i < len; i++) number |= (uint64_t)(unsigned char)*(*at)++ << (8 * i);
    return number;
}

enum err register_frame_put(struct buf *into, const struct register_frame *frame)
{
    size_t filler = carries_value(frame->kind) ? filler_len(frame->index, frame->value) : 0;
    size_t body = REGISTER_BODY_MIN + filler;
    char *at;
    enum err err = buf_reserve(into, REGISTER_FRAME_HEAD + body, &at);

    if (err) return err;
    put(&at, body, 4);
    put(&at, (uint64_t)frame->kind, 1);
    put(&at, frame->request, 8);
    put(&at, frame->index, 4);
    put(&at, frame->stamp, 8);
    for (size_t i = 0; i < filler; i++) {
        if (i == filler / 2) put(&at, frame->value, 8);
        *at++ = filler_byte(frame->index, frame->value, i);
    }
    if (!filler) put(&at, frame->value, 8);
    buf_commit(into, REGISTER_FRAME_HEAD + body);
    return ERR_OK;
}

enum err register_frame_take(struct str bytes, struct register_frame *ret_frame, size_t *ret_len)
{
    struct register_frame frame;
    const char *at = bytes.at, *value_at;
    size_t body, filler;

    *ret_len = 0;
    if (bytes.len < REGISTER_FRAME_HEAD) return ERR_OK;
    body = (size_t)get(&at, 4);
    if (body < REGISTER_BODY_MIN || body > REGISTER_BODY_MAX) return ERR_PARSE;
    if (bytes.len < REGISTER_FRAME_HEAD + body) return ERR_OK;
    frame.kind = (enum register_kind)get(&at, 1);
    frame.request = get(&at, 8);
    frame.index = (uint32_t)get(&at, 4);
    frame.stamp = get(&at, 8);
    filler = body - REGISTER_BODY_MIN;
    value_at = at + filler / 2;
    frame.value = get(&value_at, 8);
    if (frame.kind < REGISTER_READ || frame.kind > REGISTER_REFUSED) return ERR_PARSE;
    if (frame.index >= REGISTERS_MAX) return ERR_PARSE;
    if (filler != (carries_value(frame.kind) ? filler_len(frame.index, frame.value) : 0))
        return ERR_CORRUPT;
    for (size_t i = 0; i < filler; i++) {
        if (at[i < filler / 2 ? i : i + 8] != filler_byte(frame.index, frame.value, i))
            return ERR_CORRUPT;
    }
    *ret_frame = frame;
    *ret_len = REGISTER_FRAME_HEAD + body;
    return ERR_OK;
}

/* -- history -- */

static void wrong(struct register_history *h, uint32_t index, const char *what, uint64_t value,
                  uint64_t bound)
{
    if (h->wrong) return;
    h->wrong = true;
    note_set(&h->why, "register %u: read %" PRIu64 ", but %s %" PRIu64, index, value, what, bound);
}

void register_history_issue(struct register_history *h, uint32_t index, uint64_t value)
{
    h->registers[index].issued = max_u64(h->registers[index].issued, value);
}

void register_history_written(struct register_history *h, uint32_t index, uint64_t value)
{
    h->registers[index].floor = max_u64(h->registers[index].floor, value);
    h->done[index]++;
}

uint64_t register_history_begin_read(const struct register_history *h, uint32_t index)
{
    return h->registers[index].floor;
}

void register_history_read(struct register_history *h, uint32_t index, uint64_t value,
                           uint64_t floor)
{
    if (value < floor) wrong(h, index, "before it began there was already", value, floor);
    if (value > h->registers[index].issued) {
        wrong(h, index, "nobody wrote more than", value, h->registers[index].issued);
    }
    h->registers[index].floor = max_u64(h->registers[index].floor, value);
}

void register_history_damage(struct register_history *h, const char *what)
{
    if (h->wrong) return;
    h->wrong = true;
    note_set(&h->why, "%s", what);
}
