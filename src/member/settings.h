/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the worker service: rollout's keys and muster's own, from a conf. */
#ifndef MEMBER_SETTINGS_H
#define MEMBER_SETTINGS_H
#include "conf/conf.h"
#include "member/service.h"

/* Sets *service from a `conf` that member_config_read() accepted; without [transport], from the
 * defaults. The caller's fields (I/O, log, names, run, events, ledger) are not changed. */
void member_settings_read(const struct conf *conf, struct member_service_options *service);
#endif
