/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing blocks: calls are started, answers come through poll(), and so do changes of a bucket.
 *   ./event_loop URL */
#include <muster/coord.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static coord_store *store;
static int answered, seen;

static void on_created(void *arg, coord_done *done)
{
    printf("%s: %s/%s, revision %llu\n", (char *)arg, coord_code_name(done->result.code),
           coord_reason_name(done->result.reason), (unsigned long long)done->result.revision);
    answered++;
}

static void create(const char *key)
{
    coord_request request;
    memset(&request, 0, sizeof request);
    request.op = COORD_OP_CREATE;
    request.key = (coord_str){key, strlen(key)};
    request.value = (coord_str){"hello", 5};
    coord_result result = coord_start(store, &request, on_created, (void *)key);
    if (result.code != COORD_OK) { fprintf(stderr, "start: %s\n", result.text); }
}

static void show(coord_watch *watch)
{
    coord_event event;
    while (coord_watch_next(watch, 0, &event) == 1) {
        if (event.type != COORD_PUT && event.type != COORD_ENTRY) { continue; }
        printf("seen: %.*s\n", (int)event.key.len, event.key.at);
        seen++;
    }
}

int main(int argc, char **argv)
{
    coord_watch *watch;
    if (argc < 2) {
        fprintf(stderr, "usage: event_loop URL\n");
        return 2;
    }
    coord_result result = coord_open(argv[1], NULL, &store);
    if (result.code == COORD_OK) {
        result = coord_watch_open(store, NULL, (coord_str){"demo/events", 11}, COORD_WATCH_BUCKET,
                                  &watch);
    }
    if (result.code != COORD_OK) {
        fprintf(stderr, "%s\n", result.text);
        return 1;
    }
    create("demo/events/one");
    create("demo/events/two");
    while (answered < 2 || seen < 2) {
        struct pollfd fds[] = {{coord_fd(store), POLLIN, 0}, {coord_watch_fd(watch), POLLIN, 0}};
        if (poll(fds, 2, 10000) <= 0) {
            fprintf(stderr, "nothing for ten seconds\n");
            return 1;
        }
        if (fds[0].revents) { coord_dispatch(store); }
        if (fds[1].revents) { show(watch); }
    }
    coord_watch_close(watch);
    coord_close(store);
    return 0;
}
