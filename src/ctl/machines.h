/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl machine: lists machines, and takes machines out of use. Asks the shards themselves, so
 * the commands work without a coordinator. */
#ifndef CTL_MACHINES_H
#define CTL_MACHINES_H
#include "ctl/ctl.h"

ctl_fn machine_list_act, machine_cordons_act;
ctl_fn machine_cordon_act, machine_uncordon_act, machine_drain_act;
#endif
