/* SPDX-License-Identifier: Apache-2.0 */
/* Which client may read and write which keys through etcd's API under TLS. Rules map a common name
 * or a URI of the certificate to key prefixes. Fleet administrators may do everything, and fleet
 * readers may read everything. A client that no rule names may do nothing. Without TLS every client
 * may do everything.
 *
 * A name of the scheme bigfleet or muster counts only if it is the certificate's only URI of that
 * scheme. */
#ifndef STORE_ETCD_ACCESS_ACCESS_H
#define STORE_ETCD_ACCESS_ACCESS_H
#include "base/note.h"
#include "io/tls.h"
#include "store/core/keys.h"

enum { ETCD_RULES_MAX = 64 };
struct etcd_rule {
    struct str name, prefix; /* parts of the parsed text; prefix "": every key */
    bool write;              /* includes read */
};
/* Parses "NAME=PREFIX:read" or "NAME=PREFIX:write". The name ends at the first '=', the prefix at
 * the last ':'. ERR_INVALID, with a note, also for bigfleet://admin and bigfleet://readonly: their
 * rights are fixed. */
enum err etcd_rule_parse(struct str text, struct etcd_rule *ret_rule, struct note *note);

enum etcd_act { ETCD_READ, ETCD_WRITE };
/* True if the client may read or write every key of the range. `identity` NULL: no TLS. */
bool etcd_allows(const struct etcd_rule *rules, size_t count, const struct tls_identity *identity,
                 struct key_range range, enum etcd_act act);
/* True if a rule names the client, which suffices for requests without keys. */
bool etcd_allows_any(const struct etcd_rule *rules, size_t count,
                     const struct tls_identity *identity);
#endif
