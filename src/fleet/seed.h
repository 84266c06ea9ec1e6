/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --bootstrap-state: the initial quotas and providers of a new cluster.
 *
 *     {"quotas": [{"provider": "aws", "region": "us-east-1", "per_shard": {"shard-a": 100}}],
 *      "providers": [{"name": "aws-east", "address": "aws-east:7770", "region": "us-east-1"}]}
 *
 * The `state` file of an archive is also valid (coordinator.md 6.1): its other tables are skipped.
 * Unknown keys are refused, because they may be misspelt. The file is read once at the start. A
 * leader proposes the rows that the tables lack. */
#ifndef FLEET_SEED_H
#define FLEET_SEED_H
#include "base/arena.h"
#include "base/note.h"
#include "fleet/core/fleet.h"
#include "io/fs.h"

enum { FLEET_SEED_BYTES_MAX = 16 << 20, FLEET_SEED_ROWS_MAX = 65536 };
struct fleet_seed {
    struct arena arena;             /* holds the texts and slices of the commands */
    struct fleet_command *commands; /* UpsertProvider and SetQuota commands, in file order */
    size_t count;
};
/* On an error nothing is allocated: ERR_PARSE and ERR_INVALID with a note that names the field,
 * ERR_TOO_LARGE, ERR_NOMEM. */
enum err fleet_seed_parse(struct str text, struct fleet_seed *ret_seed, struct note *note);
enum err fleet_seed_read(struct fs *fs, const char *path, struct fleet_seed *ret_seed,
                         struct note *note);     /* also errors of the file system */
void fleet_seed_deinit(struct fleet_seed *seed); /* a zeroed seed is allowed */
#endif
