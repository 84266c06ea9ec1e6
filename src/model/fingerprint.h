/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a profile from its fingerprint. A restarted shard knows a machine's profile only from this
 * text in the machine's stamp. */
#ifndef MODEL_FINGERPRINT_H
#define MODEL_FINGERPRINT_H
#include "model/profile.h"

/* ERR_PARSE if `text` is no profile's fingerprint; ERR_NOMEM. Texts of the profile are views of
 * `text` or in the arena. */
enum err fingerprint_read(struct arena *arena, struct str text, struct profile *ret_profile);
#endif
