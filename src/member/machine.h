/* SPDX-License-Identifier: Apache-2.0 */
/* Membership as a state machine of the replicated log. Translates between log bytes and commands of
 * the core, and calls the service after each command.
 *
 * The core defines the bytes of commands (member_batch_begin) and of the snapshot section. A
 * command that the core cannot read gets a reply and only moves the clock.
 *
 * Reply, little-endian: u32 operations, then for each operation
 *     u8 status  u8 admitted  u16 0  u32 items  u64 incarnation
 * then the 32 bytes of each item that a PULL or STEAL assigned, in order. */
#ifndef MEMBER_MACHINE_H
#define MEMBER_MACHINE_H
#include "log/log.h"
#include "member/core/member.h"

/* Part of the log's format. The version is the first cluster level with workers. The log accepts
 * these entries only from this level on, because older releases stop at such an entry. */
enum { MEMBER_MACHINE_ID = 5, MEMBER_MACHINE_VERSION = 3 };

struct member_machine;
struct member_machine_options {
    struct member_options member;
    void (*applied)(void *owner);  /* after each command, inside apply, on every replica */
    void (*restored)(void *owner); /* a snapshot has replaced the state */
    void *owner;
};
enum err member_machine_open(const struct member_machine_options *options,
                             struct member_machine **ret_machine); /* ERR_NOMEM */
void member_machine_close(struct member_machine *machine);         /* NULL is allowed */
struct state_machine member_machine_registration(struct member_machine *machine);
/* Returns a different object after a restore. */
struct membership *member_machine_membership(const struct member_machine *machine);
/* reads are not possible meanwhile */
bool member_machine_restoring(const struct member_machine *machine);

/* -- replies -- */
struct member_reply {
    uint32_t ops;
    struct str rows, items;
};
enum err member_reply_parse(struct str reply, struct member_reply *ret_reply); /* ERR_PARSE */
struct member_result member_reply_result(const struct member_reply *reply, uint32_t op);
/* Item `number` of operation `op`; false: the operation has fewer. */
bool member_reply_item(const struct member_reply *reply, uint32_t op, uint32_t number,
                       struct member_digest *ret_item);
#endif
