/* SPDX-License-Identifier: Apache-2.0 */
/* Each function opens or closes one part of struct role_base. A part that was not opened is NULL,
 * and closing it does nothing. Runs on the loop's thread. */
#include "muster/role.h"

#include "io/tls.h"
#include "rpc/client.h"
#include "rpc/meter.h"
#include "rpc/reflection.h"
#include "wire/descriptors.h"

enum err role_open_ready(void *state, struct note *)
{
    struct role_base *role = state;

    return health_check_add(role->instruments->health, role->hooks->ready_check,
                            role->hooks->ready_reason, &role->ready);
}

enum err role_open_tls(void *state, struct note *note)
{
    struct role_base *role = state;
    unsigned tls = role->hooks->tls;
    enum err err = ERR_OK;

    if (!conf_is_set(role->conf, "tls.cert-file")) return ERR_OK;
    if (tls & ROLE_TLS_SERVER)
        err = chassis_tls(role->chassis, TLS_SERVER, "h2", &role->server_tls, note);
    if (!err && tls & ROLE_TLS_CLIENT)
        err = chassis_tls(role->chassis, TLS_CLIENT, "h2", &role->client_tls, note);
    return err;
}

enum err role_open_client_metrics(void *state, struct note *note)
{
    struct role_base *role = state;
    return rpc_client_metrics_open(role->metrics, &role->client_metrics, note);
}

void role_log(struct role_base *role, const char *name, const struct log_field *fields)
{
    log_source_init(&role->log, role->instruments->log.logger, name, fields);
}

/* -- the gRPC server -- */

enum err role_open_server(struct role_base *role, const struct rpc_server_options *options,
                          struct note *note)
{
    struct rpc_server_options all = *options;
    enum err err = rpc_meter_open(role->metrics, &role->meter, note);

    all.io = role->io;
    all.meter = role->meter;
    return err ? err : rpc_server_open(&all, &role->server, note);
}

enum err role_open_health(struct role_base *role, const char *service, enum rpc_serving first,
                          struct note *note)
{
    enum err err = rpc_health_open(role->server, &role->health, note);

    if (!err)
        err = rpc_reflection_open(role->server, descriptors_product(), &role->reflection, note);
    if (!err) err = rpc_health_set(role->health, STR_EMPTY, RPC_SERVING);
    return err ? err : rpc_health_set(role->health, str_from(service), first);
}

enum err role_listen(struct role_base *role, struct note *note)
{
    enum err err =
        rpc_server_listen(role->server, conf_text(role->conf, "listen"), role->server_tls, note);

    if (err) note_prefix(note, "listen");
    return err;
}

void role_warn_of_listener(const struct role_base *role)
{
    const char *address = conf_text(role->conf, "listen");

    if (!role->server_tls && !address_is_loopback(address))
        LOG_WARN(&role->log, "listener is open to the network without TLS",
                 log_text("at", address));
}

enum err role_open_worker_ca(const struct role_base *role, const struct log_source *log,
                             const struct member_transport *t, const struct ulid *worker,
                             struct cert_workers **ret_ca, struct note *note)
{
    const struct cert_workers_options options = {.tls_dir = t->tls_dir,
                                                 .ca_file = t->ca_file,
                                                 .cert_file = t->cert_file,
                                                 .key_file = t->key_file,
                                                 .strict_permissions = t->strict_permissions,
                                                 .worker = worker};
    enum err err =
        cert_workers_open(role->io->fs, &options, clock_wall(role->io->clock), ret_ca, note);

    if (err) {
        note_prefix(note, "transport");
        return err;
    }
    if (cert_workers_notice(*ret_ca)[0]) fprintf(stderr, "%s\n", cert_workers_notice(*ret_ca));
    if (cert_workers_warning(*ret_ca)[0])
        LOG_WARN(log, "workers' certificates need attention",
                 log_text("about", cert_workers_warning(*ret_ca)));
    return ERR_OK;
}

/* -- a second listener -- */

enum err role_listener_open(struct role_listener *listener,
                            const struct rpc_server_options *options, struct note *note)
{
    enum err err = rpc_server_open(options, &listener->server, note);

    if (!err) err = rpc_health_open(listener->server, &listener->health, note);
    return err ? err : rpc_health_set(listener->health, STR_EMPTY, RPC_SERVING);
}

enum err role_listener_listen(struct role_listener *listener, const char *option,
                              const char *address, struct tls_context *tls, struct note *note)
{
    enum err err = rpc_server_listen(listener->server, address, tls, note);

    if (err) note_prefix(note, "%s", option);
    return err;
}

const char *role_listener_address(const struct role_listener *listener)
{
    return listener->server ? rpc_server_address(listener->server, 0) : "";
}

void role_listener_drain(struct role_listener *listener, struct chassis *chassis)
{
    if (listener->server)
        rpc_server_drain(listener->server, ROLE_DRAIN_WITHIN_MS, chassis_drained, chassis);
    else
        chassis_drained(chassis);
}

/* -- the end -- */

void role_drain_ready(void *state)
{
    struct role_base *role = state;

    health_check_set(role->ready, false, "stopping");
    chassis_drained(role->chassis);
}

void role_drain_server(void *state)
{
    struct role_base *role = state;
    rpc_server_drain(role->server, ROLE_DRAIN_WITHIN_MS, chassis_drained, role->chassis);
}

void role_close_server(struct role_base *role)
{
    CHASSIS_AWAIT(role->chassis, rpc_server_close, role->server);
    role->server = NULL;
}

void role_close(struct role_base *role)
{
    rpc_reflection_close(role->reflection);
    rpc_health_close(role->health);
    rpc_meter_close(role->meter);
    rpc_client_metrics_close(role->client_metrics);
    tls_context_unref(role->server_tls);
    tls_context_unref(role->client_tls);
}
