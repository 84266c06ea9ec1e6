/* SPDX-License-Identifier: Apache-2.0 */
/* A resumable watch: reads lines from a stream, and opens a new stream when one ends.
 *
 *   stopped --connect--> streaming --end, break, silence--> pausing --pause over--> stopped
 *   any --410, a refusal, cancel--> over */
#include <stdlib.h>

#include "io/clock.h"
#include "kube/channel.h"

enum {
    IDLE_DEFAULT_MS = 150 * 1000,
    PAUSE_FIRST_MS = 100, /* short, because a server may end a stream normally */
    PAUSE_MOST_MS = 10 * 1000,
    STREAM_SECONDS = 300, /* requested duration, so that streams move to new servers */
};

struct kube_watch {
    struct kube *kube;
    char *url;                      /* without the parameter resourceVersion */
    char version[KUBE_VERSION_CAP]; /* newest version received; the next stream starts there */
    uint64_t idle_ms, pause_ms;
    struct channel *channel; /* lives as long as the watch, so that cancel can wake it */
    bool streaming;          /* a request is running on the channel */
    mono_time last_byte_at, connect_at;
    enum err over;
    struct note over_why;
    atomic_bool cancelled;
};

static mono_time now(void)
{
    return clock_mono(clock_real());
}

enum err kube_watch_open(struct kube *kube, const struct kube_path *path,
                         const struct kube_watch_options *options, struct kube_watch **ret_watch,
                         struct note *note)
{
    size_t version_len = strlen(options->resource_version);
    struct kube_watch *w;
    struct buf url;
    enum err err;

    if (version_len == 0 || version_len >= KUBE_VERSION_CAP)
        return note_fail(note, ERR_INVALID, "a resource version of %zu bytes", version_len);
    w = calloc(1, sizeof *w);
    if (!w) return note_fail(note, ERR_NOMEM, "out of memory");
    w->kube = kube;
    memcpy(w->version, options->resource_version, version_len);
    w->idle_ms = options->idle_timeout_ms ? options->idle_timeout_ms : IDLE_DEFAULT_MS;
    w->pause_ms = PAUSE_FIRST_MS;
    buf_init(&url, 8192);
    err = kube_url_path(kube, path, &url, note);
    if (!err)
        err = buf_appendf(&url, "?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d",
                          STREAM_SECONDS);
    if (!err && options->label_selector)
        err = kube_url_query(&url, "labelSelector", str_from(options->label_selector));
    if (!err) err = buf_detach(&url, &w->url);
    buf_deinit(&url);
    if (!err) err = kube_channel_take(kube, &w->channel);
    if (err) {
        if (err != ERR_INVALID) note_set(note, "%s", err_text(err));
        kube_watch_close(w);
        return err;
    }
    *ret_watch = w;
    return ERR_OK;
}

void kube_watch_close(struct kube_watch *watch)
{
    if (!watch) return;
    if (watch->streaming) channel_end(watch->channel);
    if (watch->channel) kube_channel_give(watch->kube, watch->channel);
    free(watch->url);
    free(watch);
}

void kube_watch_cancel(struct kube_watch *watch)
{
    atomic_store(&watch->cancelled, true);
    channel_wake(watch->channel);
}

static void stop(struct kube_watch *w, uint64_t pause_ms)
{
    if (w->streaming) channel_end(w->channel);
    w->streaming = false;
    w->connect_at = mono_after(now(), pause_ms);
}

/* The pause grows until an event arrives. */
static void pause_and_retry(struct kube_watch *w, uint64_t wish_ms)
{
    stop(w, max_u64(w->pause_ms, wish_ms));
    w->pause_ms = min_u64(w->pause_ms * 2, PAUSE_MOST_MS);
}

static enum err finish(struct kube_watch *w, enum err err)
{
    stop(w, 0);
    w->over = err;
    return err;
}

static enum err connect_now(struct kube_watch *w)
{
    struct buf url;
    char *token = NULL;
    enum err err;

    buf_init(&url, 16384);
    err = buf_append_c(&url, w->url);
    if (!err) err = kube_url_query(&url, "resourceVersion", str_from(w->version));
    if (!err) err = buf_append_byte(&url, '\0');
    if (err) note_set(&w->over_why, "%s", err_text(err));
    if (!err) err = kube_token(w->kube, &token, &w->over_why);
    if (!err)
        err = channel_begin(
            w->channel, kube_target(w->kube),
            &(struct channel_request){"GET", url.data, token, STR_EMPTY, KUBE_WATCH_LINE_MAX});
    free(token);
    buf_deinit(&url);
    if (err) return err;
    w->streaming = true;
    w->last_byte_at = now();
    return ERR_OK;
}

