/* SPDX-License-Identifier: Apache-2.0 */
/* shard_metadata: what a shard writes on Configure and reads from List after a restart. Providers
 * store the metadata unchanged.
 *
 * The five keys of the original system are always written, byte for byte in the original format, so
 * that either system recognises the machines of the other:
 *
 *   bigfleet.lucy.sh/assigned-priority                         decimal
 *   bigfleet.lucy.sh/assigned-interruption-penalty-dollars     shortest decimal that reads back the
 *   bigfleet.lucy.sh/assigned-reclamation-penalty-dollars      same; 8192, 1.048576e+06, +Inf
 *   bigfleet.lucy.sh/assigned-need-fingerprint                 unchanged
 *   bigfleet.lucy.sh/assigned-group                            unchanged
 *
 * Our own keys are written only when they are not empty, so that older peers see no new keys:
 *
 *   muster/destination-cluster           the cluster a Creating machine is for
 *   muster/promised-cluster, -fingerprint, -group, -priority, -at-unix-ms
 *                                        the Need a machine is drained for */
#ifndef MODEL_METADATA_H
#define MODEL_METADATA_H
#include "base/arena.h"
#include "model/machine.h"

enum {
    METADATA_MAX = 11,       /* entries we write */
    METADATA_READ_MAX = 256, /* entries we read; more are ERR_TOO_LARGE */
};

struct machine_metadata {
    struct machine_stamp stamp;
    struct str destination;
    struct machine_promise promised;
};

/* Writes the entries, sorted by key. Values are in the arena or point into `m`. ERR_NOMEM. */
enum err metadata_encode(struct arena *arena, const struct machine_metadata *m,
                         struct label ret_pairs[METADATA_MAX], size_t *ret_count);
/* Reads the entries; texts are views of `pairs`. A missing or malformed key leaves its field
 * unchanged, an unknown key is ignored, and the first of repeated keys counts.
 * ERR_PARSE: some entries were malformed and are in the note; the others were read. ERR_TOO_LARGE:
 * above METADATA_READ_MAX. */
enum err metadata_decode(const struct label *pairs, size_t count, struct machine_metadata *m,
                         struct note *note);
#endif
