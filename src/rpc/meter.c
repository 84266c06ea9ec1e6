/* SPDX-License-Identifier: Apache-2.0 */
/* Call metrics, the slow-request log and trace ids. */
#include "rpc/meter.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "rpc/headers.h"
#include "rpc/server_internal.h"

enum { STAGES_TEXT_CAP = 512 };

/* -- the families -- */

static const double seconds_buckets[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                         0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
static const struct str refused_reasons[REFUSED_COUNT] = {
    [REFUSED_CONNECTIONS] = {"connections", 11},
    [REFUSED_IDENTITY] = {"connections per identity", 24},
    [REFUSED_CALLS] = {"calls", 5},
    [REFUSED_ABUSE] = {"abuse", 5},
    [REFUSED_MEMORY] = {"memory", 6},
    [REFUSED_BODY] = {"slow body", 9},
};

static enum err add_families(struct metrics *metrics, struct rpc_meter *meter, struct note *note)
{
    struct metric_family *refused;
    const struct {
        struct metric_options options;
        struct metric_family **family;
    } families[] = {
        {{.name = "muster_rpc_server_calls_total",
          .help = "Ended calls by method and status code.",
          .kind = METRIC_COUNTER,
          .labels = {"method", "code"},
          .series_max = METRIC_SERIES_MAX},
         &meter->calls},
        {{.name = "muster_rpc_server_seconds",
          .help = "Time from the request's headers to its status, by method.",
          .kind = METRIC_HISTOGRAM,
          .labels = {"method"},
          .series_max = RPC_METHODS_MAX,
          .buckets = seconds_buckets,
          .bucket_count = ARRAY_LEN(seconds_buckets)},
         &meter->seconds},
        {{.name = "muster_rpc_server_bytes_total",
          .help = "Bytes of messages without framing, by direction and method.",
          .kind = METRIC_COUNTER,
          .labels = {"method", "direction"},
          .series_max = 2 * RPC_METHODS_MAX},
         &meter->bytes},
        {{.name = "muster_rpc_server_refused_total",
          .help = "Connections and calls refused, by reason.",
          .kind = METRIC_COUNTER,
          .labels = {"reason"},
          .series_max = REFUSED_COUNT + 1},
         &refused},
    };
    enum err err = metrics_add_gauge(metrics, "muster_rpc_server_running", "Calls in progress.",
                                     &meter->running, note);

    if (!err)
        err = metrics_add_gauge(metrics, "muster_rpc_server_connections", "Open connections.",
                                &meter->connections, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_rpc_server_late_bytes_total",
                                  "Data bytes that arrived for streams that had ended.",
                                  &meter->late, note);
    for (size_t i = 0; !err && i < ARRAY_LEN(families); i++)
        err = metrics_add(metrics, &families[i].options, families[i].family, note);
    if (err) return err;
    for (size_t i = 0; i < REFUSED_COUNT; i++)
        meter->refused[i] = metric_counter(refused, &refused_reasons[i]);
    return ERR_OK;
}

enum err rpc_meter_open(struct metrics *metrics, struct rpc_meter **ret_meter, struct note *note)
{
    struct rpc_meter *meter = calloc(1, sizeof *meter);
    enum err err;

    if (!meter) return ERR_NOMEM;
    err = add_families(metrics, meter, note);
    if (err) {
        free(meter);
        return err;
    }
    *ret_meter = meter;
    return ERR_OK;
}

void rpc_meter_close(struct rpc_meter *meter)
{
    free(meter);
}

/* -- counting -- */

void meter_method(struct rpc_meter *meter, struct method *m)
{
    m->name = m->path.len > 0 ? str_tail(m->path, 1) : STR("unknown"); /* such as "pkg.S/M" */
    if (!meter) return;
    m->seconds = metric_histogram(meter->seconds, &m->name);
    m->bytes_in = metric_counter(meter->bytes, (struct str[]){m->name, STR("in")});
    m->bytes_out = metric_counter(meter->bytes, (struct str[]){m->name, STR("out")});
}

static struct counter *code_counter(struct rpc_meter *meter, struct method *m,
                                    enum grpc_status status)
{
    enum grpc_status code = grpc_status_defined(status);

    if (!m->by_code[code])
        m->by_code[code] =
            metric_counter(meter->calls, (struct str[]){m->name, str_from(grpc_status_name(code))});
    return m->by_code[code];
}

void meter_call_began(struct rpc_server *s)
{
    s->stats.calls++;
    s->stats.calls_total++;
    if (s->meter) gauge_add(s->meter->running, 1);
}

void meter_refused(struct rpc_server *s, enum refused why)
{
    if (s->meter) counter_inc(s->meter->refused[why]);
}

void meter_late_data(struct rpc_server *s, uint64_t bytes)
{
    if (s->meter) counter_add(s->meter->late, bytes);
}

void meter_connections(struct rpc_server *s, int change)
{
    /* the gauge is shared by the servers of a process */
    if (s->meter) gauge_add(s->meter->connections, change);
}

/* "received=0.02ms decoded=0.31ms applied=1204.10ms" */
static struct str stages_text(const struct rpc_call *call, struct buf *into)
{
    for (size_t i = 0; i < call->stage_count; i++) {
        const struct stage *stage = &call->stages[i];
        if (buf_appendf(into, "%s%s=%.2fms", i ? " " : "", stage->name,
                        (double)stage->ns / (double)NS_PER_MS))
            break;
    }
    return buf_peek(into);
}

static void log_slow(const struct rpc_call *call, uint64_t ns)
{
    struct buf stages;

    buf_init(&stages, STAGES_TEXT_CAP);
    LOG_WARN(&call->server->log, "slow call", log_str("method", call->path),
             log_text("code", grpc_status_name(call->status)),
             log_str("trace", rpc_call_trace(call)), log_text("peer", rpc_call_peer(call)),
             log_f64("ms", (double)ns / (double)NS_PER_MS),
             log_str("stages", stages_text(call, &stages)), log_u64("bytes_in", call->bytes_in),
             log_u64("bytes_out", call->bytes_out));
    buf_deinit(&stages);
}

void meter_call_ended(struct rpc_call *call)
{
    struct rpc_server *s = call->server;
    struct method *m = call->method;
    uint64_t ns = clock_mono_ns(s->io->clock).ns - call->began.ns;

    if (s->meter) {
        counter_inc(code_counter(s->meter, m, call->status));
        histogram_observe(m->seconds, (double)ns / 1e9);
        counter_add(m->bytes_in, call->bytes_in);
        counter_add(m->bytes_out, call->bytes_out);
    }
    if (m->rpc.handler && m->rpc.kind == RPC_UNARY && !call->waits &&
        ns >= s->limits.slow_call_ms * NS_PER_MS)
        log_slow(call, ns);
}

/* -- trace ids -- */

/* traceparent is "00-<32 hex>-<16 hex>-<2 hex>". False: absent or invalid. */
static bool trace_given(const struct rpc_call *call, struct str *ret_trace)
{
    struct str value;

    if (rpc_call_metadata(call, STR("traceparent"), &value) && value.len >= 55 &&
        value.at[2] == '-' && value.at[3 + RPC_TRACE_LEN] == '-')
        value = str_of(value.at + 3, RPC_TRACE_LEN);
    else if (!rpc_call_metadata(call, STR("x-muster-trace"), &value))
        return false;
    if (value.len != RPC_TRACE_LEN || !header_is_hex(value)) return false;
    *ret_trace = value;
    return true;
}

void trace_take(struct rpc_call *call)
{
    struct rpc_server *s = call->server;
    struct str given;

    if (trace_given(call, &given)) {
        memcpy(call->trace, given.at, RPC_TRACE_LEN);
        return;
    }
    if (s->traces_left == 0) {
        entropy_fill(s->io->entropy, s->traces, sizeof s->traces);
        s->traces_left = TRACE_POOL;
    }
    hex_write(s->traces[--s->traces_left], RPC_TRACE_LEN / 2, call->trace);
}
