// What must hold, or the fuzzer has found something.
#pragma once

#include <cstdio>
#include <cstdlib>

#define EXPECT_THAT_ALWAYS(condition)                                                \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                       \
    }                                                                                \
  } while (false)
