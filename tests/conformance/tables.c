/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

const struct test_case *const case_lists[] = {cases_create,  cases_cas,   cases_slots, cases_lease,
                                              cases_release, cases_fence, cases_watch, cases_pause,
                                              cases_oracle,  NULL};
const struct worker_kind worker_kinds[] = {
    {"create_one", worker_create_one}, {"create_many", worker_create_many},
    {"increment", worker_increment},   {"churn", worker_churn},
    {"cas_delete", worker_cas_delete}, {"acquire_one", worker_acquire_one},
    {"takeover", worker_takeover},     {"list", worker_list},
    {"random", worker_random},         {NULL, NULL},
};
