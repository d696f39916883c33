/* Every tests/unit/<layer>/test_<thing>.c defines this one function. */
#ifndef LK_TESTS_LIB_CHECK_MAIN_H
#define LK_TESTS_LIB_CHECK_MAIN_H

#include <check.h>

Suite *suite(void);

#endif
