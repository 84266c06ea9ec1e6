/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that both programs have: `version`, `completion` and the hidden `man`. */
#ifndef COMMON_TOOLS_H
#define COMMON_TOOLS_H
#include "conf/command.h"

extern const struct command version_command, completion_command, man_command;
#endif
