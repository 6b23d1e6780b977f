// Signals wait where being ended by one would leave something behind, and go to the program's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace ferrule {

/// While it lives, this thread, and the threads that it starts for as long as they live, take no signals but
/// those of their own faults. What arrives meanwhile is taken by another thread, or afterwards.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigfillset(&held);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
      sigdelset(&held, fault);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace ferrule
