/* SPDX-License-Identifier: Apache-2.0 */
/* The settings that the service of workers takes: rollout's keys and ours, from a conf. */
#ifndef MEMBER_SETTINGS_H
#define MEMBER_SETTINGS_H
#include "conf/conf.h"
#include "member/service.h"

/* Sets what the settings decide, of a conf that member_config_read() found good; without a
 * [transport] section these are the defaults. What the caller owns (I/O, log, names, run, events,
 * ledger) stays. */
void member_settings_read(const struct conf *conf, struct member_service_options *service);
#endif
