/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the status codes, and the status for a response without grpc-status, by the gRPC
 * specification. */
#include "wire/grpc.h"

const char *grpc_status_name(enum grpc_status status)
{
    static const char *const names[] = {
#define X(name, number, err, doubtful) #name,
        GRPC_STATUS_MAP(X)
#undef X
    };

    return names[grpc_status_defined(status)];
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
