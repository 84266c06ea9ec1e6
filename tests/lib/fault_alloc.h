/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the k-th allocation fail, counted over malloc, calloc and realloc of the code under test
 * (linked statically, wrapped by the linker; libraries of the system are not counted).
 *
 *     FAULT_SWEEP_ALLOC(k) { run the scenario; it must clean up after itself }
 *
 * runs the body with the 1st, 2nd, ... allocation failing until a run needs fewer than k. */
#ifndef TESTS_LIB_FAULT_ALLOC_H
#define TESTS_LIB_FAULT_ALLOC_H
#include <stdbool.h>
#include <stdint.h>

enum { FAULT_SWEEP_MAX = 100000 }; /* a sweep longer than this is a loop that never ends */

void fault_alloc_arm(uint64_t nth); /* the nth from now fails, once; 0 disarms */
bool fault_alloc_fired(void);       /* since the last arm */
bool fault_sweep_next(uint64_t *k);

/* Sweeps whose every point costs minutes take every SWEEP_STRIDE-th, from a first one that changes
 * with the commit (MUSTER_TEST_COMMIT, set by scripts/test) or with MUSTER_TEST_SEED. With
 * MUSTER_TEST_LONG they take all. */
enum { SWEEP_STRIDE = 8 };
uint64_t sweep_first(void);
uint64_t sweep_stride(void);

#define FAULT_SWEEP_ALLOC(k) for (uint64_t k = 0; fault_sweep_next(&k);)
#endif
