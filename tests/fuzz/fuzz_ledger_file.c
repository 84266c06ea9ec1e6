/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as records of a ledger file: the walk ends, and stays inside of the bytes. */
#include <stddef.h>
#include <stdint.h>

#include "member/ledger/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str records = str_of((const char *)data, size), key, value;

    while (ledger_record_next(&records, &key, &value))
        assert(key.at >= (const char *)data && key.at + key.len == value.at &&
               value.at + value.len <= (const char *)data + size);
    assert(records.len <= size);
    return 0;
}
