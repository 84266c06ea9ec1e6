/* SPDX-License-Identifier: Apache-2.0 */
/* The page: one document for all views, and its assets. The page's script selects the view by the
 * URL. Also serves /api/session (identity and rights) and /api/history. */
#include "dash/dash_internal.h"

#define HTML   "text/html; charset=utf-8"
#define CSS    "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
#define ASSETS(X)                                                                                  \
    X("/assets/dash.css", CSS, dash_css)                                                           \
    X("/assets/icon.svg", "image/svg+xml", icon_svg)                                               \
    X("/assets/app.js", SCRIPT, app_js)                                                            \
    X("/assets/kit.js", SCRIPT, kit_js)                                                            \
    X("/assets/chart.js", SCRIPT, chart_js)                                                        \
    X("/assets/raft.js", SCRIPT, raft_js)                                                          \
    X("/assets/topology.js", SCRIPT, topology_js)                                                  \
    X("/assets/fleet.js", SCRIPT, fleet_js)                                                        \
    X("/assets/shards.js", SCRIPT, shards_js)                                                      \
    X("/assets/needs.js", SCRIPT, needs_js)                                                        \
    X("/assets/store.js", SCRIPT, store_js)                                                        \
    X("/assets/workers.js", SCRIPT, workers_js)
#define X(path, type, name)                                                                        \
    extern const unsigned char dash_##name[];                                                      \
    extern const size_t dash_##name##_len;
ASSETS(X)
X("/", HTML, index_html)
#undef X

static const struct asset {
    const char *path, *type;
    const unsigned char *content;
    const size_t *len;
} assets[] = {
#define X(path, type, name) {path, type, dash_##name, &dash_##name##_len},
    ASSETS(X)
#undef X
};
/* All serve index.html. "/workers" is left out if the process serves workers itself. */
static const char *const views[] = {"/",        "/fleet",    "/shards", "/needs", "/topology",
                                    "/workers", "/workers/", "/store",  "/raft"};

static void page_session(void *context, const struct http_request *request,
                         struct http_response *response)
{
    const struct dash *dash = context; /* only constant fields are read */
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

    for (size_t i = 0; i < ARRAY_LEN(views) && !err; i++)
        err =
            http_publish(dash->http, views[i], HTML, str_of(dash_index_html, dash_index_html_len));
    for (size_t i = 0; i < ARRAY_LEN(assets) && !err; i++)
        err = http_publish(dash->http, assets[i].path, assets[i].type,
                           str_of(assets[i].content, *assets[i].len));
    for (size_t i = 0; i < ARRAY_LEN(routes) && !err; i++)
        err = http_route(dash->http, routes[i].path, routes[i].methods, routes[i].handler, dash);
    return err;
}

void pages_close(struct dash *dash)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) /* not all exist if dash_open() failed */
        (void)http_unroute(dash->http, routes[i].path);
}
