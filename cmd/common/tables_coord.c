/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `musterctl coord`: the store, then the options of each operation. */
#include "common/tables.h"
#include "common/tables_ctl.h"

#define COORD_OPTIONS                                                                              \
    OPTION_OUTPUT,                                                                                 \
        OPTION("store", STRING, .placeholder = "URL", .example = "etcd://h1:2379,h2:2379,h3:2379", \
               .help = "where claims live: file:///dir, etcd://hosts, k8s://namespace, "           \
                       "nats://host/bucket, mem: (this process only); without it, a directory of " \
                       "this user on this host"),                                                  \
        NUMBER("timeout", DURATION, "5s", 1, 600 * 1000ull,                                        \
               "how long one call may take; waiting for a slot has --wait"),                       \
        OPTIONS_ROLE_TLS("client", "certificate to show to a server over TLS",                     \
                         "the authority the server's certificate comes from")
#define OPTION_OWNER                                                                               \
    FLAG("owner", STRING, .placeholder = "NAME", .example = "indexer-3",                           \
         .help = "who is shown as the holder, 1-128 bytes of A-Z a-z 0-9 . _ : @ / -; without "    \
                 "it, user@host:pid")
#define OPTION_TTL(fallback_text, what)                                                            \
    FLAG_NUMBER("ttl", DURATION, (fallback_text), 0, DAY_MS, (what))
#define OPTION_LEASE(what)                                                                         \
    FLAG("lease", STRING, .placeholder = "FILE", .example = "/run/indexer.lease", .help = (what))
#define OPTION_LEASE_NEEDED                                                                        \
    OPTION("lease", STRING, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, .placeholder = "FILE",    \
           .example = "/run/indexer.lease",                                                        \
           .help = "the handle that `create` or `acquire` wrote; as powerful as the claim")
#define OPTION_VALUE_FILE                                                                          \
    FLAG("value-file", STRING, .placeholder = "FILE",                                              \
         .help = "take the value from a file; - is standard input")
#define OPTION_GROUP                                                                               \
    OPTION("group", STRING, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, .placeholder = "NAME",    \
           .example = "jobs/indexer", .help = "the group of slots")
#define OPTION_SLOTS                                                                               \
    FLAG_NUMBER("slots", U64, "1", 1, 1024, "how many may hold at once; fixed by the first holder")
#define OPTION_WAIT(fallback_text)                                                                 \
    FLAG_NUMBER("wait", DURATION, (fallback_text), 0, 30ull * DAY_MS,                              \
                "how long to wait for a slot; 0: answer at once")
#define OPTION_TAKEOVER                                                                            \
    FLAG_SWITCH("takeover", "if --owner holds a slot already, take that one over: for a "          \
                            "restarted program that must not wait for its own TTL")

TABLE(coord, COORD_OPTIONS);
TABLE(coord_holders, OPTIONS_WATCH, COORD_OPTIONS);

TABLE(coord_create, OPTION_TTL("0", "the entry ends after this unless renewed; 0: it stays"),
      OPTION_OWNER,
      OPTION_LEASE("with --ttl: write the handle here, so that it can be renewed and released"),
      OPTION_VALUE_FILE, COORD_OPTIONS);

TABLE(coord_cas, OPTION_TTL("0", "with revision 0: make it a leased entry that ends after this"),
      OPTION_OWNER,
      OPTION_LEASE("your claim, when the entry is leased; with --ttl: where the handle goes"),
      FLAG_SWITCH("drop-lease", "with --lease: the entry stays for good, the claim ends"),
      OPTION_VALUE_FILE, COORD_OPTIONS);

TABLE(coord_get, FLAG_SWITCH("stale", "any replica may answer, possibly with the past"),
      COORD_OPTIONS);

TABLE(coord_delete,
      FLAG_NUMBER("revision", U64, "0", 0, 0,
                  "only if it is at this revision; 0: whatever is there"),
      OPTION_LEASE("your claim, when the entry is leased"),
      FLAG_SWITCH("force", "even if another holds it; its holder is notified that it is revoked"),
      COORD_OPTIONS);

TABLE(coord_acquire, OPTION_GROUP, OPTION_SLOTS,
      OPTION_TTL("30s", "the claim ends after this unless renewed"), OPTION_WAIT("0"), OPTION_OWNER,
      OPTION_TAKEOVER,
      FLAG("prefer", U64, .max = 1023, .help = "this slot if it is free, else the lowest free one"),
      FLAG_NUMBER("cooldown", DURATION, "0", 0, 60 * 1000ull,
                  "a slot whose holder expired rests that long"),
      OPTION("lease", STRING, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, .placeholder = "FILE",
             .example = "/run/indexer.lease",
             .help = "write the handle here: renew and release take it"),
      OPTION_VALUE_FILE, COORD_OPTIONS);

TABLE(coord_lease, OPTION_LEASE_NEEDED, COORD_OPTIONS);

TABLE(coord_release, OPTION_LEASE_NEEDED,
      FLAG("key", STRING, .placeholder = "KEY",
           .help = "only this key of the lease; the others live on"),
      COORD_OPTIONS);

TABLE(coord_resize,
      FLAG_NUMBER("revision", U64, "0", 0, 0,
                  "only if the group is at this revision; 0: as it is now"),
      COORD_OPTIONS);

TABLE(
    coord_watch,
    FLAG_SWITCH("key",
                "SCOPE is one key; without it, a bucket or a group: its own keys, not deeper ones"),
    FLAG_NUMBER("count", U64, "0", 0, 0,
                "end after so many changes (what is there at the start is not counted); 0: never"),
    COORD_OPTIONS);

TABLE(
    coord_exec, OPTION_GROUP, OPTION_SLOTS,
    OPTION_TTL("15s", "how long after a crash of this host the slot stays taken"), OPTION_WAIT("0"),
    FLAG("grace", DURATION, .fallback = "0",
         .help = "between TERM and KILL when the claim is about to be lost; 0: a third of the TTL"),
    OPTION_OWNER, OPTION_TAKEOVER, COORD_OPTIONS);
