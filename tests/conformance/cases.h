/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of cases, one a chapter of Part D, and the workers they start. */
#ifndef TESTS_CONFORMANCE_CASES_H
#define TESTS_CONFORMANCE_CASES_H
#include "suite.h"

extern const struct test_case cases_create[], cases_cas[], cases_slots[], cases_lease[],
    cases_release[], cases_fence[], cases_watch[], cases_pause[], cases_oracle[];

worker_fn worker_create_one, worker_create_many, worker_increment, worker_churn, worker_cas_delete,
    worker_acquire_one, worker_takeover, worker_list, worker_random;
#endif
