/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a profile from its fingerprint, which contains the whole profile (profile.h). Machines
 * carry this text in their stamp, because a restarted shard has no other record of the profile. */
#ifndef MODEL_FINGERPRINT_H
#define MODEL_FINGERPRINT_H
#include "model/profile.h"

/* Returns ERR_PARSE if `text` is no profile's fingerprint, or ERR_NOMEM. Texts of the profile are
 * views of `text` or are in the arena. */
enum err fingerprint_read(struct arena *arena, struct str text, struct profile *ret_profile);
#endif
