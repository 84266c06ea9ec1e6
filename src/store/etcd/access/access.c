/* SPDX-License-Identifier: Apache-2.0 */
/* Parses permission rules, and matches them with certificates. Pure. What no rule allows is
 * refused. */
#include "store/etcd/access/access.h"

#define ADMIN    STR("bigfleet://admin")
#define READONLY STR("bigfleet://readonly")

enum err etcd_rule_parse(struct str text, struct etcd_rule *ret_rule, struct note *note)
{
    size_t name_len = str_find(text, '='), colon = text.len;
    struct str word;

    while (colon > name_len && text.at[colon - 1] != ':') colon--;
    if (name_len == 0 || name_len == text.len || colon == name_len)
        return note_fail(note, ERR_INVALID, "%.*s: NAME=PREFIX:read or NAME=PREFIX:write",
                         (int)min_size(text.len, 128), text.at);
    if (str_equal(str_of(text.at, name_len), ADMIN) ||
        str_equal(str_of(text.at, name_len), READONLY))
        return note_fail(note, ERR_INVALID, "%.*s: its rights are fixed and need no rule",
                         (int)name_len, text.at);
    word = str_tail(text, colon);
    *ret_rule = (struct etcd_rule){
        .name = str_of(text.at, name_len),
        .prefix = str_of(text.at + name_len + 1, colon - name_len - 2),
        .write = str_equal(word, STR("write")),
    };
    if (ret_rule->write || str_equal(word, STR("read"))) return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "%.*s: a prefix is given to read or to write, not to \"%.*s\"",
                     (int)min_size(ret_rule->name.len, 128), ret_rule->name.at,
                     (int)min_size(word.len, 32), word.at);
}

/* Only the fleet's certificate authority issues such a name as a URI. As a common name it proves
 * nothing, because any authority may sign a common name. */
static bool is_fleet_name(struct str name)
{
    return str_starts(name, STR("bigfleet://")) || str_starts(name, STR("muster://"));
}

static bool is_named(struct str name, const struct tls_identity *identity)
{
    struct str uri;

    if (is_fleet_name(name))
        return !tls_identity_uri(identity, str_of(name.at, str_find(name, ':')), &uri) &&
               str_equal(name, uri);
    if (identity->common_name.len && str_equal(name, identity->common_name)) return true;
    for (size_t i = 0; i < identity->uri_count; i++)
        if (str_equal(name, identity->uris[i])) return true;
    return false;
}

static bool covers(struct str prefix, struct key_range range)
{
    if (prefix.len == 0) return true;
    if (!str_starts(range.from, prefix)) return false;
    if (key_range_is_one(range)) return true;
    if (key_range_is_open(range)) return false;
    /* a range that ends before its start contains no key */
    return str_compare(range.end, range.from) <= 0 || str_starts(range.end, prefix) ||
           key_range_is_prefix((struct key_range){prefix, range.end});
}

bool etcd_allows(const struct etcd_rule *rules, size_t count, const struct tls_identity *identity,
                 struct key_range range, enum etcd_act act)
{
    if (!identity || is_named(ADMIN, identity)) return true;
    if (act == ETCD_READ && is_named(READONLY, identity)) return true;
    for (size_t i = 0; i < count; i++)
        if ((rules[i].write || act == ETCD_READ) && is_named(rules[i].name, identity) &&
            covers(rules[i].prefix, range))
            return true;
    return false;
}

bool etcd_allows_any(const struct etcd_rule *rules, size_t count,
                     const struct tls_identity *identity)
{
    if (!identity || is_named(ADMIN, identity)) return true;
    for (size_t i = 0; i < count; i++)
        if (is_named(rules[i].name, identity)) return true;
    return false;
}
