/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the tools, and the list of all tables. */
#include "common/tables.h"

/* -- musterctl: these say something about one call, so they are flags only -- */

#define OPTION_DIR                                                                                 \
    FLAG("dir", STRING, .fallback = "tls", .placeholder = "DIR",                                   \
         .help = "the directory of the authority: ca.pem and ca.key.pem")
#define OPTION_JSON FLAG("json", BOOL, .help = "print one JSON object a line instead of text")
#define OPTION_DAYS(otherwise, most)                                                               \
    FLAG("days", U64, .fallback = (otherwise), .min = 1, .max = (most),                            \
         .help = "how long it is valid")
#define OPTION_COMMON_NAME                                                                         \
    FLAG("common-name", STRING, .fallback = "muster-dev-ca", .placeholder = "NAME",                \
         .help = "how the authority calls itself")
#define OPTION_STRICT                                                                              \
    FLAG("strict-permissions", BOOL,                                                               \
         .help = "refuse a key that others may read, instead of warning about it")
#define OPTION_ROLLOUT                                                                             \
    FLAG("rollout", BOOL,                                                                          \
         .help = "make the development authority that rollout workers expect: rollout-dev-ca, "    \
                 "valid from 1975 to 4096; --days and --common-name do not matter then")
#define OPTION_FORCE(what) FLAG("force", BOOL, .help = (what))
#define OPTION_NEW_KEY                                                                             \
    FLAG("new-key", BOOL, .help = "with a renewal, make a fresh key too; otherwise the key stays")

TABLE(cert_ca, OPTION_DIR, OPTION_COMMON_NAME, OPTION_DAYS("3650", 36500), OPTION_ROLLOUT,
      OPTION_STRICT, OPTION_JSON);

TABLE(cert_rotate, OPTION_DIR, OPTION_COMMON_NAME, OPTION_DAYS("3650", 36500), OPTION_ROLLOUT,
      OPTION_STRICT, OPTION_JSON);

TABLE(cert_retire, OPTION_DIR,
      OPTION_FORCE("drop the old roots though a certificate here is still signed by one"),
      OPTION_STRICT, OPTION_JSON);

TABLE(cert_issue, OPTION_DIR,
      FLAG("id", STRING, .placeholder = "ID", .example = "1",
           .help = "which one: the replica's, shard's, cluster's, provider's, worker's or store "
                   "client's id"),
      FLAG("names", LIST, .placeholder = "NAME,...", .example = "node1.example,10.0.0.7",
           .help = "host names and addresses it is served under; without it localhost, 127.0.0.1 "
                   "and ::1 for what is a server"),
      OPTION_DAYS("90", 36500),
      FLAG("out", STRING, .placeholder = "PATH", .example = "tls/replica-1",
           .help = "where it goes: PATH.pem and PATH.key.pem, whether or not PATH ends in .pem. "
                   "Without it, DIR/KIND-ID or DIR/KIND"),
      OPTION_FORCE("renew it though it is still good"), OPTION_NEW_KEY, OPTION_JSON);

TABLE(cert_renew, OPTION_DIR, OPTION_FORCE("renew it though it is still good"), OPTION_NEW_KEY,
      OPTION_JSON);

TABLE(cert_show, OPTION_JSON);

#define OPTION_ROLE                                                                                \
    FLAG("role", ENUM, .choices = role_names, .fallback = "dev",                                   \
         .help = "the command of muster the file is for")

const char *const role_names[] = {"dev",      "coordinator", "shard", "operator",
                                  "provider", "worker",      NULL};
const struct role *const roles[] = {&dev_role,      &coordinator_role, &shard_role, &operator_role,
                                    &provider_role, &worker_role,      NULL};
static_assert(ARRAY_LEN(role_names) == ARRAY_LEN(roles), "a role for each name");

TABLE(config_check, OPTION_ROLE);
TABLE(config_reference, OPTION_ROLE);

#define OPTION_YES                                                                                 \
    FLAG("yes", BOOL, .help = "do it; without this it is only said what would be done")
TABLE(force_config, OPTION_YES,
      FLAG("address", ADDRESS,
           .help = "its address in the new configuration; without it, as it was"));
TABLE(rejoin, OPTION_YES);
TABLE(set_epoch, FLAG("data-dir", STRING, .fallback = "shard-data", .placeholder = "DIR",
                      .help = "the shard's directory, which must be there"));

TABLE(plan,
      FLAG("inventory", STRING,
           .help = "the machines: a file of JSON, or of one machine a line (*.ndjson)"),
      FLAG("needs", STRING,
           .help = "the demand: a file as above; with --generate, how many rows (a tenth of the "
                   "machines)"),
      FLAG("generate", BOOL, .help = "make a fleet up instead"),
      FLAG("machines", U64, .fallback = "1000", .max = 8 << 20, .help = "of a generated fleet"),
      FLAG("clusters", U64, .fallback = "10", .min = 1, .max = 100000,
           .help = "of a generated fleet"),
      FLAG("seed", U64, .fallback = "1", .help = "the same seed makes the same fleet"),
      FLAG("adversarial", BOOL, .help = "no two generated machines alike"),
      FLAG("dump", STRING,
           .help = "write what was generated to DUMP-inventory.ndjson and DUMP-needs.ndjson"),
      FLAG("limit", U64, .fallback = "40", .help = "lines of each list; 0 for all"),
      FLAG("all", BOOL, .help = "tell of every need, not only of those that lack something"),
      FLAG("transcript", BOOL,
           .help = "every field of the decision, one line each, for comparing"));

#define ADDRESS_OF(name) &name##_table,
const struct option_table *const all_tables[] = {OPTION_TABLES(ADDRESS_OF) NULL};
