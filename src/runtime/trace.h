// What ran when, and on which thread, in one run of an executable.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/threads.h"

namespace rlx {

struct TraceEvent {
  // A step from its start to its end on the calling thread; chunks of its work on one thread; the
  // same for a chain of steps; a step of a chain over some of its rows.
  enum class Kind : uint8_t { Step, Chunks, Chain, ChainChunks, ChainStep };
  Kind kind = Kind::Step;
  int32_t thread = 0;          // 0: the caller's; the others are workers
  int64_t step = 0;            // of the program; of a chain its first
  int64_t begin = 0, end = 0;  // chunks, or units of the chain; 0 and 0 for all
  double startUs = 0, endUs = 0;
};

// Collects events; from several threads at once.
class Trace final : public ThreadPool::Observer {
 public:
  std::vector<TraceEvent> events;  // in no order

  void add(const TraceEvent& event) {
    const std::lock_guard lock(mutex_);
    events.push_back(event);
  }
  // What follows belongs to this step or chain; chunks of it are recorded from now on.
  void enter(TraceEvent::Kind chunks, int64_t step) { chunks_ = chunks, step_ = step; }
  void ran(int thread, int64_t begin, int64_t end, double startUs, double endUs) override {
    add({chunks_, thread, step_, begin, end, startUs, endUs});
  }

 private:
  std::mutex mutex_;
  TraceEvent::Kind chunks_ = TraceEvent::Kind::Chunks;
  int64_t step_ = 0;
};

}  // namespace rlx
