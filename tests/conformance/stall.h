/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the machine gave the process a core: a thread sleeps for short moments and records how
 * late it woke. A case over the real clock relies on steps "before the TTL is over"; if a stall
 * broke that, the verdict does not concern the store. */
#ifndef TESTS_CONFORMANCE_STALL_H
#define TESTS_CONFORMANCE_STALL_H
#include <stdint.h>

void stall_begin(void);         /* from now on */
int64_t stall_longest_ms(void); /* since then */
#endif
