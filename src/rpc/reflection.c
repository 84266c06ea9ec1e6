/* SPDX-License-Identifier: Apache-2.0 */
/* Server reflection from the embedded descriptors. Loop's thread.
 *
 * One handler, typed as v1, serves both versions, because their messages have the same fields and
 * numbers. A query for a file or symbol is answered with the file and all its imports, so that a
 * tool needs one round trip. */
#include "rpc/reflection.h"

#include <stdlib.h>
#include <string.h>

#include "wire/descriptors.h"
#include "wire/pack.h"
#include "wire/pb/grpc_reflection_v1_reflection.pb-c.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;

#define ASKS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name

enum {
    FILES_MAX = 128, /* files in one response; muster has two dozen */
    ANSWER_MAX = 4 << 20,
};
/* Fields of ServerReflectionResponse. */
enum { HOST = 1, REQUEST = 2, FILES = 4, EXTENSIONS = 5, SERVICES = 6, ERROR = 7 };

struct rpc_reflection {
    struct rpc_server *server;
    struct str descriptors;
};

/* -- files -- */

struct files {
    struct str at[FILES_MAX];
    size_t count;
};

static bool files_have(const struct files *files, struct str file)
{
    for (size_t i = 0; i < files->count; i++)
        if (files->at[i].at == file.at) return true;
    return false;
}

/* Adds the file, then its imports in breadth-first order. */
static void files_with_imports(struct str set, struct str file, struct files *files)
{
    files->at[0] = file;
    files->count = 1;
    for (size_t i = 0; i < files->count; i++) {
        struct str name, imported;
        size_t cursor = 0;
        while (files->count < FILES_MAX && descriptors_next_import(files->at[i], &cursor, &name))
            if (!descriptors_find_file(set, name, &imported) && !files_have(files, imported))
                files->at[files->count++] = imported;
    }
}

/* The pack functions encode the body of a response and return the response's field number. */
static uint32_t pack_files(struct pack *body, struct str set, struct str file)
{
    struct files files;

    files_with_imports(set, file, &files);
    for (size_t i = 0; i < files.count; i++) pack_bytes(body, 1, files.at[i]);
    return FILES;
}

static uint32_t pack_error(struct pack *body, enum grpc_status code, const char *text)
{
    pack_u64(body, 1, code);
    pack_text(body, 2, str_from(text));
    return ERROR;
}

/* -- services -- */

/* "/package.Service/Method" -> "package.Service" */
static struct str method_service(const struct rpc_method *m)
{
    struct str rest = str_tail(str_from(m->path), 1);

    return str_of(rest.at, str_find(rest, '/'));
}

/* True for the first method of a service, at which the service is listed. */
static bool method_is_first(const struct rpc_server *server, size_t index)
{
    struct str name = method_service(rpc_server_method(server, index));

    for (size_t i = 0; i < index; i++)
        if (str_equal(method_service(rpc_server_method(server, i)), name)) return false;
    return true;
}

static uint32_t pack_services(const struct rpc_server *server, struct pack *body)
{
    struct buf name;

    buf_init(&name, ANSWER_MAX);
    for (size_t i = 0; i < rpc_server_methods(server); i++) {
        struct pack service = pack_begin(&name);
        if (!method_is_first(server, i)) continue;
        pack_text(&service, 1, method_service(rpc_server_method(server, i)));
        pack_row(body, 1, &service);
    }
    buf_deinit(&name);
    return SERVICES;
}

/* -- requests -- */

static uint32_t pack_answer(const struct rpc_reflection *r, const reflection_request *q,
                            struct pack *body)
{
    struct str file;

    switch (q->message_request_case) {
    case ASKS(LIST_SERVICES): return pack_services(r->server, body);
    case ASKS(FILE_BY_FILENAME):
        if (descriptors_find_file(r->descriptors, str_from(q->file_by_filename), &file))
            return pack_error(body, GRPC_NOT_FOUND, "no such file");
        return pack_files(body, r->descriptors, file);
    case ASKS(FILE_CONTAINING_SYMBOL):
        if (descriptors_find_symbol(r->descriptors, str_from(q->file_containing_symbol), &file))
            return pack_error(body, GRPC_NOT_FOUND, "no such symbol");
        return pack_files(body, r->descriptors, file);
    case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
        if (descriptors_find_symbol(r->descriptors, str_from(q->all_extension_numbers_of_type),
                                    &file))
            return pack_error(body, GRPC_NOT_FOUND, "no such type");
        /* The product's contracts have no extensions (proto3), so every type has an empty list. */
        pack_text(body, 1, str_from(q->all_extension_numbers_of_type));
        return EXTENSIONS;
    case ASKS(FILE_CONTAINING_EXTENSION):
        return pack_error(body, GRPC_NOT_FOUND, "there are no extensions");
    default: return pack_error(body, GRPC_UNIMPLEMENTED, "nothing was asked");
    }
}

static void reflection_on_message(void *owner, struct rpc_call *call,
                                  const ProtobufCMessage *message, struct str)
{
    const reflection_request *q = (const reflection_request *)message;
    struct buf parts[3];
    struct pack request, body, answer;
    uint32_t field;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) buf_init(&parts[i], ANSWER_MAX);
    request = (struct pack){&parts[0], message_write(message, &parts[0], NULL)};
    body = pack_begin(&parts[1]);
    answer = pack_begin(&parts[2]);
    field = pack_answer(owner, q, &body);
    pack_text(&answer, HOST, str_from(q->host));
    pack_row(&answer, REQUEST, &request);
    pack_row(&answer, field, &body);
    if (!answer.err) answer.err = rpc_send_bytes(call, buf_peek(answer.into));
    if (answer.err == ERR_FULL) /* the peer sends queries, but reads no responses */
        rpc_fail(call, ERR_FULL, &(struct note){"read the answers first"});
    else if (answer.err && answer.err != ERR_CLOSED)
        rpc_fail(call, answer.err, NULL);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) buf_deinit(&parts[i]);
}

static void reflection_on_half_closed(void *, struct rpc_call *call)
{
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}

static void reflection_on_drain(void *, struct rpc_call *call)
{
    rpc_finish(call, GRPC_UNAVAILABLE, STR("the server is stopping"), STR_EMPTY);
}

static const struct rpc_handler handler = {
    .on_message = reflection_on_message,
    .on_half_closed = reflection_on_half_closed,
    .on_drain = reflection_on_drain,
};

enum err rpc_reflection_open(struct rpc_server *server, struct str descriptors,
                             struct rpc_reflection **ret_reflection, struct note *note)
{
    static const char *const paths[] = {
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    };
    struct rpc_reflection *r = calloc(1, sizeof *r);
    enum err err = ERR_OK;

    if (!r) return ERR_NOMEM;
    r->server = server;
    r->descriptors = descriptors;
    for (size_t i = 0; i < ARRAY_LEN(paths) && !err; i++)
        err = rpc_server_add(
            server,
            &(struct rpc_method){
                .path = paths[i],
                .kind = RPC_BIDI,
                .input = &grpc__reflection__v1__server_reflection_request__descriptor,
                .request_max = 64 << 10,
                .handler = &handler,
                .service = r,
            },
            note);
    if (err) {
        free(r);
        return err;
    }
    *ret_reflection = r;
    return ERR_OK;
}

void rpc_reflection_close(struct rpc_reflection *reflection)
{
    free(reflection);
}
