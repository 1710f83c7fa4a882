// Linear layers of training. On a GPU, layers of the same input whose weights are adjacent, such as q, k and v, are one product, and
// their backward functions add to the gradients of the weights in place. On a CPU they are ATen's linear layers, except in bfloat16 if
// ATen has no fast products of that type.
#include "fused.h"
#include "gpu.h"
#include "gradient.h"

namespace om {
namespace {

using List = std::vector<at::Tensor>;

// Linear layers as one: weights and biases that are adjacent, or one layer. biases is empty if the layers have none.
struct Layers {
  List weights, biases;
  at::Tensor weight, bias;  // all weights and biases

  Layers(List ws, List bs) : weights(std::move(ws)), biases(std::move(bs)) {
    weight = joined(weights);
    if (!biases.empty()) bias = joined(biases);
  }
  bool adjacent() const { return weight.defined() && (biases.empty() || bias.defined()); }
};

std::vector<int64_t> rows_of(const List &ts) {
  std::vector<int64_t> rows;
  for (const at::Tensor &t : ts) rows.push_back(t.size(0));
  return rows;
}

// Adds dyᵀ·x to the gradients of the weights of l, and the sum of dy to those of the biases.
void add_parameter_gradients(const Layers &l, const at::Tensor &dy, const at::Tensor &x) {
  if (accumulates(l.weights[0]))
    add_gradients(
        l.weights, [&] { return at::mm(dy.t(), x); },
        [&](at::Tensor g) { g.scalar_type() == x.scalar_type() ? g.addmm_(dy.t(), x) : g.add_(at::mm(dy.t(), x)); });
  if (!l.biases.empty() && accumulates(l.biases[0]))
    add_gradients(l.biases, [&] { return dy.sum(0); }, [&](at::Tensor g) { g.add_(dy.sum(0)); });
}

// in_place reports whether backward functions add to the gradients of all of ts, or to none.
bool in_place(const List &ts) {
  for (const at::Tensor &t : ts)
    if (accumulates(t) != accumulates(ts[0]) || (t.requires_grad() && !t.is_leaf())) return false;
  return true;
}

struct Linears : torch::autograd::Function<Linears> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext *ctx, const at::Tensor &x, at::TensorList weights,
                                                at::TensorList biases) {
    const Layers l(weights.vec(), biases.vec());
    List saved{x};
    saved.insert(saved.end(), weights.begin(), weights.end());
    saved.insert(saved.end(), biases.begin(), biases.end());
    ctx->save_for_backward(saved);
    ctx->saved_data["layers"] = static_cast<int64_t>(weights.size());
    const at::Tensor y = l.bias.defined() ? at::addmm(l.bias, x, l.weight.t()) : at::mm(x, l.weight.t());
    return l.weights.size() == 1 ? List{y} : parts(y, 1, rows_of(l.weights));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const List saved = ctx->get_saved_variables();
    const int64_t n = ctx->saved_data["layers"].toInt();
    const at::Tensor &x = saved[0];
    const Layers l({saved.begin() + 1, saved.begin() + 1 + n}, {saved.begin() + 1 + n, saved.end()});
    List dys;
    for (int64_t i = 0; i < n; i++)
      dys.push_back(grads[i].defined() ? grads[i] : at::zeros({x.size(0), l.weights[i].size(0)}, x.options()));
    const at::Tensor dy = columns(dys);
    List out(saved.size());
    if (ctx->needs_input_grad(0)) out[0] = at::mm(dy, l.weight);
    add_parameter_gradients(l, dy, x);
    return out;
  }
};

struct LinearResidual : torch::autograd::Function<LinearResidual> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &x, const at::Tensor &h, const at::Tensor &w) {
    ctx->save_for_backward({h, w});
    return at::addmm(x, h, w.t());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &h = saved[0], &w = saved[1], &dy = grads[0];
    at::Tensor dh;
    if (ctx->needs_input_grad(1)) dh = at::mm(dy, w);
    add_parameter_gradients(Layers({w}, {}), dy, h);
    return {dy, dh, at::Tensor()};
  }
};

// converts reports whether Converted computes the products of x and w. ATen has fast bfloat16 products on the CPU from AVX-512
// on; without it a generic loop takes thirty times as long as float32.
bool converts(const at::Tensor &x, const at::Tensor &w) {
  return has_kernel(x) && cpu_level() < 2 && x.scalar_type() == at::kBFloat16 && w.scalar_type() == at::kBFloat16;
}

