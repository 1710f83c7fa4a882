// The collectives of the protected device: Gloo computes on copies of the operands, as the fallback does for every operation.
// They end only by themselves or by abort, as those of GPUs do.
#include "../collectives.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "../gloo_backend.h"

namespace om {
namespace {

// Copies the result back when Gloo's work is complete.
class CopyingWork : public c10d::Work {
 public:
  CopyingWork(c10::intrusive_ptr<c10d::Work> work, at::Tensor to, at::Tensor from)
      : work_(std::move(work)), to_(std::move(to)), from_(std::move(from)) {}

  bool wait(std::chrono::milliseconds) override {
    work_->wait();
    to_.copy_(from_);
    return true;
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor to_, from_;
};

class Backend : public c10d::Backend {
 public:
  Backend(int rank, int size, c10::intrusive_ptr<Gloo> gloo) : c10d::Backend(rank, size), gloo_(std::move(gloo)) {}

  const std::string getBackendName() const override { return "protected"; }
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }
  void abort() override { gloo_->close(); }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor> &ts, const c10d::BroadcastOptions &o) override {
    std::vector<at::Tensor> host{ts[0].cpu()};
    return copying(gloo_->broadcast(host, o), ts[0], host[0]);
  }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor> &ts, const c10d::AllreduceOptions &o) override {
    std::vector<at::Tensor> host{ts[0].cpu()};
    return copying(gloo_->allreduce(host, o), ts[0], host[0]);
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor &out, at::Tensor &in, const c10d::AllgatherOptions &o) override {
    at::Tensor to = out.cpu(), from = in.cpu();
    return copying(gloo_->_allgather_base(to, from, o), out, to);
  }

  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor &out, at::Tensor &in, const c10d::ReduceScatterOptions &o) override {
    at::Tensor to = out.cpu(), from = in.cpu();
    return copying(gloo_->_reduce_scatter_base(to, from, o), out, to);
  }

 private:
  static c10::intrusive_ptr<c10d::Work> copying(c10::intrusive_ptr<c10d::Work> work, at::Tensor to, at::Tensor from) {
    return c10::make_intrusive<CopyingWork>(std::move(work), std::move(to), std::move(from));
  }

  c10::intrusive_ptr<Gloo> gloo_;
};

// Every thread of a process has a protected device of its own, unless OPENMANUS_PROTECTED_NAME is the name of all.
std::string hardware(at::Device) {
  static std::atomic<int> devices{0};
  if (const char *name = std::getenv("OPENMANUS_PROTECTED_NAME")) return name;
  return "protected " + std::to_string(getpid()) + "/" + std::to_string(devices++);
}

c10::intrusive_ptr<c10d::Backend> connect(c10::intrusive_ptr<c10d::Store> store, int rank, int size, at::Device) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::hours(24));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<Backend>(rank, size, c10::make_intrusive<Gloo>(std::move(store), rank, size, options));
}

}  // namespace
}  // namespace om

extern "C" const om::Collectives *om_collectives(void) {
  static constexpr om::Collectives c{om::hardware, om::connect};
  return &c;
}
