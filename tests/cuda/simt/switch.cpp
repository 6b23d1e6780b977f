#include "simt/switch.hpp"

#include <cstring>

namespace simt {
namespace {

// Who switched last: a context that starts has to tell AddressSanitizer where it came from.
thread_local Context* came_from = nullptr;

}  // namespace

#if defined(SIMT_OWN_SWITCH)

// ucontext asks the kernel for the signal mask at each switch, which is most of its cost; this keeps the six
// registers that a call must keep. (The control words of the floating point units never change here.)
extern "C" void simt_switch_stacks(void** from, void* to);
extern "C" void simt_first_entry();
asm(R"(
.text
.globl simt_switch_stacks
.type simt_switch_stacks,@function
simt_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch_stacks,.-simt_switch_stacks
.globl simt_first_entry
.type simt_first_entry,@function
simt_first_entry:
  movq %r13, %rdi
  call *%r12
  ud2
.size simt_first_entry,.-simt_first_entry
)");

void Context::start_on(std::byte* stack, std::size_t bytes, Entry entry, void* argument) {
  stack_ = stack;
  stack_bytes_ = bytes;
  // What simt_switch_stacks pops: r15 r14 r13 r12 rbx rbp, and the address it returns to. There the stack is
  // aligned to 16 bytes, as it must be before a call.
  auto top = reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t{15};
  void** frame = reinterpret_cast<void**>(top) - 7;
  std::memset(frame, 0, 7 * sizeof(void*));
  frame[2] = argument;
  frame[3] = reinterpret_cast<void*>(entry);
  frame[6] = reinterpret_cast<void*>(&simt_first_entry);
  stack_pointer_ = frame;
#if defined(SIMT_TSAN)
  if (tsan_fiber_ == nullptr) {
    tsan_fiber_ = __tsan_create_fiber(0);
    owns_tsan_fiber_ = true;
  }
#endif
}

#else

namespace {
// makecontext passes ints only: the address in two halves.
void first_entry(unsigned low, unsigned high) {
  Context::enter(reinterpret_cast<Context*>(std::uintptr_t{low} | (std::uintptr_t{high} << 16 << 16)));
}
}  // namespace

void Context::enter(Context* context) { context->entry_(context->argument_); }

void Context::start_on(std::byte* stack, std::size_t bytes, Entry entry, void* argument) {
  stack_ = stack;
  stack_bytes_ = bytes;
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  entry_ = entry;
  argument_ = argument;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(first_entry), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 16 >> 16));
#if defined(SIMT_TSAN)
  if (tsan_fiber_ == nullptr) {
    tsan_fiber_ = __tsan_create_fiber(0);
    owns_tsan_fiber_ = true;
  }
#endif
}

#endif

Context::~Context() {
#if defined(SIMT_TSAN)
  if (owns_tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
#endif
}

void Context::switch_to(Context& to) {
  came_from = this;
#if defined(SIMT_TSAN)
  if (tsan_fiber_ == nullptr) tsan_fiber_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsan_fiber_, 0);
#endif
#if defined(SIMT_ASAN)
  __sanitizer_start_switch_fiber(&fake_stack_, to.stack_, to.stack_bytes_);
#endif
#if defined(SIMT_OWN_SWITCH)
  simt_switch_stacks(&stack_pointer_, to.stack_pointer_);
#else
  swapcontext(&context_, &to.context_);
#endif
#if defined(SIMT_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack_, &came_from->stack_, &came_from->stack_bytes_);
#endif
}

void Context::arrived() {
#if defined(SIMT_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &came_from->stack_, &came_from->stack_bytes_);
#endif
}

}  // namespace simt
