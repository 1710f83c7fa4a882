// Recording of operations as graphs, and the fixed addresses that graphs need.
#include "graph.h"

#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <memory>
#include <optional>

#include "gpu.h"
#include "internal.h"

namespace om {
namespace {

std::unique_ptr<DeviceGraph> new_graph(at::Device device) {
  TORCH_CHECK(device.type() == at::kCUDA || device.type() == at::kPrivateUse1, "there are no graphs of operations on ", device);
  if (device.type() == at::kCUDA) load_cuda();  // the library has its symbols from libtorch_cuda
  const char *name = device.type() == at::kCUDA ? "libopenmanus_cudagraph.so" : "libopenmanus_protected.so";
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void *function = library == nullptr ? nullptr : dlsym(library, "om_new_device_graph");
  if (function == nullptr) {
    const char *why = dlerror();
    TORCH_CHECK(false, name, ", which records operations on ", device, ", cannot be loaded: ", why == nullptr ? "unknown reason" : why);
  }
  return std::unique_ptr<DeviceGraph>(reinterpret_cast<DeviceGraph *(*)(at::Device)>(function)(device));
}

// The stream of the thread's recordings, because the default stream cannot be recorded. One stream serves all of them: cuBLAS keeps
// a workspace for each stream.
c10::Stream recording_stream(at::Device device) {
  static thread_local std::vector<c10::Stream> streams;
  for (const c10::Stream &s : streams)
    if (s.device() == device) return s;
  streams.push_back(c10::impl::getDeviceGuardImpl(device.type())->getStreamFromGlobalPool(device));
  return streams.back();
}

// Lets the later work of stream `to` wait for the earlier work of stream `from`.
void order(const c10::Stream &from, const c10::Stream &to) {
  c10::Event e(from.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  e.record(from);
  e.block(to);
}

struct Graph {
  std::unique_ptr<DeviceGraph> recorded;  // null in a rehearsal
  std::optional<c10::Stream> outside;     // the thread's stream before the recording; none after it
  at::Device device;
};

Graph &graph(om_graph g) { return *static_cast<Graph *>(g); }

// Makes the stream before the recording current again.
void leave(Graph &g) {
  const auto &guard = *c10::impl::getDeviceGuardImpl(g.device.type());
  const c10::Stream inside = guard.exchangeStream(*g.outside);
  order(inside, *g.outside);
  g.outside.reset();
}

}  // namespace
}  // namespace om

const char *om_graph_begin(int64_t device_kind, int64_t device_index, int record, om_graph *out) {
  OM_TRY {
    const at::Device d = om::device(device_kind, device_index);
    const auto &guard = *c10::impl::getDeviceGuardImpl(d.type());
    auto g = std::make_unique<om::Graph>(om::Graph{nullptr, std::nullopt, guard.getStream(d).device()});
    if (record) g->recorded = om::new_graph(g->device);
    const c10::Stream inside = om::recording_stream(g->device);
    om::order(guard.getStream(g->device), inside);
    g->outside = guard.exchangeStream(inside);
    try {
      if (record) g->recorded->begin();
    } catch (...) {
      om::leave(*g);
      throw;
    }
    *out = g.release();
  }
  OM_END
}

const char *om_graph_end(om_graph g) {
  OM_TRY {
    om::Graph &x = om::graph(g);
    TORCH_CHECK(x.outside, "the end of a recording that has ended");
    try {
      if (x.recorded) x.recorded->end();
    } catch (...) {
      om::leave(x);
      throw;
    }
    om::leave(x);
  }
  OM_END
}

const char *om_graph_launch(om_graph g) {
  OM_TRY {
    om::Graph &x = om::graph(g);
    TORCH_CHECK(x.recorded && !x.outside, "the launch of a graph that is not recorded");
    x.recorded->launch();
  }
  OM_END
}

void om_graph_free(om_graph g) { delete static_cast<om::Graph *>(g); }

const char *om_upload_into(om_tensor t, const void *data, int64_t nbytes) {
  OM_TRY {
    at::NoGradGuard no_grad;
    at::Tensor &to = om::ref(t);
    TORCH_CHECK(to.is_contiguous() && static_cast<int64_t>(to.nbytes()) == nbytes, "data of ", nbytes, " bytes for a tensor of ", to.nbytes());
    om::gpu::upload_into(to, data);
  }
  OM_END
}

const char *om_addresses(const om_tensor *ts, int64_t n, uint64_t *out) {
  OM_TRY {
    uint64_t h = 0xcbf29ce484222325;  // FNV-1a over words (draft-eastlake-fnv)
    for (int64_t i = 0; i < n; i++) {
      const at::Tensor &t = om::ref(ts[i]);
      h = (h ^ reinterpret_cast<uint64_t>(t.const_data_ptr())) * 0x100000001b3;
      h = (h ^ static_cast<uint64_t>(t.nbytes())) * 0x100000001b3;
    }
    *out = h;
  }
  OM_END
}
