/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that values cannot become shell code in a rendered template. Pure.
 *
 * Users who request machines choose the values, and the script runs as root. A value in single
 * quotes is one word only where sh and bash read a word. The check understands words, quotes,
 * comments and parameters. After other syntax, for example a substitution, it refuses {{shell}}. */
#ifndef OPERATOR_TEMPLATE_SHELL_H
#define OPERATOR_TEMPLATE_SHELL_H
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"
#include "model/requirement.h"

enum context {
    CONTEXT_PLAIN, /* unchanged; only label characters are accepted */
    CONTEXT_SHELL, /* one single-quoted word */
    CONTEXT_JSON,  /* one quoted string, valid in JSON and in YAML */
};
enum template_part_kind {
    PART_TEXT,
    PART_CLUSTER,
    PART_REQUEST,
    PART_REQUIREMENTS,
    PART_REQUIREMENT
};
struct template_part {
    enum template_part_kind kind;
    enum context context;
    size_t line;
    struct str text;      /* TEXT: the text; REQUIREMENT: the key */
    struct str otherwise; /* REQUIREMENT: the default value */
    bool has_otherwise;
};
enum { TEMPLATE_NAME_CAP = sizeof "requirement " + LABEL_KEY_MAX };
/* As the template spells it: "cluster_id", "requirement KEY". */
const char *template_part_name(const struct template_part *part, char name[TEMPLATE_NAME_CAP]);
static inline bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
/* ERR_PARSE with a note: a {{shell}} value may not be one word, or a plain value may end a
 * here-document. */
enum err template_shell_check(const struct template_part *parts, size_t count, struct note *note);
#endif
