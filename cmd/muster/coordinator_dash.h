/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard of a coordinator's process. On a listener that is open to the network without TLS
 * there is no token that lets it act: the token would travel in the clear. */
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
/* ERR_OK and *ret_dash NULL when the settings want none. What dash_open and dash_token_read answer. */
enum err coordinator_dash_open(const struct coordinator_dash_options *options,
                               struct coordinator_dash **ret_dash, struct note *note);
void coordinator_dash_say(const struct coordinator_dash *dash, FILE *out);
void coordinator_dash_stop(struct coordinator_dash *dash); /* asks nothing any more; NULL is fine */
/* Turns the loop until its calls have ended. NULL is fine. */
void coordinator_dash_close(struct coordinator_dash *dash);
#endif
