/* SPDX-License-Identifier: Apache-2.0 */
#include "common/serve.h"

#include <stdio.h>

#include "conf/option.h"

enum { LIVE_EVENTS_KEPT = 4 };

static enum err add_pages(struct serve *s, const struct status_facts *facts, struct note *note)
{
    struct buf page;
    enum err err;

    buf_init(&page, STATUS_TEXT_MAX);
    err = status_page(facts, &page);
    if (!err) err = http_publish(s->http, STATUS_PATH, "text/html; charset=utf-8", buf_peek(&page));
    buf_deinit(&page);
    if (!err)
        err =
            http_publish(s->http, STATUS_CSS_PATH, "text/css; charset=utf-8", str_from(status_css));
    if (!err)
        err = http_publish(s->http, STATUS_JS_PATH, "text/javascript; charset=utf-8",
                           str_from(status_js));
    if (!err) err = http_channel_open(s->http, STATUS_EVENTS_PATH, LIVE_EVENTS_KEPT, &s->live);
    return err ? err : instruments_serve(s->instruments, s->http, note);
}

enum err serve_open(struct serve *s, struct instruments *instruments,
                    const struct status_facts *facts, const struct http_options *http,
                    struct note *note)
{
    enum err err;

    s->instruments = instruments;
    if (option_address_off(http->address)) return instruments_serve(instruments, NULL, note);
    if (strlen(http->address) >= SERVE_ADDRESS_CAP)
        return note_fail(note, ERR_INVALID, "http.listen: the address is too long");
    err = http_open(http, &s->http, note);
    if (err == ERR_BUSY)
        return note_fail(
            note, err,
            "http.listen %s is taken by another process; stop that one, or take a free port with "
            "--http-listen 127.0.0.1:0",
            http->address);
    if (err) {
        note_prefix(note, "http.listen"); /* the address is in there already */
        return err;
    }
    snprintf(s->address, sizeof s->address, "%s", http_address(s->http));
    return add_pages(s, facts, note);
}

void serve_close(struct serve *serve)
{
    if (serve->instruments) instruments_unserve(serve->instruments);
    http_close(serve->http);
}

void serve_publish(struct serve *serve, const struct status_numbers *numbers)
{
    struct status_numbers all = *numbers;
    struct buf event;

    if (!serve->http) return;
    all.http = http_stats(serve->http);
    buf_init(&event, STATUS_TEXT_MAX);
    if (!status_event(&all, &event))
        (void)http_channel_send(serve->live, STR("status"), buf_peek(&event)); /* newest counts */
    buf_deinit(&event);
}
