// AdamW over many tensors in one call, as torch.optim.AdamW computes it (Loshchilov and Hutter, arXiv:1711.05101), the global
// norm of gradients, and copies of many tensors. On a GPU each is one launch for all tensors of a type.
#include <numeric>
#include <vector>

#include "fused.h"
#include "many.h"

namespace om {
namespace {

constexpr int64_t kPiece = 1 << 15;

// A run of elements of one tensor.
struct Slab {
  int64_t tensor, begin, end;
};

// Splits the tensors into slabs; the split depends on the sizes only.
std::vector<Slab> cut(const std::vector<at::Tensor> &ts) {
  std::vector<Slab> slabs;
  for (size_t t = 0; t < ts.size(); t++) {
    if (!ts[t].defined()) continue;
    const int64_t n = ts[t].numel();
    for (int64_t b = 0; b < n; b += kPiece) slabs.push_back({static_cast<int64_t>(t), b, std::min(b + kPiece, n)});
  }
  return slabs;
}

// The factors of a step: p ← p·decay; m ← m + (g - m)(1 - β1); v ← v β2 + (1 - β2) g²;
// p ← p - rate · m / (sqrt(v)/root + ε).
template <class A>
struct Factors {
  A decay, one_minus_beta1, beta2, one_minus_beta2, rate, root, eps, grad_scale;
};

template <class T, class G, int W>
OM_INLINE void step_range(T *p, const G *g, T *m, T *v, int64_t n, const Factors<T> &f) {
  using V = typename Lanes<T, W>::V;
  for_lanes<T, W>(n, [&](int64_t i, auto c) OM_LAMBDA {
    const V gi = load<W>(g + i, c) * f.grad_scale;
    V mi = load<W>(m + i, c), vi = load<W>(v + i, c), root;
    mi += (gi - mi) * f.one_minus_beta1;
    vi = vi * f.beta2 + gi * gi * f.one_minus_beta2;
    for (int j = 0; j < Lanes<T, W>::n; j++) root[j] = std::sqrt(vi[j]);
    store<W>(m + i, mi, c);
    store<W>(v + i, vi, c);
    store<W>(p + i, load<W>(p + i, c) * f.decay - mi / (root / f.root + f.eps) * f.rate, c);
  });
}

#define OM_ADAMW(T, G)                                                                                   \
  OM_MULTIVERSION(step, (T * p, const G *g, T *m, T *v, int64_t n, const Factors<T> &f), (p, g, m, v, n, f), \
                  step_range<T, G, W>(p, g, m, v, n, f))
OM_ADAMW(float, float)
OM_ADAMW(float, c10::BFloat16)
OM_ADAMW(double, double)

OM_MULTIVERSION(round_to, (const float *from, c10::BFloat16 *to, int64_t n), (from, to, n),
                for_lanes<float, W>(n, [&](int64_t i, auto c) OM_LAMBDA { store<W>(to + i, load<W>(from + i, c), c); }))

template <class T>
Factors<T> factors(const om_adamw_options &o) {
  return {static_cast<T>(1 - o.lr * o.weight_decay),
          static_cast<T>(1 - o.beta1),
          static_cast<T>(o.beta2),
          static_cast<T>(1 - o.beta2),
          static_cast<T>(o.lr / (1 - std::pow(o.beta1, o.step))),
          static_cast<T>(std::sqrt(1 - std::pow(o.beta2, o.step))),
          static_cast<T>(o.eps),
          static_cast<T>(o.grad_scale)};
}

// The same step with ATen's operations, for any device.
void step_aten(at::Tensor p, const at::Tensor &grad, at::Tensor m, at::Tensor v, const Factors<double> &f) {
  const at::Tensor g = grad.to(p.scalar_type()) * f.grad_scale;
  p.mul_(f.decay);
  m.lerp_(g, f.one_minus_beta1);
  v.mul_(f.beta2).addcmul_(g, g, f.one_minus_beta2);
  p.addcdiv_(m, v.sqrt().div_(f.root).add_(f.eps), -f.rate);
}

// The parameters of a step whose gradients have one type, for the kernel of cuda/many.cu.
struct GpuStep {
  gpu::Many many;
  at::Tensor grad;  // one of the gradients

