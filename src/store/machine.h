/* SPDX-License-Identifier: Apache-2.0 */
/* The store as a state machine of the replicated log. Decodes entries into commands of the core,
 * encodes replies, and reports the effects to the waiting calls and watches of this replica.
 *
 * A command is the message StoreCommand (proto/muster/v1/coordination.proto). The core itself
 * writes the snapshot section (docs/formats/store.md). A command that breaks a limit is answered
 * INVALID and changes nothing but the clock. */
#ifndef STORE_MACHINE_H
#define STORE_MACHINE_H
#include "base/arena.h"
#include "log/log.h"
#include "store/core/store.h"

/* Part of the log's format. A command's version is the first cluster level at which all replicas
 * know its kind. The log refuses a version above the cluster level. */
enum {
    STORE_MACHINE_ID = 4,
    STORE_FIRST_VERSION = 2,   /* lowest cluster level that has a store */
    STORE_MACHINE_VERSION = 4, /* lowest cluster level that checks tokens */
    STORE_RENEW_MAX = 1024
};
uint32_t store_kind_version(enum store_kind kind); /* version of a command without tokens */
uint32_t store_command_version(const struct store_command *command);

/* -- encoding of commands -- */
enum err store_command_write(const struct store_command *command, struct buf *into);
/* The strings live as long as the arena. ERR_PARSE, ERR_NOMEM, ERR_INVALID (a limit) have a note.
 * ERR_VERSION: an unknown kind of command. */
enum err store_command_read(struct str bytes, struct arena *arena,
                            struct store_command *ret_command, struct note *note);

/* Encodes a client's request as a command of kind TXN. `flags`: 0 or STORE_TXN_BARE. */
struct Etcdserverpb__TxnRequest;
enum err store_txn_write(const struct Etcdserverpb__TxnRequest *request, uint32_t flags,
                         struct buf *into);

/* -- encoding of replies --
 * A reply has u8 waiting, u8 code, 16 bytes of lease id, then the message Outcome. A reply to RENEW
 * continues with one struct store_renewal for each id. A reply to TXN continues with u32 refusal,
 * u64 revision, and the response's fields (store/txn_wire.h). Replies never leave this process. */
enum {
    STORE_REPLY_HEAD = 18,
    STORE_RENEWAL_BYTES = sizeof(struct store_renewal),
    STORE_TXN_HEAD = 12,
};
struct store_reply {
    bool waiting;
    int code;
    struct store_id lease;
    struct str outcome; /* an encoded Outcome */
};
enum err store_reply_parse(struct str reply, struct store_reply *ret_reply); /* ERR_PARSE */
size_t store_renewals_parse(struct str reply, struct store_renewal *ret_renewals, size_t cap);
struct store_txn_reply {
    enum txn_refusal refusal;
    uint64_t revision;
    struct str response;
};
enum err store_txn_parse(struct str reply, struct store_txn_reply *ret_reply); /* ERR_PARSE */
/* `text` "": the code's standard text */
enum err store_outcome_write(const struct store_result *result, struct str text, struct buf *into);

/* -- the state machine -- */
struct store_machine;
struct store_machine_options {
    struct store_options store;
    /* Called during apply on every replica. Each callback may be NULL. After each command, `event`
     * is called for each event, then `applied` for the changes. A command of many turns first
     * reports the leases that ended before it. */
    void (*event)(void *owner, const struct store_event *event);
    void (*applied)(void *owner, struct key_changes changes);
    void (*restored)(void *owner); /* a snapshot replaced the state */
    void *owner;
};
enum err store_machine_open(const struct store_machine_options *options,
                            struct store_machine **ret_machine); /* ERR_NOMEM */
void store_machine_close(struct store_machine *machine);         /* NULL is fine */
struct state_machine store_machine_registration(struct store_machine *machine);
/* A restore replaces this object. */
struct store *store_machine_store(const struct store_machine *machine);
/* index of the last applied entry; 0: none */
uint64_t store_machine_index(const struct store_machine *machine);
bool store_machine_restoring(const struct store_machine *machine);
#endif
