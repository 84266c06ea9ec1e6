/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/field_json.h"

void field_json(struct ndjson *line, const struct log_field *field)
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
