/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of musterctl that ask several parts of a fleet, a file each; those with parts of their
 * own are in doctor.h and explain.h. */
#ifndef CTL_INSPECT_H
#define CTL_INSPECT_H
#include "ctl/ctl.h"
#include "ctl/provider_facts.h"
#include "ctl/survey.h"

ctl_fn needs_act;      /* the Needs of a shard's last cycle as a list */
ctl_fn state_hash_act; /* ERR_CONFLICT: replicas differ; ERR_UNAVAILABLE: it was not found out */

ctl_fn top_act; /* a fleet on one screen, drawn anew while it is looked at */
/* One picture of a survey that was answered, as screen.h has it. Workers are sorted in the survey. */
enum err top_frame(struct ctl_survey *survey, wall_time now, struct buf *into);

ctl_fn provider_verify; /* does a provider keep the contract? */
/* Its middle, over a probe that is open and facts that are initialised: tries them, prints them and
 * judges. ERR_UNSUPPORTED: a fact does not hold. ERR_PRECONDITION: not all was tried. */
enum err provider_verify_facts(struct ctl *ctl, struct provider_facts *facts, const char *address,
                               bool dry_run);
#endif
