/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions and the inspection over the real operating system, before an owner that does what
 * the rows of a roll-up ask for. For tests/integration/shard/test_sessions.py.
 *
 *   session_server --listen 127.0.0.1:0 [--tls-cert F --tls-key F --tls-ca F]
 *
 * Prints "listening on ADDRESS", then a line per event, and serves until SIGTERM. A row's group
 * says what is to be done once the roll-up is taken:
 *   blob                ask for one, with the row's requirements, for 30 s
 *   reclaim MACHINE     for 10 s, by priority 7
 *   state MACHINE N     its state; 4, 5, 6: it is bound to the cluster
 *   capacity            three machines, high confidence, 4.5 dollars
 * A new session hears that machine m-1 is Configured. An inspection shows the last roll-up. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/real.h"
#include "io/signals.h"
#include "lib/need_view_make.h"
#include "shard/need_wire.h"
#include "shard/read.h"
#include "shard/session_frame.h"
#include "shard/sessions.h"

static struct {
    const char *listen, *cert, *key, *ca;
    struct real_io *real;
    struct io *io;
    struct tls_context *tls;
    struct signals *signals;
    struct rpc_server *server;
    struct sessions *sessions;
    struct inspections *inspections;
    struct dimensions dimensions;
    struct frame_writer writer;
    struct arena arena; /* of the last roll-up */
    struct rollup_rows last;
    struct inspection *asked;
    struct task answer;
    uint64_t actions;
    bool closed;
} p;

static void must(const char *what, enum err err, const struct note *note)
{
    if (!err) return;
    fprintf(stderr, "session_server: %s: %s: %s\n", what, err_text(err), note->text);
    exit(1);
}

static void tell_state(struct str cluster, struct str id, enum machine_state state)
{
    bool bound = state >= MACHINE_CONFIGURING && state <= MACHINE_DRAINING;
    struct machine machine = {.id = id,
                              .state = state,
                              .host_ref = STR("cloud:///zone/i-1"),
                              .attributes = {STR("m5.large"), STR("zone"), NULL, 0}};

    must("state", frame_write_node_state(&p.writer, cluster, &machine, &p.dimensions),
         &(struct note){""});
    sessions_node_state(p.sessions, cluster, id, !bound, buf_peek(&p.writer.frame));
}

static void on_open(void *owner, struct str cluster, bool reports_drains)
{
    (void)owner, (void)reports_drains;
    printf("open %.*s\n", STR_ARG(cluster));
    tell_state(cluster, STR("m-1"), MACHINE_CONFIGURED);
    sessions_resynced(p.sessions, cluster);
}

static void on_close(void *owner, struct str cluster)
{
    (void)owner;
    printf("close %.*s\n", STR_ARG(cluster));
}

static void do_row(const struct need *need)
{
    struct str rest = need->group, word = STR_EMPTY, machine = STR_EMPTY, state = STR_EMPTY;
    uint64_t number = 0;

    (void)(str_split(&rest, ' ', &word) && str_split(&rest, ' ', &machine) &&
           str_split(&rest, ' ', &state));
    (void)str_to_u64(state, &number);
    if (str_equal(word, STR("blob"))) {
        struct session_blob *request = calloc(1, sizeof *request);
        if (!request) exit(1);
        request->action = ++p.actions;
        must("ask", sessions_ask_blob(p.sessions, need->cluster, request, &need->profile, 30000),
             &(struct note){""});
    }
    if (str_equal(word, STR("reclaim")))
        sessions_reclaim(p.sessions, need->cluster, 1, machine, 10000, 7);
    if (str_equal(word, STR("state")))
        tell_state(need->cluster, machine, (enum machine_state)number);
    if (str_equal(word, STR("capacity")))
        sessions_capacity(p.sessions, need->cluster,
                          &(struct capacity_offer){&need->profile, 3, CONFIDENCE_HIGH, 4.5});
}

static void on_rollup(void *owner, struct rollup *rollup)
{
    struct note note = {""};
    struct rollup_rows rows;
    enum err err;

    (void)owner;
    p.last = (struct rollup_rows){0};
    arena_reset(&p.arena);
    err = rollup_read(rollup->bytes, rollup->cluster, 0, &p.arena, &p.dimensions, &rows, &note);
    if (err) {
        printf("refused %.*s: %s\n", STR_ARG(rollup->cluster), note.text);
        sessions_rollup_done(p.sessions, rollup, ROLLUP_REFUSED);
        return;
    }
    p.last = rows;
    printf("rollup %.*s %zu rows\n", STR_ARG(rollup->cluster), rows.count);
    sessions_rollup_done(p.sessions, rollup, ROLLUP_ACKNOWLEDGED);
    for (size_t i = 0; i < rows.count; i++) do_row(&rows.rows[i]);
}

