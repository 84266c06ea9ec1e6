/* SPDX-License-Identifier: Apache-2.0 */
/* The log as the loop's thread sees it: every live index with its place on disk, the newest ones
 * with their bytes. Pure memory, bounded.
 *
 * Entries enter when the engine returns them, get their place when the disk thread reports, lose
 * their bytes when the cache is over its bound and they are durable and applied, and leave by
 * compaction or replacement. */
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
/* index <= last replaces it and all after it. Copies. After ERR_NOMEM what was to be replaced is
 * gone; fail-stop. */
enum err entries_append(struct entries *entries, const struct entry *entry);
/* At recovery: the newest keep their bytes as far as the cache holds them. The first that is found
 * says where the log begins. ERR_CORRUPT: a gap; ERR_NOMEM. */
enum err entries_found(void *entries, const struct wal_found *found); /* a wal_found_fn */
/* Of the entry as it is now. One that was compacted meanwhile is passed over. */
void entries_placed(struct entries *entries, uint64_t index, const struct wal_place *place);
/* False: no such index. bytes.at NULL: not in memory (bytes.len is right), read it at `place`.
 * place->size 0: not durable yet. */
bool entries_get(const struct entries *entries, uint64_t index, struct entry *ret_entry,
                 struct wal_place *ret_place);
uint64_t entries_term(const struct entries *entries, uint64_t index); /* 0: not there */
void entries_forget_to(struct entries *entries, uint64_t index);      /* compaction: <= index */
void entries_reset(struct entries *entries, uint64_t index); /* empty; goes on after index */
/* Drops bytes from the front while over the bound, of what is <= durable_applied only. */
void entries_trim(struct entries *entries, uint64_t durable_applied);
/* On disk, of the live entries after `index`. */
uint64_t entries_log_bytes_since(const struct entries *entries, uint64_t index);
#endif
