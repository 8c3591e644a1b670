// One function for every instruction set: MG_CLONES before a function compiles it three times, and
// the right one is chosen when the library is loaded.
//
// Put it on a plain function over pointers that holds the loop, not on one with an OpenMP region
// or a template. Everything it calls must be inlined into it.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// (the resolvers run before a sanitizer has set itself up)
#define MG_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MG_CLONES
#endif

#define MG_INLINE inline __attribute__((always_inline))
