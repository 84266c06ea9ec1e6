/* SPDX-License-Identifier: Apache-2.0 */
/* A TOML value as JSON. */
#ifndef TEXT_TOML_JSON_H
#define TEXT_TOML_JSON_H
#include "text/ndjson.h"
#include "text/toml.h"

/* Writes the value with all that it holds. Of what JSON cannot say, a time is written as text and a
 * number that is not finite as null; *odd becomes the first of these, where it was NULL. Depth is
 * bounded by the reader's (TOML_DEPTH_MAX). */
void toml_write_json(const struct toml_value *value, struct str key, struct ndjson *w,
                     const struct toml_value **odd);
/* The document as one line of JSON; ERR_INVALID with the line of what JSON cannot say. */
enum err toml_as_json(const struct toml *document, struct buf *out, struct note *note);
#endif
