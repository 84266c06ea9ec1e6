/* SPDX-License-Identifier: Apache-2.0 */
/* The roster: which node an identity of the replicated log is, and where it answers.
 *
 * A state machine of its own beside the fleet tables, so that every replica can name the leader's
 * gRPC address and people read names, not identities. A member's Raft address is in the
 * configuration of the log and is not repeated here.
 *
 * An entry is made before its replica becomes a member and forgotten after it was removed; two
 * entries of one name are a node that came back with a new identity (a lost disk). The surprising
 * rule: the roster never says who is a member. That is the configuration's.
 *
 * Command:   u8 op; 1 PUT: an entry; 2 FORGET: u64 id; 3 PUT (version 3): an entry and its tail
 * Entry:     u64 id, u8 lengths of name, gRPC and HTTP address, then the three texts
 * Tail:      u8 length of the address for etcd's clients, then the text
 * Reply:     u8 0 done, 1 no room, 2 not understood
 * Snapshot:  u32 format (1), u32 count, entries by ascending id; format 2, when one of them has an
 *            address for etcd's clients: each with its tail
 * All little-endian. */
#ifndef FLEET_ROSTER_H
#define FLEET_ROSTER_H
#include "base/buf.h"
#include "log/log.h"

enum {
    ROSTER_MACHINE_ID = 3, /* part of the log's format */
    ROSTER_FIRST_VERSION = 1,
    ROSTER_MACHINE_VERSION = 3, /* which has addresses for etcd's clients */
    ROSTER_ENTRIES_MAX = 2 * REPLICA_MEMBERS_MAX,
    ROSTER_ENTRY_BYTES_MAX = 8 + 4 + REPLICA_NAME_MAX + 3 * REPLICA_ADDRESS_MAX,
    ROSTER_COMMAND_MAX = 1 + ROSTER_ENTRY_BYTES_MAX,
};
struct roster_entry {
    uint64_t id;
    char name[REPLICA_NAME_MAX + 1];
    char grpc[REPLICA_ADDRESS_MAX + 1], http[REPLICA_ADDRESS_MAX + 1]; /* "": none */
    char etcd[REPLICA_ADDRESS_MAX + 1]; /* of a listener for etcd's clients; "": none */
};
struct roster;
enum err roster_open(struct roster **ret_roster); /* ERR_NOMEM */
void roster_close(struct roster *roster);         /* NULL is fine */
/* What replica_options takes. */
struct state_machine roster_registration(struct roster *roster);

/* By ascending id; valid until the next entry is applied. */
size_t roster_entries(const struct roster *roster, const struct roster_entry **ret_entries);
const struct roster_entry *roster_find(const struct roster *roster, uint64_t id); /* or NULL */
const char *roster_grpc(const struct roster *roster, uint64_t id); /* "" when not known */

/* -- commands -- */
enum roster_op { ROSTER_PUT = 1, ROSTER_FORGET = 2 };
struct roster_command {
    enum roster_op op;
    struct roster_entry entry; /* FORGET: its id only */
};
/* A name is 1 to REPLICA_NAME_MAX bytes of visible ASCII; addresses are at most
 * REPLICA_ADDRESS_MAX bytes of the same. */
bool roster_entry_valid(const struct roster_entry *entry);
bool roster_entry_equal(const struct roster_entry *a, const struct roster_entry *b);
/* What of it every replica of a cluster of this level can read. */
struct roster_entry roster_entry_at(const struct roster_entry *entry, uint32_t level);
uint32_t roster_command_version(const struct roster_command *command);
enum err roster_encode(const struct roster_command *command, struct buf *into); /* ERR_INVALID */
enum err roster_decode(struct str bytes, struct roster_command *ret_command);   /* ERR_PARSE */
/* What the reply of a proposal says: ERR_OK, ERR_FULL, ERR_INVALID; ERR_PARSE: it is none. */
enum err roster_reply(struct str reply);
#endif
