/* SPDX-License-Identifier: Apache-2.0 */
/* Fits a frame into the screen (pure), runs the process that makes frames, and draws on the
 * terminal. Two processes with one thread each. */
#include "ctl/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "text/utf8.h"

enum { SECTIONS_MAX = 16, ROWS_DEFAULT = 24, COLUMNS_DEFAULT = 80, COLUMNS_MAX = 1000 };
static const char enter_screen[] = "\033[?1049h\033[?25l"; /* alternate screen, no cursor */
static const char leave_screen[] = "\033[?25h\033[?1049l";

/* -- fitting; pure -- */

struct section {
    struct str title; /* the title line with its mark; empty: no title */
    struct str heading;
    struct str body;
    size_t lines, shown; /* of the body */
};

static struct str screen_take_line(struct str *text)
{
    struct str line = STR_EMPTY;

    (void)str_split(text, '\n', &line);
    return line;
}

static bool screen_begins_section(struct str text)
{
    return text.len > 0 && text.at[0] == SCREEN_SECTION;
}

/* Lines before the first title are a section without title. */
static size_t screen_find_sections(struct str frame, struct section *sections)
{
    size_t count = 0;

    while (frame.len > 0 && count < SECTIONS_MAX) {
        struct section *section = &sections[count++];
        size_t end = 0;

        *section = (struct section){0};
        if (screen_begins_section(frame)) {
            section->title = screen_take_line(&frame);
            if (frame.len > 0 && !screen_begins_section(frame))
                section->heading = screen_take_line(&frame);
        }
        while (end < frame.len && frame.at[end] != SCREEN_SECTION) end++;
        section->body = str_of(frame.at, end);
        section->lines = str_count(section->body, '\n');
        frame = str_tail(frame, end);
    }
    return count;
}

/* Gives rows to the sections in turn, so that a long list leaves rows for short lists. */
static void screen_share(struct section *sections, size_t count, size_t rows)
{
    for (bool gave = true; gave && rows > 0;) {
        gave = false;
        for (size_t i = 0; i < count && rows > 0; i++) {
            if (sections[i].shown == sections[i].lines) continue;
            sections[i].shown++;
            rows--;
            gave = true;
        }
    }
}

struct fitting {
    struct buf *into;
    size_t rows, columns; /* rows: number of rows that are left */
    enum err err;         /* the first failure */
};

static void screen_put_cut(struct fitting *f, struct str line)
{
    struct str rest = screen_begins_section(line) ? str_tail(line, 1) : line;

    if (f->err || f->rows == 0) return;
    for (size_t left = f->columns; rest.len > 0 && left > 0; left--)
        rest = str_tail(rest, max_size(utf8_step(rest.at, rest.len), 1));
    f->rows--;
    f->err = buf_append(f->into, str_of(line.at, line.len - rest.len));
    if (!f->err) f->err = buf_append_byte(f->into, '\n');
}

static void screen_put_section(struct fitting *f, const struct section *section)
{
    struct str body = section->body;
    bool cut = section->shown < section->lines;
    char more[64];

    if (section->title.len > 0) screen_put_cut(f, section->title);
    if (section->heading.len > 0) screen_put_cut(f, section->heading);
    for (size_t i = 0; i + (cut ? 1 : 0) < section->shown; i++)
        screen_put_cut(f, screen_take_line(&body));
    if (!cut || section->shown == 0) return;
    snprintf(more, sizeof more, "... %zu more", section->lines - section->shown + 1);
    screen_put_cut(f, str_from(more));
}

enum err screen_fit(struct str frame, size_t rows, size_t columns, struct buf *into)
{
    struct section sections[SECTIONS_MAX];
    size_t count = screen_find_sections(frame, sections), fixed = 0;
    struct fitting f = {.into = into, .rows = rows, .columns = columns};

    for (size_t i = 0; i < count; i++)
        fixed += (size_t)(sections[i].title.len > 0) + (size_t)(sections[i].heading.len > 0);
    screen_share(sections, count, rows > fixed ? rows - fixed : 0);
    for (size_t i = 0; i < count; i++) screen_put_section(&f, &sections[i]);
    return f.err;
}

enum err screen_plain(struct str frame, struct buf *into)
{
    enum err err = ERR_OK;

    while (frame.len > 0 && !err) {
        struct str line = screen_take_line(&frame);
        if (screen_begins_section(line)) {
            err = buf_append_byte(into, '\n');
            line = str_tail(line, 1);
        }
        if (!err) err = buf_append(into, line);
        if (!err) err = buf_append_byte(into, '\n');
    }
    return err;
}

