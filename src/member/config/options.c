/* SPDX-License-Identifier: Apache-2.0 */
#include "member/config/options.h"

/* In the order of the enums that they become: of core/, events/ and config.h. */
const char *const member_choices_heartbeat[] = {"all", "sampled", "none", NULL};
const char *const member_choices_topics[] = {"all", "rollout", NULL};
const char *const member_choices_scope[] = {"incarnation", "worker", NULL};
const char *const member_choices_redelivery[] = {"at_least_once", "at_most_once", NULL};
const char *const member_choices_sink[] = {"stdout", "file", "none", NULL};
const char *const member_choices_detector[] = {"deadline", "silence", NULL};
const char *const member_choices_source[] = {"auto", "worker", "arrival", NULL};
const char *const member_choices_suspect[] = {"threshold", "phi", NULL};
const char *const member_choices_unknown[] = {"register", "ignore", "reject", NULL};
const char *const member_choices_mismatch[] = {"reject", "accept", NULL};
const char *const member_choices_placement[] = {"ring", "ring-bounded", "rendezvous", NULL};
const char *const member_choices_hash[] = {"fnv1a64-mix", NULL};
const char *const member_choices_ring_on[] = {"ready", "register", NULL};
const char *const member_choices_revoke[] = {"wait", "evict", NULL};
const char *const member_choices_fence[] = {"stop", "exit", NULL};
