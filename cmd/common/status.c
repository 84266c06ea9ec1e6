/* SPDX-License-Identifier: Apache-2.0 */
#include "common/status.h"

#include "text/ndjson.h"

/* {name} is where a fact goes. The server's policy is default-src 'self', so style and script are
 * pages of their own (status_assets.c) and nothing in the markup may stand inline. */
static const char page[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<link rel=\"stylesheet\" href=\"" STATUS_CSS_PATH "\">\n"
    "<script src=\"" STATUS_JS_PATH "\" defer></script>\n"
    "<title>{command}</title>\n</head>\n<body>\n<header>\n<h1>{command}</h1>\n"
    "<p id=\"state\" class=\"waiting\" role=\"status\">connecting</p>\n</header>\n<main>\n"
    "<noscript><p>Live numbers need JavaScript; /metrics has them without.</p></noscript>\n"
    "{warning}"
    "<p>This page shows this process only: its event loop, probes and metrics. The coordinators "
    "serve the dashboard of the whole fleet, by default on port 8790.</p>\n"
    "<h2>Now</h2>\n<dl class=\"cards\">\n"
    "<div><dt>up for</dt><dd id=\"uptime\">\u2013</dd></div>\n"
    "<div><dt>loop turns</dt><dd id=\"turns\">\u2013</dd></div>\n"
    "<div><dt>mean turn</dt><dd id=\"mean\">\u2013</dd></div>\n"
    "<div><dt>longest turn</dt><dd id=\"longest\">\u2013</dd></div>\n"
    "<div><dt>turns over 1 ms</dt><dd id=\"slow\">\u2013</dd></div>\n"
    "<div><dt>ran</dt><dd id=\"work\">\u2013</dd></div>\n"
    "<div><dt>http</dt><dd id=\"requests\">\u2013</dd></div>\n"
    "</dl>\n<h2>This process</h2>\n<dl class=\"rows\">\n"
    "<div><dt>version</dt><dd>{version}</dd></div>\n"
    "<div><dt>commit</dt><dd>{commit}</dd></div>\n"
    "<div><dt>data directory</dt><dd>{data_dir}</dd></div>\n"
    "</dl>\n<h2>Look closer</h2>\n<ul class=\"links\">\n"
    "<li><a href=\"/healthz\">/healthz</a><span>is the process alive?</span></li>\n"
    "<li><a href=\"/readyz\">/readyz</a><span>may it be given work?</span></li>\n"
    "<li><a href=\"/metrics\">/metrics</a><span>numbers for Prometheus</span></li>\n"
    "<li><a href=\"/debug/loop\">/debug/loop</a><span>what the turns of the loop cost</span></li>\n"
    "</ul>\n</main>\n</body>\n</html>\n";

static enum err append_escaped(const char *text, struct buf *into)
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

static enum err append_fact(const struct status_facts *facts, struct str name, struct buf *into)
{
    enum err err;

    if (str_equal(name, STR("command"))) return append_escaped(facts->command, into);
    if (str_equal(name, STR("version"))) return append_escaped(facts->version, into);
    if (str_equal(name, STR("commit"))) return append_escaped(facts->commit, into);
    if (str_equal(name, STR("data_dir"))) return append_escaped(facts->data_dir, into);
    assert(str_equal(name, STR("warning")));
    if (!facts->warning) return ERR_OK;
    err = buf_append_c(into, "<p class=\"warning\">");
    if (!err) err = append_escaped(facts->warning, into);
    return err ? err : buf_append_c(into, "</p>\n");
}

enum err status_page(const struct status_facts *facts, struct buf *into)
{
    struct str rest = str_from(page), markup, name;
    enum err err = ERR_OK;

    while (!err && str_split(&rest, '{', &markup)) {
        err = buf_append(into, markup);
        if (!err && rest.at && str_split(&rest, '}', &name)) err = append_fact(facts, name, into);
    }
    return err;
}

enum err status_event(const struct status_numbers *numbers, struct buf *into)
{
    const struct loop_stats *loop = &numbers->loop;
    struct ndjson line;
    enum err err;

    ndjson_begin(&line, into, NDJSON_LINE);
    ndjson_u64(&line, STR("uptime_ms"), numbers->uptime_ms);
    ndjson_open_object(&line, STR("loop"));
    ndjson_u64(&line, STR("turns"), loop->turns);
    ndjson_u64(&line, STR("slow_wall"), loop->slow_wall);
    ndjson_u64(&line, STR("slow_cpu"), loop->slow_cpu);
    ndjson_u64(&line, STR("wall_ns_max"), loop->wall_ns_max);
    ndjson_u64(&line, STR("cpu_ns_max"), loop->cpu_ns_max);
    ndjson_u64(&line, STR("wall_ns_total"), loop->wall_ns_total);
    ndjson_u64(&line, STR("cpu_ns_total"), loop->cpu_ns_total);
    ndjson_u64(&line, STR("timers_fired"), loop->timers_fired);
    ndjson_u64(&line, STR("tasks_run"), loop->tasks_run);
    ndjson_u64(&line, STR("posts_run"), loop->posts_run);
    ndjson_close_object(&line);
    ndjson_open_object(&line, STR("http"));
    ndjson_u64(&line, STR("requests"), numbers->http.requests);
    ndjson_u64(&line, STR("errors"), numbers->http.errors);
    ndjson_u64(&line, STR("connections"), numbers->http.connections);
    ndjson_close_object(&line);
    err = ndjson_end(&line);
    if (!err) into->len--; /* an event's data has no closing newline */
    return err;
}
