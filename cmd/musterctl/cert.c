/* musterctl cert: a small authority on disk, over io/cert.h; one file per group of commands. */
#include "musterctl/cert.h"

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

void cert_explain_absent(enum err err, const char *dir, struct note *note)
{
    char file[CERT_PATH_CAP];
    struct fs_info info;
    bool absent = err == ERR_NOT_FOUND && cert_join_path(file, dir, "ca.pem") &&
                  fs_stat(fs_real(), file, &info) == ERR_NOT_FOUND;
    if (absent)
        note_set(note, "no authority in %s; make one with: musterctl cert ca --dir %s", dir, dir);
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
