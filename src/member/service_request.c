/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by several calls: checks the caller, reads arguments, and sets statuses of refusals. */
#include "member/service_internal.h"

enum { ID_FIRST = 0x21, ID_LAST = 0x7e };

/* -- refusals -- */

enum grpc_status member_grpc(enum member_status status)
{
    static const enum grpc_status others[MEMBER_STATUS_COUNT] = {
        [MEMBER_S_UNREADABLE] = GRPC_INVALID_ARGUMENT, [MEMBER_S_INVALID] = GRPC_INVALID_ARGUMENT,
        [MEMBER_S_UNKNOWN] = GRPC_NOT_FOUND,           [MEMBER_S_NO_ITEM] = GRPC_NOT_FOUND,
        [MEMBER_S_FULL] = GRPC_RESOURCE_EXHAUSTED,     [MEMBER_S_BUSY] = GRPC_UNAVAILABLE,
    };

    if (status == MEMBER_S_DONE || status == MEMBER_S_SAME) return GRPC_OK;
    if (status >= MEMBER_STATUS_COUNT || !others[status]) return GRPC_FAILED_PRECONDITION;
    return others[status];
}

void member_refuse(struct leader_request *request, enum member_status status)
{
    request_refuse(request, member_grpc(status), "%s: %s", request->method->name,
                   member_status_text(status));
}

/* -- arguments -- */

struct str worker_name(const char *text, char room[MEMBER_ID_MAX])
{
    struct str name = str_from(text);
    struct ulid ulid;
    char canonical[ULID_TEXT_CAP];

    if (name.len == 0 || name.len > MEMBER_ID_MAX) return STR_EMPTY;
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] < ID_FIRST || name.at[i] > ID_LAST) return STR_EMPTY;
    if (!ulid_parse(name, &ulid, NULL)) {
        ulid_text(&ulid, canonical);
        name = str_of(canonical, ULID_LEN);
    }
    memcpy(room, name.at, name.len);
    return str_of(room, name.len);
}

struct str request_worker(const struct leader_request *request)
{
    const struct member_request *mine = CONTAINER_OF(request, const struct member_request, base);

    return str_of(mine->worker, mine->worker_len);
}

/* Also checks that the caller may act for the worker. False: the request was refused. */
static bool take_worker(struct leader_request *request)
{
    struct member_request *mine = member_request_of(request);
    const ProtobufCFieldDescriptor *field = &request->message->descriptor->fields[0];
    const char *text =
        *(char *const *)(const void *)((const char *)request->message + field->offset);
    struct note note;

    assert(strcmp(field->name, "worker_id") == 0);
    mine->worker_len = worker_name(text, mine->worker).len;
    if (mine->worker_len == 0)
        request_refuse(request, GRPC_INVALID_ARGUMENT,
                       "worker_id: a ULID, or 1 to %d bytes of visible ASCII", MEMBER_ID_MAX);
    else if (!speaks_for(member_of(request), request->call, request_worker(request), &note))
        request_refuse(request, GRPC_PERMISSION_DENIED, "%s", note.text);
    else
        return true;
    return false;
}

bool epoch_is_fine(struct leader_request *request, uint64_t seen)
{
    uint64_t ours = member_counts(membership_of(member_of(request))).coord_epoch;

    if (seen <= ours) return true;
    request_refuse(request, GRPC_FAILED_PRECONDITION,
                   "coord_epoch: %llu was seen, and this leader has %llu", (unsigned long long)seen,
                   (unsigned long long)ours);
    return false;
}

/* -- operations -- */

bool request_result(struct leader_request *request, const struct member_reply *reply,
                    uint32_t first, struct member_result *ret_result)
{
    *ret_result = member_reply_result(reply, first);
    if (member_grpc(ret_result->status) == GRPC_OK) return true;
    member_refuse(request, ret_result->status);
    return false;
}

static void request_over(struct operation_wait *wait, enum err err,
                         const struct member_reply *reply)
{
    struct member_request *mine = CONTAINER_OF(wait, struct member_request, wait);
    struct leader_request *request = &mine->base;

    if (!request->call)
        request_free(request);
    else if (err == ERR_NOT_LEADER)
        request_refuse(request, GRPC_UNAVAILABLE, "%s: leadership is changing",
                       request->method->name);
    else if (err)
        request_log_failed(request, err);
    else
        member_method_of(request)->answer(request, reply, wait->first, wait->count);
}

void request_put(struct leader_request *request, const struct member_op *op)
{
    struct member_service *service = member_of(request);

    if (batch_one(service, op, &member_request_of(request)->wait, request_over))
        request_keep(request, &service->kept);
    else
        request_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s: too much is under way; try again",
                       request->method->name);
}

bool request_room_for(struct leader_request *request, size_t count, size_t bytes)
{
    return count > 0 && count <= MEMBER_REQUEST_OPS_MAX &&
           batch_room(member_of(request), count, bytes);
}

void request_put_many(struct leader_request *request, size_t count)
{
    struct member_service *service = member_of(request);

    batch_wait(service, &member_request_of(request)->wait, request_over, (uint32_t)count);
    request_keep(request, &service->kept);
}

/* -- callbacks of the request's life cycle -- */

static bool member_service_request_admit(struct leader_request *request)
{
    if (member_method_of(request)->of_worker && !take_worker(request)) return false;
    if (leader_here(request->leader)) return true;
    request_refuse(request, GRPC_UNAVAILABLE, "%s: no leader is known", request->method->name);
    return false;
}

static void begin(struct leader_request *request)
{
    const struct member_method *method = member_method_of(request);

    if (!member_of(request)->serving)
        request_refuse(request, GRPC_UNAVAILABLE, "%s: the leader is not ready yet",
                       request->method->name);
    else if (method->begin)
        method->begin(request);
    else
        request_read(request);
}

static void member_service_request_read(struct leader_request *request)
{
    if (!member_of(request)->serving)
        request_refuse(request, GRPC_UNAVAILABLE, "%s: leadership is changing",
                       request->method->name);
    else
        member_method_of(request)->read(request);
}

static void member_service_request_written(struct leader_request *request, enum err, struct str)
{
    assert(false);
    request_free(request);
}

static void gone(struct leader_request *request)
{
    struct member_request *mine = member_request_of(request);

    if (mine->pulls) request_free(request); /* otherwise the request ends with its batch */
}

static void member_service_request_drain(struct leader_request *request)
{
    if (member_request_of(request)->pulls)
        request_refuse(request, GRPC_UNAVAILABLE, "%s: this replica stops; ask again",
                       request->method->name);
}

static void freed(struct leader_request *request)
{
    timer_deinit(&member_request_of(request)->timer);
}

const struct leader_rules member_rules_of_calls = {
    .request_size = sizeof(struct member_request),
    .full = GRPC_RESOURCE_EXHAUSTED,
    .doubt = GRPC_UNAVAILABLE,
    .admit = member_service_request_admit,
    .begin = begin,
    .read = member_service_request_read,
    .written = member_service_request_written,
    .gone = gone,
    .drain = member_service_request_drain,
    .freed = freed,
};
