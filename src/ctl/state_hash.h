/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl state-hash: do the replicas hold the same state? */
#ifndef CTL_STATE_HASH_H
#define CTL_STATE_HASH_H
#include "ctl/ctl.h"

ctl_fn state_hash_act; /* ERR_CONFLICT: they differ; ERR_UNAVAILABLE: it was not found out */
#endif
