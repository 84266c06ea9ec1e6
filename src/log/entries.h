/* SPDX-License-Identifier: Apache-2.0 */
/* The log in memory: the disk place of every live index, and the bytes of the newest entries.
 * Memory is bounded. Loop's thread only.
 *
 * An entry gets its disk place after the disk thread has written the entry. Above the cache's
 * bound, durable and applied entries lose their bytes. */
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
size_t entries_bytes(const struct entries *entries);
/* Appends a copy. An index that exists replaces that entry and all later entries. After
 * ERR_NOMEM the replaced entries are lost, so the replica must stop. */
enum err entries_append(struct entries *entries, const struct entry *entry);
/* Adds an entry that recovery read from disk. The first entry sets the log's start. ERR_CORRUPT:
 * a gap. Or ERR_NOMEM. */
enum err entries_found(void *entries, const struct wal_found *found); /* implements wal_found_fn */
/* Ignores a compacted entry. */
void entries_placed(struct entries *entries, uint64_t index, const struct wal_place *place);
/* False: unknown index. bytes.at is NULL if the bytes are only on disk at `place`; bytes.len is
 * right. place->size is 0 for an entry that is not durable yet. */
bool entries_get(const struct entries *entries, uint64_t index, struct entry *ret_entry,
                 struct wal_place *ret_place);
uint64_t entries_term(const struct entries *entries, uint64_t index); /* 0: no such entry */
void entries_forget_to(struct entries *entries, uint64_t index);      /* drops entries <= `index` */
void entries_reset(struct entries *entries, uint64_t index); /* empties; continues after `index` */
/* Drops the oldest cached bytes while the cache exceeds its bound. Entries after
 * `durable_applied` keep their bytes. */
void entries_trim(struct entries *entries, uint64_t durable_applied);
/* Bytes on disk of the live entries after `index`. */
uint64_t entries_log_bytes_since(const struct entries *entries, uint64_t index);
#endif
