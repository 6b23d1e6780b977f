#include "communicator/lineage.hpp"

#include <fmt/format.h>

namespace ferrule::communicator {

Lineage::~Lineage() {
  if (refuge == nullptr || root.size() == 1) return;
  refuge->note(left_key(root.rank));
  refuge->forget(fmt::format("{}/{}/", key("muster"), root.rank));  // those whom it has led have read it
}

std::string Lineage::key(std::string_view what) const {
  return fmt::format("{}/{:x}", what, root.communicator);
}

std::string Lineage::left_key(std::int32_t rank) const { return fmt::format("{}/{}", key("left"), rank); }

}  // namespace ferrule::communicator
