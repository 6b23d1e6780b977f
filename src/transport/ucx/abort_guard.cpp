#include "transport/ucx/abort_guard.hpp"

#include <signal.h>

#include <mutex>

namespace ferrule::transport::ucx {
namespace {

std::mutex mutex;  // guards what follows
int guards = 0;
struct sigaction previous {};

}  // namespace

thread_local sigjmp_buf* AbortGuard::escape_ = nullptr;

AbortGuard::AbortGuard() {
  const std::lock_guard lock(mutex);
  if (guards++ > 0) return;
  struct sigaction ours {};
  ours.sa_handler = on_abort;
  ours.sa_flags = SA_NODEFER;  // the handler does not return, and the signal must not stay blocked
  ::sigaction(SIGABRT, &ours, &previous);
}

AbortGuard::~AbortGuard() {
  const std::lock_guard lock(mutex);
  if (--guards > 0) return;
  struct sigaction current {};
  const bool still_ours = ::sigaction(SIGABRT, nullptr, &current) == 0 && current.sa_handler == on_abort;
  if (still_ours) ::sigaction(SIGABRT, &previous, nullptr);
}

// Not this thread's: the program's own handler has its turn; without one, abort() ends the process as soon as
// this returns.
void AbortGuard::on_abort(int signal) {
  if (escape_ != nullptr) siglongjmp(*escape_, 1);
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, nullptr, nullptr);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  }
}

}  // namespace ferrule::transport::ucx
