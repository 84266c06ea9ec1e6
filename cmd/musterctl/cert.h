/* What the files behind `musterctl cert` share. */
#ifndef MUSTERCTL_CERT_H
#define MUSTERCTL_CERT_H
#include "conf/command.h"
#include "conf/conf.h"
#include "io/cert.h"

enum { CERT_PATH_CAP = 4096 };

extern const struct command cert_ca_command, cert_rotate_command, cert_retire_command;
extern const struct command cert_issue_command, cert_renew_command, cert_show_command;

wall_time cert_now(void);
bool cert_join_path(char path[CERT_PATH_CAP], const char *dir,
                    const char *name); /* false: too long */
void cert_warn_exposed(bool exposed, const char *path);
/* When there is no authority at all, the note says how to make one. */
void cert_explain_absent(enum err err, const char *dir, struct note *note);
/* Prints the error, if there is one, closes the configuration; the exit code. */
int cert_finish(const struct command_call *call, struct conf *conf, enum err err,
                const struct note *note);
#endif
