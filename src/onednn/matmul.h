// A matrix product of row-strided matrices, made once and run often, on as many threads as given.
#pragma once

#include <cstdint>

#include "onednn.h"

namespace mg::onednn {

// `rows` rows of `columns` numbers, `stride` numbers from row to row.
Layout matrix(int64_t rows, int64_t columns, int64_t stride);
// The matrix whose columns are the rows of the stored one: (rows, columns) is stored (columns, rows).
Layout turned(int64_t rows, int64_t columns, int64_t stride);
// The layout that suits the product best: a Reorder brings a matrix into it.
Layout packed(int64_t rows, int64_t columns);

// C = A B [+ bias] or C += A B.
class Matmul {
 public:
  enum Into { write, add };

  Matmul() = default;
  Matmul(const Layout& a, const Layout& b, const Layout& c, int threads, Into into = write,
         bool bias = false);

  // Whether oneDNN has only its reference for this.
  bool slow() const { return slow_; }
  const Layout& weights() const { return weights_; }
  std::size_t scratch() const { return scratch_; }
  void run(const void* a, const void* b, void* c, void* scratch, const void* bias = nullptr) const;

 private:
  Call call_;
  Layout weights_;
  int threads_ = 1;
  bool slow_ = false;
  std::size_t scratch_ = 0;
};

}  // namespace mg::onednn