static void on_blob(void *owner, struct session_blob *request, enum blob_end end,
                    struct str content)
{
    static const char *const ends[] = {"ready", "no session", "timeout", "error"};

    (void)owner;
    printf("blob %llu %s %.*s\n", (unsigned long long)request->action, ends[end], STR_ARG(content));
    free(request);
}

static void on_drain_report(void *owner, const struct drain_report *report)
{
    (void)owner;
    printf("drain report %.*s %d\n", STR_ARG(report->machine), report->drained);
}

static const struct sessions_events events = {on_open, on_close, on_rollup, on_blob,
                                              on_drain_report};

static void on_answer(struct task *task)
{
    struct need_view *views = calloc(p.last.count + 1, sizeof *views);
    struct view_made *made = calloc(p.last.count + 1, sizeof *made);
    struct needs_view view = {.needs = views};

    (void)task;
    if (!views || !made) exit(1);
    view.cycle = 7;
    for (size_t i = 0; i < p.last.count; i++) {
        const struct need *need = &p.last.rows[i];
        if (p.asked->text.len > 0 && !str_equal(p.asked->text, need->cluster)) continue;
        view.total++;
        if (p.asked->limit > 0 && view.count == p.asked->limit) continue;
        views[view.count] = need_view_make(&made[view.count], need);
        made[view.count].shortage = (struct shortage){.deficit = made[view.count].demand.aggregate,
                                                      .reason = REASON_NO_MATCHING_SUPPLY};
        made[view.count].row.shortage = &made[view.count].shortage;
        view.count++;
    }
    inspection_write(p.asked, ERR_OK, &view, &p.dimensions);
    inspection_done(p.asked);
    free(views);
    free(made);
}

/* One at a time is enough here. */
static void on_inspect(void *owner, struct inspection *inspection)
{
    (void)owner;
    p.asked = inspection;
    loop_defer(p.io->loop, &p.answer);
}

static void on_closed(void *owner)
{
    (void)owner;
    real_io_stop(p.real);
}

static void on_signal(void *owner, int number)
{
    (void)owner, (void)number;
    sessions_drain(p.sessions);
    rpc_server_close(p.server, on_closed, NULL);
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--listen")) p.listen = argv[i + 1];
        if (!strcmp(argv[i], "--tls-cert")) p.cert = argv[i + 1];
        if (!strcmp(argv[i], "--tls-key")) p.key = argv[i + 1];
        if (!strcmp(argv[i], "--tls-ca")) p.ca = argv[i + 1];
    }
}

static void open_tls(struct note *note)
{
    if (!p.cert) return;
    must("tls",
         tls_context_open(p.io->fs,
                          &(struct tls_options){.side = TLS_SERVER,
                                                .version_min = TLS_V1_3,
                                                .cert_file = p.cert,
                                                .key_file = p.key,
                                                .ca_files = {p.ca},
                                                .alpn = {"h2"}},
                          &p.tls, note),
         note);
}

int main(int argc, char **argv)
{
    struct rpc_server_limits limits = {0};
    struct note note = {""};

    parse(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    must("loop", real_io_open(&p.real), &note);
    p.io = real_io_io(p.real);
    open_tls(&note);
    dimensions_init(&p.dimensions);
    frame_writer_init(&p.writer);
    arena_init(&p.arena, (size_t)1 << 30);
    task_init(&p.answer, on_answer);
    must("signals",
         signals_open(p.io->loop, (const int[]){SIGTERM, 0}, on_signal, NULL, &p.signals), &note);
    must("sessions",
         sessions_open(&(struct sessions_options){.io = p.io, .events = &events, .epoch = 3},
                       &p.sessions),
         &note);
    must("inspections",
         inspections_open(&(struct inspections_options){.io = p.io, .inspect = on_inspect},
                          &p.inspections),
         &note);
    sessions_server_limits(p.sessions, &limits);
    must("server",
         rpc_server_open(&(struct rpc_server_options){.io = p.io, .limits = limits}, &p.server,
                         &note),
         &note);
    must("method", sessions_serve(p.sessions, p.server, &note), &note);
    must("method", inspections_serve(p.inspections, p.server, &note), &note);
    must("listen", rpc_server_listen(p.server, p.listen, p.tls, &note), &note);
    printf("listening on %s\n", rpc_server_address(p.server, 0));
    real_io_run(p.real);
    sessions_close(p.sessions);
    inspections_close(p.inspections);
    signals_close(p.signals);
    tls_context_unref(p.tls);
    frame_writer_deinit(&p.writer);
    dimensions_deinit(&p.dimensions);
    arena_deinit(&p.arena);
    real_io_close(p.real);
    return 0;
}
