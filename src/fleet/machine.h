/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet tables as a state machine of the replicated log: bytes of the log to commands of the
 * core and back.
 *
 * Commands are the specification's JSON (fleet/format/command.h), the snapshot section is the
 * state JSON with its seal (fleet/format/state.h) and the answers to recent requests
 * (fleet/answers.h): a command that comes again under its request id is answered, not applied. Out
 * of memory while applying ends the process: a replica that skipped a command would differ from the
 * others. */
#ifndef FLEET_MACHINE_H
#define FLEET_MACHINE_H
#include "fleet/core/fleet.h"
#include "log/log.h"

/* Part of the log's format. 1 is the trial machine's, so that its logs are never taken for ours.
 * A command's version is the first cluster level that has it: 4 for CLEAR_LEAVING and for a forced
 * AssignDomain, 1 for all else. */
enum {
    FLEET_MACHINE_ID = 2,
    FLEET_FIRST_VERSION = 1,
    FLEET_MACHINE_VERSION = 4,
};

struct fleet_machine;
/* After each command, on every replica, inside apply: for the audit and for leader-local state that
 * follows the tables. Borrowed, valid during the call; command is NULL when it could not be read.
 * The tables already show the change; they must not be changed from here. */
typedef void fleet_applied_fn(void *owner, const struct machine_entry *entry,
                              const struct fleet_command *command,
                              const struct fleet_result *result);
struct fleet_machine_options {
    fleet_applied_fn *applied;     /* may be NULL */
    void (*restored)(void *owner); /* the tables are another snapshot's now; may be NULL */
    void *owner;
};
enum err fleet_machine_open(const struct fleet_machine_options *options,
                            struct fleet_machine **ret_machine); /* ERR_NOMEM */
void fleet_machine_close(struct fleet_machine *machine);         /* NULL is fine */
/* What replica_options takes: id, name "fleet", version, ops and state filled in, the rest 0. */
struct state_machine fleet_machine_registration(struct fleet_machine *machine);
/* The same for its whole life. For readers and heartbeats; commands come by the log only. */
struct fleet *fleet_machine_fleet(struct fleet_machine *machine);

uint32_t fleet_command_version(const struct fleet_command *command);
/* The reply of a proposal. Its texts are views of `reply`. ERR_PARSE. */
enum err fleet_reply_parse(struct str reply, struct fleet_result *ret_result);
#endif
