/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this replica was taken out of its cluster.
 *
 * Nobody tells a replica that it was removed: the leader speaks to members only, so what it has of
 * the members may name itself for ever, and what it serves by itself, watches and serializable
 * reads, would be silent and old. One that hears of no leader therefore asks the members it knew,
 * again and again, who the members are; a leader's word that does not name it is believed. So is
 * its own log, when that came far enough. */
#ifndef STORE_ETCD_OUTCAST_H
#define STORE_ETCD_OUTCAST_H
#include "store/etcd/etcd.h"

struct outcast;
/* Asks no more. done() once, maybe at once; NULL outcast is fine. */
void outcast_stop(struct outcast *outcast, void (*done)(void *owner), void *owner);
bool outcast_known(const struct outcast *outcast); /* it is out */
#endif
