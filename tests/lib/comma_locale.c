/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/comma_locale.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"

void comma_locale_enter(void)
{
    char command[512];

    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 --no-archive %s/de_DE.UTF-8 >/dev/null 2>&1", test_dir());
    if (system(command) != 0) SKIP("localedef cannot make de_DE.UTF-8 here");
    setenv("LOCPATH", test_dir(), 1);
    CHECK("the locale is there", setlocale(LC_ALL, "de_DE.UTF-8") != NULL);
    snprintf(command, sizeof command, "%.1f", 1.5);
    CHECK_TEXT("and writes a comma", command, "1,5");
}

void comma_locale_leave(void)
{
    setlocale(LC_ALL, "C");
}
