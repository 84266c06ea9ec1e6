/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope of every command: machine id, command version, actor, request id, advance of the
 * replicated clock. docs/formats/log.md has the bytes. Pure.
 *
 * A decoder refuses unknown versions, because a newer envelope means a cluster level unknown to
 * this program. */
#ifndef LOG_ENVELOPE_H
#define LOG_ENVELOPE_H
#include "base/buf.h"
#include "base/note.h"

enum {
    ENVELOPE_MACHINE_META = 0, /* the log's own state machine (log/meta.h) */
    ENVELOPE_FORMAT = 1,
    ENVELOPE_HEAD = 40,
};
struct log_envelope {
    uint32_t machine, version, level;
    uint64_t advance_ns; /* time that the leader measured since its previous entry of this term */
    struct str actor, request_id, command;
};
enum err envelope_append(const struct log_envelope *envelope,
                         struct buf *into); /* ERR_FULL, ERR_NOMEM */
size_t envelope_size(const struct log_envelope *envelope);
/* Returns views into `bytes`. ERR_PARSE, ERR_VERSION: `note` has the reason. */
enum err envelope_parse(struct str bytes, struct log_envelope *ret_envelope, struct note *note);
#endif
