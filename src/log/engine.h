/* SPDX-License-Identifier: Apache-2.0 */
/* The Raft engine: libraft 0.22.1 behind guards against its defects (guards.c). Each call takes
 * an event and returns effects. No clock, disk or network.
 *
 * Effects are valid until the next call with a non-const engine. The caller owns the bytes of
 * entries and keeps them while the effects are used. After each call the driver works in this
 * order:
 * 1. With ENGINE_VOTE: makes term and vote durable before another step or message.
 * 2. Queues the snapshot or the entries for the disk.
 * 3. Sends the messages. Entries in a message need not be on disk yet, because only
 *    engine_persisted and engine_installed acknowledge.
 * 4. Applies up to engine_commit(), and calls engine_configuration() for each applied
 *    ENTRY_CHANGE. */
#ifndef LOG_ENGINE_H
#define LOG_ENGINE_H
#include <raft.h>

#include "base/time.h"
#include "log/entry.h"
#include "log/log.h"

struct engine;

struct engine_options {
    uint64_t id;
    const char *address; /* copied */
    uint32_t election_ms, heartbeat_ms;
    uint32_t in_flight_entries; /* limit per follower */
    uint32_t seed;              /* must differ between replicas */
};
/* The order of members is kept, because the engine's progress array has the same order. */
struct member {
    uint64_t id;
    enum member_role role;
    char address[REPLICA_ADDRESS_MAX + 1];
};
struct members {
    struct member at[REPLICA_MEMBERS_MAX];
    size_t count;
};
struct snapshot_mark {
    uint64_t index, term;
    uint64_t members_index;
    struct members members;
};
struct engine_start {
    uint64_t term, vote;                  /* last values from engine_effects */
    const struct snapshot_mark *snapshot; /* NULL: none */
    uint64_t start_index;                 /* index of entries[0]; without entries, the next index */
    const struct entry *entries;          /* only ENTRY_CHANGE needs its bytes */
    size_t entry_count;
};

enum engine_flag {
    ENGINE_VOTE = BIT(0),
    ENGINE_ENTRIES = BIT(1),
    ENGINE_INSTALL = BIT(2),
    ENGINE_MESSAGES = BIT(3),
    ENGINE_ROLE = BIT(4), /* role, term, leader or configuration may have changed */
    ENGINE_COMMIT = BIT(5),
};
struct engine_effects {
    uint32_t flags;
    uint64_t term, vote; /* with ENGINE_VOTE */
    /* Index of the first entry, with ENGINE_ENTRIES. The entries replace all existing entries
     * from this index on. */
    uint64_t entries_index;
    const struct raft_entry *entries;
    size_t entry_count;
    struct snapshot_mark install; /* with ENGINE_INSTALL: the snapshot from engine_offer */
    /* With ENGINE_MESSAGES. server_id is the receiver; server_address is unused. The driver adds
     * the entries of an append (prev_log_index, n_entries) and the content of a snapshot. */
    const struct raft_message *messages;
    size_t message_count;
};

/* ERR_NOMEM only. */
enum err engine_open(const struct engine_options *options, struct engine **ret_engine);
void engine_close(struct engine *engine); /* accepts NULL */

/* -- events. `now` never decreases. After ERR_NOMEM, ERR_INTERNAL or ERR_CORRUPT (a peer's log
 * differs below the commit index) the process must end. After other errors the engine is
 * unchanged. -- */
/* Call once. ERR_CORRUPT: also for a log that begins without a configuration. A single voter
 * becomes leader immediately, in a new term (guard 17). */
enum err engine_begin(struct engine *engine, mono_time now, const struct engine_start *start,
                      struct engine_effects *ret_effects);
enum err engine_timeout(struct engine *engine, mono_time now, struct engine_effects *ret_effects);
/* Handles a received append. ret_effects->entries points to the caller's bytes. ERR_INVALID: no
 * correct peer sends this append, so close the connection. */