  void run(const Factors<float> &f) const {
    if (many.empty()) return;
    gpu::Call call("adamw", grad);
    many.pass_to(call)(f.decay)(f.one_minus_beta1)(f.beta2)(f.one_minus_beta2)(f.rate)(f.root)(f.eps)(f.grad_scale);
    many.run(call);
  }
};

struct Group {
  std::vector<at::Tensor> params, grads, m, v, copies;
};

std::vector<at::Tensor> list(om_tensor *ts, int64_t n) {
  std::vector<at::Tensor> out(n);
  for (int64_t i = 0; ts != nullptr && i < n; i++) out[i] = opt(ts[i]).defined() ? opt(ts[i]).detach() : at::Tensor();
  return out;
}

void check(const Group &g, size_t i) {
  const at::Tensor &p = g.params[i];
  TORCH_CHECK(p.defined() && g.m[i].defined() && g.v[i].defined(), "adamw: parameter ", i, " or its state is missing");
  TORCH_CHECK(p.scalar_type() == at::kFloat || p.scalar_type() == at::kDouble, "adamw: parameter ", i, " is ",
              p.scalar_type(), "; keep float32 masters and pass copies");
  for (const auto &s : {g.m[i], g.v[i]})
    TORCH_CHECK(s.sizes() == p.sizes() && s.scalar_type() == p.scalar_type() && s.device() == p.device() &&
                    s.is_contiguous(),
                "adamw: the state of parameter ", i, " must be like the parameter, ", p.sizes(), " ", p.scalar_type());
  TORCH_CHECK(p.is_contiguous(), "adamw: parameter ", i, " is not contiguous");
  same_device("adamw", p, g.grads[i], g.copies[i]);
  TORCH_CHECK(g.grads[i].sizes() == p.sizes(), "adamw: the gradient of parameter ", i, " is ", g.grads[i].sizes(),
              ", the parameter ", p.sizes());
  TORCH_CHECK(!g.copies[i].defined() || g.copies[i].sizes() == p.sizes(), "adamw: the copy of parameter ", i, " is ",
              g.copies[i].sizes(), ", the parameter ", p.sizes());
}

bool step_has_kernel(const at::Tensor &p, const at::Tensor &grad) {
  return has_kernel(p) && has_kernel(grad) &&
         (grad.scalar_type() == p.scalar_type() || (p.scalar_type() == at::kFloat && grad.scalar_type() == at::kBFloat16));
}

void step_piece(const Group &g, const Slab &slab, const Factors<float> &f, const Factors<double> &fd) {
  const at::Tensor &p = g.params[slab.tensor], &grad = g.grads[slab.tensor], &copy = g.copies[slab.tensor];
  const int64_t b = slab.begin, n = slab.end - b;
  auto m = g.m[slab.tensor].data_ptr(), v = g.v[slab.tensor].data_ptr();
  if (p.scalar_type() == at::kDouble) {
    step(p.data_ptr<double>() + b, grad.const_data_ptr<double>() + b, static_cast<double *>(m) + b,
         static_cast<double *>(v) + b, n, fd);
    return;
  }
  float *pp = p.data_ptr<float>() + b, *mp = static_cast<float *>(m) + b, *vp = static_cast<float *>(v) + b;
  if (grad.scalar_type() == at::kFloat)
    step(pp, grad.const_data_ptr<float>() + b, mp, vp, n, f);
  else
    step(pp, grad.const_data_ptr<at::BFloat16>() + b, mp, vp, n, f);
  if (copy.defined() && copy.scalar_type() == at::kBFloat16 && copy.is_contiguous())
    round_to(pp, copy.data_ptr<at::BFloat16>() + b, n);
}

// Tells autograd that a step changes the tensors of parameter i.
void changed(const Group &g, size_t i) {
  for (const auto &t : {g.params[i], g.m[i], g.v[i], g.copies[i]})
    if (t.defined()) t.unsafeGetTensorImpl()->bump_version();
}

void adamw(Group g, const om_adamw_options &o) {
  TORCH_CHECK(o.step >= 1, "adamw: the first step is 1, not ", o.step);
  at::NoGradGuard no_grad;
  const Factors<double> fd = factors<double>(o);
  const Factors<float> f = factors<float>(o);
  std::vector<at::Tensor> native(g.params.size());
  GpuStep gpu_steps[2];  // with gradients in float32 and in bfloat16
  for (size_t i = 0; i < g.params.size(); i++) {
    if (!g.grads[i].defined()) continue;
    check(g, i);
    if (step_has_kernel(g.params[i], g.grads[i])) {
      g.grads[i] = g.grads[i].contiguous();
      native[i] = g.params[i];
      changed(g, i);
    } else if (gpu::ready(g.params[i]) && gpu::ready(g.grads[i])) {
      at::Tensor &copy = g.copies[i];
      const bool rounds = copy.defined() && copy.scalar_type() == at::kBFloat16 && copy.is_contiguous();
      GpuStep &step = gpu_steps[g.grads[i].scalar_type() == at::kFloat ? 0 : 1];
      step.grad = g.grads[i].contiguous();
      step.many.add({g.params[i], step.grad, g.m[i], g.v[i], rounds ? copy : at::Tensor()});
      changed(g, i);
      if (rounds) copy = at::Tensor();
    } else {
      step_aten(g.params[i], g.grads[i], g.m[i], g.v[i], fd);
    }
  }
  for (const GpuStep &step : gpu_steps) step.run(f);
  const auto slabs = cut(native);
  parallel_for(0, static_cast<int64_t>(slabs.size()), 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; i++) step_piece(g, slabs[i], f, fd);
  });
  for (size_t i = 0; i < g.params.size(); i++) {
    const at::Tensor &copy = g.copies[i];
    const bool done = native[i].defined() && native[i].scalar_type() == at::kFloat && copy.defined() &&
                      copy.scalar_type() == at::kBFloat16 && copy.is_contiguous();
    if (g.grads[i].defined() && copy.defined() && !done) copy.copy_(g.params[i]);
  }
}

