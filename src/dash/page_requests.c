/* SPDX-License-Identifier: Apache-2.0 */
/* Passes requests from the HTTP thread to the event loop, and results back. The lock is held only
 * to copy data. One post wakes the loop for all requests. */
#include <stdlib.h>

#include "dash/dash_internal.h"

void *page_request_at(const struct page_requests *all, size_t i)
{
    return (char *)all->rows + i * all->row_size;
}

void *page_requests_room(struct page_requests *all)
{
    struct page_request *oldest = NULL;

    for (size_t i = 0; i < all->count; i++) {
        struct page_request *request = page_request_at(all, i);
        if (request->state == REQUEST_FREE) return request;
        if (request->state == REQUEST_DONE && (!oldest || request->number < oldest->number))
            oldest = request;
    }
    return oldest;
}

void page_request_post(struct page_requests *all, struct page_request *request)
{
    *request = (struct page_request){all, REQUEST_WAITING, ++all->numbers};
    if (all->posted) return;
    all->posted = true;
    loop_post(all->dash->io->loop, &all->post);
}

void page_request_done(struct page_request *request)
{
    request->all->sent -= request->state == REQUEST_SENT;
    request->state = REQUEST_DONE;
}

static void page_requests_on_post(struct post *post)
{
    struct page_requests *all = CONTAINER_OF(post, struct page_requests, post);
    struct dash *dash = all->dash;

    pthread_mutex_lock(&all->lock);
    all->posted = false;
    for (size_t i = 0; i < all->count && !dash->closing; i++) {
        struct page_request *request = page_request_at(all, i);
        enum err err;

        if (request->state != REQUEST_WAITING) continue;
        err = all->send(request);
        if (err) {
            all->fail(request, err);
            continue;
        }
        request->state = REQUEST_SENT;
        all->sent++;
    }
    pthread_mutex_unlock(&all->lock);
    dash_maybe_closed(dash);
}

enum err page_requests_open(struct page_requests *all)
{
    pthread_mutex_init(&all->lock, NULL);
    post_init(&all->post, page_requests_on_post);
    all->rows = calloc(all->count, all->row_size);
    return all->rows ? ERR_OK : ERR_NOMEM;
}

bool page_requests_idle(const struct page_requests *all)
{
    return !all->posted && all->sent == 0;
}

void page_requests_close(struct page_requests *all)
{
    if (!all->dash) return;
    free(all->rows);
    pthread_mutex_destroy(&all->lock);
}
