#include "common/status.h"

#include "text/ndjson.h"

static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<style>\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 "
    "1rem }\n"
    "table { border-collapse: collapse }\n"
    "td { padding: .15rem 2rem .15rem 0; font-variant-numeric: tabular-nums }\n"
    "td:first-child { color: #666 }\n"
    ".warning { border-left: .3rem solid #c60; padding-left: .7rem }\n"
    "#state { color: #666 }\n"
    "@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } a { color: #8bf "
    "}\n"
    "td:first-child, #state { color: #999 } }\n"
    "</style>\n";

static const char page_links[] =
    "<h2>Look closer</h2>\n<ul>\n"
    "<li><a href=\"/healthz\">/healthz</a>: is the process alive?</li>\n"
    "<li><a href=\"/readyz\">/readyz</a>: may it be given work?</li>\n"
    "<li><a href=\"/metrics\">/metrics</a>: numbers for Prometheus</li>\n"
    "<li><a href=\"/debug/loop\">/debug/loop</a>: what the turns of the loop cost</li>\n</ul>\n";

/* Text content only, so nothing that arrives can become markup. */
static const char page_script[] =
    "<script>\n"
    "const put = (id, text) => document.getElementById(id).textContent = text;\n"
    "const ms = ns => (ns / 1e6).toFixed(2) + ' ms';\n"
    "const ago = t => { const s = Math.floor(t / 1000), m = Math.floor(s / 60), h = Math.floor(m / "
    "60);\n"
    "  return (h ? h + ' h ' : '') + (m ? m % 60 + ' min ' : '') + s % 60 + ' s'; };\n"
    "const source = new EventSource('/live');\n"
    "source.addEventListener('status', e => {\n"
    "  const s = JSON.parse(e.data);\n"
    "  put('uptime', ago(s.uptime_ms));\n"
    "  put('turns', s.loop.turns.toLocaleString());\n"
    "  put('mean', ms(s.loop.turns ? s.loop.cpu_ns_total / s.loop.turns : 0));\n"
    "  put('longest', ms(s.loop.cpu_ns_max) + ' CPU, ' + ms(s.loop.wall_ns_max) + ' wall');\n"
    "  put('slow', s.loop.slow_cpu + ' by CPU, ' + s.loop.slow_wall + ' by wall time');\n"
    "  put('work', s.loop.timers_fired + ' timers, ' + s.loop.tasks_run + ' tasks, ' +\n"
    "    s.loop.posts_run + ' posts');\n"
    "  put('requests', s.http.requests + ' requests, ' + s.http.connections + ' connections "
    "open');\n"
    "  put('state', 'live');\n"
    "});\n"
    "source.onerror = () => put('state', 'not connected; these are the last numbers');\n"
    "</script>\n";

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

static enum err fact(const char *name, const char *text, struct buf *into)
{
    enum err err = buf_appendf(into, "<tr><td>%s</td><td>", name);
    if (!err) err = append_escaped(text, into);
    return err ? err : buf_append_c(into, "</td></tr>\n");
}

static enum err live_rows(struct buf *into)
{
    static const struct {
        const char *id, *name;
    } rows[] = {
        {"uptime", "up for"},        {"turns", "loop turns"},     {"mean", "mean turn"},
        {"longest", "longest turn"}, {"slow", "turns over 1 ms"}, {"work", "ran"},
        {"requests", "http"},
    };
    enum err err = ERR_OK;
    for (size_t i = 0; i < ARRAY_LEN(rows) && !err; i++) {
        err = buf_appendf(into, "<tr><td>%s</td><td id=\"%s\">–</td></tr>\n", rows[i].name,
                          rows[i].id);
    }
    return err;
}

enum err status_page(const struct status_facts *facts, struct buf *into)
{
    enum err err = buf_append_c(into, page_head);

    if (!err) err = buf_append_c(into, "<title>");
    if (!err) err = append_escaped(facts->command, into);
    if (!err) err = buf_append_c(into, "</title>\n</head>\n<body>\n<h1>");
    if (!err) err = append_escaped(facts->command, into);
    if (!err) err = buf_append_c(into, "</h1>\n");
    if (!err && facts->warning) err = buf_append_c(into, "<p class=\"warning\">");
    if (!err && facts->warning) err = append_escaped(facts->warning, into);
    if (!err && facts->warning) err = buf_append_c(into, "</p>\n");
    if (!err) {
        err = buf_append_c(
            into, "<p>This is the ground every role of muster will stand on: one loop, its "
                  "log, metrics and probes. The roles arrive with later releases.</p>\n"
                  "<table>\n");
    }
    if (!err) err = fact("version", facts->version, into);
    if (!err) err = fact("commit", facts->commit, into);
    if (!err) err = fact("data directory", facts->data_dir, into);
    if (!err) err = live_rows(into);
    if (!err) {
        err = buf_append_c(
            into, "</table>\n<p id=\"state\">connecting</p>\n<noscript><p>Live numbers need "
                  "JavaScript; /metrics has them without.</p></noscript>\n");
    }
    if (!err) err = buf_append_c(into, page_links);
    if (!err) err = buf_append_c(into, page_script);
    return err ? err : buf_append_c(into, "</body>\n</html>\n");
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
