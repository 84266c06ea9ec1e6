/* Before it founds a cluster, ordinal 0 looks whether there is one: asks every join address for its
 * state hash, which a replica answers about itself whether or not it is led. Driver of
 * found_look (fleet/join.h). */
#ifndef FLEET_FOUND_H
#define FLEET_FOUND_H
#include "fleet/join.h"
#include "io/io.h"
#include "io/tls.h"
#include "obs/log.h"

struct founding;
struct founding_options {
    struct io *io;
    const struct log_source *log; /* may be NULL */
    const char *const *addresses; /* ends with NULL; copied */
    const char *self;             /* our own gRPC address: not asked */
    struct tls_context *tls;      /* of a client; NULL: plaintext */
    bool look_up;                 /* as targets_options */
};
/* FOUND_BOOTSTRAP or FOUND_JOIN, once, never from inside; founding_close follows. */
typedef void founding_fn(void *owner, enum found_verdict verdict);
enum err founding_open(const struct founding_options *options, founding_fn *done, void *owner,
                       struct founding **ret_founding, struct note *note);
/* After done(), or earlier to give up; `closed` (may be NULL) when nothing of it is left. */
void founding_close(struct founding *founding, void (*closed)(void *owner), void *owner);
#endif