/* Retries after a temporary refusal (HTTP answer or event); otherwise ends the watch. */
static enum err refused(struct kube_watch *w, uint32_t code, const struct kube_status *status,
                        uint64_t retry_after_ms)
{
    enum err err = kube_status_err(code, status->reason, false);

    note_set(&w->over_why, "watch: %u %s: %s", code, status->reason[0] ? status->reason : "-",
             status->message[0] ? status->message : err_text(err));
    if (err == ERR_OK || err == ERR_UNAVAILABLE || err == ERR_FULL) {
        pause_and_retry(w, max_u64(retry_after_ms, status->retry_after_ms));
        return ERR_OK;
    }
    return finish(w, err);
}

static enum err stream_ended(struct kube_watch *w, enum channel_state state)
{
    uint32_t code = channel_http_status(w->channel);
    struct channel_outcome outcome = channel_outcome(w->channel);
    struct kube_status status = {0};
    struct json *body = NULL;
    enum err err;

    if (outcome.too_large) {
        note_set(&w->over_why, "watch: a line larger than %d bytes", KUBE_WATCH_LINE_MAX);
        return finish(w, ERR_TOO_LARGE);
    }
    if (state == CHANNEL_FAILED || code == 200) {
        note_set(&w->over_why, "watch: %s", outcome.error);
        /* The normal end of a stream is no error. The next stream repeats a partial last line. */
        pause_and_retry(w, 0);
        return ERR_OK;
    }
    if (!json_open(buf_peek(channel_received(w->channel)), KUBE_WATCH_LINE_MAX, &body, NULL))
        kube_status_decode(body, &status);
    err = refused(w, code, &status, outcome.retry_after_ms);
    json_close(body);
    return err;
}

/* ret_event->line stays NULL if no line is complete, or if the line has nothing for the caller. */
static enum err take_line(struct kube_watch *w, bool *ret_had_line, struct kube_event *ret_event)
{
    struct buf *received = channel_received(w->channel);
    struct kube_event event = {0};
    const char *end = received->len ? memchr(received->data, '\n', received->len) : NULL;
    enum err err = ERR_OK;

    *ret_had_line = end != NULL;
    if (!end) return ERR_OK;
    size_t len = (size_t)(end - received->data);
    struct str line = str_trim(str_of(received->data, len));
    if (line.len) err = kube_event_decode(line, &event, &w->over_why);
    buf_consume(received, len + 1);
    if (err) {
        note_prefix(&w->over_why, "watch");
        return finish(w, err);
    }
    if (!event.line) return ERR_OK;
    if (event.kind == KUBE_ERROR) {
        struct kube_status status;
        kube_status_decode(event.object, &status);
        kube_event_deinit(&event);
        return refused(w, status.code ? status.code : 500, &status, 0);
    }
    memcpy(w->version, event.resource_version, sizeof w->version);
    w->pause_ms = PAUSE_FIRST_MS;
    *ret_event = event;
    return ERR_OK;
}

/* Returns at `wake_at` at the latest. */
static enum err turn(struct kube_watch *w, mono_time wake_at)
{
    enum channel_state state;
    size_t before;

    if (!w->streaming) {
        enum err err = connect_now(w);
        return err ? finish(w, err) : ERR_OK;
    }
    before = channel_received(w->channel)->len;
    state =
        channel_run(w->channel, mono_min(wake_at, mono_after(w->last_byte_at, w->idle_ms)), true);
    if (channel_received(w->channel)->len > before) w->last_byte_at = now();
    if (state != CHANNEL_RUNNING) {
        /* Lines that arrived before the end are returned first. */
        struct buf *received = channel_received(w->channel);
        if (channel_http_status(w->channel) == 200 && received->len &&
            memchr(received->data, '\n', received->len))
            return ERR_OK;
        return stream_ended(w, state);
    }
    if (mono_due(mono_after(w->last_byte_at, w->idle_ms), now())) {
        note_set(&w->over_why, "watch: silent for %llu ms", (unsigned long long)w->idle_ms);
        pause_and_retry(w, 0);
    }
    return ERR_OK;
}

enum err kube_watch_next(struct kube_watch *watch, uint64_t wait_ms, struct kube_event *ret_event,
                         struct note *note)
{
    struct kube_watch *w = watch;
    mono_time wake_at = mono_after(now(), wait_ms);
    struct kube_event event = {0};
    bool had_line;
    enum err err = w->over;

    while (!err) {
        if (atomic_load(&w->cancelled)) {
            note_set(&w->over_why, "watch: cancelled");
            err = finish(w, ERR_CANCELLED);
            break;
        }
        if (w->streaming && channel_http_status(w->channel) == 200) {
            err = take_line(w, &had_line, &event);
            if (!err && event.line) {
                *ret_event = event;
                return ERR_OK;
            }
            if (err || had_line) continue;
        }
        mono_time due = now();
        if (mono_due(wake_at, due))
            return note_fail(note, ERR_TIMEOUT, "%s",
                             w->over_why.text[0] ? w->over_why.text : "nothing happened");
        if (!w->streaming && !mono_due(w->connect_at, due)) {
            channel_rest(w->channel, mono_min(wake_at, w->connect_at));
            continue;
        }
        err = turn(w, wake_at);
    }
    return note_fail(note, err, "%s", w->over_why.text);
}
