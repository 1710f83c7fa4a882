// Causal attention inside each of several packed sequences, for the protected device: from the definition, on CPU tensors.
#pragma once

#include <ATen/ATen.h>

namespace om {

// q is [N,Hq,Dh], k and v are [N,Hkv,Dh]; sequence i has the tokens ends[i] … ends[i+1]-1 (int32). Returns the result in q's type and
// the logarithms of the sums of exp(score) [Hq,N] in float32.
std::pair<at::Tensor, at::Tensor> attention_forward(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                                                    const at::Tensor &ends, double scale);

// Returns the gradients of q, k and v.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(const at::Tensor &dout, const at::Tensor &q, const at::Tensor &k,
                                                                  const at::Tensor &v, const at::Tensor &out,
                                                                  const at::Tensor &lse, const at::Tensor &ends, double scale);

}  // namespace om
