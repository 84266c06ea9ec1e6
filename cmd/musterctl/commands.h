/* The commands of musterctl, one file each. */
#ifndef MUSTERCTL_COMMANDS_H
#define MUSTERCTL_COMMANDS_H
#include "conf/command.h"

extern const struct command cert_command, config_command;
#endif
