/* SPDX-License-Identifier: Apache-2.0 */
/* The options of musterctl's local commands, and the list of all option tables. */
#include "common/tables.h"
#include "common/help.h"
#include "common/option_texts.h"

/* -- musterctl: options of one call, so they are flags only -- */

#define OPTION_DIR  FLAG_TEXT("dir", "tls", "DIR", H_DIR)
#define OPTION_JSON FLAG_SWITCH("json", "print one JSON object a line instead of text")
#define OPTION_DAYS(otherwise, most)                                                               \
    FLAG_NUMBER("days", U64, (otherwise), 1, (most), "how long it is valid")
#define OPTION_COMMON_NAME                                                                         \
    FLAG_TEXT("common-name", "muster-dev-ca", "NAME", "how the authority calls itself")
#define OPTION_STRICT      FLAG_SWITCH("strict-permissions", H_STRICT_PERMISSIONS)
#define OPTION_ROLLOUT     FLAG_SWITCH("rollout", H_ROLLOUT)
#define OPTION_FORCE(what) FLAG_SWITCH("force", (what))
#define OPTION_NEW_KEY     FLAG_SWITCH("new-key", H_NEW_KEY)

TABLE(cert_ca, OPTION_DIR, OPTION_COMMON_NAME, OPTION_DAYS("3650", 36500), OPTION_ROLLOUT,
      OPTION_STRICT, OPTION_JSON);

TABLE(cert_rotate, OPTION_DIR, OPTION_COMMON_NAME, OPTION_DAYS("3650", 36500), OPTION_ROLLOUT,
      OPTION_STRICT, OPTION_JSON);

TABLE(cert_retire, OPTION_DIR, OPTION_FORCE(H_CERT_RETIRE_NEW_KEY), OPTION_STRICT, OPTION_JSON);

TABLE(cert_issue, OPTION_DIR, FLAG("id", STRING, .placeholder = "ID", .example = "1", .help = H_ID),
      FLAG("names", LIST, .placeholder = "NAME,...", .example = "node1.example,10.0.0.7",
           .help = H_NAMES),
      OPTION_DAYS("90", 36500),
      FLAG("out", STRING, .placeholder = "PATH", .example = "tls/replica-1", .help = H_OUT),
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

#define OPTION_YES FLAG_SWITCH("yes", H_YES)
TABLE(force_config, OPTION_YES, FLAG("address", ADDRESS, .help = H_ADDRESS));
TABLE(rejoin, OPTION_YES);
TABLE(set_epoch,
      FLAG_TEXT("data-dir", "shard-data", "DIR", "the shard's directory, which must be there"));

TABLE(plan, FLAG("inventory", STRING, .help = H_INVENTORY), FLAG("needs", STRING, .help = H_NEEDS),
      FLAG_SWITCH("generate", "make a fleet up instead"),
      FLAG_NUMBER("machines", U64, "1000", 0, 8 << 20, "of a generated fleet"),
      FLAG_NUMBER("clusters", U64, "10", 1, 100000, "of a generated fleet"),
      FLAG_NUMBER("seed", U64, "1", 0, 0, "the same seed makes the same fleet"),
      FLAG_SWITCH("adversarial", "no two generated machines alike"),
      FLAG("dump", STRING, .help = H_DUMP),
      FLAG_NUMBER("limit", U64, "40", 0, 0, "lines of each list; 0 for all"),
      FLAG_SWITCH("all", H_ALL), FLAG_SWITCH("transcript", H_TRANSCRIPT));

#define ADDRESS_OF(name) &name##_table,
const struct option_table *const all_tables[] = {OPTION_TABLES(ADDRESS_OF) NULL};
