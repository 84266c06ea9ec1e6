/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl top, doctor, explain, needs, state-hash, provider and auth: their options and help. The
 * commands themselves are in src/ctl, but for auth, which prints the table that the servers read.
 * One thread. */
#include "ctl/inspect.h"
#include "common/help.h"
#include "common/tables.h"
#include "ctl/doctor.h"
#include "ctl/explain.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "rpc/access.h"

const struct command top_command = {
    COMMAND_ROW(HELP_MUSTERCTL_TOP, top),
    CTL_OFFLINE(BIT(6), top_act),
};

const struct command doctor_command = {
    COMMAND_ROW(HELP_MUSTERCTL_DOCTOR, doctor),
    CTL_OFFLINE(0, doctor_act),
};

const struct command need_command =
    COMMAND_GROUP(HELP_MUSTERCTL_NEED, COMMAND(COMMAND_ROW(HELP_MUSTERCTL_NEEDS, needs),
                                               CTL_OFFLINE(CTL_EXITS, needs_act)));

const struct command explain_command = {
    HELP_MUSTERCTL_EXPLAIN,
    .children = COMMAND_CHILDREN(
        COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_EXPLAIN_NEED, explain, "CLUSTER[/WHICH]", 1, 1),
                CTL_OFFLINE(CTL_EXITS | BIT(5), explain_need)),
        COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_EXPLAIN_MACHINE, explain, "MACHINE", 1, 1),
                CTL_OFFLINE(CTL_EXITS | BIT(5), explain_machine)),
        COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_EXPLAIN_WORKER, explain, "WORKER", 1, 1),
                CTL_ACT(BIT(5), explain_worker))),
};

/* -- auth: who may call what -- */

static void auth_json(struct ctl *ctl, const struct rpc_access_row *rows, size_t count)
{
    struct ndjson *json = ctl_json_begin(ctl);

    ndjson_open_array(json, STR("methods"));
    for (size_t i = 0; i < count; i++) {
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("method"), rows[i].path);
        ndjson_c_string(json, STR("identity"), rpc_access_text(rows[i].access));
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
    ctl_json_end(ctl);
}

static enum err auth_table(struct ctl *ctl)
{
    const struct rpc_access_row *rows;
    size_t count = rpc_access_table(&rows);
    struct text_table table;

    if (ctl->json) {
        auth_json(ctl, rows, count);
        return ERR_OK;
    }
    table_init(&table, TABLE_COLUMNS("METHOD", "IDENTITY"), &ctl->memory);
    for (size_t i = 0; i < count; i++) {
        table_text(&table, rows[i].path);
        table_text(&table, rpc_access_text(rows[i].access));
    }
    ctl_print_table(ctl, &table);
    return ERR_OK;
}

const struct command auth_command = {
    HELP_MUSTERCTL_AUTH,
    .children = COMMAND_CHILDREN(
        COMMAND(COMMAND_ROW(HELP_MUSTERCTL_AUTH_TABLE, ctl_offline), CTL_OFFLINE(0, auth_table))),
};
