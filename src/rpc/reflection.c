/* SPDX-License-Identifier: Apache-2.0 */
/* Server reflection from the embedded descriptors.
 *
 * One handler, typed as v1, serves both versions: their messages have the same fields and
 * numbers. A question about a file or symbol is answered with the file and everything it imports,
 * so that a tool needs one round trip; a stream that asks again gets them again. */
#include "rpc/reflection.h"

#include <stdlib.h>
#include <string.h>

#include "wire/descriptors.h"
#include "wire/pb/grpc_reflection_v1_reflection.pb-c.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest question;
typedef Grpc__Reflection__V1__ServerReflectionResponse answer;
typedef Grpc__Reflection__V1__ServiceResponse service_answer;
typedef Grpc__Reflection__V1__FileDescriptorResponse files_answer;
typedef Grpc__Reflection__V1__ErrorResponse error_answer;
typedef Grpc__Reflection__V1__ListServiceResponse services_answer;
typedef Grpc__Reflection__V1__ExtensionNumberResponse extensions_answer;

#define ASKS(name)  GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define TELLS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

enum { FILES_MAX = 128 }; /* in one answer; the product has two dozen */

struct rpc_reflection {
    struct rpc_server *server;
    struct str descriptors;
};

/* -- files -- */

struct files {
    struct str at[FILES_MAX];
    size_t count;
};

static bool has_file(const struct files *files, struct str file)
{
    for (size_t i = 0; i < files->count; i++)
        if (files->at[i].at == file.at) return true;
    return false;
}

/* The file, then breadth first what it imports. */
static void with_imports(struct str set, struct str file, struct files *files)
{
    files->at[0] = file;
    files->count = 1;
    for (size_t i = 0; i < files->count; i++) {
        struct str name, imported;
        size_t cursor = 0;
        while (files->count < FILES_MAX && descriptors_next_import(files->at[i], &cursor, &name))
            if (!descriptors_find_file(set, name, &imported) && !has_file(files, imported))
                files->at[files->count++] = imported;
    }
}

static bool tell_file(struct rpc_call *call, struct str set, struct str file, answer *a)
{
    struct arena *arena = rpc_call_arena(call);
    files_answer *body = ARENA_NEW(arena, files_answer);
    struct files files;

    with_imports(set, file, &files);
    if (!body) return false;
    grpc__reflection__v1__file_descriptor_response__init(body);
    body->file_descriptor_proto =
        arena_calloc(arena, files.count, sizeof *body->file_descriptor_proto);
    if (!body->file_descriptor_proto) return false;
    for (size_t i = 0; i < files.count; i++)
        body->file_descriptor_proto[i] =
            (ProtobufCBinaryData){.len = files.at[i].len, .data = (uint8_t *)files.at[i].at};
    body->n_file_descriptor_proto = files.count;
    a->message_response_case = TELLS(FILE_DESCRIPTOR_RESPONSE);
    a->file_descriptor_response = body;
    return true;
}

static bool tell_error(struct rpc_call *call, enum grpc_status code, const char *text, answer *a)
{
    error_answer *body = ARENA_NEW(rpc_call_arena(call), error_answer);

    if (!body) return false;
    grpc__reflection__v1__error_response__init(body);
    body->error_code = (int32_t)code;
    body->error_message = (char *)text;
    a->message_response_case = TELLS(ERROR_RESPONSE);
    a->error_response = body;
    return true;
}

/* -- services -- */

/* "/package.Service/Method" -> "package.Service" */
static struct str service_of(const struct rpc_method *m)
{
    struct str rest = str_tail(str_from(m->path), 1);

    return str_of(rest.at, str_find(rest, '/'));
}

/* A service is listed with the first of its methods. */
static bool is_first(const struct rpc_server *server, size_t index)
{
    struct str name = service_of(rpc_server_method(server, index));

    for (size_t i = 0; i < index; i++)
        if (str_equal(service_of(rpc_server_method(server, i)), name)) return false;
    return true;
}

