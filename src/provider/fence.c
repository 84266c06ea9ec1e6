/* SPDX-License-Identifier: Apache-2.0 */
/* What a provider's refusal says of the newer process: wire.md 3.2 has no structured detail, but
 * the text names the mark. */
#include <string.h>

#include "provider/client.h"

bool provider_fence_epoch(struct str text, int64_t *ret_epoch)
{
    static const char phrase[] = "is not newer than (";
    const size_t len = sizeof phrase - 1;

    for (size_t at = 0; at + len <= text.len; at++) {
        struct str rest = str_tail(text, at + len), number;

        if (memcmp(text.at + at, phrase, len) != 0) continue;
        return str_split(&rest, ',', &number) && !str_to_i64(number, ret_epoch);
    }
    return false;
}
