/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a replica asks: the join addresses, as the dialer takes them.
 *
 * Several addresses are one replica each and are taken as they are. A single one may be a name that
 * stands for all replicas, ourselves among them; it is looked up anew each time and every address
 * behind it is named, or the dialer would always meet the first, which may be us. */
#ifndef FLEET_TARGETS_H
#define FLEET_TARGETS_H
#include "base/note.h"
#include "io/io.h"

enum { TARGETS_MAX = 32, TARGET_CAP = 280 };
struct targets;
struct targets_options {
    struct io *io;
    const char *const *addresses; /* ends with NULL; copied; NULL or none: nobody to ask */
    const char *self;             /* our own gRPC address, left out when there are others */
    bool look_up;                 /* a real resolver is there; the simulator's names are hosts */
};
enum err targets_open(const struct targets_options *options, struct targets **ret_targets,
                      struct note *note);    /* ERR_NOMEM, ERR_FULL, ERR_TOO_LARGE */
void targets_close(struct targets *targets); /* a lookup under way is not answered; NULL is fine */
size_t targets_count(const struct targets *targets); /* of the addresses that were given */
/* `list` ends with NULL, is empty when a name cannot be looked up now, and is valid during the
 * call; tls_name is the name to verify, or NULL for each address's own. Never from inside. One at a
 * time. */
typedef void targets_fn(void *owner, const char *const *list, const char *tls_name);
void targets_find(struct targets *targets, targets_fn *done, void *owner);
#endif
