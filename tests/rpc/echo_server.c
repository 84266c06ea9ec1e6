/* SPDX-License-Identifier: Apache-2.0 */
/* The test service over the real operating system, for foreign clients and benches.
 *
 *   echo_server --listen 127.0.0.1:0 [--tls-cert F --tls-key F --tls-ca F] [--access admin]
 *
 * Prints "listening on ADDRESS" and serves until SIGTERM or SIGINT, then drains and exits with 0.
 * */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo_service.h"
#include "io/real.h"
#include "io/signals.h"
#include "rpc/health.h"
#include "rpc/reflection.h"
#include "wire/descriptors.h"

enum { DRAIN_MS = 5000 };
extern const unsigned char echo_descriptor_set[];
extern const size_t echo_descriptor_set_len;

struct program {
    const char *listen, *cert, *key, *ca, *access;
    struct rpc_server_limits limits;
    struct real_io *real;
    struct io *io;
    struct tls_context *tls;
    struct signals *signals;
    struct logger *logger;
    struct log_source log;
    struct metrics *metrics;
    struct rpc_meter *meter;
    struct rpc_server *server;
    struct echo *echo;
    struct rpc_health *health;
    struct rpc_reflection *reflection;
    struct str descriptors;
    bool stopping;
};

static int fail(const char *what, enum err err, const struct note *note)
{
    fprintf(stderr, "echo_server: %s: %s: %s\n", what, err_text(err), note->text);
    return 1;
}

static bool parse(struct program *p, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--listen"))
            p->listen = value;
        else if (!strcmp(name, "--tls-cert"))
            p->cert = value;
        else if (!strcmp(name, "--tls-key"))
            p->key = value;
        else if (!strcmp(name, "--tls-ca"))
            p->ca = value;
        else if (!strcmp(name, "--access"))
            p->access = value;
        else if (!strcmp(name, "--ping-min-interval-ms"))
            p->limits.ping_min_interval_ms = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--header-timeout-ms"))
            p->limits.header_timeout_ms = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--ping-timeout-ms"))
            p->limits.ping_timeout_ms = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--write-timeout-ms"))
            p->limits.write_timeout_ms = strtoull(value, NULL, 10);
        else
            return false;
    }
    return argc % 2 == 1 && p->listen && (!p->cert == !p->key) && (!p->cert == !p->ca);
}

static enum rpc_access_kind access_of(const char *name)
{
    static const struct {
        const char *name;
        enum rpc_access_kind kind;
    } kinds[] = {{"admin", ACCESS_ADMIN},     {"read", ACCESS_READ},     {"shard", ACCESS_SHARD},
                 {"cluster", ACCESS_CLUSTER}, {"worker", ACCESS_WORKER}, {"store", ACCESS_STORE}};

    for (size_t i = 0; name && i < ARRAY_LEN(kinds); i++)
        if (!strcmp(kinds[i].name, name)) return kinds[i].kind;
    return ACCESS_ANYONE;
}

/* Reflection knows the product's contracts and the test service; two sets joined are a set. */
static bool join_descriptors(struct program *p)
{
    struct str product = descriptors_product();
    char *both = malloc(product.len + echo_descriptor_set_len);

    if (!both) return false;
    memcpy(both, product.at, product.len);
    memcpy(both + product.len, echo_descriptor_set, echo_descriptor_set_len);
    p->descriptors = str_of(both, product.len + echo_descriptor_set_len);
    return true;
}

static enum err open_tls(struct program *p, struct note *note)
{
    if (!p->cert) return ERR_OK;
    return tls_context_open(p->io->fs,
                            &(struct tls_options){.side = TLS_SERVER,
                                                  .version_min = TLS_V1_2,
                                                  .cert_file = p->cert,
                                                  .key_file = p->key,
                                                  .ca_files = {p->ca},
                                                  .alpn = {"h2"}},
                            &p->tls, note);
}

static enum err open_services(struct program *p, struct note *note)
{
    enum err err = rpc_server_open(
        &(struct rpc_server_options){
            .io = p->io, .log = &p->log, .meter = p->meter, .limits = p->limits},
        &p->server, note);

    if (!err)
        err = echo_open(p->server,
                        &(struct echo_options){.io = p->io, .access = access_of(p->access)},
                        &p->echo, note);
    if (!err) err = rpc_health_open(p->server, &p->health, note);
    if (!err) err = rpc_health_set(p->health, STR_EMPTY, RPC_SERVING);
    if (!err) err = rpc_health_set(p->health, STR("muster.test.v1.Echo"), RPC_SERVING);
    if (!err) err = rpc_reflection_open(p->server, p->descriptors, &p->reflection, note);
    if (!err) err = rpc_server_listen(p->server, p->listen, p->tls, note);
    return err;
}

static void on_closed(void *owner)
{
    struct program *p = owner;

    p->server = NULL;
    real_io_stop(p->real);
}

static void on_drained(void *owner)
{
    struct program *p = owner;

    rpc_server_close(p->server, on_closed, p);
}

static void on_signal(void *owner, int signal)
{
    struct program *p = owner;

    (void)signal;
    if (p->stopping) return;
    p->stopping = true;
    rpc_server_drain(p->server, DRAIN_MS, on_drained, p);
}

static void close_all(struct program *p)
{
    assert(!p->server);
    signals_close(p->signals); /* as late as can be: a second SIGTERM is not worth dying of */
    echo_close(p->echo);
    rpc_health_close(p->health);
    rpc_reflection_close(p->reflection);
    rpc_meter_close(p->meter);
    metrics_close(p->metrics);
    tls_context_unref(p->tls);
    real_io_close(p->real);
    logger_close(p->logger);
    free((void *)p->descriptors.at);
}

int main(int argc, char **argv)
{
    static struct program p;
    struct note note = {0};
    enum err err;

    if (!parse(&p, argc, argv)) {
        fprintf(stderr, "usage: echo_server --listen ADDRESS [--tls-cert F --tls-key F --tls-ca F] "
                        "[--access KIND] [--ping-min-interval-ms N] [--header-timeout-ms N] "
                        "[--ping-timeout-ms N] [--write-timeout-ms N]\n");
        return 2;
    }
    err = real_io_open(&p.real);
    if (err) return fail("loop", err, &note);
    p.io = real_io_io(p.real);
    err = logger_open(
        &(struct logger_options){.clock = p.io->clock, .level = LOG_LEVEL_INFO, .fd = 2},
        &p.logger);
    log_source_init(&p.log, p.logger, "rpc", NULL);
    if (!err) err = metrics_open(&p.metrics);
    if (!err) err = rpc_meter_open(p.metrics, &p.meter, &note);
    if (!err && !join_descriptors(&p)) err = ERR_NOMEM;
    if (!err) err = open_tls(&p, &note);
    if (!err)
        err =
            signals_open(p.io->loop, (const int[]){SIGTERM, SIGINT, 0}, on_signal, &p, &p.signals);
    if (!err) err = open_services(&p, &note);
    if (err) return fail("start", err, &note);
    printf("listening on %s\n", rpc_server_address(p.server, 0));
    fflush(stdout);
    real_io_run(p.real);
    close_all(&p);
    return 0;
}
