// Autograd: grad mode, leaves, backward and gradients, on libtorch's own engine.
#include <c10/core/GradMode.h>

#include "internal.h"

extern "C" {

const char *om_set_grad_enabled(int on, int *was) {
  OM_TRY {
    *was = c10::GradMode::is_enabled() ? 1 : 0;
    c10::GradMode::set_enabled(on != 0);
  }
  OM_END
}

const char *om_requires_grad(om_tensor t, int *out) {
  OM_TRY { *out = om::ref(t).requires_grad() ? 1 : 0; }
  OM_END
}

const char *om_set_requires_grad(om_tensor t, int on) {
  OM_TRY {
    at::Tensor &x = om::ref(t);
    TORCH_CHECK(on == 0 || at::isFloatingType(x.scalar_type()), "only floating point tensors have gradients, this one is ",
                at::toString(x.scalar_type()));
    TORCH_CHECK(x.is_leaf(), "only a leaf can change whether it requires a gradient; detach it first");
    x.set_requires_grad(on != 0);
  }
  OM_END
}

const char *om_backward(om_tensor t, om_tensor grad) {
  OM_TRY {
    at::Tensor g = om::opt(grad);
    if (g.defined()) {
      om::ref(t).backward(g);
    } else {
      om::ref(t).backward();
    }
  }
  OM_END
}

const char *om_grad(om_tensor t, om_tensor *out) {
  OM_TRY {
    const at::Tensor &g = om::ref(t).grad();
    *out = g.defined() ? om::wrap(g) : nullptr;
  }
  OM_END
}

const char *om_set_grad(om_tensor t, om_tensor grad) {
  OM_TRY {
    at::Tensor &x = om::ref(t);
    at::Tensor g = om::opt(grad);
    if (g.defined()) {
      TORCH_CHECK(g.sizes() == x.sizes(), "a gradient of shape ", g.sizes(), " for a tensor of shape ", x.sizes());
      TORCH_CHECK(g.scalar_type() == x.scalar_type() && g.device() == x.device(),
                  "the gradient has another type or device than the tensor");
    }
    x.mutable_grad() = g;
  }
  OM_END
}

}  // extern "C"
