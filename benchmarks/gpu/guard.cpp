// A device guard and hooks for CUDA that do nothing. With them, and with torch's wheel for CPUs, fake tensors on
// "cuda" have an autograd; without, torch ends the process. Memory called pinned is that of the CPU.
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <mutex>
#include <unordered_set>

namespace {

std::mutex mutex;
std::unordered_set<const void*> pinned;

void release(void* data) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    pinned.erase(data);
  }
  c10::GetDefaultCPUAllocator()->raw_deallocate(data);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* data = c10::GetDefaultCPUAllocator()->raw_allocate(size == 0 ? 1 : size);
    std::lock_guard<std::mutex> lock(mutex);
    pinned.insert(data);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* target, const void* source, std::size_t count) const override {
    default_copy_data(target, source, count);
  }
};

PinnedAllocator allocator;

struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device device() const {
    return c10::Device(c10::DeviceType::CUDA, 0);
  }
  c10::Stream stream() const {
    return c10::Stream(c10::Stream::DEFAULT, device());
  }
  c10::Device exchangeDevice(c10::Device) const override {
    return device();
  }
  c10::Device getDevice() const override {
    return device();
  }
  c10::Stream getStream(c10::Device) const noexcept override {
    return stream();
  }
  c10::Stream getNewStream(c10::Device, int) const override {
    return stream();
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return stream();
  }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override {
    return true;
  }
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  bool hasCUDA() const override {
    return true;
  }
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  void init() const override {}
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return 1;
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  c10::DeviceIndex current_device() const override {
    return 0;
  }
  int getNumGPUs() const override {
    return 1;
  }
  void deviceSynchronize(c10::DeviceIndex) const override {}
  bool isPinnedPtr(const void* data) const override {
    std::lock_guard<std::mutex> lock(mutex);
    return pinned.count(data) > 0;
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return &allocator;
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace

namespace at {
using ::Hooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, Hooks)
}  // namespace at
