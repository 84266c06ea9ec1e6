/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/fault_alloc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_uint_fast64_t countdown;
static atomic_bool fired;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool fails_now(void)
{
    uint_fast64_t left = atomic_load(&countdown);
    while (left > 0) {
        if (!atomic_compare_exchange_weak(&countdown, &left, left - 1)) continue;
        if (left > 1) return false;
        atomic_store(&fired, true);
        return true;
    }
    return false;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

void fault_alloc_arm(uint64_t nth)
{
    atomic_store(&fired, false);
    atomic_store(&countdown, nth);
}

bool fault_alloc_fired(void)
{
    return atomic_load(&fired);
}

bool fault_sweep_next(uint64_t *k)
{
    bool more = *k == 0 || fault_alloc_fired();
    assert(*k < FAULT_SWEEP_MAX);
    fault_alloc_arm(more ? ++*k : 0);
    return more;
}

uint64_t sweep_stride(void)
{
    return getenv("MUSTER_TEST_LONG") ? 1 : SWEEP_STRIDE;
}

uint64_t sweep_first(void)
{
    const char *seed = getenv("MUSTER_TEST_SEED"), *commit = getenv("MUSTER_TEST_COMMIT");
    uint64_t number = seed ? strtoull(seed, NULL, 0) : commit ? strtoull(commit, NULL, 16) : 0;
    uint64_t first = 1 + number % sweep_stride();

    fprintf(stderr,
            "sweep: one point in %" PRIu64 ", from %" PRIu64 " on (MUSTER_TEST_SEED=%" PRIu64 ")\n",
            sweep_stride(), first, number);
    return first;
}
