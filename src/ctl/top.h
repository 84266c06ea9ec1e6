/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl top: a fleet on one screen, drawn anew while it is looked at. */
#ifndef CTL_TOP_H
#define CTL_TOP_H
#include "ctl/ctl.h"
#include "ctl/survey.h"

ctl_fn top_act;
/* One picture of a survey that was answered, as screen.h has it. Workers are sorted in the survey. */
enum err top_frame(struct ctl_survey *survey, wall_time now, struct buf *into);
#endif
