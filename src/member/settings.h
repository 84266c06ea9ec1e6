/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the settings that are about workers, as the service takes them. */
#ifndef MEMBER_SETTINGS_H
#define MEMBER_SETTINGS_H
#include "member/service.h"

struct member_config;
/* Sets what the settings decide; without `enabled` these are the defaults. What the caller owns
 * (I/O, log, names, events, ledger) stays. */
void member_config_service(const struct member_config *config,
                           struct member_service_options *service);
#endif
