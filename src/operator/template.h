/* SPDX-License-Identifier: Apache-2.0 */
/* Renders the bootstrap data of a new machine from a template that the user wrote. No I/O.
 *
 *   {{cluster_id}}            the cluster's id
 *   {{request_id}}            16 hex digits, new for every machine
 *   {{requirements}}          the request's requirements, as a JSON list on one line
 *   {{requirement KEY}}       the values of KEY, joined with commas; no values: an error
 *   {{requirement KEY|TEXT}}  the values of KEY, or TEXT if the request has none
 *   {{open}} {{close}}        the two braces themselves
 *
 * All other text is copied. An unknown placeholder is refused when the template is read. A word
 * before the placeholder selects how its value is written, because values come from cluster users
 * and the script runs as root:
 *
 *   none          only letters, digits and inner . _ - / are allowed
 *   shell         one word in single quotes; refused where a shell may read no word
 *                 (template_shell.h)
 *   json, yaml    one quoted string without text that a shell would execute */
#ifndef OPERATOR_TEMPLATE_H
#define OPERATOR_TEMPLATE_H
#include "base/buf.h"
#include "base/note.h"
#include "operator/source.h"

enum { TEMPLATE_BYTES_MAX = 1 << 20, TEMPLATE_PARTS_MAX = 10000 };

struct template;
/* Copies and parses a template. Returns ERR_PARSE ("line 3: ..."), ERR_TOO_LARGE or ERR_NOMEM. */
enum err template_open(struct str text, struct template **ret_template, struct note *note);
void template_close(struct template *template); /* NULL is allowed */
/* Appends the rendered template to `out`.
 *   ERR_NOT_FOUND        the request lacks a requirement; with a note
 *   ERR_INVALID          a value is not allowed in its context; with a note
 *   ERR_FULL, ERR_NOMEM */
enum err template_render(const struct template *template, struct str cluster,
                         const struct blob_request *request, struct buf *out, struct note *note);
#endif
