/* SPDX-License-Identifier: Apache-2.0 */
/* muster dev as a process: start, pages, signals, reload, and everything that can make it fail.
 * tests/integration/fleet tests its replicas. */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "lib/http_client.h"

static struct proc proc, other;

/* Starts muster dev on a free port and waits until it says where. */
static const char *start(struct proc *p, const char *const *more, const char *const *variables)
{
    static char address[64];
    const char *words[20] = {"dev", "--http-listen=127.0.0.1:0", "--replicas=0"};
    size_t count = 3;
    char *at;

    for (size_t i = 0; more && more[i]; i++) words[count++] = more[i];
    cli_start(p, cli_muster(), words, variables);
    if (!proc_wait_output(p, "/metrics\n", PROC_DEADLINE_MS)) {
        proc_end(p);
        CHECK(p->output, false);
    }
    at = strstr(p->output, "://");
    CHECK("it says where", at && sscanf(at + 3, "%63[^/]", address) == 1);
    return address;
}

static void stop(struct proc *p)
{
    proc_signal(p, SIGTERM);
    bool ended = proc_wait_end(p, PROC_DEADLINE_MS);
    int code = proc_exit_code(p);
    proc_end(p);
    CHECK("it ends", ended);
    CHECK_I64(p->output, code, 0);
}

static char *data_dir(const char *name)
{
    static char words[4][4200];
    static size_t next;
    char *word = words[next++ % 4];
    snprintf(word, sizeof words[0], "--data-dir=%s", cli_path(name));
    return word;
}

static int get(const char *address, const char *path, char **ret_text)
{
    char request[512];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             path);
    return client_ask(address, request, ret_text);
}

/* Asks until the page has the text: the wait for events without a line of output. */
static void await_page(const char *address, const char *path, const char *wanted)
{
    bool found = false;
    for (int tries = 0; tries < PROC_DEADLINE_MS / 10 && !found; tries++) {
        char *text = NULL;
        found = get(address, path, &text) == 200 && strstr(text, wanted) != NULL;
        free(text);
        if (!found) usleep(10 * 1000);
    }
    CHECK(wanted, found);
}

TEST(it_starts_serves_its_pages_and_stops_with_0)
{
    const char *address = start(&proc, WORDS(data_dir("pages")), NULL);
    static const struct {
        const char *path, *has;
    } pages[] = {
        {"/", "src=\"/status.js\""},
        {"/status.js", "EventSource('/status/events')"},
        {"/status.css", "prefers-color-scheme: dark"},
        {"/", "This page shows this process only"},
        {"/healthz", ""},
        {"/live", "ok\n"}, /* a liveness probe: an answer that ends */
        {"/readyz", ""},
        {"/metrics", "# TYPE "},
        {"/debug/loop", "turns"},
    };
    await_page(address, "/readyz", ""); /* the pages are there before the process is ready */
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        char *text = NULL;
        int status = get(address, pages[i].path, &text);
        CHECK_I64(pages[i].path, status, 200);
        CHECK_HAS(pages[i].path, text, pages[i].has);
        free(text);
    }
    CHECK_I64("nothing else", get(address, "/nothing", NULL), 404);
    CHECK_HAS("a command to try", proc.output, "  try          curl http://");
    stop(&proc);
    CHECK_HAS("says so", proc.output, "stopping");
}

/* A browser obeys the policy we send: it ignores inline style and script. */
TEST(the_page_obeys_its_own_policy)
{
    const char *address = start(&proc, WORDS(data_dir("policy")), NULL);
    char *text = NULL, *page;
    int status = get(address, "/", &text);
    stop(&proc);
    CHECK_I64("served", status, 200);
    CHECK_HAS("the strict policy", text, "Content-Security-Policy: default-src 'self'");
    page = strstr(text, "<!doctype html>");
    CHECK("a page", page != NULL);
    CHECK("no inline style", !strcasestr(page, "<style") && !strcasestr(page, "style="));
    for (char *at = page; (at = strcasestr(at, "<script")); at++)
        CHECK(at, strncmp(at, "<script src=\"/", 14) == 0);
    for (char *at = page; (at = strcasestr(at, " on")); at++) {
        size_t letters = strspn(at + 3, "abcdefghijklmnopqrstuvwxyz");
        CHECK(at, at[3 + letters] != '=');
    }
    CHECK("no javascript: and no data:", !strstr(page, "javascript:") && !strstr(page, "data:"));
    free(text);
}

