/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind `musterctl cert` share. */
#ifndef MUSTERCTL_CERT_H
#define MUSTERCTL_CERT_H
#include "conf/command.h"
#include "conf/conf.h"
#include "io/cert.h"

enum { CERT_PATH_CAP = 4096, CERT_WHY_CAP = sizeof(((struct cert_leaf_report *)0)->why) };

extern const struct command cert_ca_command, cert_rotate_command, cert_retire_command;
extern const struct command cert_issue_command, cert_renew_command, cert_show_command;

wall_time cert_now(void);
bool cert_join_path(char path[CERT_PATH_CAP], const char *dir,
                    const char *name); /* false: too long */
void cert_warn_exposed(bool exposed, const char *path);
/* When there is no authority at all, the note says how to make one; then true. */
bool cert_explain_absent(enum err err, const char *dir, struct note *note);
/* For commands that go on to the next file: prints the error as a line of its own, empties the
 * note and keeps in *worst the error with the highest exit code. ERR_OK: nothing happens. */
void cert_refused(const struct command_call *call, enum err err, struct note *note,
                  enum err *worst);
/* Where --days was given and what is kept was made for another number of them: the words for it,
 * with `advice` at their end. Otherwise `why` is left as it is. */
void cert_compare_days(const struct conf *conf, wall_time from, wall_time until, const char *advice,
                       char why[CERT_WHY_CAP]);
/* Prints the error, if there is one, closes the configuration; the exit code. */
int cert_finish(const struct command_call *call, struct conf *conf, enum err err,
                const struct note *note);
#endif
