/* The log as the loop's thread sees it: every live index with its place on disk, the newest ones
 * with their bytes. Pure memory, bounded.
 *
 * Entries enter when the engine hands them out, get their place when the disk thread reports, lose
 * their bytes when the cache is over its bound and they are durable and applied, and leave by
 * compaction or replacement. A `generation` counts replacements, so that a disk report about
 * entries that were replaced meanwhile is recognised by number, not by comparing terms. */
#ifndef LOG_ENTRIES_H
#define LOG_ENTRIES_H
#include "base/err.h"
#include "log/entry.h"
#include "log/wal.h"

struct entries;
enum err entries_open(size_t cache_bytes, uint64_t first, struct entries **ret_entries);
void entries_close(struct entries *entries);
uint64_t entries_first(const struct entries *entries); /* last + 1 when empty */
uint64_t entries_last(const struct entries *entries);
size_t entries_bytes(const struct entries *entries); /* cached */
uint64_t entries_generation(const struct entries *entries);
/* index <= last replaces it and all after it. Copies. ERR_NOMEM. */
enum err entries_append(struct entries *entries, const struct entry *entry);
/* At recovery: with a place and without bytes unless they fit the cache. */
enum err entries_found(struct entries *entries, const struct wal_found *found);
void entries_placed(struct entries *entries, uint64_t index, const struct wal_place *place);
/* False: no such index. bytes.at NULL: not in memory, read it at `place`. */
bool entries_get(const struct entries *entries, uint64_t index, struct entry *ret_entry,
                 struct wal_place *ret_place);
uint64_t entries_term(const struct entries *entries, uint64_t index); /* 0: not there */
void entries_forget_to(struct entries *entries, uint64_t index);      /* compaction: <= index */
void entries_reset(struct entries *entries, uint64_t index); /* empty; goes on after index */
/* Drops bytes from the front while over the bound, of what is <= durable_applied only. */
void entries_trim(struct entries *entries, uint64_t durable_applied);
uint64_t entries_log_bytes_since(const struct entries *entries, uint64_t index); /* on disk */
#endif
