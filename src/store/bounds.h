/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the store's requests (spec/coordination.md A2). The service checks them before it
 * proposes a command, and every replica checks them again before it executes the command. */
#ifndef STORE_BOUNDS_H
#define STORE_BOUNDS_H
#include "base/note.h"
#include "store/core/store.h"

enum {
    STORE_CLAIM_KEY_MAX = 512,
    STORE_GROUP_MAX = 480,
    STORE_TTL_MIN_MS = 500,
    STORE_TTL_STEP_MS = 10,
    STORE_TTL_MAX_MS = 86400000,
    STORE_COOLDOWN_MAX_MS = 60000,
    STORE_WAIT_MAX_MS = 86400000,
};
#define STORE_PLAIN_TTL_MAX_MS (9000000000 * 1000) /* the longest TTL that etcd grants */

/* Each check returns 0, or the reason of COORD_INVALID and an explanation in `note`. */
int store_check_claim_key(struct str key, struct note *note);
/* For create and compare-and-set: also refuses slot names, because only a group writes slots. */
int store_check_entry_key(struct str key, struct note *note);
int store_check_group(struct str group, struct note *note);
int store_check_owner(struct str owner, struct note *note);
int store_check_value(struct str value, struct note *note);
int store_check_ttl(int64_t ttl_ms, struct note *note);
/* Plain keys may have any bytes, but keys that begin with "muster/" are reserved for claims. */
int store_check_plain_key(struct str key, struct note *note);
int store_check_plain_range(struct str key, struct str end, struct note *note);
/* rounds up to a multiple of STORE_TTL_STEP_MS */
int64_t store_granted_ttl(int64_t ttl_ms);

/* returns ERR_INVALID or ERR_NOMEM */
enum err store_check_command(const struct store_command *command, struct note *note);
#endif
