/* SPDX-License-Identifier: Apache-2.0 */
/* Converts TOML to JSON. */
#ifndef TEXT_TOML_JSON_H
#define TEXT_TOML_JSON_H
#include "text/ndjson.h"
#include "text/toml.h"

/* Writes the value with all its children. Times become texts, and numbers that are not finite
 * become null. *odd is set to the first such value, unless *odd is set already. */
void toml_write_json(const struct toml_value *value, struct str key, struct ndjson *w,
                     const struct toml_value **odd);
/* Writes the document as one line of JSON. ERR_INVALID, with the line in the note, if JSON cannot
 * represent a value. */
enum err toml_as_json(const struct toml *document, struct buf *out, struct note *note);
#endif