TEST(live_numbers_arrive)
{
    const char *address = start(&proc, WORDS(data_dir("live"), "--http-live-every=100ms"), NULL);
    struct client client = {.fd = -1};
    CHECK("connect", client_open(&client, address));
    CHECK("ask", client_send_c(&client, "GET /status/events HTTP/1.1\r\nHost: x\r\n\r\n"));
    CHECK("a stream", client_await(&client, "text/event-stream"));
    CHECK("a first event", client_await(&client, "data: {\"uptime_ms\":"));
    CHECK("and more", client_await(&client, "\"loop\":{\"turns\":"));
    CHECK("and more", client_await(&client, "data: {\"uptime_ms\":"));
    client_close(&client);
    stop(&proc);
}

TEST(ctrl_c_stops_it_too)
{
    start(&proc, WORDS(data_dir("interrupt")), NULL);
    CHECK("SIGINT", proc_signal(&proc, SIGINT));
    CHECK("ends", proc_wait_end(&proc, PROC_DEADLINE_MS));
    CHECK_I64("with 0", proc_exit_code(&proc), 0);
    proc_end(&proc);
}

TEST(a_second_process_on_the_same_directory_is_refused_and_names_the_first)
{
    char pid[32];
    start(&proc, WORDS(data_dir("shared")), NULL);
    snprintf(pid, sizeof pid, "%d", (int)proc.pid);
    int code = cli_run(&other, cli_muster(),
                       WORDS("dev", "--http-listen=127.0.0.1:0", data_dir("shared")), NULL);
    CHECK_I64(other.output, code, 4);
    CHECK_HAS("the way out", other.output, "give this process its own with --data-dir");
    CHECK_HAS("the owner's pid", other.output, pid);
    CHECK("killed", proc_signal(&proc, SIGKILL));
    CHECK("ends", proc_wait_end(&proc, PROC_DEADLINE_MS));
    proc_end(&proc);
    start(&proc, WORDS(data_dir("shared")), NULL); /* a dead holder holds nothing */
    stop(&proc);
}

TEST(a_port_that_is_taken_is_named_with_what_to_do)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof any;
    char flag[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK("a listener", fd >= 0 && bind(fd, (struct sockaddr *)&any, len) == 0 &&
                            listen(fd, 1) == 0 &&
                            getsockname(fd, (struct sockaddr *)&any, &len) == 0);
    snprintf(flag, sizeof flag, "--http-listen=127.0.0.1:%d", ntohs(any.sin_port));
    int code = cli_run(&proc, cli_muster(), WORDS("dev", flag, data_dir("port")), NULL);
    close(fd);
    CHECK_I64(proc.output, code, 4);
    CHECK_HAS("which, and the way out", proc.output,
              "is taken by another process; stop that one, or take a free port");
    CHECK_I64(
        "nothing is left locked",
        cli_run(&proc, cli_muster(), WORDS("dev", flag, data_dir("port"), "--print-config"), NULL),
        0);
}

TEST(a_directory_that_cannot_be_made_is_named)
{
    cli_write(cli_path("file"), "x");
    int code = cli_run(&proc, cli_muster(),
                       WORDS("dev", "--http-listen=127.0.0.1:0", data_dir("file/below")), NULL);
    CHECK_I64(proc.output, code, 2);
    CHECK_HAS("which, and why", proc.output, "file/below: a file is in the way\n");
}

TEST(a_reload_says_what_changed_and_what_needs_a_restart)
{
    const char *file = cli_path("reload.toml");
    cli_write(file, "[log]\nlevel = \"info\"\n[http]\nlive-every = \"1s\"\n");
    const char *address = start(&proc, WORDS(data_dir("reload"), "--config", file), NULL);
    cli_write(file, "[log]\nlevel = \"debug\"\nformat = \"json\"\n[http]\nlive-every = \"1s\"\n");
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    CHECK("the setting that needs a restart",
          proc_wait_output(&proc, "log.format: ", PROC_DEADLINE_MS));
    CHECK_HAS("the changed setting", proc.output, "log.level: ");
    CHECK_HAS("its new value", proc.output, "debug");
    CHECK("that it needs a restart", proc_wait_output(&proc, "needs a restart", PROC_DEADLINE_MS));
    char *metrics = NULL;
    CHECK_I64("metrics", get(address, "/metrics", &metrics), 200);
    CHECK_HAS("counted", metrics, "muster_config_reloads_total{result=\"ok\"} 1\n");
    CHECK_HAS("and how many wait", metrics, "muster_config_settings_waiting 1\n");
    free(metrics);
    stop(&proc);
}