/* -- the maker -- */

struct maker {
    pid_t process;
    int frames; /* read end of a pipe; each frame ends with a NUL */
};

static bool screen_write_all(int fd, struct str text)
{
    while (text.len > 0) {
        ssize_t done = write(fd, text.at, text.len);
        if (done < 0 && errno != EINTR && errno != EAGAIN) return false;
        if (done < 0 && errno == EAGAIN) (void)poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
        if (done > 0) text = str_tail(text, (size_t)done);
    }
    return true;
}

/* Runs in the child process. It blocks the screen's signals, so it ends only with the screen. */
static _Noreturn void screen_make_frames(screen_make_fn *make, void *owner, uint64_t every_ms,
                                         int into, pid_t screen)
{
    struct buf frame;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != screen) _exit(1);
    (void)signal(SIGPIPE, SIG_IGN);
    buf_init(&frame, SCREEN_FRAME_MAX);
    for (;;) {
        buf_clear(&frame);
        if (make(owner, &frame) || buf_append_byte(&frame, '\0')) _exit(1);
        if (!screen_write_all(into, buf_peek(&frame))) _exit(0);
        (void)poll(NULL, 0, (int)every_ms);
    }
}

static bool screen_start_maker(screen_make_fn *make, void *owner, uint64_t every_ms,
                               struct maker *maker)
{
    pid_t screen = getpid();
    int ends[2];

    if (pipe(ends) != 0) return false;
    maker->process = fork();
    if (maker->process == 0) {
        (void)close(ends[0]);
        screen_make_frames(make, owner, every_ms, ends[1], screen);
    }
    (void)close(ends[1]);
    maker->frames = ends[0];
    if (maker->process > 0) return true;
    (void)close(ends[0]);
    return false;
}

static void screen_stop_maker(struct maker *maker)
{
    (void)close(maker->frames);
    (void)kill(maker->process, SIGKILL);
    while (waitpid(maker->process, NULL, 0) < 0 && errno == EINTR) {}
}

/* -- the terminal -- */

struct screen {
    struct termios before;
    bool typed; /* stdin is a terminal, whose settings are in `before` */
    int signals;
    int ended_by;
    int gone; /* the errno with which the terminal was lost, or 0 */
    struct buf coming, frame, picture;
};

static bool screen_write(struct screen *s, struct str text)
{
    if (!s->gone && !screen_write_all(STDOUT_FILENO, text)) s->gone = errno;
    return !s->gone;
}

static void screen_enter(struct screen *s)
{
    struct termios quiet;

    s->typed = tcgetattr(STDIN_FILENO, &s->before) == 0;
    if (s->typed) {
        quiet = s->before;
        quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* Ctrl-C and Ctrl-Z stay signals */
        quiet.c_cc[VMIN] = 0;
        quiet.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
    }
    (void)screen_write(s, str_from(enter_screen));
}

static void screen_leave(struct screen *s)
{
    (void)screen_write(s, str_from(leave_screen));
    if (s->typed) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
}

static enum err screen_append_line(struct buf *into, struct str line)
{
    bool bold = screen_begins_section(line);
    enum err err = bold ? buf_append_c(into, "\033[1m") : ERR_OK;

    if (!err) err = buf_append(into, bold ? str_tail(line, 1) : line);
    return err ? err : buf_append_c(into, bold ? "\033[0m\033[K\r\n" : "\033[K\r\n");
}

static void screen_draw(struct screen *s)
{
    struct winsize size = {0};
    size_t rows = ROWS_DEFAULT, columns = COLUMNS_DEFAULT;
    struct buf fitted;
    struct str rest;
    enum err err;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        rows = size.ws_row;
        columns = min_size(size.ws_col, COLUMNS_MAX);
    }
    buf_clear(&s->picture);
    buf_init(&fitted, SCREEN_FRAME_MAX * 2);
    /* The last row is for the cursor. */
    err = screen_fit(buf_peek(&s->frame), rows - 1, columns, &fitted);
    rest = buf_peek(&fitted);
    if (!err) err = buf_append_c(&s->picture, "\033[H");
    while (rest.len > 0 && !err) {
        struct str line = screen_take_line(&rest);
        err = screen_append_line(&s->picture, line);
    }
    if (!err) err = buf_append_c(&s->picture, "\033[J");
    if (!err) (void)screen_write(s, buf_peek(&s->picture));
    buf_deinit(&fitted);
}

