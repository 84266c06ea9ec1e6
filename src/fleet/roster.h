/* SPDX-License-Identifier: Apache-2.0 */
/* The roster: the name and the addresses of each replica identity, replicated in the log. Every
 * replica can therefore find the leader's gRPC address, and people see names.
 *
 * An entry is made before its replica becomes a member, and removed after the replica was removed.
 * The log's configuration, not the roster, defines members and their Raft addresses. Two entries
 * with one name mean that a node lost its disk and returned with a new identity.
 *
 * Command:   u8 op; 1 PUT: an entry; 2 FORGET: u64 id; 3 PUT (version 3): an entry and its tail
 * Entry:     u64 id, u8 lengths of name, gRPC and HTTP address, then the three texts
 * Tail:      u8 length of the address for etcd's clients, then the text
 * Reply:     u8 0 done, 1 no room, 2 not understood
 * Snapshot:  u32 format (1), u32 count, entries by ascending id. Format 2 if an entry has an
 *            address for etcd's clients: each entry has its tail
 * All little-endian. */
#ifndef FLEET_ROSTER_H
#define FLEET_ROSTER_H
#include "base/buf.h"
#include "log/log.h"

enum {
    ROSTER_MACHINE_ID = 3, /* log entries contain this number */
    ROSTER_FIRST_VERSION = 1,
    ROSTER_MACHINE_VERSION = 3, /* the first version with addresses for etcd's clients */
    ROSTER_ENTRIES_MAX = 2 * REPLICA_MEMBERS_MAX,
    ROSTER_ENTRY_BYTES_MAX = 8 + 4 + REPLICA_NAME_MAX + 3 * REPLICA_ADDRESS_MAX,
    ROSTER_COMMAND_MAX = 1 + ROSTER_ENTRY_BYTES_MAX,
};
struct roster_entry {
    uint64_t id;
    char name[REPLICA_NAME_MAX + 1];
    char grpc[REPLICA_ADDRESS_MAX + 1], http[REPLICA_ADDRESS_MAX + 1]; /* "": no listener */
    char etcd[REPLICA_ADDRESS_MAX + 1]; /* address for etcd's clients; "": none */
};
struct roster;
enum err roster_open(struct roster **ret_roster); /* ERR_NOMEM */
void roster_close(struct roster *roster);         /* NULL is fine */
/* For use in replica_options. */
struct state_machine roster_registration(struct roster *roster);

/* Sorted by id. Valid until the next command is applied. */
size_t roster_entries(const struct roster *roster, const struct roster_entry **ret_entries);
const struct roster_entry *roster_find(const struct roster *roster, uint64_t id); /* NULL: none */
const char *roster_grpc(const struct roster *roster, uint64_t id); /* "" if unknown */

/* -- commands -- */
enum roster_op { ROSTER_PUT = 1, ROSTER_FORGET = 2 };
struct roster_command {
    enum roster_op op;
    struct roster_entry entry; /* a FORGET command uses only entry.id */
};
/* Checks the name (1 to REPLICA_NAME_MAX visible ASCII bytes) and the lengths of addresses. */
bool roster_entry_valid(const struct roster_entry *entry);
bool roster_entry_equal(const struct roster_entry *a, const struct roster_entry *b);
/* The entry without the fields that replicas of this cluster level cannot read. */
struct roster_entry roster_entry_at(const struct roster_entry *entry, uint32_t level);
uint32_t roster_command_version(const struct roster_command *command);
enum err roster_encode(const struct roster_command *command, struct buf *into); /* ERR_INVALID */
enum err roster_decode(struct str bytes, struct roster_command *ret_command);   /* ERR_PARSE */
/* Converts a proposal's reply to ERR_OK, ERR_FULL or ERR_INVALID. ERR_PARSE: not a reply. */
enum err roster_reply(struct str reply);
#endif
