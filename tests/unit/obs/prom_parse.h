/* SPDX-License-Identifier: Apache-2.0 */
/* A strict reader of the Prometheus text format 0.0.4: a scraper accepts everything that it
 * accepts. It also refuses valid text that is a mistake in muster: samples without HELP and TYPE, a
 * split family, a repeated series, shrinking buckets, counts that disagree. */
#ifndef TESTS_OBS_PROM_PARSE_H
#define TESTS_OBS_PROM_PARSE_H
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { PROM_SAMPLES_MAX = 20000, PROM_NAME_CAP = 160 };

struct prom_sample {
    char name[PROM_NAME_CAP];
    char labels[512]; /* as written, without le */
    double le, value; /* le NaN: none */
};
struct prom {
    struct prom_sample *samples;
    size_t count;
    char why[256]; /* empty: accepted */
};

static inline bool prom_fail(struct prom *p, const char *why, struct str line)
{
    snprintf(p->why, sizeof p->why, "%s: %.*s", why, STR_ARG(line));
    return false;
}

static inline size_t prom_name_len(struct str s, bool colon)
{
    size_t i = 0;
    while (i < s.len && (isalpha((unsigned char)s.at[i]) || s.at[i] == '_' ||
                         (colon && s.at[i] == ':') || (i > 0 && isdigit((unsigned char)s.at[i]))))
        i++;
    return i;
}

/* Reads {a="b",c="d"} at the start of *rest. */
static inline bool prom_labels(struct prom *p, struct str *rest, struct prom_sample *sample,
                               struct str line)
{
    size_t used = 0;
    sample->le = NAN;
    if (rest->len == 0 || rest->at[0] != '{') return true;
    *rest = str_tail(*rest, 1);
    for (bool first = true;; first = false) {
        struct str name, value;
        size_t len, i;
        if (rest->len > 0 && rest->at[0] == '}' && first) break;
        len = prom_name_len(*rest, false);
        name = str_of(rest->at, len);
        if (len == 0 || str_starts(name, STR("__"))) return prom_fail(p, "label name", line);
        *rest = str_tail(*rest, len);
        if (!str_starts(*rest, STR("=\""))) return prom_fail(p, "label without value", line);
        *rest = str_tail(*rest, 2);
        for (i = 0; i < rest->len && rest->at[i] != '"'; i++)
            if (rest->at[i] == '\\') {
                i++;
                if (i >= rest->len || !strchr("\\\"n", rest->at[i]))
                    return prom_fail(p, "escape", line);
            }
        if (i >= rest->len) return prom_fail(p, "label value does not end", line);
        value = str_of(rest->at, i);
        if (!str_is_utf8(value)) return prom_fail(p, "label value is not UTF-8", line);
        *rest = str_tail(*rest, i + 1);
        if (str_equal(name, STR("le"))) {
            char text[64], *end;
            snprintf(text, sizeof text, "%.*s", STR_ARG(value));
            sample->le = strtod(text, &end);
            if (*end) return prom_fail(p, "le", line);
        } else {
            used += (size_t)snprintf(sample->labels + used, sizeof sample->labels - used,
                                     "%.*s=%.*s;", STR_ARG(name), STR_ARG(value));
        }
        if (rest->len == 0) return prom_fail(p, "labels do not end", line);
        if (rest->at[0] == '}') break;
        if (rest->at[0] != ',') return prom_fail(p, "between labels", line);
        *rest = str_tail(*rest, 1);
    }
    *rest = str_tail(*rest, 1);
    return true;
}

