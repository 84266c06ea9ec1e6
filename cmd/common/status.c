/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes the status page's assets when the listener opens, and an event for each set of new
 * numbers. Runs on the loop's thread; the listener's thread serves the published data. */
#include "common/status.h"

#include <stdio.h>

#include "conf/option.h"
#include "text/ndjson.h"

enum { TEXT_MAX = 64 * 1024, LIVE_EVENTS_KEPT = 4 };

#define ASSET(name)                                                                                \
    extern const unsigned char status_##name[];                                                    \
    extern const size_t status_##name##_len;
ASSET(html)
ASSET(css)
ASSET(js)

/* -- the page -- */

static enum err status_append_escaped(const char *text, struct buf *into)
{
    enum err err = ERR_OK;
    for (const char *c = text; *c && !err; c++) {
        switch (*c) {
        case '<': err = buf_append_c(into, "&lt;"); break;
        case '>': err = buf_append_c(into, "&gt;"); break;
        case '&': err = buf_append_c(into, "&amp;"); break;
        case '"': err = buf_append_c(into, "&quot;"); break;
        default: err = buf_append_byte(into, *c);
        }
    }
    return err;
}

static enum err status_append_fact(const struct status_facts *facts, struct str name,
                                   struct buf *into)
{
    enum err err;

    if (str_equal(name, STR("command"))) return status_append_escaped(facts->command, into);
    if (str_equal(name, STR("version"))) return status_append_escaped(facts->version, into);
    if (str_equal(name, STR("commit"))) return status_append_escaped(facts->commit, into);
    if (str_equal(name, STR("data_dir"))) return status_append_escaped(facts->data_dir, into);
    assert(str_equal(name, STR("warning")));
    if (!facts->warning) return ERR_OK;
    err = buf_append_c(into, "<p class=\"warning\">");
    if (!err) err = status_append_escaped(facts->warning, into);
    return err ? err : buf_append_c(into, "</p>\n");
}

/* Replaces each {name} in the status page's asset with a fact. */
static enum err status_publish_page(struct http_server *http, const struct status_facts *facts)
{
    struct str rest = str_of(status_html, status_html_len), markup, name;
    struct buf page;
    enum err err = ERR_OK;

    buf_init(&page, TEXT_MAX);
    while (!err && str_split(&rest, '{', &markup)) {
        err = buf_append(&page, markup);
        if (!err && rest.at && str_split(&rest, '}', &name))
            err = status_append_fact(facts, name, &page);
    }
    if (!err) err = http_publish(http, "/", "text/html; charset=utf-8", buf_peek(&page));
    buf_deinit(&page);
    return err;
}

/* -- the listener -- */

static enum err status_add_pages(struct status_server *s, const struct status_facts *facts,
                                 struct note *note)
{
    enum err err = status_publish_page(s->http, facts);

    if (!err)
        err = http_publish(s->http, "/status.css", "text/css; charset=utf-8",
                           str_of(status_css, status_css_len));
    if (!err)
        err = http_publish(s->http, "/status.js", "text/javascript; charset=utf-8",
                           str_of(status_js, status_js_len));
    if (!err) err = http_channel_open(s->http, "/status/events", LIVE_EVENTS_KEPT, &s->live);
    return err ? err : instruments_serve(s->instruments, s->http, note);
}

enum err status_server_open(struct status_server *s, struct instruments *instruments,
                            const struct status_facts *facts, const struct http_options *http,
                            struct note *note)
{
    enum err err;

    s->instruments = instruments;
    if (option_address_off(http->address)) return instruments_serve(instruments, NULL, note);
    if (strlen(http->address) >= STATUS_ADDRESS_CAP)
        return note_fail(note, ERR_INVALID, "http.listen: the address is too long");
    err = http_open(http, &s->http, note);
    if (err == ERR_BUSY)
        return note_fail(
            note, err,
            "http.listen %s is taken by another process; stop that one, or take a free port with "
            "--http-listen 127.0.0.1:0",
            http->address);
    if (err) {
        note_prefix(note, "http.listen"); /* the note names the address already */
        return err;
    }
    snprintf(s->address, sizeof s->address, "%s", http_address(s->http));
    return status_add_pages(s, facts, note);
}

void status_server_close(struct status_server *s)
{
    if (s->instruments) instruments_unserve(s->instruments);
    http_close(s->http);
}

/* -- live numbers -- */

void status_server_send(struct status_server *s, uint64_t uptime_ms, struct loop_stats loop)
{
    struct http_stats http;
    struct ndjson line;
    struct buf event;

    if (!s->http) return;
    http = http_stats(s->http);
    buf_init(&event, TEXT_MAX);
    ndjson_begin(&line, &event, NDJSON_LINE);
    ndjson_u64(&line, STR("uptime_ms"), uptime_ms);
    ndjson_open_object(&line, STR("loop"));
    ndjson_u64(&line, STR("turns"), loop.turns);
    ndjson_u64(&line, STR("slow_wall"), loop.slow_wall);
    ndjson_u64(&line, STR("slow_cpu"), loop.slow_cpu);
    ndjson_u64(&line, STR("wall_ns_max"), loop.wall_ns_max);
    ndjson_u64(&line, STR("cpu_ns_max"), loop.cpu_ns_max);
    ndjson_u64(&line, STR("cpu_ns_total"), loop.cpu_ns_total);
    ndjson_u64(&line, STR("timers_fired"), loop.timers_fired);
    ndjson_u64(&line, STR("tasks_run"), loop.tasks_run);
    ndjson_u64(&line, STR("posts_run"), loop.posts_run);
    ndjson_close_object(&line);
    ndjson_open_object(&line, STR("http"));
    ndjson_u64(&line, STR("requests"), http.requests);
    ndjson_u64(&line, STR("connections"), http.connections);
    ndjson_close_object(&line);
    if (!ndjson_end(&line)) /* an HTTP event must not end with a newline */
        (void)http_channel_send(s->live, STR("status"), str_of(event.data, event.len - 1));
    buf_deinit(&event);
}
