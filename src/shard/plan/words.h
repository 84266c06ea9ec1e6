/* SPDX-License-Identifier: Apache-2.0 */
/* A decision in sentences, for people: what would be done, and why. */
#ifndef SHARD_PLAN_WORDS_H
#define SHARD_PLAN_WORDS_H
#include "shard/decide/decide.h"

/* One line without its end. ERR_FULL, ERR_NOMEM of `out`. */
enum err words_action(const struct action *action, struct buf *out);
enum err words_verdict(const struct need_verdict *verdict, const struct dimensions *dimensions,
                       struct buf *out);
#endif
