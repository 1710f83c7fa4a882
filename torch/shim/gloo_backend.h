// ProcessGroupGloo with access to its connections.
#pragma once

#define USE_C10D_GLOO
#define USE_DISTRIBUTED
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <vector>

namespace om {

class Gloo : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  // Makes the collective in progress fail, here and on the connected ranks.
  void close() {
    for (auto &context : contexts_) {
      for (int r = 0; r < getSize(); r++) {
        // As Gloo's own time-outs do it; its closeConnections does not wake the waiting thread.
        if (auto *p = pair(*context, r)) p->signalExceptionExternal("the group has ended on this rank");
      }
    }
  }

  // Returns the other ranks to which a connection is closed.
  std::vector<int> lost() {
    std::vector<int> ranks;
    for (int r = 0; r < getSize(); r++) {
      bool connected = true;
      for (auto &context : contexts_) connected = connected && (r == getRank() || pair(*context, r)->isConnected());
      if (!connected) ranks.push_back(r);
    }
    return ranks;
  }

 private:
  static gloo::transport::tcp::Pair *pair(gloo::Context &context, int r) {
    return reinterpret_cast<gloo::transport::tcp::Pair *>(context.getPair(r).get());
  }
};

}  // namespace om
