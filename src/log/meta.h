/* SPDX-License-Identifier: Apache-2.0 */
/* The log's own state machine (machine 0): the replicated clock, the cluster level, and the
 * level that each member announced. Pure.
 *
 * The cluster level is the lowest level that every member understands, and never falls. The
 * leader proposes to raise the level. Commands above the level are refused. A replica stops
 * before an entry that it cannot apply. */
#ifndef LOG_META_H
#define LOG_META_H
#include "base/buf.h"
#include "base/note.h"
#include "log/envelope.h"
#include "log/log.h"

struct meta {
    uint64_t clock_ns;
    uint32_t level; /* cluster level; starts at 1 */
};
enum {
    META_LEVEL = 1,
    META_RECOVER = 2, /* from force-config, at the end of the log */
};
void meta_init(struct meta *meta);
/* Advances the clock. Called for every command of any machine, before its apply. */
void meta_advance(struct meta *meta, const struct log_envelope *envelope);
enum err meta_apply(struct meta *meta, struct str command, struct note *note); /* ERR_PARSE */
enum err meta_level_command(uint32_t level, struct buf *into);
/* Encodes META_RECOVER. The command also raises the level, so that a program that does not know
 * META_RECOVER cannot join. */
enum err meta_recover_command(uint32_t level, const struct machine_recovery *recovery,
                              struct buf *into);
/* True for META_RECOVER: the caller must recover the machines. */
bool meta_recovery(struct str command, struct machine_recovery *ret_recovery);
uint64_t meta_hash(const struct meta *meta);
#endif
