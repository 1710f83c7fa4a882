// Groups of processes over c10d: TCPStore for the start and for the causes of failures, ProcessGroupGloo for CPU tensors.
#define USE_C10D_GLOO
#define USE_DISTRIBUTED
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <c10/util/Logging.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "internal.h"

C10_DECLARE_int(caffe2_log_level);

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The limit of one wait inside a longer one, between which interrupts are noticed.
constexpr milliseconds kSlice{200};
// After a failed collective, the time in which the other ranks must notice it.
constexpr milliseconds kGrace{5000};
// The time for which rank 0 keeps the store open for the last reads of the others.
constexpr milliseconds kLinger{2000};
// The time by which a wait for several ranks may exceed its limit.
constexpr milliseconds kSlack{1000};

class Gloo : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  // Makes the collective in progress fail, here and on the connected ranks.
  void close() {
    for (auto &context : contexts_) {
      for (int r = 0; r < getSize(); r++) {
        // As Gloo's own time-outs do it; its closeConnections does not wake the waiting thread.
        auto *pair = reinterpret_cast<gloo::transport::tcp::Pair *>(context->getPair(r).get());
        if (pair != nullptr) pair->signalExceptionExternal("the group has ended on this rank");
      }
    }
  }
};

std::string seconds(milliseconds t) {
  std::ostringstream s;
  s << static_cast<double>(t.count()) / 1000 << " s";
  return s.str();
}

// "rank 2" or "ranks 1, 2"
std::string list(const std::vector<int> &ranks) {
  std::string s = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); i++) s += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return s;
}

std::vector<uint8_t> bytes(const std::string &s) { return {s.begin(), s.end()}; }
std::string text(const std::vector<uint8_t> &b) { return {b.begin(), b.end()}; }

// The message of the exception that is being handled.
std::string current_message() {
  try {
    throw;
  } catch (const c10::Error &e) {
    return e.what_without_backtrace();
  } catch (const std::exception &e) {
    return e.what();
  } catch (...) {
    return "unknown C++ exception";
  }
}

// Turns off the log of c10d, which writes a C++ backtrace to stderr for every lost connection. The errors of this file have its
// messages. TORCH_CPP_LOG_LEVEL is libtorch's variable for the level.
void quiet() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 3;  // fatal
}

struct Group : std::enable_shared_from_this<Group> {
  int rank, size;
  std::string host;
  uint16_t port;
  bool serve;
  std::string prefix, name, interface;
  milliseconds timeout;

  std::atomic<bool> interrupted{false};
  std::mutex mu;  // guards the pointer gloo
  c10::intrusive_ptr<Gloo> gloo;
  c10::intrusive_ptr<c10d::Store> store;
  int64_t calls = 0;   // number of collectives so far
  std::string broken;  // the message of the failure that ended the group

  std::string me() const { return "rank " + std::to_string(rank) + " of " + std::to_string(size); }
  std::string place() const { return host + ":" + std::to_string(port); }
  static std::string key(const char *what, int r) { return std::string(what) + "/" + std::to_string(r); }

  void check_interrupt() const { TORCH_CHECK(!interrupted, me(), ": interrupted"); }

  // Returns f(), which uses the store, or throws after `limit`: the store's client waits without limit on a connection whose
  // other end has vanished. f then goes on in its thread, and shares the group with it.
  template <typename F>
  auto within(milliseconds limit, F f) {
    auto task = std::make_shared<std::packaged_task<decltype(f())()>>(f);
    auto result = task->get_future();
    std::thread([task, self = shared_from_this()] { (*task)(); }).detach();
    const auto end = Clock::now() + limit;
    while (result.wait_for(kSlice) != std::future_status::ready) {
      check_interrupt();
      TORCH_CHECK(Clock::now() < end, "the store at ", place(), " does not answer within ", seconds(limit));
    }
    return result.get();
  }

