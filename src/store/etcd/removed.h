/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this replica was removed from its cluster.
 *
 * The leader sends to members only, so a removed replica may never apply its own removal. Its member
 * list names it for ever, and the watches and serializable reads that it serves would be silent and
 * old. A replica that hears of no leader therefore asks the members that it knew for the member list,
 * until one answers in the leader's name. It is removed when that list does not name it, or when its
 * own log says so. */
#ifndef STORE_ETCD_REMOVED_H
#define STORE_ETCD_REMOVED_H
#include "store/etcd/etcd.h"

struct removal_check;
/* Asks no more. done() once, maybe at once; NULL is fine. */
void removal_check_stop(struct removal_check *check, void (*done)(void *owner), void *owner);
bool replica_is_removed(const struct removal_check *check);
#endif
