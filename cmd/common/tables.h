/* SPDX-License-Identifier: Apache-2.0 */
/* The option tables of every command of both programs, in one place: a variable that belongs to
 * another command is then known, and not refused as a misspelling. */
#ifndef COMMON_TABLES_H
#define COMMON_TABLES_H
#include "conf/conf.h"

extern const struct option_table dev_table, coordinator_run_table, shard_run_table;
extern const struct option_table operator_run_table, provider_run_table, worker_run_table;
extern const struct option_table force_config_table, rejoin_table, set_epoch_table, plan_table;
extern const struct option_table cert_ca_table, cert_rotate_table, cert_retire_table;
extern const struct option_table cert_issue_table, cert_renew_table, cert_show_table;
extern const struct option_table config_check_table, config_reference_table;
extern const struct option_table ctl_table, ctl_offline_table, list_shard_reports_table;
extern const struct option_table needs_table, top_table, doctor_table, explain_table;
extern const struct option_table assign_domain_table, unassign_domain_table, remove_shard_table;
extern const struct option_table add_shard_table, bind_cluster_table, set_quota_table;
extern const struct option_table upsert_provider_table, instruction_list_table;
extern const struct option_table instruction_queue_table, replica_add_table;
extern const struct option_table coordinator_restore_table, snapshot_restore_table;
extern const struct option_table coord_table, coord_create_table, coord_cas_table, coord_get_table;
extern const struct option_table coord_delete_table, coord_acquire_table, coord_lease_table;
extern const struct option_table coord_release_table, coord_resize_table, coord_watch_table;
extern const struct option_table coord_exec_table;
extern const struct option_table store_get_table, store_write_table, store_del_table;
extern const struct option_table store_import_table, store_export_table;
extern const struct option_table provider_verify_table;
extern const struct option_table member_list_table, status_table, workers_table, partitions_table;
extern const struct option_table work_table, drain_table, test_fence_table, mock_run_table;
extern const struct option_table coordinator_ledger_table;
extern const struct option_table *const all_tables[]; /* ends with NULL */

/* What a role's settings must obey as a whole, beside what the table says of each: the first thing
 * that could not start, as ERR_INVALID with a note. Looks at the settings only, at no file and no
 * network. */
typedef enum err role_check_fn(const struct conf *conf, struct note *note);
/* The same where all that is wrong is told, one line each. */
typedef enum err role_gather_fn(const struct conf *conf, struct buf *problems);
struct role {
    const char *name;
    const struct option_table *table;
    role_check_fn *check;
    role_gather_fn *gather; /* may be NULL */
};
/* Both: ERR_OK, or every line there is to say in `problems`. */
enum err role_problems(const struct role *role, const struct conf *conf, struct buf *problems);
extern const struct role dev_role, coordinator_role, shard_role, operator_role;
extern const struct role provider_role, worker_role;
/* Those that `musterctl config ... --role` can name; both end with NULL, in the same order. */
extern const char *const role_names[];
extern const struct role *const roles[];

/* `instruction queue --kind`, in the order of its choices. */
enum instruction_choice {
    INSTRUCTION_ASSIGN,
    INSTRUCTION_UNASSIGN,
    INSTRUCTION_REASSIGN,
    INSTRUCTION_DRAIN,
    INSTRUCTION_TRANSFER,
};
/* What conf_choice answers: log.level and log.format in the order of obs/log.h, events.sink so: */
enum backend_choice { BACKEND_CATALOGUE, BACKEND_PROCESS, BACKEND_COMMAND };
enum events_choice { EVENTS_CHOICE_NONE, EVENTS_CHOICE_STDOUT, EVENTS_CHOICE_FILE };
#endif
