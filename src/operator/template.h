/* What a new machine is started with, made of a text the user wrote.
 *
 *   {{cluster_id}}            the cluster's id
 *   {{request_id}}            16 hex digits, new for every machine
 *   {{requirements}}          what was asked of the machine, as a JSON list on one line
 *   {{requirement KEY}}       the values under KEY, joined with commas; without it there is no blob
 *   {{requirement KEY|TEXT}}  the same, and TEXT when nothing was asked under KEY
 *   {{open}} {{close}}        the two braces themselves
 *
 * Everything else stands in the blob as it is, byte for byte. A placeholder that is none of these
 * is refused when the template is read: better than a machine that starts with a hole in its
 * script. Pure. */
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
/* Appends. ERR_NOT_FOUND with a note: a requirement that is not there; ERR_FULL, ERR_NOMEM of
 * `out`. */
enum err template_render(const struct template *template, struct str cluster,
                         const struct blob_request *request, struct buf *out, struct note *note);
#endif