// Squares are summed over lanes in float64 and over the slabs in order.
template <class T, int W>
OM_INLINE void squares_body(const T *x, int64_t n, double *out) {
  constexpr int lanes = Lanes<T, W>::n;
  double s[lanes] = {};
  for_lanes<T, W>(n, [&](int64_t i, auto c) OM_LAMBDA {
    const auto v = load<W>(x + i, c);
    for (int j = 0; j < lanes; j++) s[j] += static_cast<double>(v[j]) * static_cast<double>(v[j]);
  });
  *out = std::accumulate(s, s + lanes, 0.0);
}

#define OM_SQUARES(T) \
  OM_MULTIVERSION(squares, (const T *x, int64_t n, double *out), (x, n, out), squares_body<T, W>(x, n, out))
OM_SQUARES(float)
OM_SQUARES(c10::BFloat16)
OM_SQUARES(double)

// The sums of squares of the tensors that the kernel of cuda/many.cu takes, one for each type. It removes these tensors from ts.
std::vector<at::Tensor> squares_gpu(std::vector<at::Tensor> &ts) {
  std::vector<at::Tensor> sums;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    gpu::Many many;
    at::Tensor first;
    for (at::Tensor &t : ts) {
      if (!t.defined() || t.scalar_type() != type || !gpu::ready(t)) continue;
      first = t.contiguous();
      many.add({first});
      t = at::Tensor();
    }
    if (many.empty()) continue;
    const at::Tensor partial = at::empty({many.pieces()}, first.options().dtype(at::kDouble)), sum = at::empty({}, partial.options());
    gpu::Call call("squares", first);
    many.pass_to(call)(partial)(gpu::counters(first.device(), 1))(sum);
    many.run(call);
    sums.push_back(sum);
  }
  return sums;
}

