/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope of every command: which machine, at which version, asked by whom, and how far the
 * replicated clock moves. docs/formats/log.md has the bytes.
 *
 * Little-endian, fixed head, then actor, request id and command. A decoder refuses what it does
 * not know: a newer envelope means a newer cluster level than this program speaks. Pure. */
#ifndef LOG_ENVELOPE_H
#define LOG_ENVELOPE_H
#include "base/buf.h"
#include "base/note.h"

enum {
    ENVELOPE_MACHINE_META = 0, /* the log's own: cluster level, clock */
    ENVELOPE_FORMAT = 1,
    ENVELOPE_HEAD = 40,
};
struct log_envelope {
    uint32_t machine, version, level;
    uint64_t advance_ns; /* the leader's elapsed time since its previous entry of this term */
    struct str actor, request_id, command;
};
enum err envelope_append(const struct log_envelope *envelope,
                         struct buf *into); /* ERR_FULL, ERR_NOMEM */
size_t envelope_size(const struct log_envelope *envelope);
/* ERR_PARSE, ERR_VERSION, with a note. Views into `bytes`. */
enum err envelope_parse(struct str bytes, struct log_envelope *ret_envelope, struct note *note);
#endif
