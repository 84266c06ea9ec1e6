/* SPDX-License-Identifier: Apache-2.0 */
/* Converts TOML to JSON. */
#ifndef TEXT_TOML_JSON_H
#define TEXT_TOML_JSON_H
#include "text/ndjson.h"
#include "text/toml.h"

/* Writes the value with all its children. A time is written as text and a non-finite number as
 * null, because JSON cannot represent them. If *odd is NULL, it is set to the first such value. The
 * depth is limited by TOML_DEPTH_MAX. */
void toml_write_json(const struct toml_value *value, struct str key, struct ndjson *w,
                     const struct toml_value **odd);
/* Writes the document as one line of JSON. ERR_INVALID, with the line in the note, for a value that
 * JSON cannot represent. */
enum err toml_as_json(const struct toml *document, struct buf *out, struct note *note);
#endif