double global_norm(std::vector<at::Tensor> ts) {
  at::NoGradGuard no_grad;
  double sum = 0;
  std::vector<at::Tensor> sums = squares_gpu(ts);
  for (auto &t : ts) {
    if (t.defined() && has_kernel(t)) t = t.contiguous();
    if (!t.defined() || has_kernel(t)) continue;
    sums.push_back(at::linalg_vector_norm(t, 2, std::nullopt, false, at::kDouble).square_());
    t = at::Tensor();
  }
  if (!sums.empty()) sum = (sums.size() == 1 ? sums[0] : at::stack(sums).sum()).item<double>();  // one wait for the device
  om::check_collectives();
  const auto slabs = cut(ts);
  std::vector<double> parts(slabs.size());
  parallel_for(0, static_cast<int64_t>(slabs.size()), 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; i++) {
      const Slab &p = slabs[i];
      const at::Tensor &t = ts[p.tensor];
      OM_DISPATCH(t.scalar_type(), "global norm",
                  [&] { squares(t.const_data_ptr<scalar_t>() + p.begin, p.end - p.begin, &parts[i]); });
    }
  });
  for (const double s : parts) sum += s;
  return std::sqrt(sum);
}

// Copies each of `from` to the tensor of `to`, or adds it, with their conversion.
void copy_all(const std::vector<at::Tensor> &to, const std::vector<at::Tensor> &from, bool add) {
  at::NoGradGuard no_grad;
  // The kernels of cuda/many.cu: from float32 and bfloat16 to float32, and from float32 to bfloat16.
  struct {
    const char *kernel;
    at::ScalarType to, from;
    gpu::Many many;
    at::Tensor typed;  // a tensor of the type in the kernel's name
  } launches[] = {{"widen", at::kFloat, at::kFloat, {}, {}}, {"widen", at::kFloat, at::kBFloat16, {}, {}},
                  {"narrow", at::kBFloat16, at::kFloat, {}, {}}};
  for (size_t i = 0; i < to.size(); i++) {
    at::Tensor t = to[i];
    TORCH_CHECK(t.defined() && from[i].defined() && t.sizes() == from[i].sizes(), "copy: the tensors ", i, " do not fit");
    bool found = false;
    for (auto &l : launches) {
      const bool narrow = l.to == at::kBFloat16;
      if (!gpu::ready(t) || t.device() != from[i].device() || t.scalar_type() != l.to || from[i].scalar_type() != l.from ||
          !t.is_contiguous() || (narrow && add))
        continue;
      l.typed = from[i].contiguous();
      l.many.add({t, l.typed});
      if (narrow) l.typed = t;
      t.unsafeGetTensorImpl()->bump_version();
      found = true;
    }
    if (found) continue;
    add ? t.add_(from[i]) : t.copy_(from[i]);
  }
  for (auto &l : launches) {
    if (l.many.empty()) continue;
    gpu::Call call(l.kernel, l.typed);
    l.many.pass_to(call);
    if (l.to == at::kFloat) call(static_cast<int>(add));
    l.many.run(call);
  }
}

}  // namespace
}  // namespace om

const char *om_copy_all(om_tensor *to, om_tensor *from, int64_t n, int add) {
  OM_TRY { om::copy_all(om::list(to, n), om::list(from, n), add != 0); }
  OM_END
}

const char *om_adamw(om_tensor *params, om_tensor *grads, om_tensor *m, om_tensor *v, om_tensor *copies, int64_t n,
                     const om_adamw_options *options) {
  OM_TRY {
    om::adamw({om::list(params, n), om::list(grads, n), om::list(m, n), om::list(v, n), om::list(copies, n)}, *options);
  }
  OM_END
}

const char *om_global_norm(om_tensor *ts, int64_t n, double *out) {
  OM_TRY { *out = om::global_norm(om::list(ts, n)); }
  OM_END
}