TEST(a_reload_of_a_wrong_file_changes_nothing)
{
    const char *file = cli_path("broken.toml");
    cli_write(file, "[log]\nlevel = \"info\"\n");
    const char *address = start(&proc, WORDS(data_dir("broken"), "--config", file), NULL);
    cli_write(file, "[log]\nlevle = \"debug\"\n");
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    CHECK("refused, with its place",
          proc_wait_output(&proc, "broken.toml:2:1: unknown key 'log.levle'", PROC_DEADLINE_MS));
    CHECK("the nearest", proc_wait_output(&proc, "did you mean 'log.level'?", PROC_DEADLINE_MS));
    CHECK("and nothing changed", proc_wait_output(&proc, "reload failed", PROC_DEADLINE_MS));
    CHECK_I64("it still serves", get(address, "/healthz", NULL), 200);
    cli_write(file, "[log]\nlevel = \"debug\"\n[tls]\ncert-file = \"x.pem\"\n");
    size_t mark = proc_mark(&proc);
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    CHECK("nor a start that failed",
          proc_wait_output_after(&proc, mark, "tls.cert-file and tls.key-file belong together",
                                 PROC_DEADLINE_MS));
    char *metrics = NULL; /* counted before it is said */
    CHECK_I64("metrics", get(address, "/metrics", &metrics), 200);
    CHECK_HAS("both counted", metrics, "muster_config_reloads_total{result=\"refused\"} 2\n");
    free(metrics);
    stop(&proc);
    CHECK("the level never changed", strstr(proc.output, "setting changed") == NULL);
}

TEST(a_log_file_that_was_moved_away_is_opened_anew)
{
    char flag[4300], moved[4300];
    const char *log = cli_path("moving.log");
    struct stat info;
    snprintf(flag, sizeof flag, "--log-file=%s", log);
    snprintf(moved, sizeof moved, "%s.1", log);
    const char *address = start(&proc, WORDS(data_dir("log"), flag), NULL);
    bool written = false; /* the banner comes before the first log line */
    for (int tries = 0; tries < PROC_DEADLINE_MS / 10 && !written; tries++) {
        written = stat(log, &info) == 0 && info.st_size > 0;
        if (!written) usleep(10 * 1000);
    }
    CHECK("written", written);
    CHECK("moved", rename(log, moved) == 0);
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    await_page(address, "/metrics", "muster_config_reloads_total{result=\"ok\"} 1\n");
    stop(&proc);
    CHECK("there is a new one", stat(log, &info) == 0 && info.st_size > 0);
}

TEST(an_insecure_listener_is_allowed_when_asked_for_and_says_so)
{
    const char *words[] = {"dev",        "--replicas=0",       "--http-listen=0.0.0.0:0",
                           "--insecure", data_dir("insecure"), NULL};
    cli_start(&proc, cli_muster(), words, NULL);
    CHECK("on the terminal", proc_wait_output(&proc, "warning      Insecure", PROC_DEADLINE_MS));
    char *port = strstr(proc.output, "://"), address[64], *text = NULL;
    CHECK("port", port && (port = strchr(port + 3, ':')));
    snprintf(address, sizeof address, "127.0.0.1:%d", atoi(port + 1));
    CHECK_I64("serves", get(address, "/", &text), 200);
    CHECK_HAS("on the page", text, "Insecure: this listener is open to the network without TLS.");
    free(text);
    stop(&proc);
}

/* Whether curl, as an independent client, accepts the served certificate. */
static bool serves_certificate(const char *address, const char *ca_file)
{
    char url[128];
    snprintf(url, sizeof url, "https://%s/healthz", address);
    return cli_run(&other, "curl",
                   WORDS("--silent", "--fail", "--show-error", "--max-time", "20", "--cacert",
                         ca_file, url),
                   NULL) == 0;
}

