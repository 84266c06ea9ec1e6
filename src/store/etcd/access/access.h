/* SPDX-License-Identifier: Apache-2.0 */
/* Who may read and write which keys by etcd's API, under TLS: a certificate's common name or one of
 * its URIs, mapped to prefixes. Administrators of the fleet may everything and its readers may read
 * everything; whom nothing names may nothing. Without TLS there is nobody to judge.
 *
 * A name of the schemes bigfleet and muster counts only as the certificate's one URI of its scheme,
 * never as a common name. The server refuses such names from the store's own authority. */
#ifndef STORE_ETCD_ACCESS_ACCESS_H
#define STORE_ETCD_ACCESS_ACCESS_H
#include "base/note.h"
#include "io/tls.h"
#include "store/core/keys.h"

enum { ETCD_RULES_MAX = 64 };
struct etcd_rule {
    struct str name, prefix; /* views of what was parsed; prefix "": every key */
    bool write;              /* and read */
};
/* "NAME=PREFIX:read" or "NAME=PREFIX:write". The name ends at the first '=', the prefix at the last
 * ':'. ERR_INVALID with a note, also for bigfleet://admin and bigfleet://readonly: their rights are
 * fixed. */
enum err etcd_rule_parse(struct str text, struct etcd_rule *ret_rule, struct note *note);

enum etcd_act { ETCD_READ, ETCD_WRITE };
/* Every key of the range, there or not, is his to read, or to write. NULL identity: no TLS. */
bool etcd_allows(const struct etcd_rule *rules, size_t count, const struct tls_identity *identity,
                 struct key_range range, enum etcd_act act);
/* He is named at all: what has no keys, a new lease, is his to ask for. */
bool etcd_allows_any(const struct etcd_rule *rules, size_t count,
                     const struct tls_identity *identity);
#endif
