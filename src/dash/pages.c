/* SPDX-License-Identifier: Apache-2.0 */
/* The page: one document for every view, whose script looks at the address, and its assets, which
 * are in the binary. Then /api/session (who is this, what may I do) and /api/history. */
#include "dash/dash_internal.h"

#define ASSET(name)                                                                                \
    extern const unsigned char dash_##name[];                                                      \
    extern const size_t dash_##name##_len;
ASSET(index_html)
ASSET(dash_css)
ASSET(icon_svg)
ASSET(app_js)
ASSET(kit_js)
ASSET(chart_js)
ASSET(raft_js)
ASSET(topology_js)
ASSET(fleet_js)
ASSET(shards_js)
ASSET(needs_js)
ASSET(store_js)
ASSET(workers_js)

#define HTML   "text/html; charset=utf-8"
#define CSS    "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"

static const struct page {
    const char *path, *type;
    const unsigned char *content;
    const size_t *len;
} pages[] = {
    {"/", HTML, dash_index_html, &dash_index_html_len},
    {"/fleet", HTML, dash_index_html, &dash_index_html_len},
    {"/shards", HTML, dash_index_html, &dash_index_html_len},
    {"/needs", HTML, dash_index_html, &dash_index_html_len},
    {"/topology", HTML, dash_index_html, &dash_index_html_len},
    {"/workers", HTML, dash_index_html, &dash_index_html_len}, /* unless workers are served */
    {"/workers/", HTML, dash_index_html, &dash_index_html_len},
    {"/store", HTML, dash_index_html, &dash_index_html_len},
    {"/raft", HTML, dash_index_html, &dash_index_html_len},
    {"/assets/dash.css", CSS, dash_dash_css, &dash_dash_css_len},
    {"/assets/icon.svg", "image/svg+xml", dash_icon_svg, &dash_icon_svg_len},
    {"/assets/app.js", SCRIPT, dash_app_js, &dash_app_js_len},
    {"/assets/kit.js", SCRIPT, dash_kit_js, &dash_kit_js_len},
    {"/assets/chart.js", SCRIPT, dash_chart_js, &dash_chart_js_len},
    {"/assets/raft.js", SCRIPT, dash_raft_js, &dash_raft_js_len},
    {"/assets/topology.js", SCRIPT, dash_topology_js, &dash_topology_js_len},
    {"/assets/fleet.js", SCRIPT, dash_fleet_js, &dash_fleet_js_len},
    {"/assets/shards.js", SCRIPT, dash_shards_js, &dash_shards_js_len},
    {"/assets/needs.js", SCRIPT, dash_needs_js, &dash_needs_js_len},
    {"/assets/store.js", SCRIPT, dash_store_js, &dash_store_js_len},
    {"/assets/workers.js", SCRIPT, dash_workers_js, &dash_workers_js_len},
};

static void page_session(void *context, const struct http_request *request,
                         struct http_response *response)
{
    const struct dash *dash = context; /* what is read here never changes */
    const char *by = dash_admin_by(dash, request);
    struct ndjson json;

    response->content_type = "application/json";
    ndjson_begin(&json, &response->body, NDJSON_LINE);
    ndjson_c_string(&json, STR("node"), dash->node);
    ndjson_c_string(&json, STR("version"), dash->version);
    ndjson_c_string(&json, STR("commit"), dash->commit);
    ndjson_c_string(&json, STR("warning"), dash->warning[0] ? dash->warning : NULL);
    ndjson_bool(&json, STR("actions"), dash->token[0] != '\0');
    ndjson_c_string(&json, STR("read_only"), dash->token[0] ? NULL : dash->read_only);
    ndjson_bool(&json, STR("admin"), by != NULL);
    ndjson_c_string(&json, STR("admin_by"), by);
    response->err = ndjson_end(&json);
}

static void page_history(void *context, const struct http_request *, struct http_response *response)
{
    struct dash *dash = context;

    response->content_type = "application/json";
    pthread_mutex_lock(&dash->lock);
    response->err = history_write(dash->history, SAMPLE_MS, &response->body);
    pthread_mutex_unlock(&dash->lock);
}

static const struct {
    const char *path;
    unsigned methods;
    http_handler *handler;
} routes[] = {
    {"/api/session", HTTP_GET, page_session},
    {"/api/history", HTTP_GET, page_history},
    {"/api/keys", HTTP_GET, browse_page},
    {"/api/actions", HTTP_GET | HTTP_POST, actions_page},
};

enum err pages_open(struct dash *dash)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < ARRAY_LEN(pages) && !err; i++)
        err = http_publish(dash->http, pages[i].path, pages[i].type,
                           str_of(pages[i].content, *pages[i].len));
    for (size_t i = 0; i < ARRAY_LEN(routes) && !err; i++)
        err = http_route(dash->http, routes[i].path, routes[i].methods, routes[i].handler, dash);
    return err;
}

void pages_close(struct dash *dash)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) /* some never were, when opening failed */
        (void)http_unroute(dash->http, routes[i].path);
}
