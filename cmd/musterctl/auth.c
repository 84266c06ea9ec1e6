/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl auth: prints the identity that each method requires. One thread. */
#include "common/help.h"
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "rpc/access.h"

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

const struct command auth_command =
    COMMAND_TREE(HELP_MUSTERCTL_AUTH, COMMAND(COMMAND_ROW(HELP_MUSTERCTL_AUTH_TABLE, ctl_offline),
                                              CTL_OFFLINE(0, auth_table)));
