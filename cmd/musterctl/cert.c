/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl cert: a small authority on disk, over io/cert.h; one file per group of commands. */
#include "musterctl/cert.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/program.h"
#include "io/clock.h"
#include "musterctl/commands.h"

wall_time cert_now(void)
{
    return clock_wall(clock_real());
}

void cert_warn_exposed(bool exposed, const char *path)
{
    if (exposed) fprintf(stderr, "warning: %s may be read by others; chmod 600 it\n", path);
}

bool cert_join_path(char path[CERT_PATH_CAP], const char *dir, const char *name)
{
    return snprintf(path, CERT_PATH_CAP, "%s/%s", dir, name) < CERT_PATH_CAP;
}

bool cert_explain_absent(enum err err, const char *dir, struct note *note)
{
    char file[CERT_PATH_CAP];
    struct fs_info info;
    bool absent = err == ERR_NOT_FOUND && cert_join_path(file, dir, "ca.pem") &&
                  fs_stat(fs_real(), file, &info) == ERR_NOT_FOUND;
    if (absent)
        note_set(note, "no authority in %s; make one with: musterctl cert ca --dir %s", dir, dir);
    return absent;
}

void cert_refused(const struct command_call *call, enum err err, struct note *note, enum err *worst)
{
    if (!err) return;
    fflush(stdout); /* what was printed before stays before */
    (void)program_fail(call, err, note);
    note->text[0] = '\0';
    if (err_exit_code(err) > err_exit_code(*worst)) *worst = err;
}

void cert_compare_days(const struct conf *conf, wall_time from, wall_time until, const char *advice,
                       char why[CERT_WHY_CAP])
{
    const uint64_t day_ms = 86400ull * MS_PER_SECOND;
    uint64_t asked = conf_number(conf, "days");
    /* A certificate begins a few minutes early: to the nearest day. */
    uint64_t has = until.ms > from.ms ? (until.ms - from.ms + day_ms / 2) / day_ms : 0;

    if (conf_source(conf, "days") == CONF_DEFAULT || asked == has) return;
    snprintf(why, CERT_WHY_CAP, "asked for %" PRIu64 " days, has %" PRIu64 "; %s", asked, has,
             advice);
}

int cert_finish(const struct command_call *call, struct conf *conf, enum err err,
                const struct note *note)
{
    int exit_code = err ? program_fail(call, err, note) : 0;
    conf_close(conf);
    return exit_code;
}

static const struct command_example examples[] = {
    {"musterctl cert ca && musterctl cert issue replica --id 1",
     "an authority and a first certificate"},
    {NULL, NULL},
};
static const struct command *const children[] = {
    &cert_ca_command,
    &cert_issue_command,
    &cert_show_command,
    &cert_renew_command,
    &cert_rotate_command,
    &cert_retire_command,
    NULL,
};
const struct command cert_command = {
    .name = "cert",
    .summary = "a small certificate authority for development and small sites",
    .about = "Keeps one authority in a directory and gives every identity of a fleet its "
             "certificate. Keys "
             "are written 0600. Every command can be repeated: what is good is kept.",
    .examples = examples,
    .children = children,
};
