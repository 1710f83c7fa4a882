// Kernels of cuda/many.cu: one launch on many tensors.
#pragma once

#include <array>
#include <vector>

#include "gpu.h"

namespace om::gpu {

// Many is the table of the tensors of one launch.
class Many {
 public:
  // Adds a tensor as its operands, which are contiguous and of equal size; undefined ones are null.
  void add(const std::array<at::Tensor, 5> &operands) {
    const int64_t n = operands[0].numel();
    if (n == 0) return;
    numbers_.insert(numbers_.end(), {n, pieces_});
    for (const at::Tensor &t : operands) {
      numbers_.push_back(t.defined() ? reinterpret_cast<int64_t>(t.const_data_ptr()) : 0);
      if (t.defined()) operands_.push_back(t);
    }
    pieces_ += (n + kPiece - 1) / kPiece;
    tensors_++;
  }

  bool empty() const { return tensors_ == 0; }
  int64_t pieces() const { return pieces_; }

  // Adds the table and its number of tensors to the arguments of a call, and declares the operands.
  Call &pass_to(Call &call) const {
    const at::Tensor &first = operands_[0];
    for (const at::Tensor &t : operands_) call.accesses(t);
    return call(upload(numbers_.data(), {static_cast<int64_t>(numbers_.size())}, at::kLong, first.device()))(tensors_);
  }

  void run(Call &call) const { call.run(pieces_, 1, 1, 256); }

 private:
  static constexpr int64_t kPiece = 8192;  // kManyPiece of many.cu
  std::vector<int64_t> numbers_;
  std::vector<at::Tensor> operands_;
  int64_t pieces_ = 0;
  int tensors_ = 0;
};

}  // namespace om::gpu
