// Switching from one stack to another, with what AddressSanitizer and ThreadSanitizer must be told about it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SIMT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIMT_TSAN 1
#endif
#endif
#if defined(SIMT_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace simt {

/// A stack and where on it the execution stands.
class Context {
 public:
  using Entry = void (*)(void*);

  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  /// Execution will start in entry(argument), which must never return.
  void start_on(std::byte* stack, std::size_t bytes, Entry entry, void* argument);
  /// Leaves `*this`, which is the running context, for `to`; returns when somebody switches back.
  void switch_to(Context& to);
  /// The first thing that a started context calls.
  void arrived();
#if !defined(SIMT_OWN_SWITCH)
  static void enter(Context* context);  ///< for the C function that ucontext starts with
#endif

 private:
#if defined(SIMT_OWN_SWITCH)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_{};
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
#endif
  const void* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
#if defined(SIMT_ASAN)
  void* fake_stack_ = nullptr;
#endif
#if defined(SIMT_TSAN)
  void* tsan_fiber_ = nullptr;
  bool owns_tsan_fiber_ = false;
#endif
};

}  // namespace simt