  // Waits for a key of the store until `end`; false if it is not set by then.
  bool wait(const std::string &k, Clock::time_point end) {
    for (;;) {
      check_interrupt();
      if (store->check({k})) return true;
      auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
      if (left <= milliseconds::zero()) return false;
      try {
        store->wait({k}, std::min(left, kSlice));
      } catch (const c10::Error &) {
        // A time-out. If the connection is lost, the check above throws.
      }
    }
  }

  // The other ranks whose key `what` is not set.
  std::vector<int> missing(const char *what) {
    std::vector<int> ranks;
    for (int r = 0; r < size; r++) {
      if (r != rank && !store->check({key(what, r)})) ranks.push_back(r);
    }
    return ranks;
  }

  void open_store(Clock::time_point end) {
    c10d::TCPStoreOptions o;
    o.port = port;
    o.isServer = serve;
    o.waitWorkers = false;
    o.timeout = std::max(std::chrono::duration_cast<milliseconds>(end - Clock::now()), milliseconds(1));
    c10::intrusive_ptr<c10d::Store> tcp;
    try {
      tcp = c10::make_intrusive<c10d::TCPStore>(serve ? "127.0.0.1" : host, o);
    } catch (const std::exception &) {
      TORCH_CHECK(!serve, me(), " cannot open the store at port ", port, ": ", current_message());
      TORCH_CHECK(false, me(), " cannot connect to the store of rank 0 at ", place(), ": ", current_message());
    }
    tcp->setTimeout(timeout);
    store = c10::make_intrusive<c10d::PrefixStore>(prefix, tcp);
  }

  // Waits until all ranks are in the store, and checks that they belong to one group.
  void meet(Clock::time_point end) {
    const std::string mine = std::to_string(size) + " " + name;
    const std::string holder = text(store->compareSet(key("rank", rank), {}, bytes(mine)));
    TORCH_CHECK(holder == mine, me(), " (", name, "): another process has the same rank: ",
                holder.substr(holder.find(' ') + 1), "; give every process a rank of its own");
    for (int r = 0; r < size; r++) {
      if (!wait(key("rank", r), end)) {
        TORCH_CHECK(false, me(), ": ", list(missing("rank")), " did not come to the store at ", place(), " within ", seconds(timeout));
      }
      const std::string other = text(store->get(key("rank", r)));
      const size_t cut = other.find(' ');
      TORCH_CHECK(other.substr(0, cut) == std::to_string(size), me(), ": rank ", r, " (", other.substr(cut + 1),
                  ") was started with world size ", other.substr(0, cut), ", this rank with ", size);
    }
  }

