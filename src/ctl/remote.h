/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to a coordinator for commands that run once: opens a channel from the command's options,
 * waits for the answer, and describes errors with the address and a remedy.
 *
 * Every address of --coordinator may be any replica, because a follower names the leader. A write
 * with a request id takes effect once, even if it is repeated. If its outcome stays unknown, the
 * note names the id for --request-id. --timeout bounds each call, not the whole command. Without
 * --timeout, unreachable servers are given up within 2 s. */
#ifndef CTL_REMOTE_H
#define CTL_REMOTE_H
#include "conf/conf.h"
#include "io/tls.h"
#include "wire/message.h"

enum { REMOTE_BACKOFF_FIRST_MS = 50, REMOTE_BACKOFF_MAX_MS = 400 }; /* a person waits */
struct remote; /* used by one thread; owns its loop */

enum {
    REMOTE_RESPONSE_MAX = 256 * 1024 * 1024, /* the servers' limit for one message, too */
    REMOTE_REQUEST_ID_CAP = 65,              /* with its NUL */
};

enum remote_kind {
    REMOTE_READ,  /* may be repeated */
    REMOTE_WRITE, /* may be repeated with its request id; takes effect once */
    REMOTE_ONCE,  /* never repeated: the server cannot recognize a repeat */
};
struct remote_method {
    const char *path; /* "/muster.v1.Fleet/AddShard" */
    const ProtobufCMessageDescriptor *answer;
    enum remote_kind kind;
    const char *look; /* the command that shows the result of a write */
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

/* Opens a channel from CTL_OPTIONS (common/tables_ctl.h). `request_id` is for writes; NULL: a
 * random one. Returns ERR_INVALID (incomplete TLS options, no address, a bad id) and
 * tls_context_open's errors, with a note. */
enum err remote_open(const struct conf *conf, const char *request_id, struct remote **ret_remote,
                     struct note *note);
/* Opens a channel to one process, whether or not it is the leader. `among`: number of processes
 * that are asked in turn. Errors name the callee and its option. */
enum remote_callee { REMOTE_COORDINATOR, REMOTE_SHARD };
enum err remote_open_at(const struct conf *conf, enum remote_callee callee, const char *address,
                        size_t among, struct remote **ret_remote, struct note *note);
/* The limit of one dial, when `among` addresses are tried in turn: all within 2 s or --timeout. At
 * least 250 ms. */
uint64_t remote_dial_ms(const struct conf *conf, size_t among);
/* Opens the TLS context from the three TLS options, for clients other than `remote`. NULL:
 * plaintext. ERR_INVALID (an incomplete set) and the errors of tls_context_open, with a note. */
enum err remote_tls_open(const struct conf *conf, struct tls_context **ret_tls, struct note *note);
void remote_close(struct remote *remote); /* NULL is fine */

/* Sends one request (NULL: empty) and decodes one answer into `arena`. On an error the note is
 * never empty, and err_exit_code gives the exit code. ERR_UNKNOWN: a write may have happened. */
enum err remote_call(struct remote *remote, const struct remote_method *method,
                     const ProtobufCMessage *request, struct arena *arena,
                     ProtobufCMessage **ret_answer, struct note *note);

/* Passes each decoded message of the answer to `each`, which must copy what it keeps. An error of
 * `each` ends the stream and is returned. A stream has no time limit. After a change of leader it
 * is restarted only if no message has arrived yet. */
typedef enum err remote_message_fn(void *owner, const ProtobufCMessage *message, struct note *note);
enum err remote_stream(struct remote *remote, const struct remote_method *method,
                       const ProtobufCMessage *request, remote_message_fn *each, void *owner,
                       struct note *note);

const char *remote_request_id(const struct remote *remote);
#endif
