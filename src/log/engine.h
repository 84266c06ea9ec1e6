/* SPDX-License-Identifier: Apache-2.0 */
/* The Raft engine behind its guards. Each call takes an event and returns effects. No clock, disk
 * or network.
 *
 * Only this module calls raft_step(). libraft 0.22.1 alone is neither safe nor live. Every defect
 * has a guard in guards.c. The engine applies the guards to input and output, so callers need not
 * know the defects. Effects are valid until the next call with a non-const engine. Entry bytes are
 * never copied here: they belong to the caller and must stay valid while the effects are used.
 *
 * For each call the driver must keep this order: (1) when ENGINE_VOTE is set, make term and vote
 * durable, and neither step nor send before that; (2) queue the snapshot or the entries for the
 * disk; (3) send the messages; (4) apply up to engine_commit(), with engine_configuration() for
 * each applied ENTRY_CHANGE. Only engine_persisted and engine_installed produce acknowledgements,
 * so a message may be sent before its entries are on disk. */
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
/* A member of a configuration. The order of members is kept, because the engine's progress array
 * uses the same order. */
struct member {
    uint64_t id;
    enum member_role role;
    char address[REPLICA_ADDRESS_MAX + 1];
};
struct members {
    struct member at[REPLICA_MEMBERS_MAX];
    size_t count;
};
struct snapshot_mark { /* what the engine must know about a snapshot */
    uint64_t index, term;
    uint64_t members_index; /* index of the entry that made `members` */
    struct members members;
};
struct engine_start {
    uint64_t term, vote;                  /* the last values reported in engine_effects */
    const struct snapshot_mark *snapshot; /* NULL: none */
    uint64_t start_index;                 /* index of entries[0]; without entries, the next index */
    const struct entry *entries;          /* only the bytes of ENTRY_CHANGE are read */
    size_t entry_count;
};

enum engine_flag {
    ENGINE_VOTE = BIT(0),
    ENGINE_ENTRIES = BIT(1),
    ENGINE_INSTALL = BIT(2),
    ENGINE_MESSAGES = BIT(3),
    ENGINE_ROLE = BIT(4), /* set if role, term, leader or configuration may have changed */
    ENGINE_COMMIT = BIT(5),
};
struct engine_effects {
    uint32_t flags;
    uint64_t term, vote;    /* valid with ENGINE_VOTE; made by the engine or by guard 15 */
    uint64_t entries_index; /* with ENGINE_ENTRIES: index of the first entry. An index <= last
                               replaces the log from this index on */
    const struct raft_entry *entries;
    size_t entry_count;
    struct snapshot_mark install; /* with ENGINE_INSTALL: the snapshot announced by engine_offer */
    /* Valid with ENGINE_MESSAGES. server_id is the receiver; server_address is unused. An append
     * has prev_log_index and n_entries only; the driver adds entries and snapshot content. */
    const struct raft_message *messages;
    size_t message_count;
};

/* ERR_NOMEM only. */
enum err engine_open(const struct engine_options *options, struct engine **ret_engine);
void engine_close(struct engine *engine); /* accepts NULL */

/* -- events. `now` never decreases. ERR_NOMEM, ERR_INTERNAL and ERR_CORRUPT (a peer's log differs
 * from ours below the commit index) are fatal: the process ends and must not call the engine again.
 * After any other error listed below, the engine is unchanged. -- */
/* Starts the engine, once. ERR_CORRUPT also for a log that begins without a configuration. A single
 * voter becomes leader at once, in a new term (guard 17), so this call has effects too. */
enum err engine_begin(struct engine *engine, mono_time now, const struct engine_start *start,
                      struct engine_effects *ret_effects);
enum err engine_timeout(struct engine *engine, mono_time now, struct engine_effects *ret_effects);
/* Passes a received append to the engine. ret_effects->entries points to the caller's bytes.
 * ERR_INVALID: no correct peer sends this append, so close the connection. */
struct engine_append {
    uint64_t term, prev_index, prev_term, commit;
    const struct entry *entries;
    size_t entry_count;
};
enum err engine_receive_append(struct engine *engine, mono_time now, uint64_t from,
                               const struct engine_append *append,
                               struct engine_effects *ret_effects);
