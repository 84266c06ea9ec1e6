/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes through each of gRPC's small decoders; reversible results come back the same.
 *
 *   byte 0   size of the pieces the reader is fed with
 *   byte 1   its limit
 *   rest     the input, as messages, timeout, status message, base64 and gzip */
#include <stdlib.h>
#include <string.h>

#include "wire/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GUNZIP_MAX = 1 << 16 };

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_reader(struct str input, size_t piece, size_t max)
{
    struct grpc_reader r;
    struct buf again, message;
    size_t used = 0;
    enum err err = ERR_OK;

    buf_init(&again, SIZE_MAX);
    buf_init(&message, max);
    grpc_reader_init(&r, max);
    while (used < input.len && !err) {
        struct str bytes = str_of(input.at + used, min_size(piece, input.len - used)), part;
        size_t before = bytes.len;
        bool whole = false;
        err = grpc_reader_piece(&r, &bytes, &part, &whole);
        must(err == ERR_OK || err == ERR_PARSE || err == ERR_TOO_LARGE);
        used += before - bytes.len;
        if (!err) must(buf_append(&message, part) == ERR_OK); /* never more than max */
        if (whole) { /* written again it is the same bytes */
            char head[GRPC_FRAME_BYTES];
            grpc_frame_write(r.length, r.compressed, head);
            must(buf_append(&again, str_of(head, sizeof head)) == ERR_OK);
            must(buf_append(&again, buf_peek(&message)) == ERR_OK);
            must(again.len == used && memcmp(again.data, input.at, used) == 0);
            buf_clear(&message);
            must(grpc_reader_between(&r));
        } else if (!err) {
            must(bytes.len == 0);
        }
    }
    buf_deinit(&message);
    buf_deinit(&again);
}

static void check_timeout(struct str input)
{
    uint64_t us = 1, back;
    char text[16];

    if (grpc_timeout_parse(input, &us)) {
        must(us == 1);
        return;
    }
    grpc_timeout_text(us, text);
    must(grpc_timeout_parse(str_from(text), &back) == ERR_OK);
    must(back >= us && (us > 99999999 || back == us));
}

static void check_text(struct str input)
{
    struct buf once, twice;

    buf_init(&once, SIZE_MAX);
    buf_init(&twice, SIZE_MAX);
    must(grpc_message_decode(input, &once) == ERR_OK && once.len <= input.len);
    buf_clear(&once);
    must(grpc_message_encode(input, &once) == ERR_OK);
    for (size_t i = 0; i < once.len; i++) must(once.data[i] >= 0x20 && once.data[i] <= 0x7e);
    must(grpc_message_decode(buf_peek(&once), &twice) == ERR_OK);
    must(str_equal(buf_peek(&twice), input));
    buf_deinit(&twice);
    buf_deinit(&once);
}

static void check_base64(struct str input)
{
    struct buf once, twice;

    buf_init(&once, SIZE_MAX);
    buf_init(&twice, SIZE_MAX);
    if (grpc_bin_decode(input, &once)) must(once.len == 0);
    buf_clear(&once);
    must(grpc_bin_encode(input, &once) == ERR_OK);
    must(grpc_bin_decode(buf_peek(&once), &twice) == ERR_OK);
    must(str_equal(buf_peek(&twice), input));
    buf_deinit(&twice);
    buf_deinit(&once);
}

static void check_gunzip(struct str input)
{
    struct buf out, exact;
    enum err err;

    buf_init(&out, SIZE_MAX);
    buf_init(&exact, SIZE_MAX);
    err = grpc_gunzip(input, GUNZIP_MAX, &out);
    must(err == ERR_OK || err == ERR_PARSE || err == ERR_TOO_LARGE);
    must(out.len <= GUNZIP_MAX && out.cap <= 2 * GUNZIP_MAX && (!err || out.len == 0));
    if (!err) {
        must(grpc_gunzip(input, out.len, &exact) == ERR_OK);
        must(str_equal(buf_peek(&out), buf_peek(&exact)));
        if (out.len > 0) must(grpc_gunzip(input, out.len - 1, &exact) == ERR_TOO_LARGE);
    }
    buf_deinit(&exact);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input;

    if (size < 2) return 0;
    input = str_of(data + 2, size - 2);
    check_reader(input, 1 + (size_t)data[0], (size_t)data[1] * data[1]);
    check_timeout(input);
    check_text(input);
    check_base64(input);
    check_gunzip(input);
    return 0;
}
