/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet tables as a state machine of the replicated log: decodes log entries into commands of
 * fleet/core, and encodes the replies.
 *
 * The snapshot section is the state JSON with its seal (fleet/format/state.h), then the answers to
 * recent requests (fleet/answers.h). A command that is repeated with its request id is answered and
 * not applied. Running out of memory during apply ends the process, because a replica that skipped
 * a command would differ from others. */
#ifndef FLEET_MACHINE_H
#define FLEET_MACHINE_H
#include "fleet/core/fleet.h"
#include "log/log.h"

/* These numbers are part of the log's format. Id 1 belongs to a trial version, whose logs are
 * refused. A command's version is the first cluster level that knows the command: 4 for
 * CLEAR_LEAVING and a forced AssignDomain, otherwise 1. */
enum {
    FLEET_MACHINE_ID = 2,
    FLEET_FIRST_VERSION = 1,
    FLEET_MACHINE_VERSION = 4,
};

struct fleet_machine;
/* Called on every replica after each applied command, for the audit and the leader's soft state.
 * Must not change the tables. The arguments are valid during the call. `command` is NULL if it
 * could not be decoded. */
typedef void fleet_applied_fn(void *owner, const struct machine_entry *entry,
                              const struct fleet_command *command,
                              const struct fleet_result *result);
struct fleet_machine_options {
    fleet_applied_fn *applied;     /* may be NULL */
    void (*restored)(void *owner); /* a snapshot replaced the tables; may be NULL */
    void *owner;
};
enum err fleet_machine_open(const struct fleet_machine_options *options,
                            struct fleet_machine **ret_machine); /* ERR_NOMEM */
void fleet_machine_close(struct fleet_machine *machine);         /* NULL is fine */
struct state_machine fleet_machine_registration(struct fleet_machine *machine);
/* Always the same object. Only the log may change the tables. */
struct fleet *fleet_machine_fleet(struct fleet_machine *machine);

uint32_t fleet_command_version(const struct fleet_command *command);
/* Decodes the reply of a proposal. The texts point into `reply`. ERR_PARSE. */
enum err fleet_reply_parse(struct str reply, struct fleet_result *ret_result);
#endif