/* Passes any other message to the engine: result, vote, timeout-now. server_id is the sender. */
enum err engine_receive(struct engine *engine, mono_time now, const struct raft_message *message,
                        struct engine_effects *ret_effects);
/* Reports to the engine that a peer's whole, verified snapshot is on our disk under a temporary
 * name. If the effects contain ENGINE_INSTALL, rename the file, drop the log up to the snapshot,
 * then call engine_installed. Otherwise remove the file. ERR_INVALID: a bad snapshot or sender. */
enum err engine_offer(struct engine *engine, mono_time now, uint64_t from, uint64_t term,
                      const struct snapshot_mark *mark, struct engine_effects *ret_effects);
enum err engine_installed(struct engine *engine, mono_time now, const struct snapshot_mark *mark,
                          struct engine_effects *ret_effects);
/* Reports to the engine that all entries up to `index` are durable. The driver must not report
 * entries that were replaced after they were queued. */
enum err engine_persisted(struct engine *engine, mono_time now, uint64_t index,
                          struct engine_effects *ret_effects);
/* Reports to the engine that a snapshot of this replica is durable. Drops entries up to the
 * snapshot's index minus `trailing`. Returns ERR_CONFLICT if an install or a newer snapshot came
 * first, or if the snapshot is at index 1 (guard 21). The caller then removes the file. */
enum err engine_compacted(struct engine *engine, mono_time now, const struct snapshot_mark *mark,
                          uint32_t trailing, struct engine_effects *ret_effects);
/* Reports to the engine that the configuration entry at `index` was applied. */
enum err engine_configuration(struct engine *engine, mono_time now, uint64_t index,
                              struct str bytes, struct engine_effects *ret_effects);
/* Appends entries as leader. *ret_first is the index of the first entry. `entries` are commands and
 * barriers, or a single ENTRY_CHANGE (guard 11), else ERR_INVALID. Other errors: ERR_NOT_LEADER,
 * ERR_NOT_READY (leadership transfer in progress), ERR_BUSY (a configuration change is not applied
 * yet). The engine itself appends a new leader's barrier, which is the first entry of the term. The
 * call that made this replica leader returns the barrier in its effects. */
enum err engine_submit(struct engine *engine, mono_time now, const struct entry *entries,
                       size_t count, uint64_t *ret_first, struct engine_effects *ret_effects);
/* Transfers leadership to the voter `to`, or to any voter if `to` is 0. Returns ERR_NOT_LEADER,
 * ERR_BUSY (another transfer is in progress), ERR_NOT_FOUND (no such voter) or ERR_INVALID (`to` is
 * this replica). The transfer ends after one election time-out at the latest. */
enum err engine_transfer(struct engine *engine, mono_time now, uint64_t to,
                         struct engine_effects *ret_effects);

/* -- queries -- */
mono_time engine_due(const struct engine *engine); /* when to call engine_timeout (guard 7) */
enum replica_role engine_role(const struct engine *engine);
uint64_t engine_term(const struct engine *engine);
uint64_t engine_commit(const struct engine *engine);
uint64_t engine_last(const struct engine *engine);
uint64_t engine_leader(const struct engine *engine); /* id of the leader; 0: unknown or silent */
uint64_t engine_transferee(const struct engine *engine);
bool engine_installing(const struct engine *engine);
/* Returns a member's last replicated index, on the leader only; 0 for an unknown id. */
uint64_t engine_match(const struct engine *engine, uint64_t id);
/* Returns when a member last responded, on the leader only; 0 for never. */
mono_time engine_heard(const struct engine *engine, uint64_t id);
/* Returns the newest configuration. *ret_uncommitted is its index while uncommitted, else 0. */
void engine_members(const struct engine *engine, struct members *ret_members,
                    uint64_t *ret_uncommitted);
uint64_t engine_members_committed(const struct engine *engine, struct members *ret_members);

/* -- configurations as bytes, for bootstrap, tools and the checker -- */
enum err members_encode(const struct members *members, struct buf *into);
enum err members_decode(struct str bytes, struct members *ret_members); /* ERR_PARSE, ERR_FULL */
const struct member *members_find(const struct members *members, uint64_t id); /* or NULL */
size_t members_voters(const struct members *members);
#endif
