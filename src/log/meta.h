/* SPDX-License-Identifier: Apache-2.0 */
/* The log's own state machine (machine 0): the replicated clock, the cluster level, and what each
 * member announced it can apply; and the entry by which force-config recovers all the others. Pure.
 *
 * The level is the lowest that every member of the configuration speaks; it rises by an entry only,
 * proposed by the leader, and never falls. Commands above it are refused before they are proposed;
 * a replica that meets one it cannot apply stops before it. */
#ifndef LOG_META_H
#define LOG_META_H
#include "base/buf.h"
#include "base/note.h"
#include "log/envelope.h"
#include "log/log.h"

struct meta {
    uint64_t clock_ns;
    uint32_t level; /* starts at 1 */
};
/* kinds of its commands */
enum {
    META_LEVEL = 1,
    META_RECOVER = 2, /* force-config writes it, behind everything the log holds */
};
void meta_init(struct meta *meta);
/* Every command entry, of whatever machine, before its own apply. */
void meta_advance(struct meta *meta, const struct log_envelope *envelope);
enum err meta_apply(struct meta *meta, struct str command, struct note *note); /* ERR_PARSE */
enum err meta_level_command(uint32_t level, struct buf *into);
/* Raises the level, too: from then on no replica that does not know this command may join. */
enum err meta_recover_command(uint32_t level, const struct machine_recovery *recovery,
                              struct buf *into);
/* True: the command is a META_RECOVER, and the caller recovers the machines. Fills in floor and
 * identity. */
bool meta_recovery(struct str command, struct machine_recovery *ret_recovery);
uint64_t meta_hash(const struct meta *meta);
#endif