static bool tell_services(struct rpc_reflection *r, struct rpc_call *call, answer *a)
{
    struct arena *arena = rpc_call_arena(call);
    size_t most = rpc_server_methods(r->server);
    services_answer *body = ARENA_NEW(arena, services_answer);
    service_answer *services = arena_calloc(arena, most, sizeof *services);

    if (!body || !services) return false;
    grpc__reflection__v1__list_service_response__init(body);
    body->service = arena_calloc(arena, most, sizeof(service_answer *));
    if (!body->service) return false;
    for (size_t i = 0; i < most; i++) {
        service_answer *s = &services[body->n_service];
        if (!is_first(r->server, i)) continue;
        grpc__reflection__v1__service_response__init(s);
        s->name = arena_dup(arena, service_of(rpc_server_method(r->server, i)));
        if (!s->name) return false;
        body->service[body->n_service++] = s;
    }
    a->message_response_case = TELLS(LIST_SERVICES_RESPONSE);
    a->list_services_response = body;
    return true;
}

/* Our contracts have no extensions (proto3): every type has an empty list of them. */
static bool tell_no_extensions(struct rpc_call *call, char *type, answer *a)
{
    extensions_answer *body = ARENA_NEW(rpc_call_arena(call), extensions_answer);

    if (!body) return false;
    grpc__reflection__v1__extension_number_response__init(body);
    body->base_type_name = type;
    a->message_response_case = TELLS(ALL_EXTENSION_NUMBERS_RESPONSE);
    a->all_extension_numbers_response = body;
    return true;
}

/* -- questions -- */

static bool make_answer(struct rpc_reflection *r, struct rpc_call *call, const question *q,
                        answer *a)
{
    struct str file;

    switch (q->message_request_case) {
    case ASKS(LIST_SERVICES): return tell_services(r, call, a);
    case ASKS(FILE_BY_FILENAME):
        if (descriptors_find_file(r->descriptors, str_from(q->file_by_filename), &file))
            return tell_error(call, GRPC_NOT_FOUND, "no such file", a);
        return tell_file(call, r->descriptors, file, a);
    case ASKS(FILE_CONTAINING_SYMBOL):
        if (descriptors_find_symbol(r->descriptors, str_from(q->file_containing_symbol), &file))
            return tell_error(call, GRPC_NOT_FOUND, "no such symbol", a);
        return tell_file(call, r->descriptors, file, a);
    case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
        if (descriptors_find_symbol(r->descriptors, str_from(q->all_extension_numbers_of_type),
                                    &file))
            return tell_error(call, GRPC_NOT_FOUND, "no such type", a);
        return tell_no_extensions(call, q->all_extension_numbers_of_type, a);
    case ASKS(FILE_CONTAINING_EXTENSION):
        return tell_error(call, GRPC_NOT_FOUND, "there are no extensions", a);
    default: return tell_error(call, GRPC_UNIMPLEMENTED, "nothing was asked", a);
    }
}

static void on_message(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str)
{
    const question *q = (const question *)message;
    answer a = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    enum err err;

    a.valid_host = q->host;
    a.original_request = (question *)q;
    if (!make_answer(owner, call, q, &a)) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    err = rpc_send(call, &a.base);
    if (!err || err == ERR_CLOSED) return;
    if (err == ERR_FULL) /* it asks and does not read what it is told */
        rpc_fail(call, err, &(struct note){"read the answers first"});
    else
        rpc_fail(call, err, NULL);
}

static void on_half_closed(void *, struct rpc_call *call)
{
    rpc_finish(call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}

static void on_drain(void *, struct rpc_call *call)
{
    rpc_finish(call, GRPC_UNAVAILABLE, STR("the server is stopping"), STR_EMPTY);
}

static const struct rpc_handler handler = {
    .on_message = on_message,
    .on_half_closed = on_half_closed,
    .on_drain = on_drain,
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
                .output = &grpc__reflection__v1__server_reflection_response__descriptor,
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
