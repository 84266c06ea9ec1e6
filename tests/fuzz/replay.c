/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a kept corpus through a fuzz target without libFuzzer, so that `make test` runs every
 * kept input, under gcc's sanitizers too. Prints TAP.
 *   replay_NAME DIRECTORY */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { INPUT_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Exactly as many bytes as the input has, so that a read past the end is found. */
static int replay(const char *directory, const char *name)
{
    char path[4096];
    uint8_t *bytes;
    size_t len;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "rb");
    if (!file) return -1;
    bytes = malloc(INPUT_MAX);
    len = bytes ? fread(bytes, 1, INPUT_MAX, file) : 0;
    fclose(file);
    uint8_t *exact = malloc(len ? len : 1);
    for (size_t i = 0; exact && i < len; i++) exact[i] = bytes[i];
    free(bytes);
    if (!exact) return -1;
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int count = argc == 2 ? scandir(argv[1], &entries, not_hidden, alphasort) : -1, failed = 0;

    if (count <= 0) {
        fprintf(stderr, "usage: %s CORPUS_DIRECTORY (not empty)\n", argv[0]);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        int bad = replay(argv[1], entries[i]->d_name);
        printf("%s %d - %s\n", bad ? "not ok" : "ok", i + 1, entries[i]->d_name);
        fflush(stdout);
        if (bad) failed = 1;
        free(entries[i]);
    }
    free(entries);
    printf("1..%d\n", count);
    return failed;
}
