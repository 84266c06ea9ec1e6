/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a JSON document of muster to YAML in block style. Strings stay quoted as in JSON, so
 * that no reader takes a string for a number, a date or a bool. */
#ifndef CTL_YAML_H
#define CTL_YAML_H
#include "base/buf.h"

enum { YAML_DEPTH_MAX = 32 };
/* ERR_FULL, ERR_NOMEM. `json` is valid and nested at most YAML_DEPTH_MAX deep. */
enum err yaml_from_json(struct str json, struct buf *into);
#endif
