/* SPDX-License-Identifier: Apache-2.0 */
/* A profile out of its fingerprint, which names all of it (profile.h): machines carry the text as
 * their stamp, and a shard that began anew has nothing else to know them by. */
#ifndef MODEL_FINGERPRINT_H
#define MODEL_FINGERPRINT_H
#include "model/profile.h"

/* ERR_PARSE: no profile is written so; its texts are views of `text`, or are in the arena.
 * ERR_NOMEM. */
enum err fingerprint_read(struct arena *arena, struct str text, struct profile *ret_profile);
#endif
