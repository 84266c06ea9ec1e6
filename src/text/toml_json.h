/* SPDX-License-Identifier: Apache-2.0 */
/* Converts TOML to JSON. */
#ifndef TEXT_TOML_JSON_H
#define TEXT_TOML_JSON_H
#include "text/ndjson.h"
#include "text/toml.h"

/* Writes the value with all its children. JSON cannot represent a time or a number that is not
 * finite; such values are written as text and as null. If *odd is NULL, *odd is set to the first
 * such value. TOML_DEPTH_MAX limits the recursion. */
void toml_write_json(const struct toml_value *value, struct str key, struct ndjson *w,
                     const struct toml_value **odd);
/* Writes the document as one line of JSON. ERR_INVALID, with the line in the note, if a value
 * cannot be represented in JSON. */
enum err toml_as_json(const struct toml *document, struct buf *out, struct note *note);
#endif
