/* SPDX-License-Identifier: Apache-2.0 */
/* The log in memory, for the loop's thread: every live index with its place on disk, and the bytes
 * of the newest entries. Pure, bounded memory.
 *
 * Entries are added when the engine returns them, and get their place when the disk thread reports.
 * Durable and applied entries lose their bytes when the cache exceeds its bound. Entries are
 * removed by compaction or replacement. */
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
size_t entries_bytes(const struct entries *entries); /* cached bytes */
/* Appends a copy. An index <= last replaces that entry and all later ones. After ERR_NOMEM the
 * entries to be replaced are gone, so the replica must stop. */
enum err entries_append(struct entries *entries, const struct entry *entry);
/* Recovery: adds an entry read from disk. Only the newest entries keep their bytes, up to the size
 * of the cache. The first entry found sets the start of the log. ERR_CORRUPT: a gap; ERR_NOMEM. */
enum err entries_found(void *entries, const struct wal_found *found); /* implements wal_found_fn */
/* Stores the disk place of the current entry at `index`. Ignores a compacted entry. */
void entries_placed(struct entries *entries, uint64_t index, const struct wal_place *place);
/* False: no such index. If bytes.at is NULL, the bytes are not in memory: bytes.len is right, read
 * them at `place`. place->size 0: not durable yet. */
bool entries_get(const struct entries *entries, uint64_t index, struct entry *ret_entry,
                 struct wal_place *ret_place);
uint64_t entries_term(const struct entries *entries, uint64_t index); /* 0: no such entry */
void entries_forget_to(struct entries *entries, uint64_t index);      /* compaction up to `index` */
void entries_reset(struct entries *entries, uint64_t index); /* continues after `index`, empty */
/* Drops cached bytes from the oldest entries on while the cache exceeds its bound. Only entries <=
 * durable_applied are dropped. */
void entries_trim(struct entries *entries, uint64_t durable_applied);
/* Bytes on disk of the live entries after `index`. */
uint64_t entries_log_bytes_since(const struct entries *entries, uint64_t index);
#endif
