// What the stress tests share: conditions that are counted, and end the program where they fail.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

inline std::atomic<int> checks{0};

#define CHECK(condition)                                                          \
  do {                                                                            \
    ++checks;                                                                     \
    if (!(condition)) {                                                           \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)