static inline bool prom_sample_read(struct prom *p, struct str line, const char *family,
                                    const char *type)
{
    struct prom_sample *sample = &p->samples[p->count];
    struct str rest = line, base = str_from(family);
    size_t len = prom_name_len(line, true);
    char number[64], *end;

    *sample = (struct prom_sample){0};
    if (len == 0 || len >= PROM_NAME_CAP) return prom_fail(p, "metric name", line);
    snprintf(sample->name, sizeof sample->name, "%.*s", (int)len, line.at);
    rest = str_tail(rest, len);
    if (!prom_labels(p, &rest, sample, line)) return false;
    if (rest.len < 2 || rest.at[0] != ' ') return prom_fail(p, "no value", line);
    snprintf(number, sizeof number, "%.*s", STR_ARG(str_tail(rest, 1)));
    sample->value = strtod(number, &end);
    if (end == number || *end) return prom_fail(p, "value", line);

    struct str suffix = str_starts(str_from(sample->name), base)
                            ? str_tail(str_from(sample->name), base.len)
                            : STR("?");
    bool histogram = strcmp(type, "histogram") == 0;
    bool fits = histogram ? str_equal(suffix, STR("_bucket")) || str_equal(suffix, STR("_sum")) ||
                                str_equal(suffix, STR("_count"))
                          : suffix.len == 0;
    if (!fits) return prom_fail(p, "sample outside its family", line);
    if (histogram && str_equal(suffix, STR("_bucket")) != !isnan(sample->le))
        return prom_fail(p, "le only on buckets", line);
    if (!histogram && !isnan(sample->le)) return prom_fail(p, "le outside a histogram", line);
    if (strcmp(type, "counter") == 0 && !(sample->value >= 0))
        return prom_fail(p, "counter below 0", line);
    for (size_t i = 0; i < p->count; i++) {
        const struct prom_sample *old = &p->samples[i];
        if (strcmp(old->name, sample->name) == 0 && strcmp(old->labels, sample->labels) == 0 &&
            (old->le == sample->le || (isnan(old->le) && isnan(sample->le))))
            return prom_fail(p, "series twice", line);
    }
    if (p->count > 0 && !isnan(sample->le)) {
        const struct prom_sample *old = &p->samples[p->count - 1];
        if (strcmp(old->name, sample->name) == 0 && strcmp(old->labels, sample->labels) == 0 &&
            (old->le >= sample->le || old->value > sample->value))
            return prom_fail(p, "buckets must grow", line);
    }
    if (histogram && str_equal(suffix, STR("_count")) &&
        (p->count < 2 || p->samples[p->count - 2].le != INFINITY ||
         p->samples[p->count - 2].value != sample->value))
        return prom_fail(p, "count is not the +Inf bucket", line);
    p->count++;
    return true;
}

static inline bool prom_parse(struct prom *p, struct str text)
{
    char family[PROM_NAME_CAP] = "", type[16] = "", last[PROM_NAME_CAP] = "";
    struct str rest = text, line;

    *p = (struct prom){.samples = calloc(PROM_SAMPLES_MAX, sizeof *p->samples)};
    if (text.len == 0 || text.at[text.len - 1] != '\n')
        return prom_fail(p, "no line end at the end", STR_EMPTY);
    rest = str_of(text.at, text.len - 1);
    while (str_split(&rest, '\n', &line)) {
        if (p->count == PROM_SAMPLES_MAX) return prom_fail(p, "too many", line);
        if (str_starts(line, STR("# HELP "))) {
            struct str name = str_tail(line, 7);
            snprintf(family, sizeof family, "%.*s", (int)prom_name_len(name, true), name.at);
            if (strcmp(last, family) >= 0)
                return prom_fail(p, "families not in order, or twice", line);
            snprintf(last, sizeof last, "%s", family);
            type[0] = '\0';
        } else if (str_starts(line, STR("# TYPE "))) {
            char name[PROM_NAME_CAP];
            if (sscanf(line.at + 7, "%159s %15s", name, type) != 2 || strcmp(name, family) != 0)
                return prom_fail(p, "TYPE without its HELP", line);
            if (strcmp(type, "counter") && strcmp(type, "gauge") && strcmp(type, "histogram"))
                return prom_fail(p, "TYPE", line);
        } else if (!type[0]) {
            return prom_fail(p, "sample without HELP and TYPE", line);
        } else if (!prom_sample_read(p, line, family, type)) {
            return false;
        }
    }
    return true;
}

static inline const struct prom_sample *prom_find(const struct prom *p, const char *name,
                                                  const char *labels)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->samples[i].name, name) == 0 && strcmp(p->samples[i].labels, labels) == 0)
            return &p->samples[i];
    return NULL;
}
#endif
