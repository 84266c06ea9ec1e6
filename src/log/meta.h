/* The log's own state machine (machine 0): the replicated clock, the cluster level, and what each
 * member announced it can apply. Pure.
 *
 * The level is the lowest that every member of the configuration speaks; it rises by an entry only,
 * proposed by the leader, and never falls. Commands above it are refused before they are proposed;
 * a replica that meets one it cannot apply stops before it. */
#ifndef LOG_META_H
#define LOG_META_H
#include "base/buf.h"
#include "base/note.h"
#include "log/envelope.h"

struct meta {
    uint64_t clock_ns;
    uint32_t level; /* starts at 1 */
};
enum { META_LEVEL = 1 }; /* kinds of its commands */
void meta_init(struct meta *meta);
/* Every command entry, of whatever machine, before its own apply. */
void meta_advance(struct meta *meta, const struct envelope *envelope);
enum err meta_apply(struct meta *meta, struct str command, struct note *note); /* ERR_PARSE */
enum err meta_level_command(uint32_t level, struct buf *into);
uint64_t meta_hash(const struct meta *meta);
#endif
