/* SPDX-License-Identifier: Apache-2.0 */
/* The log in memory: the disk place of every live index, and the bytes of the newest entries. Only
 * the event loop's thread uses this log. Pure; memory is bounded.
 *
 * Entries are added when the engine returns them, and get a disk place when the disk thread has
 * written the bytes. Durable and applied entries lose their bytes when the cache exceeds its bound.
 * Entries are removed by compaction or replacement. */
#ifndef LOG_ENTRIES_H
#define LOG_ENTRIES_H
#include "base/err.h"
#include "log/entry.h"
#include "log/wal.h"

struct entries;
enum err entries_open(size_t cache_bytes, uint64_t first, struct entries **ret_entries);
void entries_close(struct entries *entries);
uint64_t entries_first(const struct entries *entries); /* last + 1 when the log is empty */
uint64_t entries_last(const struct entries *entries);
size_t entries_bytes(const struct entries *entries); /* bytes of entries in memory */
/* Appends a copy of the entry. An index <= last replaces that entry and all later entries. After
 * ERR_NOMEM the replaced entries are lost, so the replica must stop. */
enum err entries_append(struct entries *entries, const struct entry *entry);
/* Adds an entry that recovery read from disk. Only the newest entries keep their bytes, up to the
 * cache size. The first entry sets the log's start. Returns ERR_CORRUPT for a gap, or ERR_NOMEM. */
enum err entries_found(void *entries, const struct wal_found *found); /* implements wal_found_fn */
/* Stores the disk place of the current entry at `index`. Ignores a compacted entry. */
void entries_placed(struct entries *entries, uint64_t index, const struct wal_place *place);
/* Returns false for an unknown index. If bytes.at is NULL, the bytes are only on disk at `place`,
 * but bytes.len is right. place->size is 0 for an entry that is not durable yet. */
bool entries_get(const struct entries *entries, uint64_t index, struct entry *ret_entry,
                 struct wal_place *ret_place);
uint64_t entries_term(const struct entries *entries, uint64_t index); /* 0: no such entry */
void entries_forget_to(struct entries *entries, uint64_t index);      /* drops entries <= `index` */
void entries_reset(struct entries *entries, uint64_t index); /* empties; continues after `index` */
/* Drops cached bytes, oldest entries first, while the cache exceeds its bound. Entries after
 * `durable_applied` keep their bytes. */
void entries_trim(struct entries *entries, uint64_t durable_applied);
/* Returns the bytes on disk of the live entries after `index`. */
uint64_t entries_log_bytes_since(const struct entries *entries, uint64_t index);
#endif
