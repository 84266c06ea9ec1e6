/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl needs: the Needs of a shard's last cycle as a list. */
#ifndef CTL_NEEDS_H
#define CTL_NEEDS_H
#include "ctl/ctl.h"

ctl_fn needs_act;
#endif
