/* SPDX-License-Identifier: Apache-2.0 */
/* Who was told to do what, and how it ended: one JSON object a line, for every action that was
 * carried out, suppressed or only told.
 *
 *   {"time":"...","level":"INFO","msg":"action","shard":"s","epoch":3,"cycle":7,"kind":"Reclaim",
 *    "machine":"m-1","cluster":"a","reason":"phase3.excess","grace_seconds":600,
 *    "outcome":"success"}, and "error" when there was one */
#ifndef SHARD_AUDIT_H
#define SHARD_AUDIT_H
#include "obs/events.h"
#include "shard/core/effects.h"

struct audit;
struct audit_options {
    struct clock *clock;
    struct events *events; /* where the lines go; lives longer. NULL: only the newest are kept */
    const char *shard_id;  /* lives longer */
    uint64_t epoch;
};
enum err audit_open(const struct audit_options *options, struct audit **ret_audit); /* ERR_NOMEM */
void audit_close(struct audit *audit); /* NULL is fine */
/* An effect of kind EFFECT_AUDIT. False: the sink did not take it; it is counted there and makes
 * the process not ready. */
bool audit_write(struct audit *audit, const struct effect *effect);
/* The newest lines, whether or not there is a sink: how many, and one of them, 0 the oldest. */
enum { AUDIT_KEPT = 40 };
size_t audit_kept(const struct audit *audit);
struct str audit_line(const struct audit *audit, size_t index);
const char *audit_kind_name(enum action_kind kind); /* "Reclaim", as the metrics say it too */
#endif
