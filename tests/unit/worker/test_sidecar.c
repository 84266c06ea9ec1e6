/* SPDX-License-Identifier: Apache-2.0 */
/* worker/sidecar.h and sidecar_call.h with real processes: cases 203, 204 and 207 of workers.md.
 * The sidecar is the example, examples/plugins/lengths.py. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/real.h"
#include "lib/test.h"
#include "worker/sidecar.h"
#include "worker/sidecar_call.h"

enum { PATIENCE_MS = 90000 };

static struct {
    struct real_io *real;
    struct logger *logger;
    struct log_source log;
    struct sidecar *sidecar;
    char dir[64], socket[96];
    bool failed, closed;
    struct note why;
} w;

static void on_change(void *owner)
{
    (void)owner;
}
static void on_failed(void *owner, enum err err, const struct note *note)
{
    (void)owner;
    CHECK("an error", err);
    w.failed = true;
    w.why = *note;
}
static void set_closed(void *owner)
{
    (void)owner;
    w.closed = true;
}

static void swallow(void *context, enum log_level level, struct str line)
{
    (void)context;
    (void)level;
    (void)line;
}

static enum err set_up(const char *const *command, uint64_t bind_ms)
{
    struct logger_options logger = {.clock = clock_real(), .sink = swallow};
    struct sidecar_options options = {.name = "lengths",
                                      .command = command,
                                      .socket_path = w.socket,
                                      .bind_ms = bind_ms,
                                      .log = &w.log,
                                      .on_change = on_change,
                                      .on_failed = on_failed};

    memset(&w, 0, sizeof w);
    CHECK_OK("io", real_io_open(&w.real));
    CHECK_OK("log", logger_open(&logger, &w.logger));
    log_source_init(&w.log, w.logger, "test", NULL);
    snprintf(w.dir, sizeof w.dir, "/tmp/muster-sidecar-XXXXXX");
    CHECK("directory", mkdtemp(w.dir));
    snprintf(w.socket, sizeof w.socket, "%s/s.sock", w.dir);
    options.io = real_io_io(w.real);
    return sidecar_open(&options, &w.sidecar, &w.why);
}

static void tear_down(void)
{
    sidecar_close(w.sidecar, set_closed, NULL);
    while (!w.closed) real_io_turn(w.real, true);
    CHECK("the socket is gone", access(w.socket, F_OK) != 0);
    logger_close(w.logger);
    real_io_close(w.real);
    CHECK_I64("nothing else was left", rmdir(w.dir), 0);
}

/* A turn may sleep until the next timer; the sidecar always has a timer until it is ready. */
static void turn_until(bool (*holds)(void))
{
    uint64_t until = clock_mono(clock_real()).ms + PATIENCE_MS;

    while (!holds()) {
        CHECK("in time", clock_mono(clock_real()).ms < until);
        real_io_turn(w.real, false);
        usleep(1000);
    }
}
static bool ready(void)
{
    return sidecar_ready(w.sidecar);
}
static bool unready(void)
{
    return !sidecar_ready(w.sidecar);
}
static bool failed(void)
{
    return w.failed;
}

static const char *const *example(void)
{
    static const char *words[] = {"python3", NULL, NULL};

    words[1] = getenv("TEST_SIDECAR");
    CHECK("TEST_SIDECAR names the program", words[1]);
    return words;
}

static void check_call(struct sidecar_line *line, struct str method, struct str payload,
                       struct str want)
{
    struct buf reply;

    buf_init(&reply, 4096);
    CHECK_OK("call", sidecar_call(line, method, payload, PATIENCE_MS, &reply, NULL));
    CHECK_STR("reply", buf_peek(&reply), want);
    buf_deinit(&reply);
}

TEST(it_echoes_and_leaves_nothing_behind) /* 203 */
{
    struct sidecar_line line;
    struct buf reply;
    struct note note = {""};

    CHECK_OK("start", set_up(example(), PATIENCE_MS));
    turn_until(ready);
    sidecar_line_init(&line, w.socket);
    buf_init(&reply, 4096);
    check_call(&line, STR("echo"), STR("hello"), STR("{\"payload\": \"hello\"}"));
    CHECK_OK("map", sidecar_call(&line, STR("map"), STR("pear 7"), PATIENCE_MS, &reply, &note));
    buf_clear(&line.work);
    CHECK_OK("payload", sidecar_reply_payload(buf_peek(&reply), &line.work, &note));
    CHECK_STR("mapped", buf_peek(&line.work), STR("4"));
    buf_clear(&reply);
    CHECK_OK("call", sidecar_call(&line, STR("nope"), STR("x"), PATIENCE_MS, &reply, &note));
    CHECK_ERR("refused", sidecar_reply_payload(buf_peek(&reply), &line.work, &note), ERR_INVALID);
    CHECK_HAS("its message", note.text, "no method 'nope'");
    buf_deinit(&reply);
    sidecar_line_deinit(&line);
    tear_down();
}

TEST(a_reload_is_a_new_process_on_the_same_socket) /* 204 */
{
    struct sidecar_line line;
    int before;

    CHECK_OK("start", set_up(example(), PATIENCE_MS));
    turn_until(ready);
    before = sidecar_pid(w.sidecar);
    sidecar_line_init(&line, w.socket);
    check_call(&line, STR("echo"), STR("a"), STR("{\"payload\": \"a\"}"));
    sidecar_reload(w.sidecar);
    CHECK("not before it is there", !ready());
    turn_until(ready);
    CHECK("another process", sidecar_pid(w.sidecar) != before);
    CHECK("the old one is gone", kill(before, 0) != 0);
    check_call(&line, STR("echo"), STR("b"), STR("{\"payload\": \"b\"}"));
    sidecar_line_deinit(&line);
    tear_down();
}

TEST(a_sidecar_that_dies_is_restarted_and_a_halted_one_is_not)
{
    CHECK_OK("start", set_up(example(), PATIENCE_MS));
    turn_until(ready);
    int first = sidecar_pid(w.sidecar), second;
    kill(first, SIGKILL);
    turn_until(unready);
    turn_until(ready);
    second = sidecar_pid(w.sidecar);
    CHECK("started twice", second > 0 && second != first);
    sidecar_halt(w.sidecar);
    CHECK("at once", !ready());
    while (sidecar_pid(w.sidecar)) real_io_turn(w.real, true);
    sidecar_resume(w.sidecar);
    turn_until(ready);
    CHECK("and again when it may", sidecar_pid(w.sidecar) > 0 && sidecar_pid(w.sidecar) != second);
    tear_down();
}

TEST(a_sidecar_that_cannot_run_is_reported_once) /* 207 */
{
    static const char *const nobody[] = {"/nowhere/plugin", NULL};
    static const char *const quits[] = {"sh", "-c", "exit 3", NULL};

    CHECK_ERR("no such program", set_up(nobody, PATIENCE_MS), ERR_NOT_FOUND);
    CHECK_HAS("named", w.why.text, "plugin lengths");
    tear_down();
    CHECK_OK("it starts", set_up(quits, PATIENCE_MS));
    turn_until(failed);
    CHECK_HAS("and ends", w.why.text, "ended with 3 before it took a connection");
    tear_down();
}

TEST(a_sidecar_that_never_binds_is_dropped) /* 207 */
{
    static const char *const waits[] = {"sh", "-c", "exec sleep 1000", NULL};

    CHECK_OK("it starts", set_up(waits, 300));
    turn_until(failed);
    CHECK_HAS("the reason", w.why.text, "did not take a connection");
    tear_down();
}
