// Comes back from an abort() inside UCX.
//
// UCX 1.13 has assertions that do not expect a peer to die, or to leave, before its connection is made on
// both sides, and ends the process for them. While that may be, calls of UCX run under a guard: from abort()
// the thread jumps back to before the call. What UCX was doing is then half done, and none of that worker may
// be called again; it is left as it is. Only where the alternative is the end of this process.
#pragma once

#include <setjmp.h>

namespace ferrule::transport::ucx {

/// While any is alive, this process's SIGABRT has a handler; an abort() outside of call() goes the way that
/// it would have gone without.
class AbortGuard {
 public:
  AbortGuard();
  ~AbortGuard();
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;

  /// False: the call was ended by abort(). Between here and UCX there must be nothing to destroy.
  template <class Call>
  bool call(const Call& ucx) const {
    sigjmp_buf here;
    sigjmp_buf* const outer = escape_;
    if (sigsetjmp(here, 0) != 0) {
      escape_ = outer;
      return false;
    }
    escape_ = &here;
    ucx();
    escape_ = outer;
    return true;
  }

 private:
  static void on_abort(int signal);
  static thread_local sigjmp_buf* escape_;
};

}  // namespace ferrule::transport::ucx
