/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command of musterctl: loads its configuration, connects, runs the action in its `data`,
 * prints the output, and turns the error into an exit code. One thread. */
#include "musterctl/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/program.h"
#include "common/tables_ctl.h"

static void run_set_output(struct ctl *ctl)
{
    enum ctl_output output = CTL_OUTPUT_TABLE;
    const char *no_color = getenv("NO_COLOR");

    if (ctl_has_option(ctl, "output")) output = (enum ctl_output)conf_choice(ctl->conf, "output");
    if (ctl_has_option(ctl, "json") && conf_bool(ctl->conf, "json")) output = CTL_OUTPUT_JSON;
    ctl->json = output == CTL_OUTPUT_JSON || output == CTL_OUTPUT_YAML;
    ctl->yaml = output == CTL_OUTPUT_YAML;
    ctl->wide = output == CTL_OUTPUT_WIDE;
    if (output == CTL_OUTPUT_NAME) ctl->table_flags = TABLE_NAMES;
    if (ctl_has_option(ctl, "no-headers") && conf_bool(ctl->conf, "no-headers"))
        ctl->table_flags |= TABLE_NO_HEADERS;
    if (isatty(STDOUT_FILENO) && (!no_color || !no_color[0])) ctl->table_flags |= TABLE_BOLD;
}

static bool run_confirm(const char *what)
{
    char answer[16] = "";

    fprintf(stderr, "%s Continue? [y/N] ", what);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

int ctl_run(void *context, const struct command_call *call)
{
    struct ctl ctl = {.call = call,
                      .action = command_of(call)->data,
                      .print = program_print,
                      .warn = program_say_problems};
    const char *request_id = NULL;
    struct conf *conf;
    int exit_code = 0;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    ctl.conf = conf;
    run_set_output(&ctl);
    /* bigfleetctl, which says its name only, never asks. */
    if (isatty(STDIN_FILENO) && !call->path[0]->says_name_only &&
        !(ctl_has_option(&ctl, "yes") && conf_bool(conf, "yes")))
        ctl.confirm = run_confirm;
    ctl_init(&ctl);
    if (ctl_has_option(&ctl, "request-id")) request_id = conf_text(conf, "request-id");
    if (!ctl.action->offline) err = remote_open(conf, request_id, &ctl.remote, &ctl.note);
    if (!err) err = ctl_do(&ctl);
    if (ctl.out.len > 0) exit_code = program_print(buf_peek(&ctl.out));
    if (err) exit_code = program_fail(call, err, &ctl.note);
    if (!exit_code) exit_code = ctl.exit_code;
    ctl_deinit(&ctl);
    conf_close(conf);
    return exit_code;
}
