/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a peer's identity against the access rules. Pure. */
#include "rpc/access.h"

#include "base/ulid.h"

#define SHARD_PREFIX   STR("bigfleet://shard/")
#define CLUSTER_PREFIX STR("bigfleet://cluster/")
#define REPLICA_PREFIX STR("muster://replica/")
#define WORKER_PREFIX  STR("worker-")

const char *rpc_access_text(struct rpc_access access)
{
    static const char *const texts[ACCESS_KIND_COUNT] = {
        [ACCESS_UNSET] = "nobody",
        [ACCESS_ANYONE] = "anyone",
        [ACCESS_ADMIN] = "bigfleet://admin",
        [ACCESS_READ] = "bigfleet://readonly or bigfleet://admin",
        [ACCESS_REPLICA] = "muster://replica/<id>",
        [ACCESS_SHARD] = "bigfleet://shard/<id>",
        [ACCESS_CLUSTER] = "bigfleet://cluster/<id>",
        [ACCESS_WORKER] = "worker-<ULID> as CN or DNS name",
        [ACCESS_STORE] = "a common name or one URI, mapped to key prefixes",
    };

    return (unsigned)access.kind < ACCESS_KIND_COUNT ? texts[access.kind] : texts[ACCESS_UNSET];
}

/* -- identities -- */

/* "": the identity has no URI of the scheme, or more than one */
static struct str uri_of(const struct tls_identity *identity, struct str scheme)
{
    struct str uri;

    return tls_identity_uri(identity, scheme, &uri) ? STR_EMPTY : uri;
}

struct str rpc_access_name(const struct tls_identity *identity)
{
    struct str uri = identity ? uri_of(identity, STR("bigfleet")) : STR_EMPTY;

    return uri.len || !identity ? uri : identity->common_name;
}

static bool has_id(struct str uri, struct str prefix)
{
    return str_starts(uri, prefix) && uri.len > prefix.len;
}

static bool is_worker_name(struct str name)
{
    struct ulid ulid;

    return str_starts(name, WORKER_PREFIX) &&
           !ulid_parse(str_tail(name, WORKER_PREFIX.len), &ulid, NULL);
}

static bool is_worker(const struct tls_identity *identity)
{
    if (is_worker_name(identity->common_name)) return true;
    for (size_t i = 0; i < identity->dns_count; i++)
        if (is_worker_name(identity->dns_names[i])) return true;
    return false;
}

static struct str shown(const struct tls_identity *identity)
{
    if (identity->uri_count == 1) return identity->uris[0];
    if (identity->uri_count > 1) return STR("several URIs");
    if (identity->common_name.len > 0) return identity->common_name;
    return STR("no identity");
}

static enum err deny(const struct tls_identity *identity, const char *needed, struct note *note)
{
    struct str name = shown(identity);

    return note_fail(note, ERR_DENIED, "%.*s may not do this: %s is needed",
                     (int)min_size(name.len, 128), name.at, needed);
}

/* -- the check -- */

static bool passes(enum rpc_access_kind kind, const struct tls_identity *identity)
{
    struct str fleet = uri_of(identity, STR("bigfleet"));

    switch (kind) {
    case ACCESS_ANYONE: return true;
    case ACCESS_ADMIN: return str_equal(fleet, STR("bigfleet://admin"));
    case ACCESS_READ:
        return str_equal(fleet, STR("bigfleet://readonly")) ||
               str_equal(fleet, STR("bigfleet://admin"));
    case ACCESS_REPLICA: return has_id(uri_of(identity, STR("muster")), REPLICA_PREFIX);
    case ACCESS_SHARD: return has_id(fleet, SHARD_PREFIX);
    case ACCESS_CLUSTER: return has_id(fleet, CLUSTER_PREFIX);
    case ACCESS_WORKER: return is_worker(identity);
    case ACCESS_STORE: return identity->common_name.len > 0 || identity->uri_count == 1;
    case ACCESS_UNSET:
    case ACCESS_KIND_COUNT: return false;
    }
    return false;
}

enum err rpc_access_check(struct rpc_access access, const struct tls_identity *identity,
                          struct note *note)
{
    if (access.kind == ACCESS_UNSET || access.kind >= ACCESS_KIND_COUNT) {
        note_set(note, "no access rule");
        return ERR_DENIED; /* also without TLS: a method whose rule is unset refuses every caller */
    }
    if (!identity || passes(access.kind, identity)) return ERR_OK;
    return deny(identity, rpc_access_text(access), note);
}

enum err rpc_access_is(const struct tls_identity *identity, struct str prefix, struct str id,
                       struct note *note)
{
    struct str scheme = str_of(prefix.at, str_find(prefix, ':')), uri;

    if (!identity) return ERR_OK;
    uri = uri_of(identity, scheme);
    if (has_id(uri, prefix) && str_equal(str_tail(uri, prefix.len), id)) return ERR_OK;
    return note_fail(note, ERR_DENIED, "%.*s may not do this: %.*s%.*s is needed",
                     (int)min_size(shown(identity).len, 96), shown(identity).at,
                     (int)min_size(prefix.len, 64), prefix.at, (int)min_size(id.len, 96), id.at);
}
