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
    HELP_MUSTERCTL_TOP,
    .options = &top_table,
    CTL_OFFLINE(BIT(6), top_act),
};

const struct command doctor_command = {
    HELP_MUSTERCTL_DOCTOR,
    .options = &doctor_table,
    CTL_OFFLINE(0, doctor_act),
};

static const struct command need_command = {
    HELP_MUSTERCTL_EXPLAIN_NEED,
    .options = &explain_table,
    COMMAND_ARGUMENTS("CLUSTER[/WHICH]", 1, 1),
    CTL_OFFLINE(CTL_EXITS | BIT(5), explain_need),
};

static const struct command machine_command = {
    HELP_MUSTERCTL_EXPLAIN_MACHINE,
    .options = &explain_table,
    COMMAND_ARGUMENTS("MACHINE", 1, 1),
    CTL_OFFLINE(CTL_EXITS | BIT(5), explain_machine),
};

static const struct command worker_command = {
    HELP_MUSTERCTL_EXPLAIN_WORKER,
    .options = &explain_table,
    COMMAND_ARGUMENTS("WORKER", 1, 1),
    CTL_ACT(BIT(5), explain_worker),
};

const struct command explain_command = {
    HELP_MUSTERCTL_EXPLAIN,
    .children = COMMAND_CHILDREN(&need_command, &machine_command, &worker_command),
};

const struct command state_hash_command = {
    HELP_MUSTERCTL_STATE_HASH,
    .options = &ctl_table,
    CTL_ACT(BIT(4), state_hash_act),
};

const struct command needs_command = {
    HELP_MUSTERCTL_NEEDS,
    .options = &needs_table,
    CTL_OFFLINE(CTL_EXITS, needs_act),
};

static const struct command verify_command = {
    HELP_MUSTERCTL_PROVIDER_VERIFY,
    .options = &provider_verify_table,
    COMMAND_ARGUMENTS("ADDRESS", 1, 1),
    CTL_OFFLINE(BIT(4) | BIT(5) | BIT(6), provider_verify),
};
const struct command provider_command = COMMAND_GROUP(
    HELP_MUSTERCTL_PROVIDER, &list_providers_command, &upsert_provider_command, &verify_command);

/* -- auth: who may call what -- */

static void auth_json(struct ctl *ctl, const struct rpc_access_row *rows, size_t count)
{
    struct ndjson json;

    ctl_json_begin(ctl, &json);
    ndjson_open_array(&json, STR("methods"));
    for (size_t i = 0; i < count; i++) {
        ndjson_open_object(&json, NDJSON_ITEM);
        ndjson_c_string(&json, STR("method"), rows[i].path);
        ndjson_c_string(&json, STR("identity"), rpc_access_text(rows[i].access));
        ndjson_close_object(&json);
    }
    ndjson_close_array(&json);
    ctl_json_end(ctl, &json);
}

static enum err auth_table(struct ctl *ctl)
{
    static const char *const columns[] = {"METHOD", "IDENTITY", NULL};
    const struct rpc_access_row *rows;
    size_t count = rpc_access_table(&rows);
    struct text_table table;

    if (ctl->json) {
        auth_json(ctl, rows, count);
        return ERR_OK;
    }
    table_init(&table, columns, &ctl->memory);
    for (size_t i = 0; i < count; i++) {
        table_text(&table, rows[i].path);
        table_text(&table, rpc_access_text(rows[i].access));
    }
    ctl_print_table(ctl, &table);
    return ERR_OK;
}

static const struct command table_command = {
    HELP_MUSTERCTL_AUTH_TABLE,
    .options = &ctl_offline_table,
    CTL_OFFLINE(0, auth_table),
};
const struct command auth_command = {
    HELP_MUSTERCTL_AUTH,
    .children = COMMAND_CHILDREN(&table_command),
};
