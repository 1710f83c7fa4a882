// Groups of processes over c10d: TCPStore for the start and for the causes of failures, ProcessGroupGloo for CPU tensors, and
// the back end of another library for tensors of a device.
//
// A collective on a GPU is only submitted: it runs in the order of the thread's stream, and the call returns before. One thread
// watches all collectives that are not complete. If one exceeds the time-out, or a rank is lost, this thread ends the group: it
// aborts the collectives on the device, which lets the work of the stream go on with undefined elements. Thereafter every
// collective and every copy of elements to the host fails, so that these elements are not used.
#include "gloo_backend.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Logging.h>

#include <dlfcn.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "collectives.h"
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

// The library with the collectives of a type of device.
const om::Collectives &collectives(at::DeviceType type) {
  TORCH_CHECK(type == at::kCUDA || type == at::kPrivateUse1, "there are no collectives for tensors on ", type);
  if (type == at::kCUDA) om::load_cuda();  // the library has its symbols from libtorch_cuda
  const char *name = type == at::kCUDA ? "libopenmanus_nccl.so" : "libopenmanus_protected.so";
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void *function = library == nullptr ? nullptr : dlsym(library, "om_collectives");
  if (function == nullptr) {
    const char *why = dlerror();
    TORCH_CHECK(false, name, ", which has the collectives for tensors on ", type, ", cannot be loaded: ", why == nullptr ? "unknown reason" : why);
  }
  return *reinterpret_cast<const om::Collectives *(*)()>(function)();
}

const c10::impl::DeviceGuardImplInterface &guard(at::Device d) { return *c10::impl::getDeviceGuardImpl(d.type()); }

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

// Held while a collective is submitted, which does not wait for other ranks: the back end of NCCL has connected them before, and Gloo
// waits afterwards. c10d records the collectives of all groups of the process in one object, those of the protected device, which Gloo
// computes, among them. FlightRecorder::recordWithResetEnabled (FlightRecorderDetail.hpp) searches its map all_pg_status_, and
// inserts a group at its first collective, before it takes the lock of the object. Two groups in two threads, as in tests with
// several ranks in one process, would change the map at the same time, which crashes in std::_Rb_tree_insert_and_rebalance.
std::mutex recorder_mu;

// Turns off the log of c10d, which writes a C++ backtrace to stderr for every lost connection. The errors of this file have its
// messages. TORCH_CPP_LOG_LEVEL is libtorch's variable for the level.
void quiet() {
  static std::once_flag once;  // threads of earlier groups read the level
  std::call_once(once, [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = 3;  // fatal
  });
}

// Runs f in a thread of its own. It and the threads that libtorch starts in it do not get SIGPIPE: a write to a connection that
// another rank has closed then returns an error. Gloo writes without MSG_NOSIGNAL, and Go's runtime ends the process if a thread that it
// has not started gets SIGPIPE.
template <typename F>
std::thread start_thread(F f) {
  return std::thread([f = std::move(f)]() mutable {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    f();
  });
}

struct Group : std::enable_shared_from_this<Group> {
  int rank, size;
  std::string host;
  uint16_t port;
  bool serve;
  std::string prefix, name, interface;
  milliseconds timeout;

  std::atomic<bool> interrupted{false};
  std::mutex mu;  // guards the pointers gloo and backend
  c10::intrusive_ptr<om::Gloo> gloo;
  c10::intrusive_ptr<c10d::Store> store;
  int64_t calls = 0;  // number of collectives so far

  std::atomic<bool> failed{false};
  std::mutex failure_mu;
  std::condition_variable diagnosed;
  std::string broken;  // the message of the failure that ended the group; guarded by failure_mu

  at::Device device{at::kCPU};                // of the tensors of the group; the CPU until a tensor on a device comes
  std::string sharing;                        // the ranks that share a device, or empty
  c10::intrusive_ptr<c10d::Backend> backend;  // the collectives of the device; NULL if ranks share one
  std::atomic<bool> aborted{false};

  // A collective of the device that may not be complete.
  struct Running {
    std::string call;
    Clock::time_point end;            // the time-out
    std::optional<c10::Event> after;  // recorded when the collective is submitted
  };
  std::deque<std::shared_ptr<Running>> running;  // guarded by running_mu, as are the events
  std::mutex running_mu;
  std::condition_variable changed;
  bool closed = false;  // guarded by running_mu
  std::thread watcher;

  std::string me() const { return "rank " + std::to_string(rank) + " of " + std::to_string(size); }
  std::string place() const { return host + ":" + std::to_string(port); }
  static std::string key(const char *what, int r) { return std::string(what) + "/" + std::to_string(r); }

  void check_interrupt() const { TORCH_CHECK(!interrupted, me(), ": interrupted"); }

