// Includes MG_ISA_FILE once for each instruction set; see sets.h. No include guard.
// Use inside namespace mg::(anonymous).
#if MG_ISA_SETS
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi,bmi2,f16c,lzcnt,popcnt,prefer-vector-width=512")
#define MG_WIDTH 64
namespace v4 {
#include MG_ISA_FILE
}
#undef MG_WIDTH
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,f16c,lzcnt,popcnt")
#define MG_WIDTH 32
namespace v3 {
#include MG_ISA_FILE
}
#undef MG_WIDTH
#pragma GCC pop_options
#define MG_WIDTH 16
namespace base {
#include MG_ISA_FILE
}
#undef MG_WIDTH
#else
#define MG_WIDTH 16
namespace base {
#include MG_ISA_FILE
}
#undef MG_WIDTH
namespace v3 = base;
namespace v4 = base;
#endif
#undef MG_ISA_FILE
