/* SPDX-License-Identifier: Apache-2.0 */
/* The store as a state machine of the replicated log: bytes of the log to commands of the core and
 * back, and what follows from each for waiting calls and watches here.
 *
 * Commands are the message StoreCommand (proto/muster/v1/coordination.proto), the snapshot section
 * is the core's own (docs/formats/store.md). A command that the core would not take, because it
 * breaks a limit, is answered INVALID and changes nothing but the clock. */
#ifndef STORE_MACHINE_H
#define STORE_MACHINE_H
#include "base/arena.h"
#include "log/log.h"
#include "store/core/store.h"

/* Part of the log's format. A command's version is the first cluster level at which all replicas
 * know its kind: one of an older release would stop at it, so the log takes none before. */
enum {
    STORE_MACHINE_ID = 4,
    STORE_FIRST_VERSION = 2,   /* the first that has a store */
    STORE_MACHINE_VERSION = 4, /* which checks tokens */
    STORE_RENEW_MAX = 1024
};
uint32_t store_kind_version(enum store_kind kind); /* without tokens */
uint32_t store_command_version(const struct store_command *command);

/* -- commands as bytes -- */
enum err store_command_write(const struct store_command *command, struct buf *into);
/* Its views live as the arena does. ERR_PARSE, ERR_INVALID (a limit), ERR_NOMEM, with a note.
 * ERR_VERSION: a kind that this program does not know. */
enum err store_command_read(struct str bytes, struct arena *arena,
                            struct store_command *ret_command, struct note *note);

/* TXN, from what a client sent. `flags`: STORE_TXN_BARE. */
struct Etcdserverpb__TxnRequest;
enum err store_txn_write(const struct Etcdserverpb__TxnRequest *request, uint32_t flags,
                         struct buf *into);

/* -- replies as bytes --
 * u8 waiting, u8 code, lease (16), then the message Outcome. Of RENEW: a struct store_renewal for
 * each id. Of TXN: u32 refusal, u64 revision, then fields of its response (store/txn_wire.h). They
 * never leave the process. */
enum {
    STORE_REPLY_HEAD = 18,
    STORE_RENEWAL_BYTES = sizeof(struct store_renewal),
    STORE_TXN_HEAD = 12,
};
struct store_reply {
    bool waiting;
    int code;
    struct store_id lease;
    struct str outcome; /* encoded */
};
enum err store_reply_parse(struct str reply, struct store_reply *ret_reply); /* ERR_PARSE */
size_t store_renewals_parse(struct str reply, struct store_renewal *ret_renewals, size_t cap);
struct store_txn_reply {
    enum txn_refusal refusal;
    uint64_t revision;
    struct str response;
};
enum err store_txn_parse(struct str reply, struct store_txn_reply *ret_reply); /* ERR_PARSE */
/* `text` may be "": then the text of the code, if it has one. */
enum err store_outcome_write(const struct store_result *result, struct str text, struct buf *into);

/* -- the machine -- */
struct store_machine;
struct store_machine_options {
    struct store_options store;
    /* After each command, inside apply, on every replica; each may be NULL. First the events, then
     * the changes that were added. An entry that takes many turns reports what its command is not
     * the cause of before it: whatever can be read was reported. */
    void (*event)(void *owner, const struct store_event *event);
    void (*applied)(void *owner, struct key_changes changes);
    void (*restored)(void *owner); /* the state was replaced */
    void *owner;
};
enum err store_machine_open(const struct store_machine_options *options,
                            struct store_machine **ret_machine); /* ERR_NOMEM */
void store_machine_close(struct store_machine *machine);         /* NULL is fine */
struct state_machine store_machine_registration(struct store_machine *machine);
/* Another one after a restore. */
struct store *store_machine_store(const struct store_machine *machine);
uint64_t store_machine_index(const struct store_machine *machine); /* its place; 0: none here yet */
bool store_machine_restoring(const struct store_machine *machine); /* no reads yet */
#endif
