/* SPDX-License-Identifier: Apache-2.0 */
/* What probes ask by plain HTTP: /health and /version, as etcd answers them. */
#include <stdio.h>

#include "store/etcd/internal.h"

const char *etcd_version(const struct etcd_api *api)
{
    return api->options.version ? api->options.version : ETCD_VERSION;
}

bool etcd_page(void *owner, struct str path, struct rpc_page *page)
{
    const struct etcd_api *api = owner;
    struct str version = str_from(etcd_version(api)), rest = version, major, minor;
    bool healthy = etcd_leader_known(api) && !store_sizes(api_store(api)).no_space;
    int len;

    page->type = "application/json";
    if (str_equal(path, STR("/health"))) {
        page->status = healthy ? 200 : 503;
        len = snprintf(page->body, sizeof page->body, "{\"health\":\"%s\",\"reason\":\"%s\"}",
                       healthy ? "true" : "false",
                       healthy                  ? ""
                       : etcd_leader_known(api) ? "ALARM NOSPACE"
                                                : "RAFT NO LEADER");
    } else if (str_equal(path, STR("/version")) && str_split(&rest, '.', &major) &&
               str_split(&rest, '.', &minor)) {
        len = snprintf(page->body, sizeof page->body,
                       "{\"etcdserver\":\"%.*s\",\"etcdcluster\":\"%.*s.%.*s.0\"}",
                       STR_ARG(version), STR_ARG(major), STR_ARG(minor));
    } else {
        return false;
    }
    page->len = (size_t)len;
    return true;
}
