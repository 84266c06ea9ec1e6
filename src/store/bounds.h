/* SPDX-License-Identifier: Apache-2.0 */
/* What a call may ask for: the limits of the contract (spec/coordination.md A2), checked before
 * anything is proposed, and once more by every replica before a command reaches the core. */
#ifndef STORE_BOUNDS_H
#define STORE_BOUNDS_H
#include "base/note.h"
#include "store/core/store.h"

enum {
    STORE_CLAIM_KEY_MAX = 512,
    STORE_GROUP_MAX = 480,
    STORE_DEPTH_MAX = 16,
    STORE_TTL_MIN_MS = 500,
    STORE_TTL_STEP_MS = 10,
    STORE_TTL_MAX_MS = 86400000,
    STORE_COOLDOWN_MAX_MS = 60000,
    STORE_WAIT_MAX_MS = 86400000,
};
#define STORE_PLAIN_TTL_MAX_MS (9000000000 * 1000) /* what etcd grants at most */

/* Each says what is wrong in `note` and returns the reason of COORD_INVALID, or 0. */
int store_check_claim_key(struct str key, struct note *note);
/* Of a claim that create and compare-and-set may write: no slot. */
int store_check_entry_key(struct str key, struct note *note);
int store_check_group(struct str group, struct note *note);
int store_check_owner(struct str owner, struct note *note);
int store_check_value(struct str value, struct note *note);
int store_check_ttl(int64_t ttl_ms, struct note *note);
/* Plain keys: any bytes, but nothing among the claims; a range must stay clear of them. */
int store_check_plain_key(struct str key, struct note *note);
int store_check_plain_range(struct str key, struct str end, struct note *note);
/* Up to the next whole step. */
int64_t store_granted_ttl(int64_t ttl_ms);

/* What the core takes for granted. ERR_INVALID, ERR_NOMEM. */
enum err store_check_command(const struct store_command *command, struct note *note);
#endif
