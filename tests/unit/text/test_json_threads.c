/* SPDX-License-Identifier: Apache-2.0 */
/* jansson's allocator is set once for the process, and the out-of-memory mark is kept per thread
 * (text/json.c): one thread's failure does not affect another. ThreadSanitizer checks the mark.
 * jansson is not instrumented, so this test does not prove that its allocator is set only once. */
#include <pthread.h>

#include "lib/test.h"
#include "text/json.h"

enum { THREADS = 4, ROUNDS = 200 };

struct reader {
    pthread_t thread;
    struct str text;
    enum err want;
    unsigned wrong;
};

static void *read_many(void *argument)
{
    struct reader *reader = argument;

    for (int i = 0; i < ROUNDS; i++) {
        struct json *json = NULL;
        if (json_open(reader->text, 1024, &json, NULL) != reader->want) reader->wrong++;
        json_close(json);
    }
    return NULL;
}

TEST(threads_read_documents_at_once)
{
    struct reader readers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        readers[i] =
            (struct reader){.text = i % 2 ? STR("{\"a\": [1, 2.5, \"x\"]}") : STR("{\"a\": "),
                            .want = i % 2 ? ERR_OK : ERR_PARSE};
        CHECK_U64("started", pthread_create(&readers[i].thread, NULL, read_many, &readers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(readers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) CHECK_U64("each got its own answer", readers[i].wrong, 0);
}
