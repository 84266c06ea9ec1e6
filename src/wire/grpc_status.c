/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the status codes, and the status that stands for an answer gRPC did not make. The two
 * tables are those of the protocol's own documents. */
#include "wire/grpc.h"

const char *grpc_status_name(enum grpc_status status)
{
    switch (status) {
    case GRPC_OK: return "OK";
    case GRPC_CANCELLED: return "CANCELLED";
    case GRPC_UNKNOWN: return "UNKNOWN";
    case GRPC_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case GRPC_DEADLINE_EXCEEDED: return "DEADLINE_EXCEEDED";
    case GRPC_NOT_FOUND: return "NOT_FOUND";
    case GRPC_ALREADY_EXISTS: return "ALREADY_EXISTS";
    case GRPC_PERMISSION_DENIED: return "PERMISSION_DENIED";
    case GRPC_RESOURCE_EXHAUSTED: return "RESOURCE_EXHAUSTED";
    case GRPC_FAILED_PRECONDITION: return "FAILED_PRECONDITION";
    case GRPC_ABORTED: return "ABORTED";
    case GRPC_OUT_OF_RANGE: return "OUT_OF_RANGE";
    case GRPC_UNIMPLEMENTED: return "UNIMPLEMENTED";
    case GRPC_INTERNAL: return "INTERNAL";
    case GRPC_UNAVAILABLE: return "UNAVAILABLE";
    case GRPC_DATA_LOSS: return "DATA_LOSS";
    case GRPC_UNAUTHENTICATED: return "UNAUTHENTICATED";
    }
    return "UNKNOWN";
}

enum grpc_status grpc_status_from_http(int http_status)
{
    switch (http_status) {
    case 400: return GRPC_INTERNAL;
    case 401: return GRPC_UNAUTHENTICATED;
    case 403: return GRPC_PERMISSION_DENIED;
    case 404: return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504: return GRPC_UNAVAILABLE;
    default: return GRPC_UNKNOWN;
    }
}

enum grpc_status grpc_status_from_reset(uint32_t code)
{
    enum { REFUSED_STREAM = 7, CANCEL = 8, ENHANCE_YOUR_CALM = 11, INADEQUATE_SECURITY = 12 };
    enum { LAST_KNOWN = 13 };

    switch (code) {
    case REFUSED_STREAM: return GRPC_UNAVAILABLE;
    case CANCEL: return GRPC_CANCELLED;
    case ENHANCE_YOUR_CALM: return GRPC_RESOURCE_EXHAUSTED;
    case INADEQUATE_SECURITY: return GRPC_PERMISSION_DENIED;
    default: return code <= LAST_KNOWN ? GRPC_INTERNAL : GRPC_UNKNOWN;
    }
}