  void join(milliseconds limit) {
    TORCH_CHECK(store == nullptr, me(), ": the group has been joined before");
    const auto end = Clock::now() + limit;
    open_store(end);
    try {
      meet(end);
      auto options = c10d::ProcessGroupGloo::Options::create(timeout);
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(interface));
      auto made = c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store), rank, size, options);
      std::lock_guard<std::mutex> lock(mu);
      gloo = std::move(made);
    } catch (const c10::DistError &) {
      TORCH_CHECK(false, me(), ": the connection to the store at ", place(), " is lost: ", current_message());
    } catch (...) {
      const std::string cause = current_message();
      try {
        part("refused", kLinger);
      } catch (...) {
        // The store is lost, or the group interrupted; the cause is reported below.
      }
      TORCH_CHECK(false, cause);
    }
    check_interrupt();
  }

  // Waits at most `limit` until all ranks have come to the end named `what`. False if a rank is missing.
  bool part(const char *what, milliseconds limit) {
    const auto end = Clock::now() + limit;
    store->set(key(what, rank), bytes("1"));
    bool all = true;
    for (int r = 0; r < size && all; r++) all = wait(key(what, r), end);
    linger(what, limit);
    return all;
  }

  // Keeps the store open, at most for `limit`, until the ranks that have come to the end `what` have read what they need.
  void linger(const char *what, milliseconds limit) {
    if (!serve) {
      store->set(key("gone", rank), bytes("1"));
      return;
    }
    const auto end = Clock::now() + limit;
    for (int r = 0; r < size; r++) {
      if (r != rank && store->check({key(what, r)})) wait(key("gone", r), end);
    }
  }

  // Ends the group after a failed collective. Returns which ranks have failed.
  std::string diagnose(const std::string &call) {
    if (interrupted) return "interrupted";
    gloo->close();
    try {
      return within(kGrace + kLinger + kSlack, [this, call] {
        store->set(key("failed", rank), bytes(call));
        const std::string cause = compare(call);
        linger("failed", kLinger);
        return cause;
      });
    } catch (...) {
      if (interrupted) return "interrupted";
      return "rank 0, which has the store at " + place() + ", is lost: " + current_message();
    }
  }

  // Compares the collectives in which the ranks have failed.
  std::string compare(const std::string &call) {
    const auto grace = std::min(kGrace, timeout);
    const auto end = Clock::now() + grace;
    for (int r = 0; r < size; r++) {
      if (wait(key("failed", r), end)) continue;
      const auto lost = missing("failed");
      return list(lost) + (lost.size() == 1 ? " has" : " have") + " not noticed the failure within " + seconds(grace) +
             ": dead, hanging, or computing outside collectives";
    }
    for (int r = 0; r < size; r++) {
      const std::string other = text(store->get(key("failed", r)));
      if (other != call) return "the ranks are in different collectives: rank " + std::to_string(r) + " is in " + other;
    }
    return "all ranks are alive, but a connection between them is lost";
  }

  // Runs one collective: start submits it to the backend of the tensors' device.
  template <typename F>
  void collect(const std::string &call, F start) {
    TORCH_CHECK(broken.empty(), broken);
    check_interrupt();
    TORCH_CHECK(gloo != nullptr, me(), ": the group has not been joined");
    c10::intrusive_ptr<c10d::Work> work = start(*gloo);
    calls++;
    try {
      work->wait();
    } catch (...) {
      const std::string cause = current_message();
      const std::string full = call + " (collective " + std::to_string(calls) + ")";
      broken = full + " failed on " + me() + ", time-out " + seconds(timeout) + ": " + diagnose(full) + " (" + cause + ")";
      TORCH_CHECK(false, broken);
    }
  }

  void interrupt() {
    interrupted = true;
    std::lock_guard<std::mutex> lock(mu);
    if (gloo != nullptr) gloo->close();
  }
};

Group &group(om_group g) {
  TORCH_CHECK(g != nullptr, "the group is missing");
  return **static_cast<std::shared_ptr<Group> *>(g);
}

// The operand t for a collective, which writes its elements without recording for gradients.
at::Tensor operand(om_tensor t) {
  at::Tensor x = om::ref(t).detach();
  // NCCL will be chosen here for CUDA tensors.
  TORCH_CHECK(x.is_cpu(), "collectives need tensors on the CPU, this one is on ", x.device());
  TORCH_CHECK(x.is_contiguous(), "collectives need contiguous tensors");
  TORCH_CHECK(x.scalar_type() != at::kBool, "collectives do not support bool");
  return x;
}

std::string describe(const char *name, const at::Tensor &t) {
  std::ostringstream s;
  s << name << " of " << t.scalar_type() << t.sizes();
  return s.str();
}

// Checks that `all` is `size` times as long as `part`.
void check_parts(const Group &g, const at::Tensor &all, const at::Tensor &part) {
  TORCH_CHECK(all.scalar_type() == part.scalar_type(), "the tensors have the types ", all.scalar_type(), " and ", part.scalar_type());
  TORCH_CHECK(part.dim() >= 1 && all.dim() == part.dim() && all.size(0) == g.size * part.size(0) &&
                  all.sizes().slice(1) == part.sizes().slice(1),
              "shape ", all.sizes(), " is not ", g.size, " times ", part.sizes());
}

}  // namespace