  // Returns f(), which uses the store, or throws after `limit`: the store's client waits without limit on a connection whose
  // other end has vanished. f then goes on in its thread, and shares the group with it. With `connected`, it throws as soon as
  // a connection of Gloo is closed.
  template <typename F>
  auto within(milliseconds limit, F f, bool connected = false) {
    auto task = std::make_shared<std::packaged_task<decltype(f())()>>(f);
    auto result = task->get_future();
    start_thread([task, self = shared_from_this()] { (*task)(); }).detach();
    const auto end = Clock::now() + limit;
    while (result.wait_for(kSlice) != std::future_status::ready) {
      check_interrupt();
      if (connected) check_connections();
      TORCH_CHECK(Clock::now() < end, "no answer within ", seconds(limit), " from the store at ", place(), " or the ranks");
    }
    return result.get();
  }

  void check_connections() {
    const auto ranks = gloo->lost();
    TORCH_CHECK(ranks.empty(), "the connection to ", list(ranks), " is closed");
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
    try {
      store = connect_store(serve, end);
    } catch (const std::exception &) {
      TORCH_CHECK(!serve, me(), " cannot open the store at port ", port, ": ", current_message());
      TORCH_CHECK(false, me(), " cannot connect to the store of rank 0 at ", place(), ": ", current_message());
    }
  }

