/* SPDX-License-Identifier: Apache-2.0 */
#include "disturb/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "prim/answer.h"

struct trace {
    struct prim_backend base;
    struct prim_backend_ops ops; /* operations that the inner backend lacks are NULL */
    struct prim_backend *inner;
    int fd;
    bool own_fd;
};

enum { LINE_MAX_BYTES = 4096 };

static struct trace *trace_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct trace, base);
}

/* Keys are printable ASCII by contract; only these two need a backslash. */
static void append_text(struct buf *line, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '"' || text.at[i] == '\\') { (void)buf_append_byte(line, '\\'); }
        (void)buf_append_byte(line, text.at[i]);
    }
}

/* A line that cannot be written is missing: tracing never fails the call. */
static void show(struct trace *trace, const char *op, struct str subject,
                 const struct prim_call *call, int64_t began_ns, const coord_result *result)
{
    struct buf line;
    int64_t now_ns = prim_boottime_ns(NULL);
    buf_init(&line, LINE_MAX_BYTES);
    (void)buf_appendf(&line, "{\"at_us\":%" PRId64 ",\"store\":\"%s\",\"op\":\"%s\"",
                      began_ns / 1000, trace->inner->ops->name, op);
    if (subject.len > 0) {
        (void)buf_append_c(&line, ",\"key\":\"");
        append_text(&line, subject);
        (void)buf_append_c(&line, "\"");
    }
    if (call != NULL) { (void)buf_appendf(&line, ",\"attempt\":%" PRIu32, call->attempt); }
    if (result != NULL) {
        (void)buf_appendf(&line, ",\"code\":\"%s\",\"reason\":\"%s\"",
                          coord_code_name(result->code), coord_reason_name(result->reason));
        if (result->flags & COORD_F_MAYBE_APPLIED) {
            (void)buf_append_c(&line, ",\"maybe_applied\":true");
        }
        (void)buf_appendf(&line, ",\"revision\":%" PRIu64 ",\"token\":%" PRIu64, result->revision,
                          result->token);
    }
    (void)buf_appendf(&line, ",\"us\":%" PRId64 "}\n", (now_ns - began_ns) / 1000);
    struct str bytes = buf_peek(&line);
    /* One write a line: lines of threads and processes do not mix. */
    while (write(trace->fd, bytes.at, bytes.len) < 0 && errno == EINTR) {}
    buf_deinit(&line);
}

#define SHOWN(op, subject, expression)                                                             \
    struct trace *trace = trace_of(backend);                                                       \
    struct prim_backend *inner = trace->inner;                                                     \
    int64_t began_ns = prim_boottime_ns(NULL);                                                     \
    coord_result result = inner->ops->expression;                                                  \
    show(trace, op, subject, call, began_ns, &result);                                             \
    return result

static coord_caps trace_capabilities(struct prim_backend *backend)
{
    struct prim_backend *inner = trace_of(backend)->inner;
    return inner->ops->capabilities(inner);
}

static coord_result trace_create(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_create *in, struct prim_grant *ret_grant)
{
    SHOWN("create", in->key, create(inner, call, in, ret_grant));
}

static coord_result trace_cas(struct prim_backend *backend, const struct prim_call *call,
                              const struct prim_cas *in, struct prim_grant *ret_grant)
{
    SHOWN("cas", in->key, cas(inner, call, in, ret_grant));
}

static coord_result trace_remove(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_delete *in)
{
    SHOWN("delete", in->key, remove(inner, call, in));
}

static coord_result trace_get(struct prim_backend *backend, const struct prim_call *call,
                              struct str key, int consistency, coord_entry **ret_entry)
{
    SHOWN("get", key, get(inner, call, key, consistency, ret_entry));
}

static coord_result trace_acquire(struct prim_backend *backend, const struct prim_call *call,
                                  const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    SHOWN("acquire", in->group, acquire(inner, call, in, ret_grant));
}

static coord_result trace_resize(struct prim_backend *backend, const struct prim_call *call,
                                 struct str group, uint64_t expected, uint32_t slot_count)
{
    SHOWN("resize", group, resize(inner, call, group, expected, slot_count));
}

