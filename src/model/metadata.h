/* SPDX-License-Identifier: Apache-2.0 */
/* shard_metadata: what a shard writes on Configure and finds again in List after a restart.
 *
 * A provider stores it untouched. The five keys of the original are always written, in its text,
 * byte for byte, so that either system recognises machines of the other:
 *
 *   bigfleet.lucy.sh/assigned-priority                         decimal
 *   bigfleet.lucy.sh/assigned-interruption-penalty-dollars     shortest decimal that reads back the
 *   bigfleet.lucy.sh/assigned-reclamation-penalty-dollars      same; 8192, 1.048576e+06, +Inf
 *   bigfleet.lucy.sh/assigned-need-fingerprint                 as it is
 *   bigfleet.lucy.sh/assigned-group                            as it is
 *
 * Ours, written only when they say something, so that old peers see what they always saw:
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
    METADATA_READ_MAX = 256, /* entries we look at; a record with more is refused whole */
};

struct machine_metadata {
    struct machine_stamp stamp;
    struct str destination;
    struct machine_promise promised;
};

/* Writes the entries, sorted by key; values are in the arena or in `m` itself. ERR_NOMEM. */
enum err metadata_encode(struct arena *arena, const struct machine_metadata *m,
                         struct label ret_pairs[METADATA_MAX], size_t *ret_count);
/* Key by key: an absent one leaves its field as it was, an unknown one is ignored, a bad one is
 * left out, and of a repeated one the first counts. Nothing of it is fatal. When any was bad:
 * ERR_PARSE, and the note names each, joined with "; ". ERR_TOO_LARGE past METADATA_READ_MAX. Texts
 * are views of `pairs`. */
enum err metadata_decode(const struct label *pairs, size_t count, struct machine_metadata *m,
                         struct note *note);
#endif