  // Connects to the store, which this process opens first if it is the server.
  c10::intrusive_ptr<c10d::Store> connect_store(bool server, Clock::time_point end) {
    c10d::TCPStoreOptions o;
    o.port = port;
    o.isServer = server;
    o.waitWorkers = false;
    o.timeout = std::max(std::chrono::duration_cast<milliseconds>(end - Clock::now()), milliseconds(1));
    auto tcp = c10::make_intrusive<c10d::TCPStore>(serve ? "127.0.0.1" : host, o);
    tcp->setTimeout(timeout);
    return c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(tcp));
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
      auto made = c10::make_intrusive<om::Gloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store), rank, size, options);
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

  // Closes the connections after a failed collective. Returns which ranks have failed.
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
    return "all ranks are alive";
  }

  // Ends the group because a collective has failed. Returns the message, which is that of the first failure.
  std::string end(const std::string &call, const std::string &cause) {
    std::unique_lock<std::mutex> lock(failure_mu);
    if (failed.exchange(true)) {
      // Another thread may still be looking for the lost ranks.
      const bool known = diagnosed.wait_for(lock, 2 * kGrace + kLinger + 2 * kSlack, [this] { return !broken.empty(); });
      return known ? broken : me() + ": the group has failed";
    }
    lock.unlock();
    abort_device();
    const std::string message = call + " failed on " + me() + ", time-out " + seconds(timeout) + ": " + diagnose(call) + " (" + cause + ")";
    lock.lock();
    broken = message;
    diagnosed.notify_all();
    return broken;
  }

  // Throws if the group has failed or is interrupted.
  void check() {
    if (failed) TORCH_CHECK(false, end("", ""));
    check_interrupt();
  }

  // Ends the collectives of the device. Returns false if the library does not answer.
  bool abort_device() {
    c10::intrusive_ptr<c10d::Backend> b;
    {
      std::lock_guard<std::mutex> lock(mu);
      b = backend;
    }
    if (b == nullptr || aborted.exchange(true)) return true;
    return detached([b, d = device] {
      guard(d).setDevice(d);  // a thread without a device would start one of its own
      b->abort();
    });
  }

  // Runs f in a thread of its own, and waits for it at most kGrace.
  template <typename F>
  static bool detached(F f) {
    auto task = std::make_shared<std::packaged_task<void()>>(std::move(f));
    auto result = task->get_future();
    start_thread([task] { (*task)(); }).detach();
    return result.wait_for(kGrace) == std::future_status::ready;
  }

  // Prepares collectives on tensors of device d for `call`. All ranks do it at the same point.
  void use(at::Device d, const std::string &call) {
    if (d == device) return;
    TORCH_CHECK(device.is_cpu(), me(), ": the tensors of the group are on ", device, ", this one is on ", d);
    try {
      const om::Collectives &library = collectives(d.type());
      struct Found {
        std::string sharing;
        c10::intrusive_ptr<c10d::Backend> backend;
      };
      Found found = within(
          timeout + kSlack,
          [this, d, &library] {
            const auto limit = Clock::now() + timeout;
            guard(d).setDevice(d);
            store->set(key("device", rank), bytes(library.hardware(d)));
            std::map<std::string, std::vector<int>> ranks;
            for (int r = 0; r < size; r++) {
              while (!wait(key("device", r), std::min(limit, Clock::now() + kSlice))) {
                check_connections();  // it must not use the store for longer than the group
                if (Clock::now() < limit) continue;
                TORCH_CHECK(false, list(missing("device")), " did not come to the first collective on a device within ", seconds(timeout));
              }
              ranks[text(store->get(key("device", r)))].push_back(r);
            }
            Found f;
            for (const auto &[name, same] : ranks) {
              if (same.size() > 1) f.sharing += (f.sharing.empty() ? "" : "; ") + list(same) + " share one device";
            }
            if (f.sharing.empty()) {
              // It may wait for a lost rank, during which its store cannot be used.
              f.backend = library.connect(c10::make_intrusive<c10d::PrefixStore>("device", connect_store(false, limit)), rank, size, d);
            }
            return f;
          },
          true);
      sharing = std::move(found.sharing);
      device = d;
      std::lock_guard<std::mutex> lock(mu);
      backend = std::move(found.backend);
    } catch (...) {
      TORCH_CHECK(false, end(call, current_message()));
    }
    check_interrupt();  // it may have come before the back end was set
    if (backend != nullptr) watcher = start_thread([this] { watch(); });
  }

  // Removes the collectives that are complete; the others have begun after them. running_mu must be held.
  void prune() {
    while (!running.empty() && running.front()->after.has_value() && running.front()->after->query()) running.pop_front();
  }

  // Ends the group if a collective of the device does not complete.
  void watch() {
    guard(device).setDevice(device);
    std::unique_lock<std::mutex> lock(running_mu);
    while (!closed) {
      std::string cause;
      try {
        prune();
        if (running.empty()) {
          changed.wait(lock);
          continue;
        }
        check_connections();
        TORCH_CHECK(backend->getError() == c10d::ErrorType::SUCCESS, backend->getBackendName(), " reports that the communication has failed");
        TORCH_CHECK(Clock::now() < running.front()->end, "not complete within the time-out");
      } catch (...) {
        cause = current_message();
      }
      if (!cause.empty()) {
        const std::string call = running.empty() ? "a collective" : running.front()->call;
        lock.unlock();
        end(call, cause);
        return;
      }
      changed.wait_for(lock, kSlice);
    }
  }

  // Waits until all collectives of the device are complete.
  void drain() {
    const auto limit = Clock::now() + timeout + kSlack;
    for (;;) {
      check();
      {
        std::lock_guard<std::mutex> lock(running_mu);
        prune();
        if (running.empty()) return;
      }
      TORCH_CHECK(Clock::now() < limit, me(), ": the collectives are not complete within ", seconds(timeout));
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  // Runs one collective: start submits it to the back end of the tensors' device. ts[0] is the result.
  template <typename F>
  void collect(const std::string &name, std::vector<at::Tensor> ts, F start);

  // Submits one collective to a back end.
  template <typename F>
  static c10::intrusive_ptr<c10d::Work> begin(c10d::Backend &b, std::vector<at::Tensor> &ts, F start) {
    std::lock_guard<std::mutex> lock(recorder_mu);
    return start(b, ts);
  }

  // Runs one collective on tensors in host memory.
  template <typename F>
  void collect_on_host(const std::string &name, std::vector<at::Tensor> &ts, F start) {
    c10::intrusive_ptr<c10d::Work> work = begin(*gloo, ts, start);
    const std::string call = name + " (collective " + std::to_string(++calls) + ")";
    try {
      work->wait();
    } catch (...) {
      TORCH_CHECK(false, end(call, current_message()));
    }
  }

  // Submits one collective on tensors of the device.
  template <typename F>
  void submit(const std::string &name, std::vector<at::Tensor> &ts, F start) {
    auto r = std::make_shared<Running>();
    r->call = name + " (collective " + std::to_string(++calls) + ")";
    r->end = Clock::now() + timeout;
    {
      std::lock_guard<std::mutex> lock(running_mu);
      if (running.empty()) changed.notify_all();
      running.push_back(r);
    }
    try {
      begin(*backend, ts, start)->wait();  // the stream waits
      c10::Event after(device.type());
      after.record(guard(device).getStream(device));
      std::lock_guard<std::mutex> lock(running_mu);
      r->after.emplace(std::move(after));
    } catch (...) {
      TORCH_CHECK(false, end(r->call, current_message()));
    }
    check();
  }

  void interrupt() {
    interrupted = true;
    abort_device();
    std::lock_guard<std::mutex> lock(mu);
    if (gloo != nullptr) gloo->close();
  }

  // Ends the thread and the connections of the device.
  void close() {
    {
      std::lock_guard<std::mutex> lock(running_mu);
      closed = true;
    }
    changed.notify_all();
    if (watcher.joinable()) watcher.join();
    if (backend == nullptr) return;
    abort_device();
    // Its destructor waits for threads of the library.
    detached([b = std::move(backend), d = device]() mutable {
      guard(d).setDevice(d);
      b.reset();
    });
  }
};

// The group of the last collective that this thread has submitted to a device.
thread_local std::weak_ptr<Group> submitted;

template <typename F>
void Group::collect(const std::string &name, std::vector<at::Tensor> ts, F start) {
  check();
  TORCH_CHECK(gloo != nullptr, me(), ": the group has not been joined");
  if (ts.empty() || ts[0].is_cpu()) return collect_on_host(name, ts, start);
  use(ts[0].device(), name + " (collective " + std::to_string(calls + 1) + ")");
  if (backend != nullptr) {
    submitted = weak_from_this();
    return submit(name, ts, start);
  }
  std::vector<at::Tensor> host;
  for (const at::Tensor &t : ts) host.push_back(t.cpu());
  collect_on_host(name, host, start);
  ts[0].copy_(host[0]);
}

Group &group(om_group g) {
  TORCH_CHECK(g != nullptr, "the group is missing");
  return **static_cast<std::shared_ptr<Group> *>(g);
}

// The operand t for a collective, which writes its elements without recording for gradients.
at::Tensor operand(om_tensor t) {
  at::Tensor x = om::ref(t).detach();
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
  TORCH_CHECK(all.device() == part.device(), "the tensors are on ", all.device(), " and ", part.device());
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
    const at::Tensor x = operand(t);
    group(g).collect(describe("broadcast", x), {x}, [root](c10d::Backend &b, std::vector<at::Tensor> &ts) {
      c10d::BroadcastOptions o;
      o.rootRank = root;
      o.asyncOp = false;
      return b.broadcast(ts, o);
    });
  }
  OM_END
}

