/* SPDX-License-Identifier: Apache-2.0 */
/* Names of claims, groups and owners, by the rules that libmuster and the store both enforce. */
#ifndef BASE_CLAIM_NAME_H
#define BASE_CLAIM_NAME_H
#include "base/str.h"

enum { CLAIM_DEPTH_MAX = 16 }; /* segments of a name */

/* Returns why the text is not the name of a claim or group, or NULL. */
const char *claim_name_fault(struct str name, size_t max);
/* True for ".group": only a group's own record has a name that ends in this segment. */
bool claim_is_reserved(struct str segment);
bool claim_owner_is_valid(struct str owner, size_t max);
/* Reads the number of a slot from "slot-0007", the last segment of its key. */
bool claim_slot_number(struct str leaf, uint32_t *ret_slot);
#endif