struct engine_append {
    uint64_t term, prev_index, prev_term, commit;
    const struct entry *entries;
    size_t entry_count;
};
enum err engine_receive_append(struct engine *engine, mono_time now, uint64_t from,
                               const struct engine_append *append,
                               struct engine_effects *ret_effects);
/* Handles any message but an append. server_id is the sender. */
enum err engine_receive(struct engine *engine, mono_time now, const struct raft_message *message,
                        struct engine_effects *ret_effects);
/* Call when a peer's snapshot is on our disk, verified, under a temporary name. With
 * ENGINE_INSTALL: rename the file, drop the log up to the snapshot, call engine_installed.
 * Otherwise remove the file. ERR_INVALID: a bad snapshot or sender. */
enum err engine_offer(struct engine *engine, mono_time now, uint64_t from, uint64_t term,
                      const struct snapshot_mark *mark, struct engine_effects *ret_effects);
enum err engine_installed(struct engine *engine, mono_time now, const struct snapshot_mark *mark,
                          struct engine_effects *ret_effects);
/* Call when all entries up to `index` are durable. Do not count entries that were replaced after
 * they were queued. */
enum err engine_persisted(struct engine *engine, mono_time now, uint64_t index,
                          struct engine_effects *ret_effects);
/* Call when this replica's snapshot is durable. Drops entries up to the snapshot's index minus
 * `trailing`. ERR_CONFLICT: remove the file, because an install or a newer snapshot came first,
 * or the index is 1 (guard 21). */
enum err engine_compacted(struct engine *engine, mono_time now, const struct snapshot_mark *mark,
                          uint32_t trailing, struct engine_effects *ret_effects);
/* Call when the configuration entry at `index` was applied. */
enum err engine_configuration(struct engine *engine, mono_time now, uint64_t index,
                              struct str bytes, struct engine_effects *ret_effects);
/* Appends entries as leader: commands and barriers, or a single ENTRY_CHANGE (guard 11). The
 * engine itself appends a new leader's barrier, as the first entry of the term. Errors:
 * ERR_INVALID     other entries
 * ERR_NOT_LEADER
 * ERR_NOT_READY   a leadership transfer is in progress
 * ERR_BUSY        a configuration change is not applied yet */
enum err engine_submit(struct engine *engine, mono_time now, const struct entry *entries,
                       size_t count, uint64_t *ret_first, struct engine_effects *ret_effects);
/* Transfers leadership to the voter `to`; 0: any voter. Ends after one election time-out at the
 * latest. ERR_NOT_LEADER, ERR_BUSY (a transfer is in progress), ERR_NOT_FOUND (no such voter),
 * ERR_INVALID (`to` is this replica). */
enum err engine_transfer(struct engine *engine, mono_time now, uint64_t to,
                         struct engine_effects *ret_effects);

/* -- queries -- */
mono_time engine_due(const struct engine *engine); /* when to call engine_timeout (guard 7) */
enum replica_role engine_role(const struct engine *engine);
uint64_t engine_term(const struct engine *engine);
uint64_t engine_commit(const struct engine *engine);
uint64_t engine_last(const struct engine *engine);
uint64_t engine_leader(const struct engine *engine); /* 0: unknown or silent */
uint64_t engine_transferee(const struct engine *engine);
bool engine_installing(const struct engine *engine);
/* On the leader only; 0: unknown id. */
uint64_t engine_match(const struct engine *engine, uint64_t id);
/* On the leader only; 0: never. */
mono_time engine_heard(const struct engine *engine, uint64_t id);
/* Newest configuration. *ret_uncommitted: the configuration's index, or 0 if committed. */
void engine_members(const struct engine *engine, struct members *ret_members,
                    uint64_t *ret_uncommitted);
uint64_t engine_members_committed(const struct engine *engine, struct members *ret_members);

/* -- configurations as bytes -- */
enum err members_encode(const struct members *members, struct buf *into);
enum err members_decode(struct str bytes, struct members *ret_members); /* ERR_PARSE, ERR_FULL */
const struct member *members_find(const struct members *members, uint64_t id); /* or NULL */
size_t members_voters(const struct members *members);
#endif
