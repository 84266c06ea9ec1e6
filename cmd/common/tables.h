/* SPDX-License-Identifier: Apache-2.0 */
/* The option tables of every command of both programs. They are in one place, because a command
 * must not refuse another command's environment variables as misspelled. */
#ifndef COMMON_TABLES_H
#define COMMON_TABLES_H
#include "conf/conf.h"

/* clang-format off */
#define OPTION_TABLES(each) \
    each(dev) each(coordinator_run) each(shard_run) each(operator_run) each(provider_run) \
    each(worker_run) each(force_config) each(rejoin) each(set_epoch) each(plan) each(cert_ca) \
    each(cert_rotate) each(cert_retire) each(cert_issue) each(cert_renew) each(cert_show) \
    each(config_check) each(config_reference) each(ctl) each(ctl_offline) each(removal) \
    each(list_shard_reports) each(needs) each(top) each(doctor) each(explain) each(explain_worker) \
    each(assign_domain) each(unassign_domain) each(remove_shard) each(add_shard) \
    each(bind_cluster) each(set_quota) each(upsert_provider) each(provider_verify) \
    each(machine_list) each(machine_cordons) each(machine_cordon) each(machine_drain) \
    each(list) each(status) each(workers) each(partitions) each(work) each(drain) \
    each(test_fence) each(mock_run) each(coordinator_ledger) each(instruction_list) \
    each(instruction_queue) each(replica_add) each(coordinator_restore) each(snapshot_restore) \
    each(coord) each(coord_holders) each(coord_create) each(coord_cas) each(coord_get) \
    each(coord_delete) each(coord_acquire) each(coord_lease) each(coord_release) each(coord_resize) \
    each(coord_watch) each(coord_exec) each(store_get) each(store_ls) each(store_write) \
    each(store_del) each(store_import) each(store_export)
/* clang-format on */
#define DECLARE_TABLE(name) extern const struct option_table name##_table;
OPTION_TABLES(DECLARE_TABLE)
extern const struct option_table *const all_tables[]; /* ends with NULL */

/* Checks the rules between a role's settings. Returns the first problem as ERR_INVALID with a note.
 * Reads no file and uses no network. */
typedef enum err role_check_fn(const struct conf *conf, struct note *note);
/* Like role_check_fn, but adds a line for every problem. */
typedef enum err role_gather_fn(const struct conf *conf, struct buf *problems);
struct role {
    const char *name;
    const struct option_table *table;
    role_check_fn *check;
    role_gather_fn *gather; /* may be NULL */
};
/* Applies all rules of a role. After an error `problems` has one line for each problem. */
enum err role_problems(const struct role *role, const struct conf *conf, struct buf *problems);
extern const struct role dev_role, coordinator_role, shard_role, operator_role;
extern const struct role provider_role, worker_role;
/* Roles that `musterctl config ... --role` accepts; both lists end with NULL, in the same order. */
extern const char *const role_names[];
extern const struct role *const roles[];

/* In the order of the choices of `instruction queue --kind`. */
enum instruction_choice {
    INSTRUCTION_ASSIGN,
    INSTRUCTION_UNASSIGN,
    INSTRUCTION_REASSIGN,
    INSTRUCTION_DRAIN,
    INSTRUCTION_TRANSFER,
};
/* Values of conf_choice for --backend. obs/log.h has those of log.level and log.format,
 * obs/events.h those of events.sink. */
enum backend_choice { BACKEND_CATALOGUE, BACKEND_PROCESS, BACKEND_COMMAND };

/* -- for the files of tables -- */
#define TABLE(name, ...)                                                                           \
    static const struct option name##_options[] = {__VA_ARGS__};                                   \
    const struct option_table name##_table = {name##_options, ARRAY_LEN(name##_options)}
enum { HOUR_MS = 3600 * 1000, DAY_MS = 24 * HOUR_MS };
/* The most common rows: a number with default, minimum and maximum (`most` 0: no maximum), a switch
 * and a text with defaults, and a file. */
#define NUMBER(name, kind, otherwise, least, most, what)                                           \
    OPTION(name, kind, .fallback = (otherwise), .min = (least), .max = (most), .help = (what))
#define SWITCH(name, otherwise, what) OPTION(name, BOOL, .fallback = (otherwise), .help = (what))
#define TEXT(name, otherwise, shown, what)                                                         \
    OPTION(name, STRING, .fallback = (otherwise), .placeholder = (shown), .help = (what))
#define FILE_OPTION(name, use, sample, what)                                                       \
    OPTION(name, STRING, .file = OPTION_FILE_##use, .placeholder = "FILE", .example = (sample),    \
           .help = (what))
/* The three TLS files of a process that also verifies its peers' certificates. */
#define OPTIONS_ROLE_TLS(pair, certificate_help, authority_help)                                   \
    OPTION("tls.cert-file", STRING, .also = "--tls-cert", .file = OPTION_FILE_INPUT,               \
           .placeholder = "FILE", .example = "tls/" pair ".pem", .help = certificate_help),        \
        OPTION("tls.key-file", STRING, .also = "--tls-key", .file = OPTION_FILE_INPUT,             \
               .placeholder = "FILE", .example = "tls/" pair ".key.pem",                           \
               .help = "the private key of tls.cert-file"),                                        \
        OPTION("tls.ca-file", STRING, .also = "--tls-ca", .file = OPTION_FILE_INPUT,               \
               .placeholder = "FILE", .example = "tls/ca.pem", .help = authority_help)
/* Rows that are flags only: the environment and files cannot set them. */
#define FLAG(name, kind, ...)   OPTION(name, kind, .flags = OPTION_FLAG_ONLY, __VA_ARGS__)
#define FLAG_SWITCH(name, what) FLAG(name, BOOL, .help = (what))
#define FLAG_NUMBER(name, kind, otherwise, least, most, what)                                      \
    FLAG(name, kind, .fallback = (otherwise), .min = (least), .max = (most), .help = (what))
#define FLAG_TEXT(name, otherwise, shown, what)                                                    \
    FLAG(name, STRING, .fallback = (otherwise), .placeholder = (shown), .help = (what))
#endif
