/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard of a coordinator's process, and the token that lets it act.
 *
 * The token is kept in a file of mode 0600, which is created with a random token when it does not
 * exist. The token itself is never printed, because standard output ends up in journals and pod
 * logs. On a listener that is open to the network without TLS there is no token: it would travel
 * in the clear. */
#ifndef MUSTER_COORDINATOR_DASH_H
#define MUSTER_COORDINATOR_DASH_H
#include "common/chassis.h"
#include "dash/dash.h"
#include "log/log.h"

struct coordinator_dash;
struct coordinator_dash_options {
    struct chassis *chassis;
    struct replica *replica;
    struct tls_context *tls;           /* of a client; NULL: plaintext */
    const char *address;               /* of this coordinator's own gRPC */
    const char *const *join_addresses; /* of the others; ends with NULL */
};
/* ERR_OK and *ret_dash NULL when the settings want none. What dash_open and token_file answer. */
enum err coordinator_dash_open(const struct coordinator_dash_options *options,
                               struct coordinator_dash **ret_dash, struct note *note);
void coordinator_dash_say(const struct coordinator_dash *dash, FILE *out);
void coordinator_dash_stop(struct coordinator_dash *dash); /* asks nothing any more; NULL is fine */
/* Turns the loop until its calls have ended. NULL is fine. */
void coordinator_dash_close(struct coordinator_dash *dash);

/* The token in the file, which is made with a new one when it is not there. ERR_INVALID (not 16 to
 * 128 letters and digits on one line), and what the file system answers, with a note. */
enum err dash_token_file(struct io *io, const char *path, char ret_token[DASH_TOKEN_MAX + 1],
                         struct note *note);
/* The same without making it: whether dash_token_file() will succeed, as far as the options tell. */
enum err dash_token_check(struct fs *fs, const char *path, struct note *note);
#endif
