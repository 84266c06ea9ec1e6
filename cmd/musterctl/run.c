/* SPDX-License-Identifier: Apache-2.0 */
/* The run of a command of musterctl: loads its configuration, connects, does what its `data` says,
 * prints, and turns the error into an exit code. One thread. */
#include "musterctl/run.h"

#include "common/program.h"
#include "common/tables_ctl.h"

static const char *run_request_id(const struct ctl *ctl)
{
    return ctl_has_option(ctl, "request-id") ? conf_text(ctl->conf, "request-id") : NULL;
}

static bool run_wants_json(const struct ctl *ctl)
{
    if (ctl_has_option(ctl, "json") && conf_bool(ctl->conf, "json")) return true;
    return ctl_has_option(ctl, "output") && conf_choice(ctl->conf, "output") == CTL_OUTPUT_JSON;
}

int ctl_run(void *context, const struct command_call *call)
{
    struct ctl ctl = {.call = call,
                      .action = command_of(call)->data,
                      .print = program_print,
                      .warn = program_say_problems};
    struct conf *conf;
    int exit_code = 0;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    ctl.conf = conf;
    ctl.json = run_wants_json(&ctl);
    ctl_init(&ctl);
    if (!ctl.action->offline) err = remote_open(conf, run_request_id(&ctl), &ctl.remote, &ctl.note);
    if (!err) err = ctl_do(&ctl);
    if (ctl.out.len > 0) exit_code = program_print(buf_peek(&ctl.out));
    if (err) exit_code = program_fail(call, err, &ctl.note);
    if (!exit_code) exit_code = ctl.exit_code;
    ctl_deinit(&ctl);
    conf_close(conf);
    return exit_code;
}
