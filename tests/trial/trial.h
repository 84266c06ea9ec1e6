/* SPDX-License-Identifier: Apache-2.0 */
/* A state machine to try the log with: named registers that hold a number and a short text, with
 * set, add, compare-and-set and delete. Used by tests, the simulator and muster-log; small
 * enough to read in a minute, and with a snapshot that is consistent while apply goes on. */
#ifndef TESTS_TRIAL_TRIAL_H
#define TESTS_TRIAL_TRIAL_H
#include "base/buf.h"
#include "log/log.h"

struct trial;
enum { TRIAL_KEY_MAX = 64, TRIAL_VALUE_MAX = 1 << 20, TRIAL_MACHINE = 1 };
enum trial_op { TRIAL_SET = 1, TRIAL_ADD, TRIAL_CAS, TRIAL_DELETE, TRIAL_NOTHING };
struct trial_command {
    enum trial_op op;
    struct str key, value; /* SET, CAS */
    int64_t number;        /* ADD: by; CAS: expected revision, 0 for absent */
};
struct trial_reply {
    enum err err;      /* ERR_OK, ERR_CONFLICT, ERR_NOT_FOUND, ERR_INVALID, ERR_FULL */
    uint64_t revision; /* of the register: how often it was changed */
    int64_t number;
};
enum err trial_open(uint64_t keys_max, struct trial **ret_trial);
void trial_close(struct trial *trial);
extern const struct machine_ops trial_ops;
/* ERR_TOO_LARGE, ERR_FULL, ERR_NOMEM. */
enum err trial_encode(const struct trial_command *command, struct buf *into);
enum err trial_reply_parse(struct str bytes, struct trial_reply *ret_reply); /* ERR_PARSE */
/* False: no such register. Views are valid until the next apply. */
bool trial_get(const struct trial *trial, struct str key, uint64_t *ret_revision,
               int64_t *ret_number, struct str *ret_value);
size_t trial_count(const struct trial *trial);
uint64_t trial_applied(const struct trial *trial); /* index of the last entry */
uint64_t trial_hash(const struct trial *trial);
#endif