static coord_result trace_holders(struct prim_backend *backend, const struct prim_call *call,
                                  struct str group, coord_holders **ret_holders)
{
    SHOWN("holders", group, holders(inner, call, group, ret_holders));
}

static coord_result trace_renew(struct prim_backend *backend, const struct prim_call *call,
                                const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    SHOWN("renew", str_from(claim->held[0].key), renew(inner, call, claim, ret_sent_ns));
}

static coord_result trace_release(struct prim_backend *backend, const struct prim_call *call,
                                  const struct prim_claim *claim, const char *key)
{
    SHOWN("release", str_from(key != NULL ? key : claim->held[0].key),
          release(inner, call, claim, key));
}

static coord_result trace_adopt(struct prim_backend *backend, const struct prim_call *call,
                                const struct prim_claim *claim, int64_t *ret_left_ms)
{
    SHOWN("adopt", str_from(claim->held[0].key), adopt(inner, call, claim, ret_left_ms));
}

static coord_result trace_watch(struct prim_backend *backend, const struct prim_call *call,
                                struct prim_feed *feed, void **ret_watch)
{
    SHOWN(prim_feed_since(feed) > 0 ? "guard" : "watch", prim_feed_scope(feed).name,
          watch(inner, call, feed, ret_watch));
}

static void trace_unwatch(struct prim_backend *backend, void *watch)
{
    struct trace *trace = trace_of(backend);
    int64_t began_ns = prim_boottime_ns(NULL);
    trace->inner->ops->unwatch(trace->inner, watch);
    show(trace, "unwatch", STR_EMPTY, NULL, began_ns, NULL);
}

static void trace_wake(struct prim_backend *backend)
{
    struct prim_backend *inner = trace_of(backend)->inner;
    if (inner->ops->wake != NULL) { inner->ops->wake(inner); }
}

static void trace_close(struct prim_backend *backend)
{
    struct trace *trace = trace_of(backend);
    trace->inner->ops->close(trace->inner);
    if (trace->own_fd) { (void)close(trace->fd); }
    free(trace);
}

static const struct prim_backend_ops trace_ops = {
    .capabilities = trace_capabilities,
    .create = trace_create,
    .cas = trace_cas,
    .remove = trace_remove,
    .get = trace_get,
    .acquire = trace_acquire,
    .resize = trace_resize,
    .holders = trace_holders,
    .renew = trace_renew,
    .release = trace_release,
    .adopt = trace_adopt,
    .watch = trace_watch,
    .unwatch = trace_unwatch,
    .wake = trace_wake,
    .close = trace_close,
};

coord_result prim_trace_wrap(struct prim_url *url, const struct prim_clock *clock,
                             struct prim_backend *inner, struct prim_backend **ret_backend)
{
    const char *path = prim_url_param(url, "trace");
    struct trace *trace = calloc(1, sizeof *trace);
    (void)clock; /* a trace is in real time */
    if (trace == NULL) { return prim_no_memory(); }
    trace->fd = STDERR_FILENO;
    if (path != NULL) {
        trace->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        trace->own_fd = true;
        if (trace->fd < 0) {
            free(trace);
            return prim_answer(COORD_INVALID, COORD_R_URL, "trace file cannot be opened: errno %d",
                               errno);
        }
    }
    trace->inner = inner;
    trace->ops = trace_ops;
    trace->ops.name = inner->ops->name;
    trace->ops.renewals_max = inner->ops->renewals_max;
    if (inner->ops->adopt == NULL) { trace->ops.adopt = NULL; }
    trace->ops.guards_max = inner->ops->guards_max;
    trace->ops.guards_alone = inner->ops->guards_alone;
    trace->base = (struct prim_backend){.ops = &trace->ops,
                                        .clock = inner->clock,
                                        .host = inner->host,
                                        .id = inner->id,
                                        .limits = inner->limits};
    *ret_backend = &trace->base;
    return prim_ok(COORD_R_NONE);
}
