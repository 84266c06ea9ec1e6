/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap user-data of a new machine, rendered from a template that the user wrote.
 *
 *   {{cluster_id}}            the cluster's id
 *   {{request_id}}            16 hex digits, new for every machine
 *   {{requirements}}          the request's requirements, as a JSON list on one line
 *   {{requirement KEY}}       the values under KEY, joined with commas; without it there is no blob
 *   {{requirement KEY|TEXT}}  the same, or TEXT when the request has no values under KEY
 *   {{open}} {{close}}        the two braces themselves
 *
 * A context in front of a placeholder escapes its value: {{shell requirement KEY}} is one word
 * in single quotes, {{json ...}} and {{yaml ...}} are one quoted string. JSON, {{requirements}}
 * too, is inert wherever a shell reads it. {{shell ...}} is refused when the template is read
 * unless it is certain that a shell reads a word there (template_shell.h). Without a context a
 * value is inserted only when it consists of letters, digits and inner . _ - / (a comma between
 * values); any other value is refused, because the blob runs as root and the value comes from a
 * cluster's request.
 *
 * All other text is copied byte for byte. An unknown placeholder is refused when the template
 * is read. Pure. */
#ifndef OPERATOR_TEMPLATE_H
#define OPERATOR_TEMPLATE_H
#include "base/buf.h"
#include "base/note.h"
#include "operator/source.h"

enum { TEMPLATE_BYTES_MAX = 1 << 20, TEMPLATE_PARTS_MAX = 10000 };

struct template;
/* Copies. ERR_PARSE with "line 3: ...", ERR_TOO_LARGE, ERR_NOMEM. */
enum err template_open(struct str text, struct template **ret_template, struct note *note);
void template_close(struct template *template); /* NULL is fine */
/* Appends. ERR_NOT_FOUND with a note: the request has no such requirement. ERR_INVALID with a
 * note: a value that this context cannot carry. ERR_FULL, ERR_NOMEM of `out`. */
enum err template_render(const struct template *template, struct str cluster,
                         const struct blob_request *request, struct buf *out, struct note *note);
#endif