const char *om_group_all_reduce(om_group g, om_tensor t) {
  OM_TRY {
    const at::Tensor x = operand(t);
    group(g).collect(describe("all-reduce", x), {x}, [](c10d::Backend &b, std::vector<at::Tensor> &ts) {
      c10d::AllreduceOptions o;
      o.asyncOp = false;
      return b.allreduce(ts, o);
    });
  }
  OM_END
}

const char *om_group_reduce_scatter(om_group g, om_tensor out, om_tensor in) {
  OM_TRY {
    const at::Tensor to = operand(out), from = operand(in);
    check_parts(group(g), from, to);
    group(g).collect(describe("reduce-scatter", from), {to, from}, [](c10d::Backend &b, std::vector<at::Tensor> &ts) {
      c10d::ReduceScatterOptions o;
      o.asyncOp = false;
      return b._reduce_scatter_base(ts[0], ts[1], o);
    });
  }
  OM_END
}

const char *om_group_all_gather(om_group g, om_tensor out, om_tensor in) {
  OM_TRY {
    const at::Tensor to = operand(out), from = operand(in);
    check_parts(group(g), to, from);
    group(g).collect(describe("all-gather", from), {to, from}, [](c10d::Backend &b, std::vector<at::Tensor> &ts) {
      c10d::AllgatherOptions o;
      o.asyncOp = false;
      return b._allgather_base(ts[0], ts[1], o);
    });
  }
  OM_END
}

const char *om_group_barrier(om_group g) {
  OM_TRY {
    group(g).collect("barrier", {}, [](c10d::Backend &b, std::vector<at::Tensor> &) { return b.barrier(); });
  }
  OM_END
}

const char *om_group_backend(om_group g, int64_t device_kind, int64_t device_index, const char **out) {
  OM_TRY {
    Group &x = group(g);
    x.check();
    TORCH_CHECK(x.gloo != nullptr, x.me(), ": the group has not been joined");
    const at::Device d = om::device(device_kind, device_index);
    if (!d.is_cpu()) x.use(d, "the start of the collectives on devices");
    const c10d::Backend &b = d.is_cpu() || x.backend == nullptr ? static_cast<const c10d::Backend &>(*x.gloo) : *x.backend;
    *out = strdup((b.getBackendName() + (d.is_cpu() || x.sharing.empty() ? "" : " through host memory: " + x.sharing)).c_str());
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
    TORCH_CHECK(!x.failed, x.end("", ""));
    TORCH_CHECK(x.store != nullptr, x.me(), ": the group has not been joined");
    x.drain();
    x.within(2 * x.timeout + kSlack, [&x] {
      const bool all = x.part("left", x.timeout);
      TORCH_CHECK(all, x.me(), ": ", list(x.missing("left")), " did not leave the group within ", seconds(x.timeout));
    });
  }
  OM_END
}

void om_group_free(om_group g) {
  auto *p = static_cast<std::shared_ptr<Group> *>(g);
  try {
    if (p != nullptr) (*p)->close();
  } catch (...) {
    // The connections of the device are lost already.
  }
  delete p;
}

}  // extern "C"

void om::check_collectives() {
  if (auto g = submitted.lock()) g->check();
}
