/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the worker service: rollout's keys and muster's own, from a conf. */
#ifndef MEMBER_SETTINGS_H
#define MEMBER_SETTINGS_H
#include "conf/conf.h"
#include "member/service.h"

/* `conf` was accepted by member_config_read(). Without [transport] the defaults apply. The caller's
 * fields (I/O, log, names, run, events, ledger) are not changed. */
void member_settings_read(const struct conf *conf, struct member_service_options *service);
#endif
