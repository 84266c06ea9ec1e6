/* SPDX-License-Identifier: Apache-2.0 */
/* The shipped store beside the model of store_model.h, entry by entry, on every replica. */
#ifndef TESTS_SIM_STORE_COMPARE_H
#define TESTS_SIM_STORE_COMPARE_H
#include "base/note.h"
#include "log/log.h"
#include "store/core/store.h"
#include "store_model.h"

enum err compare_command(const struct store_command *command, struct model_command *ret_command);
/* TXN: converts the transaction into `txns`, which the command then points to. */
enum err compare_txns(const struct txn *txn, struct model_txns *ret_txns);
/* Compares a reply, as text, with the response of the model; false: they differ. */
bool compare_txn(struct str reply, const struct store_command *command, struct str expected,
                 struct note *why);
/* Writes the state of the shipped store in the form of store_state_text.h. */
void compare_write_state(const struct store *store, struct buf *into);
/* The first line that differs, for a person; false: none does. */
bool compare_lines(struct str shipped, struct str model, struct note *why);
/* Compares a reply of the machine with the model's answer; false: they differ. */
bool compare_reply(struct str reply, const struct store_command *command,
                   const struct model_answer *answer, const struct model_renewal *renewals,
                   struct note *why);
#endif
