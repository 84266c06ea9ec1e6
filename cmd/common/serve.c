/* SPDX-License-Identifier: Apache-2.0 */
#include "common/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE_EVENTS_KEPT = 4, ADDRESS_CAP = 320 };

struct serve {
    struct serve_options options;
    char address[ADDRESS_CAP]; /* with the real port */
    struct http_server *http;  /* NULL: it is off */
    struct http_channel *live;
};

static enum err add_pages(struct serve *s, struct note *note)
{
    struct buf page;
    enum err err;

    buf_init(&page, STATUS_TEXT_MAX);
    err = status_page(&s->options.facts, &page);
    if (!err) err = http_publish(s->http, STATUS_PATH, "text/html; charset=utf-8", buf_peek(&page));
    buf_deinit(&page);
    if (!err) {
        err =
            http_publish(s->http, STATUS_CSS_PATH, "text/css; charset=utf-8", str_from(status_css));
    }
    if (!err) {
        err = http_publish(s->http, STATUS_JS_PATH, "text/javascript; charset=utf-8",
                           str_from(status_js));
    }
    if (!err) err = http_channel_open(s->http, STATUS_EVENTS_PATH, LIVE_EVENTS_KEPT, &s->live);
    return err ? err : instruments_serve(s->options.instruments, s->http, note);
}

static void close_listener(struct serve *s)
{
    instruments_unserve(s->options.instruments);
    http_close(s->http);
    s->http = NULL;
}

static enum err open_listener(struct serve *s, struct note *note)
{
    struct http_options options = {.address = s->address,
                                   .cert_file = s->options.cert_file,
                                   .key_file = s->options.key_file,
                                   .ca_file = s->options.ca_file};
    enum err err = http_open(&options, &s->http, note);

    if (err == ERR_BUSY) {
        note_set(note,
                 "http.listen %s is taken by another process; stop that one, or take a free port "
                 "with --http-listen 127.0.0.1:0",
                 s->address);
    } else if (err) {
        note_prefix(note, "http.listen"); /* the address is in there already */
    }
    if (err) return err;
    snprintf(s->address, sizeof s->address, "%s", http_address(s->http));
    err = add_pages(s, note);
    if (err) close_listener(s);
    return err;
}

enum err serve_open(const struct serve_options *options, struct serve **ret_serve,
                    struct note *note)
{
    struct serve *s = calloc(1, sizeof *s);
    enum err err = ERR_INVALID;

    if (!s) return ERR_NOMEM;
    s->options = *options;
    if (option_address_off(options->address)) {
        err = instruments_serve(s->options.instruments, NULL, note);
    } else if (snprintf(s->address, sizeof s->address, "%s", options->address) < ADDRESS_CAP) {
        err = open_listener(s, note);
    } else {
        note_set(note, "http.listen: the address is too long");
    }
    if (err)
        free(s);
    else
        *ret_serve = s;
    return err;
}

void serve_close(struct serve *serve)
{
    if (!serve) return;
    close_listener(serve);
    free(serve);
}

struct http_server *serve_http(const struct serve *serve)
{
    return serve->http;
}

enum err serve_page(struct serve *serve, const char *path, int status, const char *content_type,
                    struct str content)
{
    return serve->http ? http_publish_as(serve->http, path, status, content_type, content) : ERR_OK;
}

enum err serve_renew(struct serve *serve, struct note *note)
{
    return serve->http ? http_reload_tls(serve->http, note) : ERR_OK;
}

const char *serve_address(const struct serve *serve)
{
    return serve->address;
}

void serve_publish(struct serve *serve, const struct status_numbers *numbers)
{
    struct status_numbers all = *numbers;
    struct buf event;

    if (!serve->http) return;
    all.http = http_stats(serve->http);
    buf_init(&event, STATUS_TEXT_MAX);
    if (!status_event(&all, &event)) {
        (void)http_channel_send(serve->live, STR("status"), buf_peek(&event)); /* newest counts */
    }
    buf_deinit(&event);
}
