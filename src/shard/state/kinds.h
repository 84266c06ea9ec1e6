/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles and requirement sets, kept once and counted. */
#ifndef SHARD_STATE_KINDS_H
#define SHARD_STATE_KINDS_H
#include "shard/state/demand.h"

/* Finds or copies the profile, which must be canonical. ERR_NOMEM. */
enum err kind_take(struct needs *needs, const struct profile *profile, struct kind **ret_kind);
void kind_give(struct needs *needs, struct kind *kind); /* NULL is fine */

/* Keeps a profile beyond its rows, for whoever acts for it; given back once. ERR_NOMEM. */
enum err kind_hold(struct needs *needs, const struct profile *profile, struct kind **ret_kind);
void kind_release(struct needs *needs, struct kind *kind); /* NULL is fine */
/* Of a profile that is demanded or held; NULL: neither. */
const struct kind *kind_find(const struct needs *needs, struct str fingerprint);
#endif
