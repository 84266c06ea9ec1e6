/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a log field (obs/log.h) as a member of a JSON object, for records that are stored beside
 * the log. */
#ifndef OBS_FIELD_JSON_H
#define OBS_FIELD_JSON_H
#include "obs/log.h"
#include "text/ndjson.h"

static inline void field_json(struct ndjson *line, const struct log_field *field)
{
    struct str key = str_from(field->key);

    switch (field->kind) {
    case LOG_KIND_STR: ndjson_string(line, key, field->u.text); break;
    case LOG_KIND_U64: ndjson_u64(line, key, field->u.u64); break;
    case LOG_KIND_I64: ndjson_i64(line, key, field->u.i64); break;
    case LOG_KIND_F64: ndjson_double(line, key, field->u.f64); break;
    case LOG_KIND_BOOL: ndjson_bool(line, key, field->u.yes); break;
    case LOG_KIND_END: break;
    }
}
#endif
