// The process-wide thread pool and the number of threads that this process may use. Kernels run in
// microseconds, so workers spin for a moment before they sleep; the work is split by the caller
// into chunks, so that a result never depends on how many threads took part.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "base/result.h"

namespace rlx {

// No call uses more; the pool's tables have this size.
inline constexpr int kMaxThreads = 256;

// What the CPU affinity, the cgroup's CPU quota and the hardware allow; at least 1.
int defaultThreads();
// The part of it that control groups decide: the smallest quota from the process's group up to the
// root, rounded up, or 0 when there is none. `selfCgroup` is the text of /proc/self/cgroup and
// `mount` the folder where the hierarchies are mounted.
int cgroupThreads(const std::string& selfCgroup, const std::string& mount);

class ThreadPool {
 public:
  // Runs chunks [begin, end).
  using Body = void (*)(void* context, int64_t begin, int64_t end);

  // Calls `body` so that every chunk of [0, chunks) is covered exactly once, on at most `threads`
  // threads, the caller among them, and returns when all are done. A call from inside a body, and a
  // call while another thread's is running, is run by the caller alone. What bodies wrote is
  // visible after the return. A body must not throw, and must not fork.
  static void parallelFor(int threads, int64_t chunks, Body body, void* context);

  // The same for a callable (begin, end); nothing is copied or allocated.
  template <class F>
  static void parallelFor(int threads, int64_t chunks, F&& f) {
    using Callable = std::remove_reference_t<F>;
    parallelFor(
        threads, chunks,
        [](void* context, int64_t begin, int64_t end) {
          (*static_cast<Callable*>(context))(begin, end);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(f))));
  }

  // Told of chunks that ran, on the thread that ran them: 0 is the thread that called, the others
  // are workers. Times are of the steady clock, in microseconds.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void ran(int thread, int64_t begin, int64_t end, double startUs, double endUs) = 0;
  };
  // Watches the calls that this thread makes outside of bodies, until it is set again; null: none.
  static void observe(Observer* observer);
  // The calling thread, as an observer is told: 0 outside of workers.
  static int self();

  // Workers that exist now. They are created by the first call that needs them and joined when the
  // process exits or the library is unloaded; a forked child starts without any.
  static int workers();

  ThreadPool() = delete;
};

}  // namespace rlx
