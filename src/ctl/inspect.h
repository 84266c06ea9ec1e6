/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of musterctl that ask several parts of a fleet, one file each. See also doctor.h and
 * explain.h. */
#ifndef CTL_INSPECT_H
#define CTL_INSPECT_H
#include "ctl/ctl.h"
#include "ctl/provider_facts.h"
#include "ctl/survey.h"

ctl_fn needs_act;
ctl_fn state_hash_act; /* ERR_CONFLICT if replicas differ */

ctl_fn top_act;
/* Makes one frame (screen.h) from an answered survey. Sorts the survey's workers. */
enum err top_frame(struct ctl_survey *survey, wall_time now, struct buf *into);

ctl_fn provider_verify;
/* Tests the facts over an open probe, prints and judges them. ERR_UNSUPPORTED: a fact is false.
 * ERR_PRECONDITION: not all facts were tested. */
enum err provider_verify_facts(struct ctl *ctl, struct provider_facts *facts, const char *address,
                               bool dry_run);
#endif
