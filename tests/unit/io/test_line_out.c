/* SPDX-License-Identifier: Apache-2.0 */
#include "io/line_out.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/test.h"

static size_t drain(int fd, struct buf *into)
{
    char room[65536];
    size_t total = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t got; (got = read(fd, room, sizeof room)) > 0; total += (size_t)got)
        CHECK_OK("keep", buf_append(into, str_of(room, (size_t)got)));
    return total;
}

static void fill_and_drain(int reader, int writer)
{
    struct line_out out;
    struct buf all;
    size_t taken = 0;
    char line[100];
    buf_init(&all, 16 << 20);
    CHECK_OK("init", line_out_init(&out, writer));
    memset(line, 'l', sizeof line);
    line[99] = '\n';
    while (line_out_write(&out, str_of(line, sizeof line)) == ERR_OK)
        taken++; /* ends: there is no reader */
    CHECK_ERR("full, and it did not wait", line_out_write(&out, str_of(line, sizeof line)),
              ERR_FULL);
    drain(reader, &all);
    CHECK_OK("room again", line_out_write(&out, str_of(line, sizeof line)));
    drain(reader, &all);
    CHECK_SIZE("accepted lines arrive completely", all.len, (taken + 1) * sizeof line);
    line_out_deinit(&out);
    buf_deinit(&all);
}

TEST(an_unread_pipe_and_socket_report_full)
{
    int ends[2];
    CHECK("pipe", pipe(ends) == 0);
    fill_and_drain(ends[0], ends[1]);
    CHECK("others may still wait on it", !(fcntl(ends[1], F_GETFL) & O_NONBLOCK));
    close(ends[0]);
    close(ends[1]);
    CHECK("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    fill_and_drain(ends[0], ends[1]);
    CHECK("others may still wait on it", !(fcntl(ends[1], F_GETFL) & O_NONBLOCK));
    close(ends[0]);
    close(ends[1]);
}

TEST(a_line_larger_than_the_pipe_is_finished_before_the_next)
{
    enum { LARGE = 200000 };
    int ends[2];
    struct line_out out;
    struct buf all;
    char *line = malloc(LARGE);
    memset(line, 'a', LARGE);
    line[LARGE - 1] = '\n';
    buf_init(&all, 16 << 20);
    CHECK("pipe", pipe(ends) == 0);
    CHECK_OK("init", line_out_init(&out, ends[1]));
    CHECK_OK("taken", line_out_write(&out, str_of(line, LARGE)));
    CHECK_ERR("the next one waits for its rest", line_out_write(&out, STR("b\n")), ERR_FULL);
    do drain(ends[0], &all);
    while (line_out_write(&out, STR("b\n")) == ERR_FULL);
    drain(ends[0], &all);
    CHECK_SIZE("both", all.len, LARGE + 2);
    CHECK("in order",
          memcmp(all.data, line, LARGE) == 0 && memcmp(all.data + LARGE, "b\n", 2) == 0);
    line_out_deinit(&out);
    buf_deinit(&all);
    free(line);
    close(ends[0]);
    close(ends[1]);
}

/* Writes a large line to a pipe that is read in pieces; nothing is written afterwards. */
static void large_line_by_flush(bool second_opening)
{
    enum { LARGE = 200000 };
    int ends[2];
    struct line_out out;
    struct buf all;
    char *line = malloc(LARGE);
    memset(line, 'a', LARGE);
    line[LARGE - 1] = '\n';
    buf_init(&all, 16 << 20);
    CHECK("pipe", pipe(ends) == 0);
    CHECK_OK("init", line_out_init(&out, ends[1]));
    CHECK_OK("nothing to flush", line_out_flush(&out));
    if (!second_opening) { /* as without /proc */
        close(out.fd);
        out.fd = ends[1];
        out.owned = false;
    }
    alarm(30); /* a write that blocks would block this test */
    CHECK_OK("taken", line_out_write(&out, str_of(line, LARGE)));
    CHECK_ERR("some of it is left", line_out_flush(&out), ERR_FULL);
    do drain(ends[0], &all);
    while (line_out_flush(&out) == ERR_FULL);
    alarm(0);
    drain(ends[0], &all);
    CHECK_SIZE("all of it", all.len, LARGE);
    CHECK("as it was", memcmp(all.data, line, LARGE) == 0);
    line_out_deinit(&out);
    buf_deinit(&all);
    free(line);
    close(ends[0]);
    close(ends[1]);
}

TEST(the_rest_of_a_large_line_goes_out_without_another_line)
{
    large_line_by_flush(true);
}

TEST(a_pipe_that_cannot_be_opened_again_is_not_waited_for)
{
    large_line_by_flush(false);
}

TEST(a_closed_reader_and_a_bad_descriptor_are_reported)
{
    int ends[2];
    struct line_out out;
    signal(SIGPIPE, SIG_IGN);
    CHECK("pipe", pipe(ends) == 0);
    CHECK_OK("init", line_out_init(&out, ends[1]));
    close(ends[0]);
    CHECK_ERR("closed", line_out_write(&out, STR("x\n")), ERR_CLOSED);
    line_out_deinit(&out);
    close(ends[1]);
    CHECK_ERR("no descriptor", line_out_init(&out, 987), ERR_INVALID);
    line_out_deinit(&out);
    line_out_deinit(&out);
}

TEST(a_file_at_its_limit_gets_no_two_lines_glued)
{
    struct rlimit old;
    struct line_out out;
    char path[256], got[64] = "";
    int fd;
    snprintf(path, sizeof path, "%s/limited", test_dir());
    signal(SIGXFSZ, SIG_IGN);
    fd = open(path, O_CREAT | O_RDWR | O_APPEND, 0600);
    CHECK_OK("init", line_out_init(&out, fd));
    CHECK_OK("first", line_out_write(&out, STR("one\n")));
    getrlimit(RLIMIT_FSIZE, &old);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){6, old.rlim_max});
    enum err err = line_out_write(&out, STR("two\n"));
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK("refused", err != ERR_OK);
    CHECK_OK("third", line_out_write(&out, STR("three\n")));
    CHECK("read", pread(fd, got, sizeof got - 1, 0) > 0);
    CHECK_TEXT("on a line of its own", got, "one\ntw\nthree\n");
    line_out_deinit(&out);
    close(fd);
}
