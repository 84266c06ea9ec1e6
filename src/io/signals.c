/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as events of the loop: one libuv handle per signal. Invariant: the memory is freed after
 * the last handle has closed. Runs on the loop's thread. */
#include "io/signals.h"

#include <signal.h>
#include <stdlib.h>

#include "io/real_internal.h"

struct signals {
    struct real_io *real;
    signals_fn *fn;
    void *owner;
    size_t count, open; /* `handles`, and those not closed yet */
    uv_signal_t handles[];
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct signals *signals = handle->data;

    real_enter(signals->real);
    signals->fn(signals->owner, number);
}

static void signals_on_handle_closed(uv_handle_t *handle)
{
    struct signals *signals = handle->data;

    real_enter(signals->real);
    signals->open--;
    if (signals->open == 0) free(signals);
}

void signals_close(struct signals *signals)
{
    if (!signals) return;
    if (signals->count == 0)
        free(signals);
    else
        for (size_t i = 0, count = signals->count; i < count; i++)
            uv_close((uv_handle_t *)&signals->handles[i], signals_on_handle_closed);
}

static int watch_signal(struct signals *signals, int number)
{
    uv_signal_t *handle = &signals->handles[signals->count];
    int failed = uv_signal_init(&signals->real->uv, handle);

    if (failed) return failed;
    handle->data = signals;
    signals->count++;
    signals->open++;
    return uv_signal_start(handle, on_signal, number);
}

enum err signals_open(struct loop *loop, const int *numbers, signals_fn *fn, void *owner,
                      struct signals **ret_signals)
{
    struct real_io *real = real_from_loop(loop);
    struct signals *signals;
    size_t count = 0;
    int failed = 0;

    if (!real) return ERR_UNSUPPORTED;
    while (numbers[count]) {
        if (numbers[count] < 0 || numbers[count] >= NSIG) return ERR_INVALID;
        count++;
    }
    signals = calloc(1, sizeof *signals + count * sizeof signals->handles[0]);
    if (!signals) return ERR_NOMEM;
    signal(SIGPIPE, SIG_IGN);
    signals->real = real;
    signals->fn = fn;
    signals->owner = owner;
    for (size_t i = 0; i < count && !failed; i++) failed = watch_signal(signals, numbers[i]);
    if (failed) {
        signals_close(signals);
        return failed == UV_ENOMEM ? ERR_NOMEM : ERR_INVALID;
    }
    *ret_signals = signals;
    return ERR_OK;
}
