/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes, and published pages.
 *
 * A page is one block of memory. The table and each response in progress hold a reference, so that
 * a request copies nothing. The server's lock protects the table. */
#include "io/http_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct route *http_route_find(struct http_server *server, struct str path)
{
    for (size_t i = 0; i < server->route_count; i++) {
        struct route *route = &server->routes[i];
        if (route->kind != ROUTE_NONE && str_equal(str_of(route->path, route->path_len), path))
            return route;
    }
    return NULL;
}

/* NULL if the table is full. Entries never move, because the HTTP thread accesses channels by
 * index. */
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
    if (http_route_find(server, text)) return ERR_EXISTS;
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

void http_routes_deinit(struct http_server *server)
{
    for (size_t i = 0; i < server->route_count; i++) {
        struct route *route = &server->routes[i];
        http_page_unref(route->page);
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

    if (!handler || methods == 0 || (methods & ~(uint32_t)(HTTP_GET | HTTP_POST)))
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
    struct http_page *page;
    struct route *route;

    assert(!server->thread_runs || !pthread_equal(pthread_self(), server->thread));
    http_lock(server);
    route = http_route_find(server, str_from(path));
    if (!route || route->kind == ROUTE_CHANNEL) {
        http_unlock(server);
        return ERR_NOT_FOUND;
    }
    page = route->page;
    free(route->path);
    *route = (struct route){.kind = ROUTE_NONE};
    while (server->in_handler) pthread_cond_wait(&server->handler_ended, &server->lock);
    http_unlock(server);
    http_page_unref(page);
    return ERR_OK;
}

void http_page_unref(struct http_page *page)
{
    if (page && atomic_fetch_sub(&page->refs, 1) == 1) free(page);
}

static struct http_page *page_make(int status, const char *content_type, struct str content)
{
    uint64_t seed = str_hash(str_from(content_type), 1);
    size_t type_len = strlen(content_type) + 1;
    struct http_page *page = malloc(sizeof *page + type_len + content.len);
    char *behind;

    if (!page) return NULL;
    behind = (char *)(page + 1);
    atomic_init(&page->refs, 1);
    page->status = status;
    /* Equal pages have equal tags, even in the next process. 128 bits avoid collisions. */
    snprintf(page->etag, sizeof page->etag, "\"%016" PRIx64 "%016" PRIx64 "\"",
             str_hash(content, seed), str_hash(content, ~seed));
    page->content_type = memcpy(behind, content_type, type_len);
    if (content.len > 0) memcpy(behind + type_len, content.at, content.len);
    page->body = str_of(behind + type_len, content.len);
    return page;
}

enum err http_publish(struct http_server *server, const char *path, const char *content_type,
                      struct str content)
{
    return http_publish_as(server, path, 200, content_type, content);
}

enum err http_publish_as(struct http_server *server, const char *path, int status,
                         const char *content_type, struct str content)
{
    struct http_page *page, *old;
    struct route *route;
    enum err err = ERR_OK;

    if (!content_type || !content_type[0]) return ERR_INVALID;
    if (content.len > server->response_max) return ERR_TOO_LARGE;
    page = page_make(status, content_type, content);
    if (!page) return ERR_NOMEM;

    http_lock(server);
    route = http_route_find(server, str_from(path));
    if (route && route->kind != ROUTE_PAGE) err = ERR_EXISTS;
    if (!route) err = http_route_add(server, path, &route);
    if (err) {
        old = page;
    } else {
        old = route->page;
        route->kind = ROUTE_PAGE;
        route->methods = HTTP_GET;
        route->page = page;
    }
    http_unlock(server);
    http_page_unref(old);
    return err;
}
