/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a decision in sentences: what would be done, and why. */
#ifndef SHARD_PLAN_WORDS_H
#define SHARD_PLAN_WORDS_H
#include "shard/decide/decide.h"

/* Append a line without a line break. ERR_FULL, ERR_NOMEM from `out`. */
enum err words_action(const struct action *action, struct buf *out);
enum err words_verdict(const struct need_verdict *verdict, const struct dimensions *dimensions,
                       struct buf *out);
#endif