extern "C" {

const char *om_group_new(int64_t rank, int64_t size, const char *store_host, int64_t store_port, int serve,
                         const char *prefix, const char *name, const char *interface, int64_t timeout_ms, om_group *out) {
  OM_TRY {
    TORCH_CHECK(size >= 1 && rank >= 0 && rank < size, "rank ", rank, " of ", size);
    TORCH_CHECK(store_port >= 1 && store_port <= 65535, "port ", store_port);
    TORCH_CHECK(timeout_ms >= 1, "a time-out of ", timeout_ms, " ms");
    auto g = std::make_shared<Group>();
    g->rank = static_cast<int>(rank);
    g->size = static_cast<int>(size);
    g->host = store_host;
    g->port = static_cast<uint16_t>(store_port);
    g->serve = serve != 0;
    g->prefix = prefix;
    g->name = name;
    g->interface = interface;
    g->timeout = milliseconds(timeout_ms);
    *out = new std::shared_ptr<Group>(std::move(g));
  }
  OM_END
}

const char *om_group_join(om_group g, int64_t limit_ms) {
  OM_TRY {
    quiet();
    Group &x = group(g);
    const milliseconds limit(limit_ms);
    x.within(limit + kLinger + kSlack, [&x, limit] { x.join(limit); });
  }
  OM_END
}

const char *om_group_broadcast(om_group g, om_tensor t, int64_t root) {
  OM_TRY {
    TORCH_CHECK(root >= 0 && root < group(g).size, "rank ", root, " of a group of ", group(g).size);
    std::vector<at::Tensor> ts{operand(t)};
    group(g).collect(describe("broadcast", ts[0]), [&](Gloo &b) {
      c10d::BroadcastOptions o;
      o.rootRank = root;
      return b.broadcast(ts, o);
    });
  }
  OM_END
}

const char *om_group_all_reduce(om_group g, om_tensor t) {
  OM_TRY {
    std::vector<at::Tensor> ts{operand(t)};
    group(g).collect(describe("all-reduce", ts[0]), [&](Gloo &b) { return b.allreduce(ts); });
  }
  OM_END
}

const char *om_group_reduce_scatter(om_group g, om_tensor out, om_tensor in) {
  OM_TRY {
    at::Tensor to = operand(out), from = operand(in);
    check_parts(group(g), from, to);
    group(g).collect(describe("reduce-scatter", from), [&](Gloo &b) { return b._reduce_scatter_base(to, from); });
  }
  OM_END
}

const char *om_group_all_gather(om_group g, om_tensor out, om_tensor in) {
  OM_TRY {
    at::Tensor to = operand(out), from = operand(in);
    check_parts(group(g), to, from);
    group(g).collect(describe("all-gather", from), [&](Gloo &b) { return b._allgather_base(to, from); });
  }
  OM_END
}

const char *om_group_barrier(om_group g) {
  OM_TRY {
    group(g).collect("barrier", [&](Gloo &b) { return b.barrier(); });
  }
  OM_END
}

void om_group_interrupt(om_group g) {
  try {
    group(g).interrupt();
  } catch (...) {
    // The connections are closed already.
  }
}

const char *om_group_leave(om_group g) {
  OM_TRY {
    Group &x = group(g);
    TORCH_CHECK(x.broken.empty(), x.broken);
    TORCH_CHECK(x.store != nullptr, x.me(), ": the group has not been joined");
    x.within(2 * x.timeout + kSlack, [&x] {
      const bool all = x.part("left", x.timeout);
      TORCH_CHECK(all, x.me(), ": ", list(x.missing("left")), " did not leave the group within ", seconds(x.timeout));
    });
  }
  OM_END
}

void om_group_free(om_group g) { delete static_cast<std::shared_ptr<Group> *>(g); }

}  // extern "C"
