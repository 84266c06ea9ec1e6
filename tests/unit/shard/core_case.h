/* SPDX-License-Identifier: Apache-2.0 */
/* A core and the little a test of it needs: machines and rows made of words, Lists in one call, the
 * effects that came out, by kind. */
#ifndef TESTS_UNIT_SHARD_CORE_CASE_H
#define TESTS_UNIT_SHARD_CORE_CASE_H
#include "shard/core/core_internal.h"

struct core_case {
    struct core *core;
    struct arena arena; /* of everything made for it */
    struct effects out; /* since the last case_forget() */
    mono_time now;
    uint32_t cpu;
    struct note note;
};
/* Options 0: machines_max 100 and a quarantine; fails the test when it cannot. */
void case_open(struct core_case *c, const struct core_options *options);
void case_close(struct core_case *c); /* checks every table first */
void case_check(struct core_case *c); /* every count and index against a walk */
void case_forget(struct core_case *c);

/* A sound record: 4 cpu, on demand, 1 dollar, a host where the state wants one, cluster "a" where
 * it wants one. */
struct machine case_machine(struct core_case *c, const char *id, enum machine_state state);
/* `units` of 1 cpu, one cpu each; the fingerprint follows from priority and type ("": any). */
struct need case_need(struct core_case *c, const char *cluster, int32_t priority, int64_t units,
                      const char *type);
struct profile case_profile(struct core_case *c, const struct profile *given);

/* One List with these records and no metadata. */
void case_list(struct core_case *c, enum list_kind kind, const struct machine *machines,
               size_t count, bool whole);
/* The machine is known, with this stamp. */
void case_put(struct core_case *c, const struct machine *machine,
              const struct machine_stamp *stamp);
void case_session(struct core_case *c, const char *cluster, bool open);
enum rollup_verdict case_rollup(struct core_case *c, const char *cluster, const struct need *rows,
                                size_t count);

/* What would be decided now, noted as a cycle does that carries nothing out. */
const struct decision *case_decide(struct core_case *c);

bool case_has(struct core_case *c, const char *id);
struct machine case_get(struct core_case *c, const char *id);
size_t case_count(const struct core_case *c, enum effect_kind kind);
/* The n-th of its kind; fails the test when there are fewer. */
const struct effect *case_effect(const struct core_case *c, enum effect_kind kind, size_t n);
/* A line of the log with this text was said. */
bool case_said(const struct core_case *c, const char *text);
#endif
