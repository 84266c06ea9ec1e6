/* SPDX-License-Identifier: Apache-2.0 */
#include "common/status.h"

#include "text/ndjson.h"

/* The server's policy is default-src 'self', so style and script are pages of their own
 * (status_assets.c) and nothing in the markup may stand inline. */
static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<link rel=\"stylesheet\" href=\"" STATUS_CSS_PATH "\">\n"
    "<script src=\"" STATUS_JS_PATH "\" defer></script>\n";

static const char page_links[] =
    "<h2>Look closer</h2>\n<ul class=\"links\">\n"
    "<li><a href=\"/healthz\">/healthz</a><span>is the process alive?</span></li>\n"
    "<li><a href=\"/readyz\">/readyz</a><span>may it be given work?</span></li>\n"
    "<li><a href=\"/metrics\">/metrics</a><span>numbers for Prometheus</span></li>\n"
    "<li><a href=\"/debug/loop\">/debug/loop</a><span>what the turns of the loop cost</span></li>\n"
    "</ul>\n";

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

/* A name and its value; with an id it is one the script fills in. */
static enum err fact(const char *name, const char *id, const char *text, struct buf *into)
{
    enum err err = buf_appendf(into, "<div><dt>%s</dt><dd", name);
    if (!err && id) err = buf_appendf(into, " id=\"%s\"", id);
    if (!err) err = buf_append_byte(into, '>');
    if (!err) err = append_escaped(text, into);
    return err ? err : buf_append_c(into, "</dd></div>\n");
}

static enum err live_facts(struct buf *into)
{
    static const struct {
        const char *id, *name;
    } facts[] = {
        {"uptime", "up for"},        {"turns", "loop turns"},     {"mean", "mean turn"},
        {"longest", "longest turn"}, {"slow", "turns over 1 ms"}, {"work", "ran"},
        {"requests", "http"},
    };
    enum err err = buf_append_c(into, "<h2>Now</h2>\n<dl class=\"cards\">\n");
    for (size_t i = 0; i < ARRAY_LEN(facts) && !err; i++) {
        err = fact(facts[i].name, facts[i].id, "\u2013", into);
    }
    return err ? err : buf_append_c(into, "</dl>\n");
}

static enum err page_top(const struct status_facts *facts, struct buf *into)
{
    enum err err = buf_append_c(into, page_head);

    if (!err) err = buf_append_c(into, "<title>");
    if (!err) err = append_escaped(facts->command, into);
    if (!err) err = buf_append_c(into, "</title>\n</head>\n<body>\n<header>\n<h1>");
    if (!err) err = append_escaped(facts->command, into);
    if (!err) {
        err = buf_append_c(into, "</h1>\n<p id=\"state\" class=\"waiting\" role=\"status\">"
                                 "connecting</p>\n</header>\n<main>\n"
                                 "<noscript><p>Live numbers need JavaScript; /metrics has them "
                                 "without.</p></noscript>\n");
    }
    if (!err && facts->warning) err = buf_append_c(into, "<p class=\"warning\">");
    if (!err && facts->warning) err = append_escaped(facts->warning, into);
    if (!err && facts->warning) err = buf_append_c(into, "</p>\n");
    return err;
}

enum err status_page(const struct status_facts *facts, struct buf *into)
{
    enum err err = page_top(facts, into);

    if (!err) {
        err = buf_append_c(
            into,
            "<p>This page shows this process only: its event loop, probes and metrics. The "
            "coordinators serve the dashboard of the whole fleet, by default on port 8790.</p>\n");
    }
    if (!err) err = live_facts(into);
    if (!err) err = buf_append_c(into, "<h2>This process</h2>\n<dl class=\"rows\">\n");
    if (!err) err = fact("version", NULL, facts->version, into);
    if (!err) err = fact("commit", NULL, facts->commit, into);
    if (!err) err = fact("data directory", NULL, facts->data_dir, into);
    if (!err) err = buf_append_c(into, "</dl>\n");
    if (!err) err = buf_append_c(into, page_links);
    return err ? err : buf_append_c(into, "</main>\n</body>\n</html>\n");
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
