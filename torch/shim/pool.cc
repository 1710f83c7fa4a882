// The pool of worker threads behind share_out. Every thread that opens regions has its own pool.
#include "pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "internal.h"

namespace om {
namespace {

using Clock = std::chrono::steady_clock;

// A thread polls this long before it sleeps. The gap between two regions of a decoding step is shorter, and waking a thread takes about as long.
constexpr std::chrono::microseconds kPoll(60);

// A worker yields its CPU this often, between two chunks. If other processes wait for the CPU, the scheduler would otherwise take it
// in the middle of a chunk, and the caller would wait until the worker runs again.
constexpr std::chrono::microseconds kYield(1000);

thread_local bool in_region = false;  // this thread runs a chunk

void wait_on(std::atomic<uint32_t> &word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(std::atomic<uint32_t> &word, int64_t threads) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE, static_cast<int>(std::min<int64_t>(threads, INT_MAX)),
          nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// poll waits until ready for at most kPoll, and reports whether it is. It gives up at once if the thread that it waits for was last on
// this CPU, because only one of both can run there.
template <class F>
bool poll(const std::atomic<int> &cpu, const F &ready) {
  const auto end = Clock::now() + kPoll;
  do {
    for (int i = 0; i < 16; i++) {
      if (ready()) return true;
      relax();
    }
    if (sched_getcpu() == cpu.load(std::memory_order_relaxed)) return ready();
  } while (Clock::now() < end);
  return ready();
}

// The workers of one thread, which is the caller below.
class Pool {
 public:
  // start starts n workers, which keep the pool until they end after stop.
  static std::shared_ptr<Pool> start(int64_t n) {
    auto pool = std::make_shared<Pool>();
    // The signals of the process are for the threads of Go. A new thread inherits the mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (; pool->workers_ < n; pool->workers_++) std::thread([pool] { pool->serve(); }).detach();
    } catch (...) {
      pool->stop();
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return pool;
  }

  void stop() {
    stopped_.store(true);
    bell_.fetch_add(1);
    wake(bell_, INT_MAX);
  }

  int64_t workers() const { return workers_; }

  // run opens a region of n chunks and returns at its end.
  void run(int64_t n, c10::function_ref<void(int64_t)> f) {
    chunks_ = n;
    f_ = &f;
    failed_.store(false, std::memory_order_relaxed);
    unfinished_.store(static_cast<uint32_t>(n), std::memory_order_relaxed);
    caller_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
    left_.store(n);  // publishes the region
    if (asleep_.load() > 0) {
      bell_.fetch_add(1);
      wake(bell_, n - 1);
    }
    in_region = true;
    while (take()) {
    }
    in_region = false;
    if (!poll(worker_cpu_, [&] { return unfinished_.load(std::memory_order_acquire) == 0; })) {
      caller_asleep_.store(true);
      for (uint32_t u; (u = unfinished_.load()) != 0;) wait_on(unfinished_, u);
      caller_asleep_.store(false);
    }
    if (failed_.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // take runs the next chunk and reports whether there was one. The fields of the region are constant while any thread holds a chunk.
  bool take() {
    int64_t left = left_.load(std::memory_order_relaxed);
    do {
      if (left == 0) return false;
    } while (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acquire, std::memory_order_relaxed));
    if (!failed_.load(std::memory_order_relaxed)) {
      try {
        (*f_)(chunks_ - left);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
    }
    if (unfinished_.fetch_sub(1) == 1 && caller_asleep_.load()) wake(unfinished_, 1);
    return true;
  }

  // serve is the work of a worker.
  void serve() {
    in_region = true;
    auto yielded = Clock::now();
    auto ready = [&] { return left_.load(std::memory_order_relaxed) > 0 || stopped_.load(std::memory_order_relaxed); };
    while (!stopped_.load(std::memory_order_relaxed)) {
      worker_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
      if (take()) {
        if (const auto now = Clock::now(); now - yielded > kYield) {
          sched_yield();
          yielded = Clock::now();
        }
      } else if (!poll(caller_cpu_, ready)) {
        // The caller rings the bell if it sees that a worker sleeps; a worker does not sleep if it sees a region.
        const uint32_t bell = bell_.load();
        asleep_.fetch_add(1);
        if (left_.load() == 0 && !stopped_.load()) wait_on(bell_, bell);
        asleep_.fetch_sub(1);
        yielded = Clock::now();
      }
    }
  }

  // Of the region; the caller writes them while no chunk is left.
  int64_t chunks_ = 0;
  const c10::function_ref<void(int64_t)> *f_ = nullptr;
  std::exception_ptr error_;  // the thread that sets failed_ writes it

  int64_t workers_ = 0;
  std::atomic<bool> failed_{false}, stopped_{false}, caller_asleep_{false};
  std::atomic<int> asleep_{0};                       // workers that sleep or are about to
  std::atomic<int> caller_cpu_{-1}, worker_cpu_{-1};  // the CPU on which the caller, or the worker that last took a chunk, ran
  std::atomic<uint32_t> bell_{0};                    // workers sleep until it changes
  alignas(64) std::atomic<int64_t> left_{0};         // chunks that no thread has taken
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // chunks that have not ended
};

// Stops the pool of a thread at the end of the thread.
struct Owned {
  std::shared_ptr<Pool> pool;
  void set(std::shared_ptr<Pool> p) {
    if (pool != nullptr) pool->stop();
    pool = std::move(p);
  }
  ~Owned() { set(nullptr); }
};

thread_local Owned own;

}  // namespace

void share_out(int64_t n, c10::function_ref<void(int64_t)> f) {
  const int64_t workers = at::get_num_threads() - 1;
  if (n <= 1 || workers == 0 || in_region || at::in_parallel_region()) {
    for (int64_t i = 0; i < n; i++) f(i);
    return;
  }
  TORCH_CHECK(n <= UINT32_MAX, "a parallel region of ", n, " chunks; at most ", UINT32_MAX, " are supported");
  if (own.pool == nullptr || own.pool->workers() != workers) own.set(Pool::start(workers));
  own.pool->run(n, f);
}

}  // namespace om

const char *om_share_out(int64_t n, int64_t bad, int64_t *out) {
  OM_TRY {
    om::share_out(n, [&](int64_t i) {
      TORCH_CHECK(i != bad, "chunk ", i, " of ", n, " fails");
      om::share_out(3, [&](int64_t j) { out[i] = 10 * out[i] + j + 1; });
    });
  }
  OM_END
}
