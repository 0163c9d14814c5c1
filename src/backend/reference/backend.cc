// The float64 reference interpreter as a device: the meaning that all others are compared with.
#include "ops/interpreter.h"
#include "runtime/device.h"

namespace rlx::backend {
namespace {

DeviceReport probe() {
  DeviceReport r;
  r.status = DeviceStatus::Native;
  r.detail = "float64 interpreter of the model graph";
  return r;
}

Result<std::unique_ptr<Device>> open(const OpenOptions&) {
  return Error(Errc::Internal, "the reference takes graphs and has no kernels");
}
Result<Code> emit(const kir::Kernel&, const Caps&) {
  return Error(Errc::Internal, "the reference takes graphs and has no kernels");
}

}  // namespace

const Backend& referenceBackend();
const Backend& referenceBackend() {
  static const Backend kBackend{"reference", "graph", Caps{}, &probe, &open, &emit, nullptr, &interpret};
  return kBackend;
}

}  // namespace rlx::backend
