/* SPDX-License-Identifier: Apache-2.0 */
/* Membership as a state machine of the replicated log: bytes of the log to commands of the core and
 * back, and a call to the service that follows it here.
 *
 * Commands are the core's own bytes (member_batch_begin), and so is the snapshot section. A command
 * that the core cannot read is answered for and moves the clock only.
 *
 * Reply, little-endian: u32 operations, then for each
 *     u8 status  u8 admitted  u16 0  u32 items  u64 incarnation
 * and behind them, in their order, the 32 bytes of each item that a PULL or STEAL gave. */
#ifndef MEMBER_MACHINE_H
#define MEMBER_MACHINE_H
#include "log/log.h"
#include "member/core/member.h"

/* Part of the log's format. The version is the first cluster level that has workers: a replica of
 * an older release would stop at its first entry, so the log takes none before all speak it. */
enum { MEMBER_MACHINE_ID = 5, MEMBER_MACHINE_VERSION = 3 };

struct member_machine;
struct member_machine_options {
    struct member_options member;
    void (*applied)(void *owner);  /* after each command, inside apply, on every replica */
    void (*restored)(void *owner); /* the state is another snapshot's now */
    void *owner;
};
enum err member_machine_open(const struct member_machine_options *options,
                             struct member_machine **ret_machine); /* ERR_NOMEM */
void member_machine_close(struct member_machine *machine);         /* NULL is fine */
struct state_machine member_machine_registration(struct member_machine *machine);
/* Another one after a restore. */
struct membership *member_machine_membership(const struct member_machine *machine);
bool member_machine_restoring(const struct member_machine *machine); /* no reads yet */

/* -- replies -- */
struct member_reply {
    uint32_t ops;
    struct str rows, items;
};
enum err member_reply_parse(struct str reply, struct member_reply *ret_reply); /* ERR_PARSE */
struct member_result member_reply_result(const struct member_reply *reply, uint32_t op);
/* The `number`th item of that operation; false: it has fewer. */
bool member_reply_item(const struct member_reply *reply, uint32_t op, uint32_t number,
                       struct member_digest *ret_item);
#endif
