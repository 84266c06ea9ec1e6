/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a coordinator for commands that run once: opens a channel from the command's options,
 * waits for the answer, and puts what went wrong into words with the address and what to try.
 *
 * Every address of --coordinator may be any replica: who is not the leader names it, and while
 * there is none it is waited for, within --timeout. A write carries a request id, so that trying
 * again after a lost answer does it once; when the outcome stays unknown the note names the id, and
 * the same command with --request-id can be repeated safely. A call that an id does not
 * identify is sent once.
 *
 * The surprising rule: --timeout bounds one call, everything in it included (dialing, elections,
 * repeats), and not the command. Servers that nobody reaches are given up within 2 s, unless
 * --timeout is given. */
#ifndef CTL_REMOTE_H
#define CTL_REMOTE_H
#include "conf/conf.h"
#include "io/tls.h"
#include "wire/message.h"

enum { REMOTE_BACKOFF_FIRST_MS = 50, REMOTE_BACKOFF_MAX_MS = 400 }; /* a person waits */
struct remote;                                                      /* one thread; owns its loop */

enum {
    REMOTE_RESPONSE_MAX = 256 * 1024 * 1024, /* of one message, as every server's */
    REMOTE_REQUEST_ID_CAP = 65,              /* with its NUL */
};

enum remote_kind {
    REMOTE_READ,  /* repeated as often as it takes */
    REMOTE_WRITE, /* carries the request id: repeated, and done once */
    REMOTE_ONCE,  /* the server does not know a repeat: never sent again by itself */
};
struct remote_method {
    const char *path; /* "/muster.v1.Fleet/AddShard" */
    const ProtobufCMessageDescriptor *answer;
    enum remote_kind kind;
    const char *look; /* the command that shows whether it was done; NULL for reads */
};
#define COORDINATOR_PATH "/bigfleet.v1alpha1.Coordinator/"
#define FLEET_PATH       "/muster.v1.Fleet/"
#define MEMBERSHIP_PATH  "/muster.v1.Membership/"
#define STORE_PATH       "/muster.v1.Coordination/"
#define REMOTE_READS(path, base)                                                                   \
    {                                                                                              \
        (path), &base##_response__descriptor, REMOTE_READ, NULL                                    \
    }
#define REMOTE_READ_OF(path, base) (&(const struct remote_method)REMOTE_READS(path, base))

/* Reads the options of all these commands (CTL_OPTIONS of common/tables_ctl.h): coordinator,
 * timeout and the three TLS files. `request_id` is for writes; NULL: one is drawn. ERR_INVALID
 * (part of the TLS options, no address, a bad id) and tls_context_open's errors, with a note. */
enum err remote_open(const struct conf *conf, const char *request_id, struct remote **ret_remote,
                     struct note *note);
/* The same for one address: this process alone answers, also when another one leads. `among`: how many
 * such are asked one after the other. Errors name the callee and its option. */
enum remote_callee { REMOTE_COORDINATOR, REMOTE_SHARD };
enum err remote_open_at(const struct conf *conf, enum remote_callee callee, const char *address,
                        size_t among, struct remote **ret_remote, struct note *note);
/* How long a server may take to accept a connection and to speak, where `among` addresses are tried one
 * after the other: all within 2 s, or within --timeout where that is given. At least 250 ms. */
uint64_t remote_dial_ms(const struct conf *conf, size_t among);
/* The three TLS files of the options, for a client that is none of these. NULL: plaintext.
 * ERR_INVALID (a part of them), and what tls_context_open answers, with a note. */
enum err remote_tls_open(const struct conf *conf, struct tls_context **ret_tls, struct note *note);
void remote_close(struct remote *remote); /* NULL is fine */

/* One request (NULL: empty), one answer, decoded into `arena`. The error is the command's: its exit
 * code is err_exit_code's, and the note is never empty. ERR_UNKNOWN: a write may have happened. */
enum err remote_call(struct remote *remote, const struct remote_method *method,
                     const ProtobufCMessage *request, struct arena *arena,
                     ProtobufCMessage **ret_answer, struct note *note);

/* One request, a stream of answers, each handed out decoded; its memory ends with `each`. An error
 * of `each` ends the stream and is what this returns, with the note `each` may have set. There is
 * no time-out on the whole: a stream ends when the server or the connection does (pings notice it). A
 * stream is begun again (another leader) only as long as no message of it has come. */
typedef enum err remote_message_fn(void *owner, const ProtobufCMessage *message, struct note *note);
enum err remote_stream(struct remote *remote, const struct remote_method *method,
                       const ProtobufCMessage *request, remote_message_fn *each, void *owner,
                       struct note *note);

const char *remote_request_id(const struct remote *remote); /* of the writes; drawn, or given */
#endif
