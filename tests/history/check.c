/* SPDX-License-Identifier: Apache-2.0 */
/* Judges histories: history_check [--rule NAME] [--steps N] FILE...   (prints TAP, a line a rule)
 *
 * Several files are one history. Exit codes: 0 good, 1 bad, 2 could not be read, 3 gave up. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

static int rule_named(const char *name)
{
    for (int i = 0; i < JUDGE_RULE_COUNT; i++)
        if (strcmp(name, judge_rule_name((enum judge_rule)i)) == 0) return i;
    return -1;
}

static int judge(struct hist *h, int only, uint64_t steps_max)
{
    int number = 0, code = 0;

    printf("TAP version 13\n1..%d\n", only < 0 ? JUDGE_RULE_COUNT : 1);
    for (int i = 0; i < JUDGE_RULE_COUNT; i++) {
        struct judge_result result;
        if (only >= 0 && only != i) continue;
        judge_run(h, (enum judge_rule)i, steps_max, &result);
        if (result.verdict != JUDGE_GOOD) printf("# %s\n", result.why.text);
        printf("%s %d - %s (%zu looked at", result.verdict == JUDGE_GOOD ? "ok" : "not ok",
               ++number, judge_rule_name((enum judge_rule)i), result.looked_at);
        if (result.steps) printf(", %" PRIu64 " steps", result.steps);
        printf("%s)\n", result.verdict == JUDGE_GAVE_UP ? ", gave up" : "");
        if (result.verdict == JUDGE_BAD) code = 1;
        if (result.verdict == JUDGE_GAVE_UP && !code) code = 3;
    }
    return code;
}

int main(int argc, char **argv)
{
    struct hist h;
    struct note note = {""};
    uint64_t steps_max = JUDGE_STEPS_MAX;
    int only = -1, files = 0, code = 2;

    hist_init(&h);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rule") == 0 && i + 1 < argc) {
            only = rule_named(argv[++i]);
            if (only < 0) goto usage;
        } else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc) {
            steps_max = strtoull(argv[++i], NULL, 10);
        } else if (argv[i][0] == '-') {
            goto usage;
        } else {
            files++;
            if (hist_load(&h, argv[i], &note)) goto unreadable;
        }
    }
    if (!files) goto usage;
    if (hist_seal(&h, &note)) goto unreadable;
    judge_learn(&h);
    code = judge(&h, only, steps_max);
    hist_deinit(&h);
    return code;

usage:
    note_set(&note, "usage: history_check [--rule NAME] [--steps N] FILE...");
unreadable:
    (void)fprintf(stderr, "%s\n", note.text);
    hist_deinit(&h);
    return code;
}
