/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the rows of the heartbeat ledger, in rollout's encoding. Invariant: each row
 * has one encoding, and any other bytes are refused. Stateless. */
#include "member/ledger/rows.h"

enum { MILLION = 1000000, VARINT_MAX = 10, PHASE_MAX = 4, STANDING_MAX = 3, REASON_MAX = 4 };

/* -- encoding -- */

static enum err put_varint(struct buf *into, uint64_t value)
{
    char bytes[VARINT_MAX];
    size_t len = 0;

    for (; value >= 0x80; value >>= 7) bytes[len++] = (char)(uint8_t)(value | 0x80);
    bytes[len++] = (char)(uint8_t)value;
    return buf_append(into, str_of(bytes, len));
}

static enum err rows_put_text(struct buf *into, struct str text)
{
    enum err err = put_varint(into, text.len);
    return err ? err : buf_append(into, text);
}

static bool printable(struct str text, size_t max)
{
    if (text.len == 0 || text.len > max) return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < 0x21 || text.at[i] > 0x7E) return false;
    return true;
}

/* After an error nothing is appended. */
static enum err ledger_row_write(struct buf *into, struct str id, struct str run,
                                 const uint64_t *numbers, size_t count, const struct str *last)
{
    size_t before = into->len;
    enum err err = rows_put_text(into, id);

    if (!err) err = rows_put_text(into, run);
    for (size_t i = 0; !err && i < count; i++) err = put_varint(into, numbers[i]);
    if (!err && last) err = rows_put_text(into, *last);
    if (err) into->len = before;
    return err;
}

enum err heartbeat_row_write(const struct heartbeat_row *row, struct buf *into)
{
    uint64_t numbers[] = {(uint64_t)row->phase * 2, /* zig-zag of a positive number */
                          row->due_at_ms, row->received_at_ms, 0};

    if (!printable(row->worker_id, ROW_ID_MAX) || !printable(row->run_id, ROW_RUN_MAX) ||
        row->phase < 1 || row->phase > PHASE_MAX ||
        (row->has_load && !(row->load >= 0 && row->load <= 1)))
        return ERR_INVALID;
    if (row->has_load) numbers[3] = (uint64_t)(row->load * MILLION + 0.5) + 1;
    return ledger_row_write(into, row->worker_id, row->run_id, numbers, row->has_load ? 4 : 3,
                            NULL);
}

enum err worker_row_write(const struct worker_row *row, struct buf *into)
{
    const uint64_t numbers[] = {row->registered_at_ms, row->incarnation, row->standing, row->reason,
                                row->draining};

    if (!printable(row->worker_id, ROW_ID_MAX) || !printable(row->run_id, ROW_RUN_MAX) ||
        row->standing > STANDING_MAX || row->reason > REASON_MAX ||
        (row->instance.len && !printable(row->instance, ROW_INSTANCE_MAX)))
        return ERR_INVALID;
    return ledger_row_write(into, row->worker_id, row->run_id, numbers, ARRAY_LEN(numbers),
                            &row->instance);
}

/* -- reading: the remaining bytes, and whether an error occurred -- */

struct rest {
    struct str bytes;
    bool bad;
};

static uint64_t take_varint(struct rest *r, uint64_t max)
{
    uint64_t value = 0;

    for (size_t i = 0; i < VARINT_MAX && i < r->bytes.len && !r->bad; i++) {
        uint8_t byte = (uint8_t)r->bytes.at[i];
        if (i == VARINT_MAX - 1 && byte > 1) break; /* more than 64 bits */
        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte & 0x80) continue;
        r->bad = (i > 0 && byte == 0) || value > max; /* only the shortest form is accepted */
        r->bytes = str_tail(r->bytes, i + 1);
        return r->bad ? 0 : value;
    }
    r->bad = true;
    return 0;
}

static struct str take_text(struct rest *r, size_t max, bool may_be_empty)
{
    size_t len = (size_t)take_varint(r, max);
    struct str text = STR_EMPTY;

    if (!r->bad && len <= r->bytes.len) {
        text = str_of(r->bytes.at, len);
        r->bytes = str_tail(r->bytes, len);
    } else {
        r->bad = true;
    }
    if (!(may_be_empty && len == 0) && !printable(text, max)) r->bad = true;
    return text;
}

enum err heartbeat_row_read(struct str bytes, struct heartbeat_row *ret_row)
{
    struct rest r = {.bytes = bytes};
    struct heartbeat_row row = {.worker_id = take_text(&r, ROW_ID_MAX, false)};
    uint64_t zigzag, load;

    row.run_id = take_text(&r, ROW_RUN_MAX, false);
    zigzag = take_varint(&r, (uint64_t)PHASE_MAX * 2);
    if (zigzag < 2 || zigzag % 2) r.bad = true;
    row.phase = (uint32_t)(zigzag / 2);
    row.due_at_ms = take_varint(&r, UINT64_MAX);
    row.received_at_ms = take_varint(&r, UINT64_MAX);
    if (!r.bad && r.bytes.len > 0) {
        load = take_varint(&r, MILLION + 1);
        if (load == 0) r.bad = true;
        row.has_load = true;
        row.load = (double)(load - 1) / MILLION;
    }
    if (r.bad || r.bytes.len > 0) return ERR_PARSE;
    *ret_row = row;
    return ERR_OK;
}

enum err worker_row_read(struct str bytes, struct worker_row *ret_row)
{
    struct rest r = {.bytes = bytes};
    struct worker_row row = {.worker_id = take_text(&r, ROW_ID_MAX, false)};

    row.run_id = take_text(&r, ROW_RUN_MAX, false);
    row.registered_at_ms = take_varint(&r, UINT64_MAX);
    if (!r.bad && r.bytes.len > 0) {
        row.incarnation = take_varint(&r, UINT64_MAX);
        row.standing = (uint32_t)take_varint(&r, STANDING_MAX);
        row.reason = (uint32_t)take_varint(&r, REASON_MAX);
        row.draining = take_varint(&r, 1) == 1;
        row.instance = take_text(&r, ROW_INSTANCE_MAX, true);
    }
    if (r.bad || r.bytes.len > 0) return ERR_PARSE;
    *ret_row = row;
    return ERR_OK;
}
