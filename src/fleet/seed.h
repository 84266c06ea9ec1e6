/* SPDX-License-Identifier: Apache-2.0 */
/* --bootstrap-state FILE: quotas and providers that a new cluster begins with.
 *
 *     {"quotas": [{"provider": "aws", "region": "us-east-1", "per_shard": {"shard-a": 100}}],
 *      "providers": [{"name": "aws-east", "address": "aws-east:7770", "region": "us-east-1"}]}
 *
 * Names may have either case and those of a quota may be in "key", as in the state JSON
 * (coordinator.md 6.1), so that the `state` of an archive is a seed; its other tables are not. Unknown keys are
 * refused: a misspelt table would be an empty one. Read once at the start; a first leader over
 * empty tables proposes it. */
#ifndef FLEET_SEED_H
#define FLEET_SEED_H
#include "base/arena.h"
#include "base/note.h"
#include "fleet/core/fleet.h"
#include "io/fs.h"

enum { FLEET_SEED_BYTES_MAX = 16 << 20, FLEET_SEED_ROWS_MAX = 65536 };
struct fleet_seed {
    struct arena arena;             /* has the texts and slices */
    struct fleet_command *commands; /* UpsertProvider and SetQuota, in the order of the file */
    size_t count;
};
/* The caller's storage. ERR_PARSE, ERR_INVALID with a note that names the field, ERR_TOO_LARGE,
 * ERR_NOMEM: nothing is kept. */
enum err fleet_seed_parse(struct str text, struct fleet_seed *ret_seed, struct note *note);
enum err fleet_seed_read(struct fs *fs, const char *path, struct fleet_seed *ret_seed,
                         struct note *note);     /* and what the file system answers */
void fleet_seed_deinit(struct fleet_seed *seed); /* fine on a zeroed one */
#endif
