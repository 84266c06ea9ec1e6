/* SPDX-License-Identifier: Apache-2.0 */
/* The peer of bench_rpc: a unary echo on gRPC's C-core, as Debian ships it.
 *
 *   peer_grpc_core --listen 127.0.0.1:0 [--tls-cert F --tls-key F --tls-ca F] [--generic yes]
 *
 * It takes the shortest way that library offers, so that the comparison flatters it: a registered
 * method whose message comes with the call, one batch for the whole answer, one completion queue
 * and one thread of ours, the bytes returned as they came with no protobuf in between. With
 * --generic it takes every method as it comes and asks for its message, as a server without
 * generated code does. Prints "listening on ADDRESS" and serves until a signal ends it. */
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 256, PEM_MAX = 64 * 1024 }; /* CALLS: more than the bench has streams */

struct call {
    enum { AWAITED, READING, ANSWERED } state;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *message;
    int cancelled;
};

static grpc_server *server;
static grpc_completion_queue *queue;
static void *method; /* NULL: generic */
static struct call calls[CALLS];

static void must(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "peer_grpc_core: %s\n", what);
    exit(1);
}

static char *read_file(const char *path)
{
    char *text = malloc(PEM_MAX);
    FILE *file = fopen(path, "r");
    size_t len;

    must(text && file, path);
    len = fread(text, 1, PEM_MAX - 1, file);
    text[len] = '\0';
    fclose(file);
    return text;
}

static grpc_server_credentials *credentials(const char *cert, const char *key, const char *ca)
{
    grpc_ssl_pem_key_cert_pair pair;
    grpc_server_credentials *made;
    char *cert_text, *key_text, *ca_text;

    if (!cert) return grpc_insecure_server_credentials_create();
    cert_text = read_file(cert);
    key_text = read_file(key);
    ca_text = read_file(ca);
    pair = (grpc_ssl_pem_key_cert_pair){.private_key = key_text, .cert_chain = cert_text};
    made = grpc_ssl_server_credentials_create_ex(
        ca_text, &pair, 1, GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, NULL);
    free(cert_text);
    free(key_text);
    free(ca_text);
    return made;
}

static void await(struct call *call)
{
    grpc_call_error error;

    call->state = AWAITED;
    call->message = NULL;
    grpc_metadata_array_init(&call->metadata);
    grpc_call_details_init(&call->details);
    if (method)
        error = grpc_server_request_registered_call(server, method, &call->call, &call->deadline,
                                                    &call->metadata, &call->message, queue, queue,
                                                    call);
    else
        error = grpc_server_request_call(server, &call->call, &call->details, &call->metadata,
                                         queue, queue, call);
    must(error == GRPC_CALL_OK, "cannot await a call");
}

static void read_message(struct call *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

    call->state = READING;
    op.data.recv_message.recv_message = &call->message;
    must(grpc_call_start_batch(call->call, &op, 1, call, NULL) == GRPC_CALL_OK, "cannot read");
}

static void answer(struct call *call)
{
    grpc_op ops[4] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                      {.op = GRPC_OP_RECV_CLOSE_ON_SERVER},
                      {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
                      {.op = GRPC_OP_SEND_MESSAGE}};

    call->state = ANSWERED;
    ops[1].data.recv_close_on_server.cancelled = &call->cancelled;
    ops[2].data.send_status_from_server.status = GRPC_STATUS_OK;
    ops[3].data.send_message.send_message = call->message;
    must(grpc_call_start_batch(call->call, ops, call->message ? 4 : 3, call, NULL) == GRPC_CALL_OK,
         "cannot answer");
}

static void finish(struct call *call)
{
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
    if (call->message) grpc_byte_buffer_destroy(call->message);
    grpc_call_unref(call->call);
    await(call);
}

static void listen_at(const char *address, grpc_server_credentials *with)
{
    const char *colon = strrchr(address, ':');
    int port = grpc_server_add_http2_port(server, address, with);

    must(colon && port > 0, "cannot listen");
    grpc_server_start(server);
    for (size_t i = 0; i < CALLS; i++) await(&calls[i]);
    printf("listening on %.*s:%d\n", (int)(colon - address), address, port);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *address = NULL, *cert = NULL, *key = NULL, *ca = NULL;
    bool generic = false;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--listen")) address = argv[i + 1];
        if (!strcmp(argv[i], "--tls-cert")) cert = argv[i + 1];
        if (!strcmp(argv[i], "--tls-key")) key = argv[i + 1];
        if (!strcmp(argv[i], "--tls-ca")) ca = argv[i + 1];
        if (!strcmp(argv[i], "--generic")) generic = true;
    }
    must(address && !cert == !key && !cert == !ca,
         "usage: --listen ADDRESS [--tls-cert F --tls-key F --tls-ca F]");
    grpc_init();
    queue = grpc_completion_queue_create_for_next(NULL);
    server = grpc_server_create(NULL, NULL);
    grpc_server_register_completion_queue(server, queue, NULL);
    if (!generic) {
        method = grpc_server_register_method(server, "/muster.test.v1.Echo/Unary", NULL,
                                             GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
        must(method != NULL, "cannot register the method");
    }
    listen_at(address, credentials(cert, key, ca));
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct call *call = event.tag;
        must(event.type == GRPC_OP_COMPLETE, "the queue ended");
        if (call->state == ANSWERED)
            finish(call);
        else if (!event.success)
            continue; /* the server goes away */
        else if (call->state == AWAITED && !method)
            read_message(call);
        else
            answer(call);
    }
}
