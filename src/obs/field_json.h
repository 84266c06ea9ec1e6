/* SPDX-License-Identifier: Apache-2.0 */
/* A field of the log (obs/log.h) as a member of a JSON object: for the records that are kept beside
 * the log and carry the same fields. */
#ifndef OBS_FIELD_JSON_H
#define OBS_FIELD_JSON_H
#include "obs/log.h"
#include "text/ndjson.h"

void field_json(struct ndjson *line, const struct log_field *field);
#endif
