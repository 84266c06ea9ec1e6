/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes and the pages that are published whole.
 *
 * A published page is one response object of the library, made by the publishing thread. The table
 * holds one reference and each answer under way another, so replacing a page neither copies it per
 * request nor disturbs a reader that has begun. */
#include "io/http_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct route *find_exact(struct http_server *server, struct str path)
{
    for (size_t i = 0; i < server->route_count; i++) {
        struct route *route = &server->routes[i];
        if (route->kind != ROUTE_NONE && str_equal(str_of(route->path, route->path_len), path))
            return route;
    }
    return NULL;
}

/* A place given up earlier, or the next one; NULL when all are taken. Places are never moved: the
 * HTTP thread walks channels by number. */
static struct route *free_place(struct http_server *server)
{
    for (size_t i = 0; i < server->route_count; i++)
        if (server->routes[i].kind == ROUTE_NONE) return &server->routes[i];
    if (server->route_count == HTTP_ROUTES_MAX) return NULL;
    return &server->routes[server->route_count++];
}

enum err http_route_add(struct http_server *server, const char *path, struct route **ret_route)
{
    struct str text = str_from(path);
    struct route *route;
    char *copy;

    if (!http_path_is_safe(text) || text.len > HTTP_PATH_MAX) return ERR_INVALID;
    if (find_exact(server, text)) return ERR_EXISTS;
    copy = str_dup(text);
    if (!copy) return ERR_NOMEM;
    route = free_place(server);
    if (!route) {
        free(copy);
        return ERR_FULL;
    }
    *route = (struct route){.path = copy, .path_len = text.len};
    *ret_route = route;
    return ERR_OK;
}

const struct route *http_route_match(const struct http_server *server, struct str path)
{
    const struct route *best = NULL;
    for (size_t i = 0; i < server->route_count; i++) {
        const struct route *route = &server->routes[i];
        struct str own = str_of(route->path, route->path_len);
        if (route->kind == ROUTE_NONE) continue;
        bool below = route->kind == ROUTE_HANDLER && own.at[own.len - 1] == '/';
        if (best && own.len <= best->path_len) continue;
        if (below ? str_starts(path, own) : str_equal(path, own)) best = route;
    }
    return best;
}

void http_routes_deinit(struct http_server *server)
{
    for (size_t i = 0; i < server->route_count; i++) {
        struct route *route = &server->routes[i];
        if (route->page) MHD_destroy_response(route->page);
        http_channel_free(route->channel);
        free(route->path);
    }
    server->route_count = 0;
}

enum err http_route(struct http_server *server, const char *path, uint32_t methods,
                    http_handler *handler, void *context)
{
    struct route *route;
    enum err err;

    if (!handler || methods == 0 || (methods & ~(uint32_t)(HTTP_GET | HTTP_POST | HTTP_HEAD)))
        return ERR_INVALID;
    http_lock(server);
    err = http_route_add(server, path, &route);
    if (!err) {
        route->kind = ROUTE_HANDLER;
        route->methods = methods;
        route->handler = handler;
        route->context = context;
    }
    http_unlock(server);
    return err;
}

enum err http_unroute(struct http_server *server, const char *path)
{
    struct MHD_Response *page = NULL;
    struct route *route;

    assert(!server->thread_runs || !pthread_equal(pthread_self(), server->thread));
    http_lock(server);
    route = find_exact(server, str_from(path));
    if (!route || route->kind == ROUTE_CHANNEL) {
        http_unlock(server);
        return ERR_NOT_FOUND;
    }
    page = route->page;
    free(route->path);
    *route = (struct route){.kind = ROUTE_NONE};
    while (server->in_handler) pthread_cond_wait(&server->handler_ended, &server->lock);
    http_unlock(server);
    if (page) MHD_destroy_response(page);
    return ERR_OK;
}

/* No script, frame or font from anywhere else; the dashboard's own files come from this server. */
static const char content_policy[] = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'";

bool http_standard_headers(struct MHD_Response *response, const char *content_type,
                           const char *cache_control)
{
    const char *headers[][2] = {
        {MHD_HTTP_HEADER_CONTENT_TYPE, content_type},
        {MHD_HTTP_HEADER_CACHE_CONTROL, cache_control},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Content-Security-Policy", content_policy},
    };
    for (size_t i = 0; i < ARRAY_LEN(headers); i++)
        if (MHD_add_response_header(response, headers[i][0], headers[i][1]) != MHD_YES)
            return false;
    return true;
}

/* Equal pages have equal tags, in this process and the next; 128 bits, so that two pages that
 * differ do not meet by chance. */
static void etag_of(const char *content_type, struct str content, char etag[HTTP_ETAG_CAP])
{
    uint64_t seed = str_hash(str_from(content_type), 1);
    snprintf(etag, HTTP_ETAG_CAP, "\"%016" PRIx64 "%016" PRIx64 "\"", str_hash(content, seed),
             str_hash(content, ~seed));
}

bool http_etag_matches(struct str if_none_match, struct str etag)
{
    struct str rest = if_none_match, one;
    if (etag.len == 0 || if_none_match.len == 0) return false;
    while (str_split(&rest, ',', &one)) {
        one = str_trim(one);
        if (str_equal(one, STR("*"))) return true;
        if (str_starts(one, STR("W/"))) one = str_tail(one, 2); /* GET compares weakly */
        if (str_equal(one, etag)) return true;
    }
    return false;
}

static enum err page_make(const char *content_type, struct str content, const char *etag,
                          struct MHD_Response **ret_page)
{
    char *copy = malloc(max_size(content.len, 1));
    struct MHD_Response *page;

    if (!copy) return ERR_NOMEM;
    if (content.len > 0) memcpy(copy, content.at, content.len);
    page = MHD_create_response_from_buffer(content.len, copy, MHD_RESPMEM_MUST_FREE);
    if (!page) {
        free(copy);
        return ERR_NOMEM;
    }
    if (!http_standard_headers(page, content_type, "no-cache") ||
        MHD_add_response_header(page, MHD_HTTP_HEADER_ETAG, etag) != MHD_YES) {
        MHD_destroy_response(page);
        return ERR_NOMEM;
    }
    *ret_page = page;
    return ERR_OK;
}

enum err http_publish(struct http_server *server, const char *path, const char *content_type,
                      struct str content)
{
    return http_publish_as(server, path, 200, content_type, content);
}

enum err http_publish_as(struct http_server *server, const char *path, int status,
                         const char *content_type, struct str content)
{
    char etag[HTTP_ETAG_CAP];
    struct MHD_Response *page, *old = NULL;
    struct route *route;
    enum err err;

    if (!content_type || !content_type[0]) return ERR_INVALID;
    if (content.len > server->response_max) return ERR_TOO_LARGE;
    etag_of(content_type, content, etag);
    err = page_make(content_type, content, etag, &page);
    if (err) return err;

    http_lock(server);
    route = find_exact(server, str_from(path));
    if (!route) {
        err = http_route_add(server, path, &route);
        if (!err) {
            route->kind = ROUTE_PAGE;
            route->methods = HTTP_GET;
        }
    } else if (route->kind != ROUTE_PAGE) {
        err = ERR_EXISTS;
    }
    if (!err) {
        old = route->page;
        route->page = page;
        route->status = status;
        memcpy(route->etag, etag, sizeof etag);
    } else {
        old = page;
    }
    http_unlock(server);
    if (old) MHD_destroy_response(old);
    return err;
}
