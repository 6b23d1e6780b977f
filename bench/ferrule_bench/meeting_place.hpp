// Where ranks that one program starts as processes find each other.
#pragma once

#include <string>

#include "ferrule/status.hpp"

namespace ferrule::bench {

/// A folder that only this user can read. Removed with what is in it by remove() or destruction.
class MeetingPlace {
 public:
  explicit MeetingPlace(const std::string& program);
  ~MeetingPlace() { remove(); }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  std::string rendezvous() const { return "file://" + folder_ + "/rendezvous"; }
  void remove();

 private:
  std::string folder_;
  Status status_;
};

}  // namespace ferrule::bench
