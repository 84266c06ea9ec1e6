/* SPDX-License-Identifier: Apache-2.0 */
/* The clock that goes on while a machine sleeps, for deadlines that must not be missed by
 * sleeping. */
#ifndef IO_CLOCK_BOOT_H
#define IO_CLOCK_BOOT_H
#include "io/clock.h"

struct clock *clock_boot(void); /* mono is CLOCK_BOOTTIME, wall CLOCK_REALTIME */
#endif