TEST(tls_files_are_reloaded_and_a_bad_pair_leaves_the_old_one)
{
    char ca[4300], cert[4300], key[4300], cert_flag[4400], key_flag[4400], address[64];
    const char *dir = cli_path("tls-a"), *second = cli_path("tls-b");
    const char *curl[] = {"curl", "--version", NULL};
    if (proc_run(&other, curl) != 0) SKIP("curl is not installed");
    for (int i = 0; i < 2; i++) {
        const char *at = i ? second : dir;
        CHECK_I64("ca", cli_run(&other, cli_musterctl(), WORDS("cert", "ca", "--dir", at), NULL),
                  0);
        CHECK_I64(
            "server",
            cli_run(&other, cli_musterctl(), WORDS("cert", "issue", "server", "--dir", at), NULL),
            0);
    }
    snprintf(cert, sizeof cert, "%s/server.pem", dir);
    snprintf(key, sizeof key, "%s/server.key.pem", dir);
    snprintf(cert_flag, sizeof cert_flag, "--tls-cert-file=%s", cert);
    snprintf(key_flag, sizeof key_flag, "--tls-key-file=%s", key);
    snprintf(address, sizeof address, "%s",
             start(&proc, WORDS(data_dir("tls"), cert_flag, key_flag), NULL));
    snprintf(ca, sizeof ca, "%s/ca.pem", dir);
    CHECK("the first authority's", serves_certificate(address, ca));

    char from[4300];
    snprintf(from, sizeof from, "%s/server.pem", second);
    CHECK("only the certificate is exchanged", rename(from, cert) == 0);
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    CHECK("refused", proc_wait_output(
                         &proc, "reload of the TLS files failed: the old certificate stays in use",
                         PROC_DEADLINE_MS));
    CHECK("still the first authority's", serves_certificate(address, ca));

    snprintf(from, sizeof from, "%s/server.key.pem", second);
    CHECK("now the key too", rename(from, key) == 0);
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    CHECK("taken", proc_wait_output(&proc, "TLS files reloaded", PROC_DEADLINE_MS));
    CHECK("not the first any more", !serves_certificate(address, ca));
    snprintf(ca, sizeof ca, "%s/ca.pem", second);
    CHECK("but the second", serves_certificate(address, ca));
    stop(&proc);
}

TEST(changed_tls_files_are_noticed_without_a_signal)
{
    char ca[4300], from[4300], to[4300], cert_flag[4400], key_flag[4400];
    const char *dir = cli_path("tls-c"), *second = cli_path("tls-d"), *address;
    for (int i = 0; i < 2; i++) {
        const char *at = i ? second : dir;
        CHECK_I64("ca", cli_run(&other, cli_musterctl(), WORDS("cert", "ca", "--dir", at), NULL),
                  0);
        CHECK_I64(
            "server",
            cli_run(&other, cli_musterctl(), WORDS("cert", "issue", "server", "--dir", at), NULL),
            0);
    }
    snprintf(cert_flag, sizeof cert_flag, "--tls-cert-file=%s/server.pem", dir);
    snprintf(key_flag, sizeof key_flag, "--tls-key-file=%s/server.key.pem", dir);
    address = start(&proc, WORDS(data_dir("tls-timer"), cert_flag, key_flag), NULL);
    snprintf(from, sizeof from, "%s/server.key.pem", second);
    snprintf(to, sizeof to, "%s/server.key.pem", dir);
    CHECK("a new key", rename(from, to) == 0);
    CHECK("refused while they do not belong together",
          proc_wait_output(&proc,
                           "reload of the TLS files failed: the old certificate stays in use",
                           PROC_DEADLINE_MS));
    snprintf(from, sizeof from, "%s/server.pem", second);
    snprintf(to, sizeof to, "%s/server.pem", dir);
    CHECK("a new certificate", rename(from, to) == 0);
    CHECK("taken", proc_wait_output(&proc, "TLS files reloaded", PROC_DEADLINE_MS));
    snprintf(ca, sizeof ca, "%s/ca.pem", second);
    const char *curl[] = {"curl", "--version", NULL};
    if (proc_run(&other, curl) == 0) CHECK("and served", serves_certificate(address, ca));
    stop(&proc);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    while ((text = strstr(text, part)) != NULL) {
        text++;
        count++;
    }
    return count;
}

TEST(events_go_where_they_are_asked_to)
{
    static char text[64 * 1024];
    const char *file = cli_path("events.toml");
    cli_write(file, "[log]\nlevel = \"info\"\n");
    start(&proc, WORDS(data_dir("events"), "--events-sink=file", "--config", file), NULL);
    cli_write(file, "[log]\nlevle = \"info\"\n");
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    CHECK("refused", proc_wait_output(&proc, "reload failed", PROC_DEADLINE_MS));
    cli_write(file, "[log]\nlevel = \"debug\"\n");
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    CHECK("reloaded", proc_wait_output(&proc, "setting changed", PROC_DEADLINE_MS));
    stop(&proc);
    FILE *events = fopen(cli_path("events/events.ndjson"), "r");
    CHECK("the file is below the data directory", events != NULL);
    text[fread(text, 1, sizeof text - 1, events)] = '\0';
    fclose(events);
    static const char *const wanted[] = {"started", "reload-refused", "reloaded", "stopping"};
    const char *line = text;
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        char event[64];
        snprintf(event, sizeof event, "\"event\":\"%s\",\"pid\":", wanted[i]);
        CHECK_SIZE(event, count_of(text, event), 1);
        CHECK(text, strncmp(line, "{\"timestamp\":\"", 14) == 0);
        CHECK("in order, a line each",
              strstr(line, event) && strstr(line, event) < strchr(line, '\n'));
        line = strchr(line, '\n') + 1;
    }
    CHECK_TEXT("and no more", line, "");
}