// product returns a·b in bfloat16 for bfloat16 matrices, multiplied and summed in float32.
at::Tensor product(const at::Tensor &a, const at::Tensor &b) {
  return at::mm(a.to(at::kFloat), b.to(at::kFloat)).to(at::kBFloat16);
}

// Converted is a linear layer of bfloat16 operands whose products are computed in float32.
struct Converted : torch::autograd::Function<Converted> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &x, const at::Tensor &w,
                            const std::optional<at::Tensor> &bias) {
    ctx->save_for_backward({x, w});
    ctx->saved_data["bias"] = bias.has_value();
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = w.size(0);
    at::Tensor y = at::mm(x.reshape({-1, x.size(-1)}).to(at::kFloat), w.to(at::kFloat).t());
    if (bias) y.add_(*bias);
    return y.to(at::kBFloat16).reshape(sizes);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx,
                                                 const torch::autograd::variable_list &grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1], dy = grads[0].reshape({-1, w.size(0)});
    at::Tensor dx, dw, db;
    if (ctx->needs_input_grad(0)) dx = product(dy, w).reshape(x.sizes());
    if (ctx->needs_input_grad(1)) dw = product(dy.t(), x.reshape({-1, x.size(-1)}));
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2)) db = dy.sum(0);
    return {dx, dw, db};
  }
};

// fused reports whether the functions above compute the layers ws for x.
bool fused(const at::Tensor &x, const List &ws) {
  if (!gpu::ready(x) || x.dim() != 2 || !in_place(ws)) return false;
  for (const at::Tensor &w : ws)
    if (w.scalar_type() != x.scalar_type()) return false;
  return true;
}

List linears(const at::Tensor &x, const List &ws, const List &biases) {
  for (size_t i = 0; i < ws.size(); i++) {
    same_device("linear", x, ws[i], biases[i]);
    TORCH_CHECK(ws[i].dim() == 2 && x.dim() >= 1 && x.size(-1) == ws[i].size(1), "linear: x ", x.sizes(), " needs a weight [O,",
                x.dim() > 0 ? x.size(-1) : 0, "], not ", ws[i].sizes());
  }
  List some;
  for (const at::Tensor &b : biases)
    if (b.defined()) some.push_back(b);
  if (fused(x, ws) && in_place(some) && (some.empty() || some.size() == ws.size())) {
    if (Layers(ws, some).adjacent()) return Linears::apply(x, at::TensorList(ws), at::TensorList(some));
  }
  List out;
  for (size_t i = 0; i < ws.size(); i++) {
    const List w{ws[i]}, b = biases[i].defined() ? List{biases[i]} : List{};
    if (fused(x, w) && in_place(b))
      out.push_back(Linears::apply(x, at::TensorList(w), at::TensorList(b))[0]);
    else
      out.push_back(linear(x, ws[i], biases[i]));
  }
  return out;
}

at::Tensor linear_residual(const at::Tensor &x, const at::Tensor &h, const at::Tensor &w) {
  same_device("linear", x, h, w);
  if (fused(h, {w}) && x.scalar_type() == h.scalar_type()) return LinearResidual::apply(x, h, w);
  return x + linear(h, w, at::Tensor());
}

}  // namespace

at::Tensor linear(const at::Tensor &x, const at::Tensor &w, const at::Tensor &bias) {
  const auto b = bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
  return converts(x, w) ? Converted::apply(x, w, b) : at::linear(x, w, b);
}
}  // namespace om

const char *om_linear(om_tensor x, om_tensor w, om_tensor bias, om_tensor *out) {
  OM_TRY { *out = om::wrap(om::linear(om::ref(x), om::ref(w), om::opt(bias))); }
  OM_END
}

const char *om_linears(om_tensor x, om_tensor *weights, om_tensor *biases, int64_t n, om_tensor *out) {
  OM_TRY {
    om::List ws, bs;
    for (int64_t i = 0; i < n; i++) {
      ws.push_back(om::ref(weights[i]));
      bs.push_back(om::opt(biases[i]));
    }
    const om::List ys = om::linears(om::ref(x), ws, bs);
    for (int64_t i = 0; i < n; i++) out[i] = om::wrap(ys[i]);
  }
  OM_END
}

const char *om_linear_residual(om_tensor x, om_tensor h, om_tensor w, om_tensor *out) {
  OM_TRY { *out = om::wrap(om::linear_residual(om::ref(x), om::ref(h), om::ref(w))); }
  OM_END
}
