/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of plain streams with TLS between the two ends. Tests that need a raw socket or count
 * the form of a cut are in test_tls_stream.c. */
#include "unit/io/tls_everywhere.h"

#include <string.h>

#include "lib/test.h"

static void register_for_tls(const char *name, test_fn *fn)
{
    static const char *const plain_only[] = {
        "closing_drops_waiting_writes_and_ends_every_call", /* a cut is no end */
        "a_peer_that_resets_is_an_error_with_its_reason",
        "writing_to_a_peer_that_is_gone_fails_without_a_signal",
    };
    for (size_t i = 0; i < ARRAY_LEN(plain_only); i++)
        if (strcmp(name, plain_only[i]) == 0) return;
    test_register(name, fn);
}
#define test_register register_for_tls
#include "unit/io/test_stream.c"
