/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `musterctl coord`: first the store, then the options of each operation. */
#include "common/option_texts.h"
#include "common/tables.h"
#include "common/tables_ctl.h"

#define COORD_OPTIONS                                                                              \
    OPTIONS_OUTPUT,                                                                                \
        OPTION("store", STRING, .placeholder = "URL", .example = "etcd://h1:2379,h2:2379,h3:2379", \
               .help = H_STORE),                                                                   \
        NUMBER("timeout", DURATION, "5s", 1, 600 * 1000ull, H_TIMEOUT),                            \
        OPTIONS_ROLE_TLS("client", "certificate to show to a server over TLS", H_TLS)
#define OPTION_OWNER                                                                               \
    FLAG("owner", STRING, .placeholder = "NAME", .example = "indexer-3", .help = H_OWNER)
#define OPTION_TTL(fallback_text, what)                                                            \
    FLAG_NUMBER("ttl", DURATION, (fallback_text), 0, DAY_MS, (what))
#define OPTION_LEASE(what)                                                                         \
    FLAG("lease", STRING, .placeholder = "FILE", .example = "/run/indexer.lease", .help = (what))
#define OPTION_LEASE_NEEDED                                                                        \
    OPTION("lease", STRING, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, .placeholder = "FILE",    \
           .example = "/run/indexer.lease", .help = H_LEASE)
#define OPTION_VALUE_FILE FLAG("value-file", STRING, .placeholder = "FILE", .help = H_VALUE_FILE)
#define OPTION_GROUP                                                                               \
    OPTION("group", STRING, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, .placeholder = "NAME",    \
           .example = "jobs/indexer", .help = "the group of slots")
#define OPTION_SLOTS FLAG_NUMBER("slots", U64, "1", 1, 1024, H_SLOTS)
#define OPTION_WAIT(fallback_text)                                                                 \
    FLAG_NUMBER("wait", DURATION, (fallback_text), 0, 30ull * DAY_MS, H_WAIT)
#define OPTION_TAKEOVER FLAG_SWITCH("takeover", H_TAKEOVER)

TABLE(coord, COORD_OPTIONS);
TABLE(coord_holders, OPTIONS_WATCH, COORD_OPTIONS);

TABLE(coord_create, OPTION_TTL("0", H_COORD_CREATE_TTL), OPTION_OWNER,
      OPTION_LEASE(H_COORD_CREATE_LEASE), OPTION_VALUE_FILE, COORD_OPTIONS);

TABLE(coord_cas, OPTION_TTL("0", H_COORD_CAS_TTL), OPTION_OWNER, OPTION_LEASE(H_COORD_CAS_LEASE),
      FLAG_SWITCH("drop-lease", H_DROP_LEASE), OPTION_VALUE_FILE, COORD_OPTIONS);

TABLE(coord_get, FLAG_SWITCH("stale", H_STALE), COORD_OPTIONS);

TABLE(coord_delete, FLAG_NUMBER("revision", U64, "0", 0, 0, H_REVISION),
      OPTION_LEASE("your claim, when the entry is leased"), FLAG_SWITCH("force", H_FORCE),
      COORD_OPTIONS);

TABLE(coord_acquire, OPTION_GROUP, OPTION_SLOTS,
      OPTION_TTL("30s", "the claim ends after this unless renewed"), OPTION_WAIT("0"), OPTION_OWNER,
      OPTION_TAKEOVER, FLAG("prefer", U64, .max = 1023, .help = H_PREFER),
      FLAG_NUMBER("cooldown", DURATION, "0", 0, 60 * 1000ull,
                  "a slot whose holder expired rests that long"),
      OPTION("lease", STRING, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, .placeholder = "FILE",
             .example = "/run/indexer.lease", .help = H_COORD_ACQUIRE_LEASE),
      OPTION_VALUE_FILE, COORD_OPTIONS);

TABLE(coord_lease, OPTION_LEASE_NEEDED, COORD_OPTIONS);

TABLE(coord_release, OPTION_LEASE_NEEDED, FLAG("key", STRING, .placeholder = "KEY", .help = H_KEY),
      COORD_OPTIONS);

TABLE(coord_resize, FLAG_NUMBER("revision", U64, "0", 0, 0, H_COORD_RESIZE_REVISION),
      COORD_OPTIONS);

TABLE(coord_watch, FLAG_SWITCH("key", H_COORD_WATCH_KEY),
      FLAG_NUMBER("count", U64, "0", 0, 0, H_COUNT), COORD_OPTIONS);

TABLE(coord_exec, OPTION_GROUP, OPTION_SLOTS, OPTION_TTL("15s", H_COORD_EXEC_COUNT),
      OPTION_WAIT("0"), FLAG("grace", DURATION, .fallback = "0", .help = H_GRACE), OPTION_OWNER,
      OPTION_TAKEOVER, COORD_OPTIONS);