static bool screen_take_frames(struct screen *s, int from)
{
    char bytes[16 * 1024];
    ssize_t got = read(from, bytes, sizeof bytes);
    struct str rest;
    const char *end;

    if (got == 0) return false;
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    rest = str_of(bytes, (size_t)got);
    while ((end = memchr(rest.at, '\0', rest.len))) {
        size_t len = (size_t)(end - rest.at);
        buf_clear(&s->frame);
        if (buf_append(&s->coming, str_of(rest.at, len)) ||
            buf_append(&s->frame, buf_peek(&s->coming)))
            return false;
        buf_clear(&s->coming);
        rest = str_tail(rest, len + 1);
        screen_draw(s);
    }
    return buf_append(&s->coming, rest) == ERR_OK;
}

/* True: the user leaves. */
static bool screen_take_keys(struct screen *, struct pollfd *stdin_poll)
{
    char keys[64];
    ssize_t got = read(STDIN_FILENO, keys, sizeof keys);

    if (got == 0 && !isatty(STDIN_FILENO)) stdin_poll->fd = -1; /* nobody types there */
    if (got < 0 && errno != EINTR && errno != EAGAIN) stdin_poll->fd = -1;
    for (ssize_t i = 0; i < got; i++)
        if (keys[i] == 'q' || keys[i] == 'Q') return true;
    return false;
}

/* True: the screen ends. */
static bool screen_take_signal(struct screen *s)
{
    struct signalfd_siginfo info;

    if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info) return false;
    switch ((int)info.ssi_signo) {
    case SIGWINCH: screen_draw(s); return false;
    case SIGTSTP:
        screen_leave(s);
        (void)raise(SIGSTOP);
        screen_enter(s);
        screen_draw(s);
        return false;
    case SIGINT: return true;
    default: s->ended_by = (int)info.ssi_signo; return true;
    }
}

static enum err screen_show(struct screen *s, const struct maker *maker, struct note *note)
{
    struct pollfd polls[] = {
        {STDIN_FILENO, POLLIN, 0}, {maker->frames, POLLIN, 0}, {s->signals, POLLIN, 0}};

    if (!isatty(STDIN_FILENO)) polls[0].fd = -1;
    for (;;) {
        if (poll(polls, ARRAY_LEN(polls), -1) < 0 && errno != EINTR) return ERR_IO;
        if (polls[2].revents && screen_take_signal(s)) return ERR_OK;
        if (polls[0].fd >= 0 && polls[0].revents && screen_take_keys(s, &polls[0])) return ERR_OK;
        if (polls[1].revents && !screen_take_frames(s, maker->frames))
            return note_fail(note, ERR_INTERNAL, "the process that asks the fleet has ended");
        if (s->gone) { /* only the session's own terminal sends SIGHUP when it is lost */
            note_set(note, "the terminal is gone: %s", strerror(s->gone));
            return ERR_INTERNAL; /* exit code 1, because the coordinators did answer */
        }
    }
}

enum err screen_run(screen_make_fn *make, void *owner, uint64_t every_ms, struct note *note)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
    struct screen s = {0};
    struct maker maker;
    sigset_t ours, before;
    enum err err = ERR_INTERNAL;

    sigemptyset(&ours);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++) sigaddset(&ours, handled[i]);
    (void)sigprocmask(SIG_BLOCK, &ours, &before);
    s.signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    buf_init(&s.coming, SCREEN_FRAME_MAX);
    buf_init(&s.frame, SCREEN_FRAME_MAX);
    buf_init(&s.picture, SCREEN_FRAME_MAX * 4);
    if (s.signals >= 0 && screen_start_maker(make, owner, every_ms, &maker)) {
        (void)signal(SIGPIPE, SIG_IGN); /* writes fail with EPIPE instead */
        screen_enter(&s);
        err = screen_show(&s, &maker, note);
        screen_leave(&s);
        screen_stop_maker(&maker);
    } else {
        note_set(note, "no process to ask the fleet with: %s", strerror(errno));
    }
    buf_deinit(&s.picture);
    buf_deinit(&s.frame);
    buf_deinit(&s.coming);
    if (s.signals >= 0) (void)close(s.signals);
    if (s.ended_by) (void)signal(s.ended_by, SIG_DFL);
    if (s.ended_by) (void)raise(s.ended_by); /* ends the process as the signal does */
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return err;
}
