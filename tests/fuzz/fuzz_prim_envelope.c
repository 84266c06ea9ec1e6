/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an entry of a foreign store: refused, or read, written and the same bytes again.
 * An input that begins with '!' gets the right checksum first, because no fuzzer guesses one. */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "prim/envelope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void decode(struct str given)
{
    struct claim_envelope envelope;
    struct buf again;

    if (envelope_decode(given, &envelope)) return;
    must(envelope.ttl_ms >= 0);
    must(ENVELOPE_HEADER + envelope.owner.len + envelope.value.len == given.len);
    buf_init(&again, given.len);
    must(envelope_encode(&envelope, &again) == ERR_OK);
    must(str_equal(buf_peek(&again), given));
    buf_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= ENVELOPE_HEADER || data[0] != '!') {
        decode(str_of(data, size));
        return 0;
    }
    size_t len = size - 1;
    char *bytes = malloc(len);
    if (!bytes) return 0;
    memcpy(bytes, data + 1, len);
    uint32_t crc = crc32c(0, bytes, ENVELOPE_HEADER - 4);
    crc = crc32c(crc, bytes + ENVELOPE_HEADER, len - ENVELOPE_HEADER);
    store_le32(bytes + ENVELOPE_HEADER - 4, crc);
    decode(str_of(bytes, len));
    free(bytes);
    return 0;
}
