/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that all objects have: read, and written again as they were. */
#ifndef OPERATOR_KUBE_JSON_H
#define OPERATOR_KUBE_JSON_H
#include "operator/kube/objects.h"

#define KUBE_LABEL_MANAGED STR("app.kubernetes.io/managed-by")

struct str kube_text(const struct json *object, const char *path); /* empty: not there, no text */
/* The member of a map at a path; keys of labels have dots. */
struct str kube_label(const struct json *object, const char *map, struct str key);
/* ERR_PARSE: no namespaced object. */
int64_t kube_generation(const struct json *object); /* 0: it has none */
enum err kube_names(const struct json *object, struct str *ret_namespace, struct str *ret_name,
                    struct str *ret_uid, struct note *note);

void kube_put(struct ndjson *w, struct str key, const struct json *value);
/* All members but one, each as it is. */
void kube_put_members(struct ndjson *w, const struct json *object, struct str but);
/* Opens metadata and leaves it open. */
void kube_put_head(struct ndjson *w, const char *kind, struct str namespace_, struct str name,
                   struct str version);
#endif
