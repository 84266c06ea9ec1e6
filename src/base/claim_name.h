/* SPDX-License-Identifier: Apache-2.0 */
/* Names of claims, groups and owners. libmuster and the store enforce the same rules. */
#ifndef BASE_CLAIM_NAME_H
#define BASE_CLAIM_NAME_H
#include "base/str.h"

enum { CLAIM_DEPTH_MAX = 16 }; /* segments of a name */

/* NULL, or why the name is not valid for a claim or group. */
const char *claim_name_fault(struct str name, size_t max);
/* True for ".group", the last segment of the name of a group's own record. */
bool claim_is_reserved(struct str segment);
bool claim_owner_is_valid(struct str owner, size_t max);
/* Reads the slot's number from "slot-0007", the last segment of a slot's key. */
bool claim_slot_number(struct str leaf, uint32_t *ret_slot);
#endif
