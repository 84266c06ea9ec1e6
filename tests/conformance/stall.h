/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the machine gave us a core: a thread that sleeps for a moment, again and again, and notes
 * by how much it woke late. A case over the real clock takes steps "before the TTL is over"; where
 * that was not so its verdict says nothing about the store. */
#ifndef TESTS_CONFORMANCE_STALL_H
#define TESTS_CONFORMANCE_STALL_H
#include <stdint.h>

void stall_begin(void);         /* from now on */
int64_t stall_longest_ms(void); /* since then */
#endif
