/* SPDX-License-Identifier: Apache-2.0 */
/* The Raft engine behind its guards: an event in, effects out. No clock, no disk, no network.
 *
 * The only caller of raft_step(). libraft 0.22.1 is neither safe nor live by itself; every defect
 * has its guard in guards.c, applied here on the way in and on the way out, so nobody else needs to
 * know. Everything the engine returns is valid until the next call that takes the engine; bytes
 * of entries are never copied here, they are the caller's as long as the effects are used.
 *
 * The order the driver must keep, per call: (1) when ENGINE_VOTE is set, make term and vote
 * durable, and take no further step and send no message before that; (2) queue the snapshot or the
 * entries for the disk; (3) send the messages; (4) apply up to engine_commit(), with
 * engine_configuration() for each applied ENTRY_CHANGE. Acknowledgements come out of engine_persisted and
 * engine_installed only, so a message may leave before its entries are on disk. */
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
    uint32_t in_flight_entries; /* per follower */
    uint32_t seed;              /* another one on each replica */
};
/* A configuration in our own terms. Order is kept: the engine's progress follows it. */
struct member {
    uint64_t id;
    enum member_role role;
    char address[REPLICA_ADDRESS_MAX + 1];
};
struct members {
    struct member at[REPLICA_MEMBERS_MAX];
    size_t count;
};
struct snapshot_mark { /* what the engine knows of a snapshot */
    uint64_t index, term;
    uint64_t members_index; /* of the entry that made `members` */
    struct members members;
};
struct engine_start {
    uint64_t term, vote;                  /* as engine_effects gave them last */
    const struct snapshot_mark *snapshot; /* NULL: none */
    uint64_t start_index;                 /* of entries[0]; last index + 1 when there are none */
    const struct entry *entries;          /* bytes are looked at for ENTRY_CHANGE only */
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
    uint64_t term, vote;    /* ENGINE_VOTE; the vote is the engine's or guard 15's */
    uint64_t entries_index; /* ENGINE_ENTRIES: of the first; at most last + 1, and if it is
                                 * less, everything from it on is replaced */
    const struct raft_entry *entries;
    size_t entry_count;
    struct snapshot_mark install; /* ENGINE_INSTALL: the snapshot announced by engine_offer */
    /* ENGINE_MESSAGES. server_id is the receiver; server_address means nothing. An append names
     * prev_log_index and n_entries; its entries, and the content of an install, are the driver's
     * to fill in. */
    const struct raft_message *messages;
    size_t message_count;
};

/* ERR_NOMEM. */
enum err engine_open(const struct engine_options *options, struct engine **ret_engine);
void engine_close(struct engine *engine); /* NULL is fine */

/* -- events. `now` never runs back. ERR_NOMEM, ERR_INTERNAL and ERR_CORRUPT (a peer's log differs
 * from ours below the commit index) end the process: nothing may be asked of the engine after. What
 * else is listed leaves everything as it was. -- */
/* First, once. ERR_CORRUPT also for a log that cannot be (no configuration at its start). A lone
 * voter leads at once, in a new term (guard 17): effects as from any other call. */
enum err engine_begin(struct engine *engine, mono_time now, const struct engine_start *start,
                      struct engine_effects *ret_effects);
enum err engine_timeout(struct engine *engine, mono_time now, struct engine_effects *ret_effects);
/* Entries of an append as they came. ret_effects->entries point to the caller's bytes. ERR_INVALID:
 * no sound peer sends this; refuse the connection. */
struct engine_append {
    uint64_t term, prev_index, prev_term, commit;
    const struct entry *entries;
    size_t entry_count;
};
enum err engine_receive_append(struct engine *engine, mono_time now, uint64_t from,
                               const struct engine_append *append,
                               struct engine_effects *ret_effects);
/* Any other message: results, votes, timeout-now. server_id is the sender's. ERR_INVALID. */
enum err engine_receive(struct engine *engine, mono_time now, const struct raft_message *message,
                        struct engine_effects *ret_effects);
/* A whole, verified snapshot of a peer is on our disk under a temporary name. Without
 * ENGINE_INSTALL in the effects it is not wanted: remove it. With it: make it ours, forget the log
 * up to it, then engine_installed. ERR_INVALID. */
enum err engine_offer(struct engine *engine, mono_time now, uint64_t from, uint64_t term,
                      const struct snapshot_mark *mark, struct engine_effects *ret_effects);
enum err engine_installed(struct engine *engine, mono_time now, const struct snapshot_mark *mark,
                          struct engine_effects *ret_effects);
/* All entries up to `index` are durable. Entries replaced since they were queued do not count: the
 * driver reports only what belongs to the newest generation. */
enum err engine_persisted(struct engine *engine, mono_time now, uint64_t index,
                          struct engine_effects *ret_effects);
/* A snapshot of our own is durable. Entries up to its index less `trailing` are forgotten.
 * ERR_CONFLICT: an install or a newer snapshot came before it, or it is of index 1 (guard 21); drop
 * the file. */
enum err engine_compacted(struct engine *engine, mono_time now, const struct snapshot_mark *mark,
                          uint32_t trailing, struct engine_effects *ret_effects);
/* The applied entry at `index` was a configuration. */
enum err engine_configuration(struct engine *engine, mono_time now, uint64_t index,
                              struct str bytes, struct engine_effects *ret_effects);
/* Leader: appends. *ret_first is the index of the first. ERR_NOT_LEADER, ERR_NOT_READY (handing
 * over). Either commands and barriers, or one ENTRY_CHANGE alone (guard 11), else ERR_INVALID;
 * ERR_BUSY: a change is not applied yet. The barrier of a new leader is the engine's: it comes in
 * the effects of the call that made it leader, always, and is the first entry of its term. */
enum err engine_submit(struct engine *engine, mono_time now, const struct entry *entries,
                       size_t count, uint64_t *ret_first, struct engine_effects *ret_effects);
/* To the voter `to`, or 0: any. ERR_NOT_LEADER, ERR_BUSY (one is under way), ERR_NOT_FOUND (no such
 * voter), ERR_INVALID (ourselves). It ends by itself after one election time-out. */
enum err engine_transfer(struct engine *engine, mono_time now, uint64_t to,
                         struct engine_effects *ret_effects);

/* -- looking -- */
mono_time engine_due(const struct engine *engine); /* when engine_timeout is wanted (guard 7) */
enum replica_role engine_role(const struct engine *engine);
uint64_t engine_term(const struct engine *engine);
uint64_t engine_commit(const struct engine *engine);
uint64_t engine_last(const struct engine *engine);
uint64_t engine_leader(const struct engine *engine); /* id, or 0; expires with its silence */
uint64_t engine_transferee(const struct engine *engine);
bool engine_installing(const struct engine *engine);
uint64_t engine_match(const struct engine *engine, uint64_t id);  /* leader only; 0 if unknown */
mono_time engine_heard(const struct engine *engine, uint64_t id); /* leader: last answer; 0 never */
/* The newest configuration, and the index of its entry when it is not committed yet, else 0. */
void engine_members(const struct engine *engine, struct members *ret_members,
                    uint64_t *ret_uncommitted);
uint64_t engine_members_committed(const struct engine *engine, struct members *ret_members);

/* -- configurations as bytes, for bootstrap, tools and the checker -- */
enum err members_encode(const struct members *members, struct buf *into);
enum err members_decode(struct str bytes, struct members *ret_members); /* ERR_PARSE, ERR_FULL */
const struct member *members_find(const struct members *members, uint64_t id); /* or NULL */
size_t members_voters(const struct members *members);
#endif
