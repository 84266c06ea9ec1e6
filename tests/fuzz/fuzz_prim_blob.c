/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an exported lease: refused, or read, written and read again to the same. The
 * checksum is fixed first, as a forger would. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "prim/blob.h"
#include "prim/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void look(struct str bytes)
{
    struct blob blob;
    if (blob_decode(bytes, &blob) != ERR_OK) { return; }
    must(blob.claim.count >= 1 && blob.claim.count <= PRIM_KEYS_PER_LEASE_MAX);
    must(prim_check_owner(blob.claim.owner).code == COORD_OK);
    for (size_t i = 0; i < blob.claim.count; i++) {
        must(prim_check_key(str_from(blob.claim.held[i].key)).code == COORD_OK);
    }
    size_t len = blob_encode(&blob.store_id, &blob.claim, NULL, 0);
    must(len == bytes.len);
    char *again = malloc(len);
    must(again != NULL && blob_encode(&blob.store_id, &blob.claim, again, len) == len);
    must(memcmp(again, bytes.at, len) == 0);
    free(again);
    free(blob.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    look(str_of(data, size));
    if (size < 16 || size > 65536) { return 0; }
    char *copy = malloc(size);
    must(copy != NULL);
    memcpy(copy, data, size);
    store_le32(copy + 8, (uint32_t)size);
    store_le32(copy + size - 4, crc32c(0, copy, size - 4));
    look(str_of(copy, size));
    free(copy);
    return 0;
}