/* A file that cannot be opened, for any reason, is a wrong configuration: 2. */
TEST(a_setting_with_a_file_that_cannot_be_opened_ends_with_2)
{
    cli_write(cli_path("plain"), "x");
    char pair[2][4300], empty_pair[2][4300];
    snprintf(pair[0], sizeof pair[0], "--tls-cert-file=%s", cli_path("no.pem"));
    snprintf(pair[1], sizeof pair[1], "--tls-key-file=%s", cli_path("no.key.pem"));
    snprintf(empty_pair[0], sizeof pair[0], "--tls-cert-file=%s", cli_path("plain"));
    snprintf(empty_pair[1], sizeof pair[1], "--tls-key-file=%s", cli_path("plain"));
    const struct {
        const char *why, *words[2], *says;
    } cases[] = {
        {"a log directory that is not there",
         {"--log-file=/nowhere/x.log"},
         "log.file /nowhere/x.log: its directory: not found"},
        {"a directory as the log", {"--log-file=/tmp"}, "log.file /tmp: it is a directory\n"},
        {"no TLS files", {pair[0], pair[1]}, "no.pem"},
        {"TLS files that are none", {empty_pair[0], empty_pair[1]}, "plain"},
        {"no directory for events",
         {"--events-sink=file", "--events-file=/nowhere/x/e"},
         "/nowhere/x/e"},
        {"a data directory that cannot be made", {"--data-dir=/proc/x/y"}, "data-dir /proc/x/y"},
        {"none at all", {"--data-dir="}, "muster dev: data-dir must not be empty\n"},
        {"an empty log file", {"--log-file="}, "muster dev: log.file must not be empty\n"},
        {"an address of another machine",
         {"--http-listen=192.0.2.1:8790", "--insecure"},
         "muster dev: http.listen: listen 192.0.2.1:8790: address not available"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *words[] = {"dev",
                               "--http-listen=127.0.0.1:0",
                               data_dir("cannot"),
                               cases[i].words[0],
                               cases[i].words[1],
                               NULL};
        int code = cli_run(&proc, cli_muster(), words, NULL);
        CHECK_HAS(cases[i].why, proc.output, cases[i].says);
        CHECK_I64(proc.output, code, 2);
    }
}

TEST(a_configuration_file_that_turned_into_something_else_changes_nothing)
{
    const char *file = cli_path("turned.toml");
    cli_write(file, "[log]\nlevel = \"info\"\n");
    start(&proc, WORDS(data_dir("turned"), "--config", file), NULL);
    CHECK("gone", unlink(file) == 0);
    CHECK("a pipe now", mkfifo(file, 0600) == 0);
    CHECK("SIGHUP", proc_signal(&proc, SIGHUP));
    CHECK("refused", proc_wait_output(&proc, "reload failed", PROC_DEADLINE_MS));
    CHECK_HAS("and why", proc.output, "turned.toml: is not a regular file");
    stop(&proc);
}

TEST(it_runs_with_its_standard_files_closed)
{
    static const char *const closed[] = {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"};
    for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
        static char script[5 * 4400];
        char flag[4200], name[32];
        snprintf(name, sizeof name, "closed-%zu", i);
        snprintf(flag, sizeof flag, "%s", cli_path(name));
        snprintf(script, sizeof script,
                 "'%s' dev --replicas=0 --http-listen=127.0.0.1:0 --log-file='%s.log' "
                 "--data-dir='%s' %s & "
                 "pid=$!; for i in $(seq 1000); do grep -qs started '%s.log' && break; sleep 0.02; "
                 "done; kill -HUP $pid; kill $pid; wait $pid; echo code $?",
                 cli_muster(), flag, flag, closed[i], flag);
        CHECK_I64(closed[i], cli_run(&other, "sh", WORDS("-c", script), NULL), 0);
        CHECK_HAS(closed[i], other.output, "code 0\n");
    }
}
