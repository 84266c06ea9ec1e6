/* SPDX-License-Identifier: Apache-2.0 */
/* A locale that writes 1,5: printing and reading numbers must not depend on it. */
#ifndef TESTS_LIB_COMMA_LOCALE_H
#define TESTS_LIB_COMMA_LOCALE_H
/* Makes de_DE.UTF-8 on the spot and enters it; skips the test where that is not possible. */
void comma_locale_enter(void);
void comma_locale_leave(void);
#endif
